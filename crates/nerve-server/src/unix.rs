//! The Unix socket: accepts connections of the same user, up to a limit.

use std::fs::File;
use std::io;
use std::os::unix::net::UnixListener as StdListener;
use std::path::Path;
use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};

use crate::clients::{ACCEPT_PAUSE, CLOSE_TIMEOUT, Clients};
use crate::error::ServerError;
use crate::line::error_line;
use crate::link::Link;
use crate::metrics::Transport;
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
        let mut spare = SpareDescriptor::open();
        loop {
            match self.0.accept().await {
                Ok((stream, _)) if !is_same_user(&stream) => drop(stream),
                Ok((stream, _)) => match (
                    client_origin::unix(&stream),
                    clients.limiter.accept_authenticated(),
                    Link::unix(stream),
                ) {
                    (_, None, Ok(link)) => reject(link, clients),
                    (origin, Some(slot), Ok(link)) => {
                        let served = client_origin::scope(origin, connection::serve(link, state.clone()));
                        let connected = state.hub.metrics.connected(Transport::Unix);
                        clients.tracker.spawn(async move {
                            served.await;
                            drop((slot, connected));
                        });
                    }
                    (_, _, Err(error)) => tracing::warn!(%error, "cannot set up a connection"),
                },
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    if !(is_out_of_descriptors(&error) && spare.reject_next(&self.0).await) {
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        }
    }
}

/// A file descriptor that is kept free for the rejection of a connection when no other is left.
struct SpareDescriptor(Option<File>);

impl SpareDescriptor {
    fn open() -> SpareDescriptor {
        SpareDescriptor(File::open("/dev/null").ok())
    }

    /// Accepts the next connection, answers with an error and closes it. Returns false if that is impossible now.
    async fn reject_next(&mut self, listener: &UnixListener) -> bool {
        let is_free = self.0.take().is_some();
        let rejected = async {
            let (mut stream, _) = listener.accept().await?;
            if is_same_user(&stream) {
                stream
                    .write_all(&error_line("too many connections: the server has no file descriptor left"))
                    .await?;
            }
            Ok::<(), io::Error>(())
        };
        let is_rejected = is_free && matches!(tokio::time::timeout(ACCEPT_PAUSE, rejected).await, Ok(Ok(())));
        *self = SpareDescriptor::open();
        is_rejected
    }
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
    matches!(code, Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE))
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
    let line = error_line(clients.reject());
    tokio::spawn(async move {
        let mut write = link.write;
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, write.write_all(&line)).await;
    });
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn connection_is_answered_with_the_spare_descriptor() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let mut spare = SpareDescriptor::open();
        for _ in 0..3 {
            let mut client = UnixStream::connect(&path).await.unwrap();
            assert!(spare.reject_next(&listener).await);
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            assert!(answer.contains("no file descriptor left") && answer.ends_with('\n'), "{answer:?}");
        }
        assert!(!spare.reject_next(&listener).await, "no connection is waiting");
        assert!(!SpareDescriptor(None).reject_next(&listener).await);
    }

    #[test]
    fn only_missing_descriptors_are_recognised() {
        assert!(is_out_of_descriptors(&rustix::io::Errno::MFILE.into()));
        assert!(!is_out_of_descriptors(&rustix::io::Errno::CONNABORTED.into()));
    }
}
