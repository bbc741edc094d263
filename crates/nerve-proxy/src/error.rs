//! What can go wrong before a proxy runs. What goes wrong with a request is answered to its client.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why there is no proxy.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// The address of the upstream is none.
    #[error("the upstream '{address}' {reason}")]
    Upstream {
        /// What was given.
        address: String,
        /// What is wrong with it, and what to do.
        reason: &'static str,
    },
    /// It would listen for other machines.
    #[error(
        "{0} is not a loopback address: whoever reaches a proxy can use its key; listen on 127.0.0.1:PORT"
    )]
    NotLoopback(SocketAddr),
    /// No certificates of authorities.
    #[error("the file of authorities {} {reason}", path.display())]
    Authorities {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A setting that cannot be.
    #[error("{0}")]
    Setting(&'static str),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The log cannot be written.
    #[error("cannot write the log {}: {source}", path.display())]
    Log {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}
