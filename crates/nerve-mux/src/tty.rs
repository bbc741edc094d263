//! Queries the terminal of a pane on this machine and the program on it.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nerve_types::Foreground;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, PidfdFlags, Signal};
use tokio::io::unix::AsyncFd;

use nerve_host::backend::{pty, watch};

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
    ids.filter(|pid| stat(*pid).is_some_and(|stat| stat.session == *pid && stat.tty == device)).min()
}

/// Fields of proc_pid_stat(5).
#[derive(Debug, Clone, Copy)]
pub(super) struct Stat {
    session: i32,
    tty: u64,
    foreground: i32,
    /// Start time in clock ticks since boot.
    pub(super) started: u64,
}

/// Returns the state of a process; `None` if it is gone or a zombie.
pub(super) fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&text);
    // The name in field 2 may contain parentheses: the last one ends it.
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let field = |number: usize| fields.get(number - 3).copied();
    if matches!(field(3), Some("Z" | "X")) {
        return None;
    }
    let tty: i32 = field(7)?.parse().ok()?;
    Some(Stat {
        session: field(6)?.parse().ok()?,
        tty: u64::from(tty.cast_unsigned()),
        foreground: field(8)?.parse().ok()?,
        started: field(22)?.parse().ok()?,
    })
}

/// See [`pty::Control::foreground`].
pub(super) fn foreground(pid: i32, detailed: bool, shells: &[String]) -> Foreground {
    let (Some(child), Some(stat)) = (Pid::from_raw(pid), stat(pid)) else { return Foreground::Unknown };
    // -1 without a foreground group.
    match Pid::from_raw(stat.foreground.max(0)) {
        Some(group) => pty::foreground_of(child, group, detailed, shells),
        None => Foreground::Unknown,
    }
}

/// Signals the program's process group, which may outlive the program, and the foreground process group.
pub(super) fn signal(pid: i32, signal: Signal) {
    let foreground = stat(pid).map(|stat| stat.foreground).filter(|group| *group != pid);
    for group in [Some(pid), foreground].into_iter().flatten() {
        if let Some(group) = Pid::from_raw(group.max(0)) {
            // It may have ended already.
            let _ = rustix::process::kill_process_group(group, signal);
        }
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
