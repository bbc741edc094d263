//! The life cycle of a server: binding, serving and shutdown.

use futures_util::future::BoxFuture;
use std::future::Future;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener as StdListener;
use std::sync::Arc;
use std::time::Duration;

use nerve_engine::Engine;
use tokio::sync::broadcast;
use tokio_util::task::TaskTracker;

use crate::access::address;
use crate::access::tls::TlsFiles;
use crate::access::token::TokenFile;
pub(crate) use crate::clients::Clients;
use crate::clients::MAX_UNAUTHENTICATED;
use crate::daemon::{Addresses, NameLock};
use crate::error::ServerError;
use crate::http::mount::Mount;
use crate::paths::ServerPaths;
use crate::state::ServerState;
use crate::tcp::Network;
use crate::unix;

/// Time that nodes may take to stop. They stop concurrently and are killed long before that.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Time that clients may take to read their pending replies at shutdown.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
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

/// A server that owns its name and is bound, but does not answer yet: clients that connect wait.
#[derive(Debug)]
pub struct Server {
    claim: NameLock,
    listener: StdListener,
    network: Option<Network>,
    max_connections: usize,
}

impl Server {
    /// Takes the name and binds the sockets. With TCP or HTTP, creates the token if there is none.
    ///
    /// # Errors
    /// Returns an error if the name is invalid or taken, the socket's path is too long or in use for
    /// something else, an address is taken or needs TLS, or the token or certificate cannot be used.
    pub fn bind(config: &ServerConfig) -> Result<Server, ServerError> {
        for address in config.tcp.iter().chain(&config.http) {
            address::check(*address, config.tls.is_some(), config.insecure)?;
        }
        let (mut claim, listener) = NameLock::take(&config.paths, &config.name)?;
        let network = Network::open(config)?;
        claim.announce(&network.as_ref().map(Network::addresses).unwrap_or_default())?;
        Ok(Server { claim, listener, network, max_connections: config.max_connections })
    }

    /// Returns the network addresses, with the ports that the system chose.
    pub fn addresses(&self) -> Addresses {
        self.network.as_ref().map(Network::addresses).unwrap_or_default()
    }

    /// Returns the address of the line protocol over TCP.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.addresses().tcp
    }

    /// Returns the address of HTTP.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.addresses().http
    }

    /// Serves clients until one sends SHUTDOWN or `stop` completes. Then stops all nodes, notifies the
    /// clients, closes the connections and frees the name. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// Returns an error if a socket cannot be used.
    pub fn run(
        self,
        engine: Engine,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> BoxFuture<'static, Result<(), ServerError>> {
        self.run_until(engine, Box::pin(stop))
    }

    /// Boxed and not generic: callers' crates would compile the whole server again.
    fn run_until(
        self,
        engine: Engine,
        stop: BoxFuture<'static, ()>,
    ) -> BoxFuture<'static, Result<(), ServerError>> {
        Box::pin(async move {
            let Server { claim, listener, network, max_connections } = self;
            let listener = unix::Listener::new(listener, &claim.socket)?;
            tracing::info!(name = %claim.name, socket = %claim.socket.display(), pid = std::process::id(), "listening");
            let clients = Clients::new(max_connections);
            let state = Arc::new(ServerState::new(engine));
            let forwarding = tokio::spawn(forward_events(state.clone()));
            let others = async {
                match network {
                    Some(network) => network.serve(&state, &clients).await,
                    None => std::future::pending().await,
                }
            };
            let outcome = tokio::select! {
                () = listener.accept(&state, &clients) => Ok(()),
                outcome = others => outcome,
                () = state.stopping.cancelled() => Ok(()),
                () = stop => {
                    state.shut_down(false);
                    Ok(())
                }
            };
            drop(listener);
            shut_down_nodes(&state, &clients.tracker).await;
            forwarding.abort();
            tracing::info!(name = %claim.name, "stopped");
            outcome
        })
    }
}

/// Wakes the hub for every event. A connection may have forwarded the event already.
pub(crate) async fn forward_events(state: Arc<ServerState>) {
    let mut wake = state.engine.subscribe();
    state.hub.forward();
    while !matches!(wake.recv().await, Err(broadcast::error::RecvError::Closed)) {
        state.hub.forward();
    }
}

pub(crate) async fn shut_down_nodes(state: &ServerState, clients: &TaskTracker) {
    let keep_nodes = state.keeps_nodes();
    tracing::info!(keep_nodes, "stopping");
    match tokio::time::timeout(STOP_TIMEOUT, state.engine.shut_down(keep_nodes)).await {
        Ok(()) => {}
        Err(_) => tracing::error!(seconds = STOP_TIMEOUT.as_secs(), "nodes did not stop in time"),
    }
    state.hub.forward();
    state.closing.cancel();
    clients.close();
    if tokio::time::timeout(CLOSE_TIMEOUT, clients.wait()).await.is_err() {
        tracing::warn!(clients = clients.len(), "clients did not read their remaining messages");
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
