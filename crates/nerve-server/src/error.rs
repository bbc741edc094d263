//! Why a server could not start or go on, and what to do about it.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use nerve_record::name::NameError;

/// An error of the server itself; errors of single requests are answered on their connection.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The name breaks the name rule (seed channel-history §5.2).
    #[error(transparent)]
    Name(#[from] NameError),
    /// Another live process holds the name.
    #[error("server '{name}' is already running{}", pid.map(|pid| format!(", pid {pid}")).unwrap_or_default())]
    AlreadyRunning {
        /// The name.
        name: String,
        /// Who holds it, if its lock file says so.
        pid: Option<u32>,
    },
    /// The kernel takes socket paths of at most 107 bytes.
    #[error("the socket path is {} bytes long and may be at most {max}: {}", path.as_os_str().len(), path.display())]
    PathTooLong {
        /// The path.
        path: PathBuf,
        /// The most bytes there may be.
        max: usize,
    },
    /// Something that is not ours stands where the socket should be.
    #[error("{} exists and is not a socket; it was left alone", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// A process that does not hold the lock listens on the socket.
    #[error("another program listens on {}", path.display())]
    ForeignListener {
        /// The path.
        path: PathBuf,
    },
    /// The directory is not safe to put a socket into.
    #[error("{} cannot hold sockets: {problem}", path.display())]
    UnsafeDirectory {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Port {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// Others could read what is said there.
    #[error("{address} is not loopback: it needs TLS")]
    NeedsTls {
        /// The address.
        address: SocketAddr,
    },
    /// The file cannot hold a secret, or holds none.
    #[error("{} is no token file: {problem}", path.display())]
    UnsafeToken {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A certificate or key cannot be used.
    #[error("{} holds no {what}: {problem}", path.display())]
    BadTls {
        /// The path.
        path: PathBuf,
        /// What it should hold.
        what: &'static str,
        /// Why it does not.
        problem: String,
    },
    /// A call to the system failed.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was tried: `create`, `lock` …
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl ServerError {
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ServerError {
        let path = path.to_path_buf();
        move |source| ServerError::Io { what, path, source }
    }

    /// What to do about it, where there is something to do.
    pub fn hint(&self) -> Option<String> {
        match self {
            ServerError::AlreadyRunning { name, .. } => {
                Some(format!("stop it with 'nerve server stop {name}' or choose another name"))
            }
            ServerError::PathTooLong { .. } => {
                Some("set NERVE_HOME or XDG_RUNTIME_DIR to a shorter directory".to_string())
            }
            ServerError::NotASocket { path } | ServerError::ForeignListener { path } => {
                Some(format!("move {} away or choose another server name", path.display()))
            }
            ServerError::UnsafeDirectory { path, .. } => {
                Some(format!("it must be yours with mode 0700: chmod 700 {}", path.display()))
            }
            ServerError::NeedsTls { .. } => Some(
                "give --tls-cert and --tls-key, listen on 127.0.0.1, or say --insecure if the network is your own".to_string(),
            ),
            ServerError::Port { .. } => Some("choose another port, or 0 for any".to_string()),
            ServerError::UnsafeToken { path, .. } => Some(format!(
                "it must hold a token and be yours with mode 0600: chmod 600 {0}, or move it away and 'nerve token rotate' makes a new one",
                path.display()
            )),
            ServerError::BadTls { .. } => Some("both must be PEM files, the key not encrypted and with mode 0600".to_string()),
            ServerError::Name(_) | ServerError::Io { .. } => None,
        }
    }
}
