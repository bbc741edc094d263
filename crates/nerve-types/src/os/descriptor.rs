//! Descriptors whose readiness the runtime reports.
#![expect(unsafe_code, reason = "it has no safe form and says why it holds")]

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::unix::AsyncFd;

/// Registers a non-blocking descriptor with the runtime.
///
/// # Errors
/// The runtime has no I/O driver, or the system refuses.
pub fn watch(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is valid and open until it is dropped, always returns the same descriptor, and is owned by the
    // `AsyncFd` from here on.
    unsafe { AsyncFd::register(descriptor) }.map_err(io::Error::from)
}
