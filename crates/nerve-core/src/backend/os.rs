//! The calls that Rust cannot check: what happens between fork and exec, and the promise that a descriptor stays open.
#![expect(unsafe_code, reason = "they have no safe form; each says why it holds")]

use std::io;
use std::os::fd::{OwnedFd, RawFd};

use tokio::io::unix::AsyncFd;
use tokio::process::Command;

use crate::rlimit;

/// Between fork and exec: a session of its own with the terminal (file descriptor 1) as its controlling one, and no other
/// descriptor of ours; the limit of open files is the one we were started with.
pub(super) fn set_controlling_terminal(command: &mut Command) {
    // SAFETY: setsid, ioctl, setrlimit and close_range are async-signal-safe system calls; no memory is allocated, no lock is taken.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdout())?;
            rlimit::restore()?;
            set_cloexec()
        });
    }
}

/// Between fork and exec: no descriptor of ours but the three standard ones, and the limit of open files that we were started with.
pub(crate) fn close_descriptors(command: &mut Command) {
    // SAFETY: setrlimit and close_range are async-signal-safe system calls; no memory is allocated, no lock is taken.
    unsafe {
        command.pre_exec(|| {
            rlimit::restore()?;
            set_cloexec()
        });
    }
}

/// Between fork and exec: it is killed when the thread that starts it ends, and that is one of the runtime's, which live as long as
/// this process. So a command of ours does not go on beside the one that another server starts in its place. Its limit of open files is
/// the one we were started with.
pub(crate) fn kill_with_parent(command: &mut Command) {
    let us = rustix::process::getpid();
    // SAFETY: setrlimit, prctl and getppid are async-signal-safe system calls; no memory is allocated, no lock is taken.
    unsafe {
        command.pre_exec(move || {
            rlimit::restore()?;
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
            // We may have ended before that was set.
            let orphan = rustix::process::getppid() != Some(us);
            if orphan { Err(io::Error::from_raw_os_error(libc::ESRCH)) } else { Ok(()) }
        });
    }
}

/// Between fork and exec: a session of its own, and no descriptor of ours but the three standard ones and these, as far as they are open.
/// It outlives us and our terminal.
pub fn detach(command: &mut Command, keep: Vec<RawFd>) {
    // SAFETY: setsid, setrlimit, close_range and fcntl are async-signal-safe system calls; no memory is allocated, no lock is taken.
    unsafe {
        command.pre_exec(move || {
            rustix::process::setsid()?;
            rlimit::restore()?;
            set_cloexec()?;
            for descriptor in &keep {
                // One that is not open is for the command to miss.
                let _ = libc::fcntl(*descriptor, libc::F_SETFD, 0);
            }
            Ok(())
        });
    }
}

/// Marked, not closed: the standard library still reports a failing exec through one of them.
fn set_cloexec() -> io::Result<()> {
    let flag = libc::CLOSE_RANGE_CLOEXEC as libc::c_int;
    // SAFETY: the call takes numbers only.
    match unsafe { libc::close_range(3, libc::c_uint::MAX, flag) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets the runtime watch a non-blocking descriptor.
pub(crate) fn watch(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is valid and open until it is dropped, always returns the same descriptor, and is owned by the
    // `AsyncFd` from here on.
    unsafe { AsyncFd::register(descriptor) }.map_err(io::Error::from)
}
