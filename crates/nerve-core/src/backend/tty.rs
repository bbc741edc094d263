//! What the system tells of the terminal of a pane on this machine and of the program on it.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nerve_term::driver::Foreground;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, PidfdFlags, Signal};
use tokio::io::unix::AsyncFd;

use super::{pty, watch};

/// Bytes that nobody has read yet; `None` where that is not known. A line that is not finished yet, in a terminal that is read line
/// by line, counts as read: it cannot fill it.
pub(super) fn unread(tty: &Path) -> Option<usize> {
    let tty = open(tty)?;
    usize::try_from(rustix::io::ioctl_fionread(tty).ok()?).ok()
}

/// See [`pty::Control::hides_input`].
pub(super) fn hides_input(tty: &Path) -> bool {
    open(tty).is_some_and(|tty| pty::hides_typing(&tty))
}

/// Only for a moment: a terminal that is open here is not hung up there.
fn open(tty: &Path) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(tty, flags, Mode::empty()).ok()
}

/// The process that leads the session of a terminal: what was started on it.
pub(super) fn leader(tty: &Path) -> Option<i32> {
    let device = fs::metadata(tty).ok()?.rdev();
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    ids.filter(|pid| stat(*pid).is_some_and(|stat| stat.session == *pid && stat.tty == device)).min()
}

/// Some fields of proc_pid_stat(5).
#[derive(Debug, Clone, Copy)]
pub(super) struct Stat {
    session: i32,
    tty: u64,
    foreground: i32,
    /// In clock ticks since the machine was started.
    pub(super) started: u64,
}

/// Looks a process up; `None` if it is gone, or has ended and nobody has asked how.
pub(super) fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&text);
    // The name in field 2 may hold anything, parentheses included: the last one ends it.
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
pub(super) fn foreground(pid: i32, closely: bool, kin: &[String]) -> Foreground {
    let (Some(child), Some(stat)) = (Pid::from_raw(pid), stat(pid)) else { return Foreground::Unknown };
    // -1 where nobody has it.
    match Pid::from_raw(stat.foreground.max(0)) {
        Some(group) => pty::foreground_of(child, group, closely, kin),
        None => Foreground::Unknown,
    }
}

/// Signals the program's process group and whatever group has the terminal. A program that is gone may have left its group behind.
pub(super) fn signal(pid: i32, signal: Signal) {
    let foreground = stat(pid).map(|stat| stat.foreground).filter(|group| *group != pid);
    for group in [Some(pid), foreground].into_iter().flatten() {
        if let Some(group) = Pid::from_raw(group.max(0)) {
            // Gone already is what a signal is for.
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }
}

/// Tells the end of a process that is not our child: readable then. `None` if it is gone, or is not to be seen from here.
pub(super) fn exit_fd(pid: i32) -> Option<AsyncFd<OwnedFd>> {
    let process = rustix::process::pidfd_open(Pid::from_raw(pid)?, PidfdFlags::NONBLOCK).ok()?;
    watch(process).ok()
}

/// How much a process has written so far, to whatever; `None` where that is not told.
pub(super) fn written_bytes(pid: i32) -> Option<u64> {
    let io = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    io.lines().find_map(|line| line.strip_prefix("wchar: ")?.trim().parse().ok())
}
