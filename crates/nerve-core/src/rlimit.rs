//! How many files this process may have open. A server raises that for itself alone: programs that wait with `select` break where a
//! descriptor's number is beyond 1023, so what it starts gets the limit back that was there before.

use std::io;
use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More than a server needs at its limits; where the system would allow a billion, not all of it is asked for.
const MAX_WANTED: u64 = 65_536;

/// The limit before it was raised.
static ORIGINAL: OnceLock<Rlimit> = OnceLock::new();

/// Raises the soft limit as far as the hard one allows, up to 65536, and says what it is now. Programs on terminals, shells, panes and
/// hosts are started with the old one.
pub fn raise() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(MAX_WANTED).min(MAX_WANTED);
    if limit.current.is_some_and(|current| current < wanted) {
        ORIGINAL.get_or_init(|| limit);
        let raised = Rlimit { current: Some(wanted), maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, wanted, "the limit of open files cannot be raised");
        }
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Gives the calling process the limit back that was there before. For a child between fork and exec: a system call, no memory, no lock.
pub(crate) fn restore() -> io::Result<()> {
    match ORIGINAL.get() {
        Some(before) => Ok(setrlimit(Resource::Nofile, *before)?),
        None => Ok(()),
    }
}
