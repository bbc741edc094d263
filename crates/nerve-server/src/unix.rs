//! The Unix socket: accepts connections of the same user, up to a limit.

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

/// Pause after a failed accept. Without file descriptors it fails until a connection closes, and retrying at
/// once would burn a core.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The listening Unix socket.
pub(crate) struct Listener(UnixListener);

impl Listener {
    /// Registers the listener. Must be called within a tokio runtime.
    pub(crate) fn new(listener: StdListener, socket: &Path) -> Result<Listener, ServerError> {
        UnixListener::from_std(listener).map(Listener).map_err(ServerError::io("listen on", socket))
    }

    /// Accepts clients until the future is dropped.
    pub(crate) async fn accept(&self, state: &Arc<ServerState>, clients: &Clients) {
        loop {
            match self.0.accept().await {
                Ok((stream, _)) if !is_same_user(&stream) => drop(stream),
                Ok((stream, _)) => match (clients.limiter.accept_authenticated(), Link::unix(stream)) {
                    (None, Ok(link)) => reject(link, clients),
                    (Some(slot), Ok(link)) => {
                        let served = connection::serve(link, state.clone());
                        let connected = state.hub.metrics.connected(Transport::Unix);
                        clients.tracker.spawn(async move {
                            served.await;
                            drop((slot, connected));
                        });
                    }
                    (_, Err(error)) => tracing::warn!(%error, "cannot set up a connection"),
                },
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Returns true if the peer runs as this user. The socket's mode already ensures that, unless it is changed.
fn is_same_user(stream: &UnixStream) -> bool {
    let own = rustix::process::getuid().as_raw();
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == own => true,
        Ok(peer) => {
            tracing::warn!(uid = peer.uid(), "rejected a connection of another user");
            false
        }
        Err(error) => {
            tracing::warn!(%error, "rejected a connection whose user is unknown");
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
