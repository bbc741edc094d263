//! The limit of open files. A server raises it for itself only: programs that use `select` break on descriptors above 1023, so
//! children get the original limit.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Maximum limit to set: more than a server needs. Some systems allow a billion.
const MAX_WANTED: u64 = 65_536;

/// The limit before it was raised.
static ORIGINAL: OnceLock<Rlimit> = OnceLock::new();

/// Raises the soft limit to the hard one, at most 65536, and returns the resulting limit. Children are started with the
/// original one.
pub fn raise() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let target = limit.maximum.unwrap_or(MAX_WANTED).min(MAX_WANTED);
    if limit.current.is_some_and(|current| current < target) {
        ORIGINAL.get_or_init(|| limit);
        let raised = Rlimit { current: Some(target), maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, target, "the limit of open files cannot be raised");
        }
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Returns a number above all descriptors of this process, at most 65536: one that is inherited and larger is not closed.
pub(super) fn bound() -> i32 {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(MAX_WANTED).min(MAX_WANTED);
    i32::try_from(limit).unwrap_or(i32::MAX)
}

/// Checks that more than `count` descriptors are left.
///
/// # Errors
/// Fewer descriptors are left.
pub fn check_room(count: u64) -> io::Result<()> {
    let Some(limit) = getrlimit(Resource::Nofile).current else { return Ok(()) };
    let used = match super::open_descriptors() {
        Some(used) => used as u64,
        // The system assigns the lowest free number (open(2)): at most those in use are below it.
        None => u64::try_from(File::open("/dev/null")?.as_raw_fd()).unwrap_or(0),
    };
    if used + count < limit {
        return Ok(());
    }
    let message = format!("{used} of {limit} file descriptors are in use, and {count} are kept for clients");
    Err(io::Error::new(io::ErrorKind::QuotaExceeded, message))
}

/// Restores the original limit in a child between fork and exec: one system call, no allocation, no lock.
pub(super) fn restore() -> io::Result<()> {
    match ORIGINAL.get() {
        Some(original) => Ok(setrlimit(Resource::Nofile, *original)?),
        None => Ok(()),
    }
}
