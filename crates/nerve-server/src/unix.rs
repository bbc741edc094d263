//! The Unix socket: accepts connections of the same user, up to a limit.

use nerve_api::ErrorKind;
use std::io;
use std::os::unix::net::UnixListener as StdListener;
use std::path::Path;
use std::sync::Arc;

use tokio::net::{UnixListener, UnixStream};

use crate::clients::{CLOSE_TIMEOUT, Clients};
use crate::error::ServerError;
use crate::line::error_line;
use crate::link::{self, Link};
use crate::metrics::Transport;
use crate::refusal::{ACCEPT_PAUSE, NO_DESCRIPTOR, SpareDescriptor, refuse};
use crate::state::ServerState;
use crate::{client_origin, connection};

/// The listening Unix socket.
pub(crate) struct Listener(UnixListener);

impl Listener {
    /// Registers the listener. Must be called within a tokio runtime.
    pub(crate) fn new(listener: StdListener, socket: &Path) -> Result<Listener, ServerError> {
        UnixListener::from_std(listener).map(Listener).map_err(ServerError::io("listen on", socket))
    }

    /// Accepts clients until the future is dropped.
    pub(crate) async fn accept(&self, state: &Arc<ServerState>, clients: &Clients) {
        let (mut spare, no_descriptor) =
            (SpareDescriptor::open(), error_line(NO_DESCRIPTOR, ErrorKind::Busy));
        loop {
            let stream = match self.next().await {
                Ok(stream) => stream,
                Err(error) => {
                    spare.recover(&error, self.next(), &no_descriptor).await;
                    continue;
                }
            };
            let Some(slot) = clients.limiter.accept_authenticated() else {
                let error = error_line(clients.reject(), ErrorKind::Busy);
                tokio::spawn(async move { refuse(stream, &error, CLOSE_TIMEOUT).await });
                continue;
            };
            let Some(watch) = link::watch(&stream) else {
                refuse(stream, &no_descriptor, ACCEPT_PAUSE).await;
                continue;
            };
            let origin = client_origin::unix(&stream);
            let served = connection::serve(Link::unix(stream, watch), None, state.clone());
            let connected = state.hub.metrics.count_connection(Transport::Unix);
            clients.tracker.spawn(async move {
                client_origin::scope(origin, served).await;
                drop((slot, connected));
            });
        }
    }

    /// Accepts the next connection of this user.
    async fn next(&self) -> io::Result<UnixStream> {
        loop {
            let (stream, _) = self.0.accept().await?;
            if is_same_user(&stream) {
                return Ok(stream);
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
