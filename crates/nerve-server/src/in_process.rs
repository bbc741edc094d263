//! An engine served to one client in the same process: over a pair of sockets that are in no folder.

use std::io;
use std::sync::Arc;

use nerve_core::engine::Engine;
use tokio::net::UnixStream;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use crate::connection::{self, Link};
use crate::server::{forward_events, shut_down_nodes};
use crate::state::ServerState;

/// A server for one client. It ends when its client leaves or sends SHUTDOWN; then all nodes are stopped. Dropping this does not end
/// it.
#[derive(Debug)]
pub struct InProcess {
    state: Arc<ServerState>,
    task: JoinHandle<()>,
}

/// Serves an engine to the client that gets the stream: the same wire as over a server's socket. Must be called within a tokio runtime.
///
/// # Errors
/// The system has no more descriptors.
pub fn serve_in_process(engine: Engine) -> io::Result<(UnixStream, InProcess)> {
    let (client, server) = UnixStream::pair()?;
    let state = Arc::new(ServerState::new(engine));
    let task = tokio::spawn(serve(Link::unix(server)?, state.clone()));
    Ok((client, InProcess { state, task }))
}

impl InProcess {
    /// Waits for the end, until all nodes are stopped.
    pub async fn ended(self) {
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the server in this process failed");
        }
    }

    /// Ends it: stops all nodes, or with `keep_nodes` leaves those that run in hosts. The client gets the answers that are due.
    pub async fn stop(self, keep_nodes: bool) {
        self.state.shut_down(keep_nodes);
        self.ended().await;
    }
}

async fn serve(link: Link, state: Arc<ServerState>) {
    let clients = TaskTracker::new();
    let forwarding = tokio::spawn(forward_events(state.clone()));
    let connection = clients.spawn(connection::serve(link, state.clone()));
    tokio::select! {
        _ = connection => {}
        () = state.stopping.cancelled() => {}
    }
    shut_down_nodes(&state, &clients).await;
    forwarding.abort();
}
