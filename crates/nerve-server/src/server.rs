//! A server from start to stop: what it listens on, who it serves, the way down.

use std::future::Future;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener as StdListener;
use std::sync::Arc;
use std::time::Duration;

use nerve_core::engine::Engine;
use tokio::sync::broadcast;
use tokio_util::task::TaskTracker;

use crate::access::address;
use crate::access::strangers;
use crate::access::tls::TlsFiles;
use crate::access::token::TokenFile;
pub(crate) use crate::clients::Clients;
use crate::daemon::{Addresses, Claim};
use crate::error::ServerError;
use crate::http::mount::Mount;
use crate::paths::Places;
use crate::serving::Serving;
use crate::tcp::Network;
use crate::unix;

/// How long nodes may take to stop. They stop side by side, and each is ended by force long before.
const STOP_PATIENCE: Duration = Duration::from_secs(10);
/// How long clients may take to read what is left for them.
pub(crate) const CLOSE_PATIENCE: Duration = Duration::from_secs(1);
/// Descriptors of a connection: the socket, and a second one to notice that nobody is at its other end.
const OF_A_CONNECTION: u64 = 2;
/// Descriptors kept for all that is no connection: nodes, files of results and recordings, the sockets that are listened on.
const OF_OTHERS: u64 = 256;

/// How a server is set up.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Its name, unique for this user: 1–32 of `a-z 0-9 -`.
    pub name: String,
    /// Where its socket and lock are.
    pub places: Places,
    /// Connections at one time, over all that it listens on; one more is told so and closed.
    pub max_connections: usize,
    /// Lines over TCP, beside the Unix socket. Port 0: any.
    pub tcp: Option<SocketAddr>,
    /// HTTP, WebSocket and SSE. Port 0: any.
    pub http: Option<SocketAddr>,
    /// Names by which clients may call it over HTTP, beside `localhost` and addresses: without port, any case.
    pub http_names: Vec<String>,
    /// What else is served over HTTP.
    pub mounts: Vec<Mount>,
    /// What clients over TCP and HTTP must know.
    pub token: TokenFile,
    /// For TCP and HTTP both.
    pub tls: Option<TlsFiles>,
    /// Addresses other than loopback need TLS; with this they do not.
    pub insecure: bool,
}

impl ServerConfig {
    /// A server of this name with the usual limits, on its Unix socket alone.
    pub fn new(name: impl Into<String>, places: Places) -> ServerConfig {
        ServerConfig {
            name: name.into(),
            token: TokenFile::new(places.token()),
            places,
            max_connections: 1024,
            tcp: None,
            http: None,
            http_names: Vec::new(),
            mounts: Vec::new(),
            tls: None,
            insecure: false,
        }
    }

    /// Lowers the number of connections to what a process that may have so many files open can serve, beside strangers and nodes: one
    /// client too many is told so, while without descriptors nothing works for those who are in. At least 16.
    pub fn fit(&mut self, open_files: u64) {
        let strangers = if self.tcp.is_some() || self.http.is_some() { strangers::MOST as u64 } else { 0 };
        let left = open_files.saturating_sub(OF_OTHERS + strangers * OF_A_CONNECTION);
        let most = usize::try_from((left / OF_A_CONNECTION).max(16)).unwrap_or(usize::MAX);
        if most < self.max_connections {
            tracing::warn!(open_files, most, "few files may be open ('ulimit -Hn'): fewer clients are taken");
            self.max_connections = most;
        }
    }
}

/// A server that holds its name and listens, and does not answer yet: clients that connect wait.
#[derive(Debug)]
pub struct Server {
    claim: Claim,
    listener: StdListener,
    network: Option<Network>,
    max_connections: usize,
}

impl Server {
    /// Takes the name and listens. With TCP or HTTP the token is made if there is none.
    ///
    /// # Errors
    /// The name is bad or taken, the socket's path too long or in use for something else; an address is taken or needs TLS; the token
    /// or the certificate cannot be used.
    pub fn bind(config: &ServerConfig) -> Result<Server, ServerError> {
        for address in config.tcp.iter().chain(&config.http) {
            address::check(*address, config.tls.is_some(), config.insecure)?;
        }
        let (mut claim, listener) = Claim::take(&config.places, &config.name)?;
        let network = Network::open(config)?;
        claim.announce(&network.as_ref().map(Network::addresses).unwrap_or_default())?;
        Ok(Server { claim, listener, network, max_connections: config.max_connections })
    }

    /// Where it listens beside its Unix socket, with the ports the system chose.
    pub fn addresses(&self) -> Addresses {
        self.network.as_ref().map(Network::addresses).unwrap_or_default()
    }

    /// Where it listens for lines over TCP.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.addresses().tcp
    }

    /// Where it listens for HTTP.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.addresses().http
    }

    /// Answers until a client sends SHUTDOWN or `stop` ends; then stops all nodes, tells the clients, closes, and frees the name.
    /// Must be called within a tokio runtime.
    ///
    /// # Errors
    /// A socket cannot be used.
    pub async fn run(self, engine: Engine, stop: impl Future<Output = ()>) -> Result<(), ServerError> {
        let Server { claim, listener, network, max_connections } = self;
        let listener = unix::Listener::new(listener, &claim.socket)?;
        tracing::info!(name = %claim.name, socket = %claim.socket.display(), pid = std::process::id(), "listening");
        let clients = Clients::new(max_connections);
        let serving = Arc::new(Serving::new(engine));
        let forwarding = tokio::spawn(forward_events(serving.clone()));
        let others = async {
            match network {
                Some(network) => network.serve(&serving, &clients).await,
                None => std::future::pending().await,
            }
        };
        let outcome = tokio::select! {
            () = listener.accept(&serving, &clients) => Ok(()),
            outcome = others => outcome,
            () = serving.stopping.cancelled() => Ok(()),
            () = stop => {
                serving.shut_down(false);
                Ok(())
            }
        };
        drop(listener);
        go_down(&serving, &clients.tracker).await;
        forwarding.abort();
        tracing::info!(name = %claim.name, "stopped");
        outcome
    }
}

/// Wakes the hub for every event. It may find that a connection has already forwarded it.
pub(crate) async fn forward_events(serving: Arc<Serving>) {
    let mut wake = serving.engine.subscribe();
    serving.hub.forward();
    while !matches!(wake.recv().await, Err(broadcast::error::RecvError::Closed)) {
        serving.hub.forward();
    }
}

pub(crate) async fn go_down(serving: &Serving, clients: &TaskTracker) {
    let keep_nodes = serving.keeps_nodes();
    tracing::info!(keep_nodes, "stopping");
    match tokio::time::timeout(STOP_PATIENCE, serving.engine.shut_down(keep_nodes)).await {
        Ok(()) => {}
        Err(_) => tracing::error!(seconds = STOP_PATIENCE.as_secs(), "nodes did not stop in time"),
    }
    serving.hub.forward();
    serving.closing.cancel();
    clients.close();
    if tokio::time::timeout(CLOSE_PATIENCE, clients.wait()).await.is_err() {
        tracing::warn!(clients = clients.len(), "clients did not read what was left for them");
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn clients_are_as_many_as_there_are_files_for() {
        let fitted = |open_files, tcp| {
            let mut config = ServerConfig::new("test", Places::under(Path::new("/nowhere")));
            config.tcp = tcp;
            config.fit(open_files);
            config.max_connections as u64
        };
        let tcp = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        assert_eq!((fitted(65_536, tcp), fitted(u64::MAX, None)), (1024, 1024));
        assert_eq!((fitted(10, tcp), fitted(0, None)), (16, 16));
        for open_files in [1024, 2048, 4096] {
            let with_strangers = fitted(open_files, tcp) + strangers::MOST as u64;
            assert!(2 * with_strangers + 200 <= open_files, "{open_files}: {with_strangers}");
            assert!(fitted(open_files, None) > fitted(open_files, tcp) || open_files == 4096);
        }
    }
}
