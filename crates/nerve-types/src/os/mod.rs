//! Everything that depends on the operating system, behind functions that do not.
//!
//! There are two implementations with the same functions. `linux.rs` uses /proc, inotify, pidfds and other calls
//! that only Linux has. `posix.rs` needs only POSIX and what macOS shares with the BSDs; its answers may be `None`,
//! which means unknown. The feature `posix-os` selects it on Linux, so that the tests run with both. Calls that
//! need no second implementation, such as those of terminals, are made where they are needed.
//!
//! All unsafe code of the project is in this folder.

use std::fmt::Display;
use std::time::Duration;

mod descriptor;
mod folder_poller;
#[cfg(all(target_os = "linux", not(feature = "posix-os")))]
mod linux;
#[cfg(not(all(target_os = "linux", not(feature = "posix-os"))))]
mod posix;
pub mod rlimit;
mod signal_name;
mod spawn;
mod tcp_keepalive;

#[cfg(all(target_os = "linux", not(feature = "posix-os")))]
use linux as implementation;
#[cfg(not(all(target_os = "linux", not(feature = "posix-os"))))]
use posix as implementation;

pub use descriptor::watch;
pub use implementation::{
    FolderWatcher, MAX_SOCKET_PATH, ProcessExit, ProcessHandle, RECEIVE_FLAGS, REQUIREMENT, SEND_FLAGS,
    boot_time, check, children, clone_file, command_line, current_dir, handles_signal, is_blocked_in_write,
    kernel_release, open_files, open_terminal, own_program, peer_process, process_name, processes,
    resident_bytes, session_leader, set_batch_scheduling, sync_tree, written_bytes,
};
pub use signal_name::signal_name;
pub use spawn::{close_descriptors, detach, kill_with_parent, release_free_memory, set_controlling_terminal};
pub use tcp_keepalive::set_tcp_keepalive;

/// Name of the selected implementation.
pub const IMPLEMENTATION: &str = implementation::NAME;

/// Status of a process on this machine.
#[derive(Debug, Clone, Copy)]
pub struct ProcessStatus {
    /// State letter of ps(1): `R` runs, `S` sleeps, `Z` is a zombie.
    pub state: char,
    /// Process id of the parent.
    pub parent: i32,
    /// Id of the session.
    pub session: i32,
    /// Foreground process group of the controlling terminal; not positive without one.
    pub foreground: i32,
    /// Start time. Unit and epoch depend on the system: clock ticks since boot on Linux.
    pub started: u64,
    /// Id of the user.
    pub user: u32,
}

impl ProcessStatus {
    /// Reads the status of a process; `None` if it does not exist.
    pub fn of(pid: impl Display) -> Option<ProcessStatus> {
        implementation::status(&pid.to_string())
    }

    /// Reads the status of a living process; `None` for a zombie too.
    pub fn of_living(pid: impl Display) -> Option<ProcessStatus> {
        ProcessStatus::of(pid).filter(|status| !matches!(status.state, 'Z' | 'X'))
    }
}

/// Returns the start time of a living process, which distinguishes it from a later one with the same id.
pub fn start_time(pid: impl Display) -> Option<u64> {
    ProcessStatus::of_living(pid).map(|status| status.started)
}

/// Returns true if the process that started at this time is alive and belongs to this user.
pub fn is_own_process(pid: u32, started: u64) -> bool {
    let user = rustix::process::getuid().as_raw();
    started != 0 && ProcessStatus::of_living(pid).is_some_and(|it| it.started == started && it.user == user)
}

/// Reads a clock that every system has (clock_gettime(2)).
#[expect(unsafe_code, reason = "clock_gettime has no safe form")]
fn read_clock(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid during the call, which fails only for an unknown clock.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Returns the number of descriptors that this process has open, if known.
pub fn open_descriptors() -> Option<usize> {
    // The folder itself is open while it is read.
    Some(std::fs::read_dir("/dev/fd").ok()?.count().saturating_sub(1))
}

#[cfg(test)]
mod tests;
