//! The configuration of a server.

use std::net::SocketAddr;

use nerve_machine::Machines;

use crate::access::tls::TlsFiles;
use crate::access::token::TokenFile;
use crate::clients::MAX_UNAUTHENTICATED;
use crate::http::mount::Mount;
use crate::paths::ServerPaths;

/// File descriptors per connection: the socket, and a duplicate that detects a closed peer.
const FDS_PER_CONNECTION: u64 = 2;
/// File descriptors reserved for everything else: nodes, files of results and recordings, listening sockets.
const RESERVED_FDS: u64 = 256;

/// Configuration of a server.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Name, unique for this user: 1–32 of `a-z 0-9 -`.
    pub name: String,
    /// Locations of socket, lock and other files.
    pub paths: ServerPaths,
    /// Maximum number of connections over all transports. Further ones get an error and are closed.
    pub max_connections: usize,
    /// Address of the line protocol over TCP, in addition to the Unix socket. Port 0: any free port.
    pub tcp: Option<SocketAddr>,
    /// Address of HTTP, WebSocket and SSE. Port 0: any free port.
    pub http: Option<SocketAddr>,
    /// Host names accepted over HTTP in addition to `localhost` and addresses: without port,
    /// case-insensitive.
    pub http_names: Vec<String>,
    /// The user's other machines, if clients over HTTP may use their nodes.
    pub machines: Option<Machines>,
    /// Further services over HTTP.
    pub mounts: Vec<Mount>,
    /// The token that clients over TCP and HTTP must send.
    pub token: TokenFile,
    /// Certificate and key for TCP and HTTP.
    pub tls: Option<TlsFiles>,
    /// Allows addresses other than loopback without TLS.
    pub insecure: bool,
}

impl ServerConfig {
    /// Creates the default configuration: the Unix socket only.
    pub fn new(name: impl Into<String>, paths: ServerPaths) -> ServerConfig {
        ServerConfig {
            name: name.into(),
            token: TokenFile::new(paths.token()),
            paths,
            max_connections: 1024,
            tcp: None,
            http: None,
            http_names: Vec::new(),
            machines: None,
            mounts: Vec::new(),
            tls: None,
            insecure: false,
        }
    }

    /// Lowers `max_connections` to what a process with this limit of open files can serve, but not below 16.
    /// Descriptors are reserved for unauthenticated connections and nodes: without free descriptors nothing
    /// works for the connected clients.
    pub fn fit(&mut self, open_files: u64) {
        let preauth = if self.tcp.is_some() || self.http.is_some() { MAX_UNAUTHENTICATED as u64 } else { 0 };
        let left = open_files.saturating_sub(RESERVED_FDS + preauth * FDS_PER_CONNECTION);
        let most = usize::try_from((left / FDS_PER_CONNECTION).max(16)).unwrap_or(usize::MAX);
        if most < self.max_connections {
            tracing::warn!(
                open_files,
                most,
                "low limit of open files ('ulimit -Hn'): fewer clients are accepted"
            );
            self.max_connections = most;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn connections_are_limited_by_open_files() {
        let fitted = |open_files, tcp| {
            let mut config = ServerConfig::new("test", ServerPaths::under(Path::new("/nowhere")));
            config.tcp = tcp;
            config.fit(open_files);
            config.max_connections as u64
        };
        let tcp = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        assert_eq!((fitted(65_536, tcp), fitted(u64::MAX, None)), (1024, 1024));
        assert_eq!((fitted(10, tcp), fitted(0, None)), (16, 16));
        for open_files in [1024, 2048, 4096] {
            let with_strangers = fitted(open_files, tcp) + MAX_UNAUTHENTICATED as u64;
            assert!(2 * with_strangers + 200 <= open_files, "{open_files}: {with_strangers}");
            assert!(fitted(open_files, None) > fitted(open_files, tcp) || open_files == 4096);
        }
    }
}
