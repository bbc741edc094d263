//! The Unix socket: who may connect, how many, and the way down.

use std::future::Future;
use std::os::unix::net::UnixListener as StdListener;
use std::sync::Arc;
use std::time::Duration;

use nerve_core::command::Command;
use nerve_core::engine::Engine;
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::broadcast;
use tokio_util::task::TaskTracker;

use crate::connection;
use crate::convert;
use crate::daemon::Claim;
use crate::error::ServerError;
use crate::paths::Places;
use crate::serving::Serving;

/// How long nodes may take to stop. They stop side by side, and each is ended by force long before.
const STOP_PATIENCE: Duration = Duration::from_secs(10);
/// How long clients may take to read what is left for them.
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);
/// Out of descriptors, accepting fails until a connection closes; trying again at once would only burn a core.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How a server is set up.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Its name, unique for this user: 1–32 of `a-z 0-9 -`.
    pub name: String,
    /// Where its socket and lock are.
    pub places: Places,
    /// Connections at one time; one more is told so and closed.
    pub max_connections: usize,
}

impl ServerConfig {
    /// A server of this name with the usual limits.
    pub fn new(name: impl Into<String>, places: Places) -> ServerConfig {
        ServerConfig { name: name.into(), places, max_connections: 1024 }
    }
}

/// A server that holds its name and listens, and does not answer yet: clients that connect wait.
#[derive(Debug)]
pub struct Server {
    claim: Claim,
    listener: StdListener,
    max_connections: usize,
}

impl Server {
    /// Takes the name and listens.
    ///
    /// # Errors
    /// The name is bad or taken, the socket's path too long or in use for something else.
    pub fn bind(config: &ServerConfig) -> Result<Server, ServerError> {
        let (claim, listener) = Claim::take(&config.places, &config.name)?;
        Ok(Server { claim, listener, max_connections: config.max_connections })
    }

    /// Answers until a client sends SHUTDOWN or `stop` ends; then stops all nodes, tells the clients, closes, and frees the name.
    /// Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The socket cannot be used.
    pub async fn run(self, engine: Engine, stop: impl Future<Output = ()>) -> Result<(), ServerError> {
        let socket = self.claim.socket.clone();
        let listener =
            UnixListener::from_std(self.listener).map_err(ServerError::io("listen on", &socket))?;
        tracing::info!(name = %self.claim.name, socket = %socket.display(), pid = std::process::id(), "listening");
        let serving = Arc::new(Serving::new(engine));
        let clients = TaskTracker::new();
        let forwarding = tokio::spawn(forward_events(serving.clone()));
        tokio::select! {
            () = accept(&listener, &serving, &clients, self.max_connections) => {}
            () = serving.stopping.cancelled() => {}
            () = stop => serving.shut_down(false),
        }
        drop(listener);
        go_down(&serving, &clients).await;
        forwarding.abort();
        tracing::info!(name = %self.claim.name, "stopped");
        Ok(())
    }
}

async fn accept(listener: &UnixListener, serving: &Arc<Serving>, clients: &TaskTracker, most: usize) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) if !is_same_user(&stream) => drop(stream),
            Ok((stream, _)) if clients.len() >= most => turn_away(stream, most),
            Ok((stream, _)) => {
                clients.spawn(connection::serve(stream, serving.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// The socket's mode keeps others out already; this holds even if somebody loosens it.
fn is_same_user(stream: &UnixStream) -> bool {
    let own = rustix::process::getuid().as_raw();
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == own => true,
        Ok(peer) => {
            tracing::warn!(uid = peer.uid(), "a connection of another user was refused");
            false
        }
        Err(error) => {
            tracing::warn!(%error, "a connection whose user is unknown was refused");
            false
        }
    }
}

fn turn_away(stream: UnixStream, most: usize) {
    tracing::warn!(most, "too many connections: one was turned away");
    let line = convert::error_line(format!("too many connections: the server takes {most}"));
    tokio::spawn(async move {
        let mut stream = stream;
        let _ = tokio::time::timeout(CLOSE_PATIENCE, stream.write_all(&line)).await;
    });
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
    let stopped = serving.engine.execute(Command::Shutdown { keep_nodes });
    match tokio::time::timeout(STOP_PATIENCE, stopped).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::error!(%error, "nodes could not be stopped"),
        Err(_) => tracing::error!(seconds = STOP_PATIENCE.as_secs(), "nodes did not stop in time"),
    }
    serving.hub.forward();
    serving.closing.cancel();
    clients.close();
    if tokio::time::timeout(CLOSE_PATIENCE, clients.wait()).await.is_err() {
        tracing::warn!(clients = clients.len(), "clients did not read what was left for them");
    }
}
