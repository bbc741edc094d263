//! Operating system calls without a safe form: code between fork and exec, and the registration of descriptors.
#![expect(unsafe_code, reason = "they have no safe form; each says why it holds")]

use std::io;
use std::os::fd::{OwnedFd, RawFd};

use tokio::io::unix::AsyncFd;
use tokio::process::Command;

use crate::rlimit;

/// Gives the child its own session, with the terminal at descriptor 1 as controlling terminal. Other descriptors are closed and
/// the original limit of open files is restored.
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

/// Gives the child no descriptors except the three standard ones, and the original limit of open files.
pub fn close_descriptors(command: &mut Command) {
    // SAFETY: setrlimit and close_range are async-signal-safe system calls; no memory is allocated, no lock is taken.
    unsafe {
        command.pre_exec(|| {
            rlimit::restore()?;
            set_cloexec()
        });
    }
}

/// Kills the child with this process, so that it cannot run next to its successor that another server starts. It is killed when
/// the starting thread ends; runtime threads live as long as the process. Restores the original limit of open files.
pub fn kill_with_parent(command: &mut Command) {
    let us = rustix::process::getpid();
    // SAFETY: setrlimit, prctl and getppid are async-signal-safe system calls; no memory is allocated, no lock is taken.
    unsafe {
        command.pre_exec(move || {
            rlimit::restore()?;
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
            // The parent may have ended before the signal was set.
            let orphan = rustix::process::getppid() != Some(us);
            if orphan { Err(io::Error::from_raw_os_error(libc::ESRCH)) } else { Ok(()) }
        });
    }
}

/// Gives the child its own session, no descriptors except the standard ones and those in `keep`, and the original limit of open
/// files. It outlives us and our terminal.
pub fn detach(command: &mut Command, keep: Vec<RawFd>) {
    // SAFETY: setsid, setrlimit, close_range and fcntl are async-signal-safe system calls; no memory is allocated, no lock is taken.
    unsafe {
        command.pre_exec(move || {
            rustix::process::setsid()?;
            rlimit::restore()?;
            set_cloexec()?;
            for descriptor in &keep {
                // The command itself detects a missing descriptor.
                let _ = libc::fcntl(*descriptor, libc::F_SETFD, 0);
            }
            Ok(())
        });
    }
}

/// Marks instead of closing: the standard library reports a failed exec through one of them.
fn set_cloexec() -> io::Result<()> {
    let flag = libc::CLOSE_RANGE_CLOEXEC as libc::c_int;
    // SAFETY: the call takes numbers only.
    match unsafe { libc::close_range(3, libc::c_uint::MAX, flag) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns freed memory to the system: the allocator of glibc keeps it for the process. Takes a millisecond for every ten
/// megabytes, so call it where blocking is allowed.
pub fn release_free_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call takes a number and locks the heaps that it changes.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Registers a non-blocking descriptor with the runtime.
pub fn watch(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is valid and open until it is dropped, always returns the same descriptor, and is owned by the
    // `AsyncFd` from here on.
    unsafe { AsyncFd::register(descriptor) }.map_err(io::Error::from)
}
