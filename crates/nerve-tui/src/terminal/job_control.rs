//! Job control: only the foreground job may use the terminal (POSIX, General Terminal Interface).

use std::fs::File;
use std::io::{self, IsTerminal};
use std::time::Duration;

use rustix::process::{Signal, getpgrp, kill_current_process_group};
use rustix::stdio::{dup2_stderr, dup2_stdout, stdin};
use rustix::termios::{OptionalActions, tcgetattr, tcgetpgrp, tcsetattr};

/// Poll interval of a background job. A shell sends SIGCONT only to a job that was stopped.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Returns true if this process is in the foreground, or there is no job control. A background job that reads the
/// terminal or changes its modes is stopped.
pub(crate) fn is_foreground() -> bool {
    tcgetpgrp(stdin()).map_or(true, |group| group == getpgrp())
}

/// Waits until this process is in the foreground, stopped by SIGTTOU like other programs.
pub fn wait_for_foreground() {
    // Setting the current modes changes nothing, but stops a background process.
    if let Ok(modes) = tcgetattr(stdin()) {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &modes);
    }
}

/// Stops this process group until the shell continues it. The whole group is stopped, because a script waiting for
/// this process belongs to the job too. Without a job-control shell this returns at once: the kernel ignores
/// SIGTTOU in orphaned process groups. SIGSTOP would stop there, and SIGTSTP is handled by this process.
pub(super) fn stop() -> io::Result<()> {
    Ok(kill_current_process_group(Signal::TTOU)?)
}

/// Redirects output to `/dev/null` because the terminal accepts nothing; a write would block for ever.
pub(crate) fn silence() {
    let Ok(nowhere) = File::options().write(true).open("/dev/null") else { return };
    if io::stdout().is_terminal() {
        let _ = dup2_stdout(&nowhere);
    }
    if io::stderr().is_terminal() {
        let _ = dup2_stderr(&nowhere);
    }
}
