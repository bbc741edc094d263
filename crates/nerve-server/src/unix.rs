//! The Unix socket: who may connect, and how many.

use std::os::unix::net::UnixListener as StdListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};

use crate::connection::{self, Link};
use crate::convert;
use crate::error::ServerError;
use crate::metrics::Transport;
use crate::server::{CLOSE_TIMEOUT, Clients};
use crate::state::ServerState;

/// Out of descriptors, accepting fails until a connection closes; trying again at once would only burn a core.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The socket of a server that runs.
pub(crate) struct Listener(UnixListener);

impl Listener {
    /// Must be called within a tokio runtime.
    pub(crate) fn new(listener: StdListener, socket: &Path) -> Result<Listener, ServerError> {
        UnixListener::from_std(listener).map(Listener).map_err(ServerError::io("listen on", socket))
    }

    /// Takes clients until it is dropped.
    pub(crate) async fn accept(&self, state: &Arc<ServerState>, clients: &Clients) {
        loop {
            match self.0.accept().await {
                Ok((stream, _)) if !is_same_user(&stream) => drop(stream),
                Ok((stream, _)) => match (clients.try_acquire(), Link::unix(stream)) {
                    (None, Ok(link)) => reject(link, clients),
                    (Some(slot), Ok(link)) => {
                        let served = connection::serve(link, state.clone());
                        let connected = state.hub.metrics.connected(Transport::Unix);
                        clients.tracker.spawn(async move {
                            served.await;
                            drop((slot, connected));
                        });
                    }
                    (_, Err(error)) => tracing::warn!(%error, "a connection could not be set up"),
                },
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
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

fn reject(link: Link, clients: &Clients) {
    let line = convert::error_line(clients.reject());
    tokio::spawn(async move {
        let mut write = link.write;
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, write.write_all(&line)).await;
    });
}
