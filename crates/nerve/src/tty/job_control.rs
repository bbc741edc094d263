//! Whose the terminal is: a shell gives it to one job at a time (POSIX, general terminal interface: job control).

use std::fs::File;
use std::io::{self, IsTerminal};
use std::time::Duration;

use rustix::process::{Signal, getpgrp, kill_current_process_group};
use rustix::stdio::{dup2_stderr, dup2_stdout, stdin};
use rustix::termios::{OptionalActions, tcgetattr, tcgetpgrp, tcsetattr};

/// How often a job in the background looks whether it is in the foreground: a shell that brings it there tells it only if it was stopped.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The terminal's keys are ours: a job in the background that reads them, or changes the terminal's modes, is stopped. True where nobody
/// shares the terminal out.
pub(crate) fn is_foreground() -> bool {
    tcgetpgrp(stdin()).map_or(true, |group| group == getpgrp())
}

/// Waits until the terminal is ours, stopped in the background as programs are that cannot work there (SIGTTOU).
pub(crate) fn wait_for_foreground() {
    // Whoever sets the modes to what they are changes nothing, and is made to wait.
    if let Ok(modes) = tcgetattr(stdin()) {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &modes);
    }
}

/// Stops this job, until its shell lets it go on: a script that waits for this process is of the job too, and if it did not stop the shell
/// would not know that the terminal is free. Where there is no such shell all goes on at once, as the kernel has it for orphaned process
/// groups; that is why this is not SIGSTOP, and not SIGTSTP either, which is heard.
pub(super) fn stop() -> io::Result<()> {
    Ok(kill_current_process_group(Signal::TTOU)?)
}

/// What is still told goes nowhere, for the terminal takes nothing: it would be waited for without end.
pub(crate) fn silence() {
    let Ok(nowhere) = File::options().write(true).open("/dev/null") else { return };
    if io::stdout().is_terminal() {
        let _ = dup2_stdout(&nowhere);
    }
    if io::stderr().is_terminal() {
        let _ = dup2_stderr(&nowhere);
    }
}
