//! Queries the terminal of a pane on this machine and the program on it.

use std::os::fd::OwnedFd;
use std::path::Path;

use nerve_types::Foreground;
use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;

use nerve_host::backend::pty;
use nerve_types::os::{ProcessExit, ProcessHandle, ProcessStatus};

/// Returns the number of unread bytes, if known. An unfinished line in a line-buffered terminal counts as read: it cannot fill
/// the buffer.
pub(super) fn unread(tty: &Path) -> Option<usize> {
    let tty = open(tty)?;
    usize::try_from(rustix::io::ioctl_fionread(tty).ok()?).ok()
}

/// See [`pty::Control::hides_input`].
pub(super) fn hides_input(tty: &Path) -> bool {
    open(tty).is_some_and(|tty| pty::hides_typing(&tty))
}

/// Opens the terminal. The caller must close it soon: an open descriptor delays a hangup.
fn open(tty: &Path) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(tty, flags, Mode::empty()).ok()
}

/// See [`pty::Control::foreground`].
pub(super) fn foreground(pid: i32, detailed: bool, shells: &[String]) -> Foreground {
    let (Some(child), Some(status)) = (Pid::from_raw(pid), ProcessStatus::of_living(pid)) else {
        return Foreground::Unknown;
    };
    // -1 without a foreground group.
    match Pid::from_raw(status.foreground.max(0)) {
        Some(group) => pty::foreground_of(child, group, detailed, shells),
        None => Foreground::Unknown,
    }
}

/// Prepares to wait for the end of a process, which need not be our child. `None` if it is gone or inaccessible.
pub(super) fn process_exit(pid: i32) -> Option<ProcessExit> {
    ProcessHandle::open(u32::try_from(pid).ok()?).and_then(ProcessHandle::into_exit).ok()
}
