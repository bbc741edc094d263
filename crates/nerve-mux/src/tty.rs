//! Queries the terminal of a pane on this machine and the program on it.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nerve_types::Foreground;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, PidfdFlags};
use tokio::io::unix::AsyncFd;

use nerve_host::backend::{pty, watch};
use nerve_host::process_status::ProcessStatus;

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

/// Returns the session leader of a terminal: the program started on it.
pub(super) fn leader(tty: &Path) -> Option<i32> {
    let device = fs::metadata(tty).ok()?.rdev();
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    ids.filter(|pid| {
        ProcessStatus::of_living(pid).is_some_and(|status| status.session == *pid && status.tty == device)
    })
    .min()
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

/// Returns a descriptor that becomes readable when a process exits, which need not be our child. `None` if it is gone or
/// inaccessible.
pub(super) fn exit_fd(pid: i32) -> Option<AsyncFd<OwnedFd>> {
    let process = rustix::process::pidfd_open(Pid::from_raw(pid)?, PidfdFlags::NONBLOCK).ok()?;
    watch(process).ok()
}

/// Returns the bytes that a process has written so far to any file, if known.
pub(super) fn written_bytes(pid: i32) -> Option<u64> {
    let io = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    io.lines().find_map(|line| line.strip_prefix("wchar: ")?.trim().parse().ok())
}
