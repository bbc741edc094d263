//! The limit of open files. A server raises it for itself only: programs that use `select` break on descriptors above 1023, so
//! children get the original limit.

use std::io;
use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Exceeds what a server needs; some systems allow a billion.
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

/// Restores the original limit in a child between fork and exec: one system call, no allocation, no lock.
pub(crate) fn restore() -> io::Result<()> {
    match ORIGINAL.get() {
        Some(before) => Ok(setrlimit(Resource::Nofile, *before)?),
        None => Ok(()),
    }
}
