//! Errors at the start of a proxy. Errors of single requests are sent to the client instead.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Reason why a proxy could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// The upstream's address is invalid.
    #[error("the upstream '{address}' {reason}")]
    Upstream {
        /// The given address.
        address: String,
        /// Description of the problem and its solution.
        reason: &'static str,
    },
    /// The listen address is reachable from other machines.
    #[error(
        "{0} is not a loopback address: other machines could use the proxy's key; listen on 127.0.0.1:PORT"
    )]
    NotLoopback(SocketAddr),
    /// The file of root certificates is invalid.
    #[error("the certificate file {} {reason}", path.display())]
    RootCerts {
        /// The file.
        path: PathBuf,
        /// Description of the problem.
        reason: String,
    },
    /// A setting is invalid.
    #[error("{0}")]
    Setting(&'static str),
    /// The proxy cannot listen on the address.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The listen address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The log cannot be written.
    #[error("cannot write the log {}: {source}", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}
