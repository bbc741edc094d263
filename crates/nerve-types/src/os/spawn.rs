//! Actions of a child between fork and exec, and other calls that have no safe form.
#![expect(unsafe_code, reason = "they have no safe form; each says why it holds")]

use std::io;
use std::os::fd::RawFd;

use tokio::process::Command;

use super::{implementation, rlimit};

/// Gives the child its own session, with the terminal at descriptor 1 as controlling terminal. Other descriptors are closed and
/// the original limit of open files is restored.
pub fn set_controlling_terminal(command: &mut Command) {
    let bound = rlimit::bound();
    // SAFETY: setsid, ioctl, setrlimit, fcntl and close_range are async-signal-safe; no memory is allocated, no lock is taken.
    unsafe {
        command.pre_exec(move || {
            rustix::process::setsid()?;
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdout())?;
            rlimit::restore()?;
            implementation::close_on_exec(bound)
        });
    }
}

/// Gives the child no descriptors except the three standard ones, and the original limit of open files.
pub fn close_descriptors(command: &mut Command) {
    let bound = rlimit::bound();
    // SAFETY: setrlimit, fcntl and close_range are async-signal-safe; no memory is allocated, no lock is taken.
    unsafe {
        command.pre_exec(move || {
            rlimit::restore()?;
            // Marks instead of closing: the standard library reports a failed exec through one of them.
            implementation::close_on_exec(bound)
        });
    }
}

/// Kills the child with this process, so that it cannot run next to its successor that another server starts. It is killed when
/// the starting thread ends; runtime threads live as long as the process. Restores the original limit of open files.
///
/// # Errors
/// The system has no descriptor left.
pub fn kill_with_parent(command: &mut Command) -> io::Result<()> {
    let watch = implementation::ParentWatch::new()?;
    // SAFETY: setrlimit and the calls of `ParentWatch::start` are async-signal-safe, or fork, which is called in a process with one
    // thread; no memory is allocated, no lock is taken.
    unsafe {
        command.pre_exec(move || {
            rlimit::restore()?;
            watch.start()
        });
    }
    Ok(())
}

/// Gives the child its own session, no descriptors except the standard ones and those in `keep`, and the original limit of open
/// files. It outlives us and our terminal.
pub fn detach(command: &mut Command, keep: Vec<RawFd>) {
    let bound = rlimit::bound();
    // SAFETY: setsid, setrlimit, close_range and fcntl are async-signal-safe; no memory is allocated, no lock is taken.
    unsafe {
        command.pre_exec(move || {
            rustix::process::setsid()?;
            rlimit::restore()?;
            implementation::close_on_exec(bound)?;
            for descriptor in &keep {
                // The command itself detects a missing descriptor.
                let _ = libc::fcntl(*descriptor, libc::F_SETFD, 0);
            }
            Ok(())
        });
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
