//! The life cycle of a server: binding, serving and shutdown.

use std::future::Future;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener as StdListener;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use nerve_engine::Engine;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::broadcast;
use tokio_util::task::TaskTracker;

use crate::access::address;
use crate::clients::Clients;
use crate::config::ServerConfig;
use crate::daemon::{Addresses, NameLock};
use crate::error::ServerError;
use crate::signals::wait_for_signal;
use crate::state::ServerState;
use crate::tcp::Network;
use crate::unix;

/// Time that nodes may take to stop. They stop concurrently and are killed long before that.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// A server that owns its name and is bound, but does not answer yet: clients that connect wait.
#[derive(Debug)]
pub struct Server {
    claim: NameLock,
    listener: StdListener,
    network: Option<Network>,
    max_connections: usize,
    /// The signal that requests the creation of deleted files.
    repairs: Option<Signal>,
}

impl Server {
    /// Takes the name and binds the sockets. With TCP or HTTP, creates the token if there is none.
    ///
    /// # Errors
    /// Returns an error if the name is invalid or taken, or the socket's path is too long or in use. Also if an
    /// address is taken or needs TLS, or the token or certificate cannot be used.
    pub fn bind(config: &ServerConfig) -> Result<Server, ServerError> {
        for address in config.tcp.iter().chain(&config.http) {
            address::check(*address, config.tls.is_some(), config.insecure)?;
        }
        let (mut claim, listener) = NameLock::take(&config.paths, &config.name)?;
        let network = Network::open(config)?;
        claim.announce(&network.as_ref().map(Network::addresses).unwrap_or_default())?;
        Ok(Server { claim, listener, network, max_connections: config.max_connections, repairs: None })
    }

    /// Creates the lock file and the socket again on SIGUSR1 if they were deleted. Must be called within a tokio
    /// runtime, in a process that leaves the signal to the server.
    ///
    /// # Errors
    /// Returns an error if the handler cannot be installed.
    pub fn repair_on_signal(self) -> std::io::Result<Server> {
        Ok(Server { repairs: Some(signal(SignalKind::user_defined1())?), ..self })
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
            let Server { mut claim, listener, network, max_connections, mut repairs } = self;
            let mut listener = unix::Listener::new(listener, &claim.socket)?;
            tracing::info!(name = %claim.name, socket = %claim.socket.display(), pid = std::process::id(), "listening");
            let clients = Clients::new(max_connections);
            let state = Arc::new(ServerState::new(engine));
            let publisher = tokio::spawn(publish_events(state.clone()));
            let network_clients = async {
                match network {
                    Some(network) => network.serve(&state, &clients).await,
                    None => std::future::pending().await,
                }
            };
            let local_clients = async {
                loop {
                    tokio::select! {
                        () = listener.accept(&state, &clients) => {}
                        () = wait_for_signal(&mut repairs) => {
                            if let Some(new) = repair(&mut claim) {
                                listener = new;
                            }
                        }
                    }
                }
            };
            let outcome = tokio::select! {
                () = local_clients => Ok(()),
                outcome = network_clients => outcome,
                () = state.stopping.cancelled() => Ok(()),
                () = stop => {
                    state.shut_down(false);
                    Ok(())
                }
            };
            drop(listener);
            shut_down_nodes(&state, &clients.tracker).await;
            publisher.abort();
            tracing::info!(name = %claim.name, "stopped");
            outcome
        })
    }
}

/// Creates deleted files again. Returns the listener of a new socket.
fn repair(claim: &mut NameLock) -> Option<unix::Listener> {
    let repaired = claim.repair().and_then(|listener| {
        listener.map(|listener| unix::Listener::new(listener, &claim.socket)).transpose()
    });
    match repaired {
        Ok(listener) => {
            tracing::info!(name = %claim.name, has_new_socket = listener.is_some(), "files repaired");
            listener
        }
        Err(error) => {
            tracing::error!(name = %claim.name, %error, "files cannot be repaired");
            None
        }
    }
}

/// Makes the hub publish every event of the engine. A connection may have done so already.
pub(crate) async fn publish_events(state: Arc<ServerState>) {
    let mut wake = state.engine.subscribe();
    state.hub.publish_pending();
    while !matches!(wake.recv().await, Err(broadcast::error::RecvError::Closed)) {
        state.hub.publish_pending();
    }
}

pub(crate) async fn shut_down_nodes(state: &ServerState, clients: &TaskTracker) {
    let keep_nodes = state.keeps_nodes();
    tracing::info!(keep_nodes, "stopping");
    match tokio::time::timeout(STOP_TIMEOUT, state.engine.shut_down(keep_nodes)).await {
        Ok(()) => {}
        Err(_) => tracing::error!(seconds = STOP_TIMEOUT.as_secs(), "nodes did not stop in time"),
    }
    state.hub.publish_pending();
    state.closing.cancel();
    Clients::close(clients).await;
}
