//! Errors of the server itself, with hints.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use nerve_types::name::NameError;

/// An error of the server itself. Errors of single requests are sent to their client instead.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The name is invalid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Another live process owns the name.
    #[error("server '{name}' is already running{}", pid.map(|pid| format!(", pid {pid}")).unwrap_or_default())]
    AlreadyRunning {
        /// The server's name.
        name: String,
        /// The owner's process id, if the lock file could be read.
        pid: Option<u32>,
    },
    /// A live process owns the name, but its files were deleted, so no client can reach it.
    #[error(
        "server '{name}' is already running{}, but {} was deleted",
        pid.map(|pid| format!(", pid {pid}")).unwrap_or_default(),
        socket.display()
    )]
    Unreachable {
        /// The server's name.
        name: String,
        /// The owner's process id, if it could be read.
        pid: Option<u32>,
        /// Path of its socket.
        socket: PathBuf,
    },
    /// The path of the socket exceeds the kernel's limit of 107 bytes.
    #[error("socket path too long ({} bytes, at most {max}): {}", path.as_os_str().len(), path.display())]
    PathTooLong {
        /// Path of the socket.
        path: PathBuf,
        /// Maximum length in bytes.
        max: usize,
    },
    /// A file that is not a socket is in the socket's place.
    #[error("{} exists and is not a socket", path.display())]
    NotASocket {
        /// The socket's path.
        path: PathBuf,
    },
    /// A process that does not hold the lock listens on the socket.
    #[error("another program is listening on {}", path.display())]
    ForeignListener {
        /// The socket's path.
        path: PathBuf,
    },
    /// The directory is not safe for sockets.
    #[error("unsafe socket directory {}: {problem}", path.display())]
    UnsafeDirectory {
        /// Path of the directory.
        path: PathBuf,
        /// Reason why it is not safe.
        problem: String,
    },
    /// The server cannot listen on an address.
    #[error("cannot listen on {address}: {source}")]
    Port {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// An address that is not loopback needs TLS.
    #[error("{address} needs TLS: it is not a loopback address")]
    NeedsTls {
        /// The address.
        address: SocketAddr,
    },
    /// The token file has unsafe permissions or holds no token.
    #[error("invalid token file {}: {problem}", path.display())]
    UnsafeToken {
        /// Path of the file.
        path: PathBuf,
        /// Reason why it cannot be used.
        problem: String,
    },
    /// A certificate or key cannot be used.
    #[error("no valid {expected} in {}: {problem}", path.display())]
    BadTls {
        /// Path of the file.
        path: PathBuf,
        /// Expected content of the file.
        expected: &'static str,
        /// Reason why it cannot be used.
        problem: String,
    },
    /// A system call failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The action: `create`, `lock` …
        action: &'static str,
        /// Path that the action was applied to.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl ServerError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ServerError {
        let path = path.to_path_buf();
        move |source| ServerError::Io { action, path, source }
    }

    /// Returns a hint on how to solve the problem.
    pub fn hint(&self) -> Option<String> {
        match self {
            ServerError::AlreadyRunning { name, .. } => {
                Some(format!("stop it with 'nerve server stop {name}' or choose another name"))
            }
            ServerError::Unreachable { .. } => {
                Some("make it create its socket again with 'nerve doctor --fix'".to_string())
            }
            ServerError::PathTooLong { .. } => {
                Some("set NERVE_HOME or XDG_RUNTIME_DIR to a shorter directory".to_string())
            }
            ServerError::NotASocket { path } | ServerError::ForeignListener { path } => {
                Some(format!("move {} away or choose another server name", path.display()))
            }
            ServerError::UnsafeDirectory { path, .. } => Some(format!(
                "the directory must belong to you and have mode 0700: chmod 700 {}",
                path.display()
            )),
            ServerError::NeedsTls { .. } => Some(
                "use --tls-cert and --tls-key, listen on 127.0.0.1, or pass --insecure in a trusted network"
                    .to_string(),
            ),
            ServerError::Port { .. } => Some("choose another port, or 0 for any free one".to_string()),
            ServerError::UnsafeToken { path, .. } => Some(format!(
                "the file must hold a token, belong to you and have mode 0600: chmod 600 {0}, or move it away and run 'nerve token rotate'",
                path.display()
            )),
            ServerError::BadTls { .. } => {
                Some("both must be PEM files, the key not encrypted and with mode 0600".to_string())
            }
            ServerError::Io { source, .. } if is_read_only(source) => {
                Some("set NERVE_HOME to a directory that belongs to you and can be written to".to_string())
            }
            ServerError::Name(_) | ServerError::Io { .. } => None,
        }
    }
}

fn is_read_only(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}
