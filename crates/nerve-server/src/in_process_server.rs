//! Serves an engine to one client in the same process, over an unnamed pair of sockets.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use nerve_engine::Engine;
use tokio::net::UnixStream;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use crate::connection;
use crate::link::Link;
use crate::server::{publish_events, shut_down_nodes};
use crate::state::ServerState;

/// A server for one client in this process. It ends when the client leaves or sends SHUTDOWN, and then stops
/// all nodes. Dropping the handle does not end it.
#[derive(Debug)]
pub struct InProcessServer {
    state: Arc<ServerState>,
    task: JoinHandle<()>,
}

/// Starts a server and returns the client's end of the stream, which speaks the same protocol as a server's
/// socket. Must be called within a tokio runtime.
///
/// # Errors
/// Returns an error if the system has no free file descriptors.
pub fn serve_in_process(engine: Engine) -> io::Result<(UnixStream, InProcessServer)> {
    let (client, server) = UnixStream::pair()?;
    let state = Arc::new(ServerState::new(engine));
    let watch = server.as_fd().try_clone_to_owned()?;
    let task = tokio::spawn(serve(Link::unix(server, watch), state.clone()));
    Ok((client, InProcessServer { state, task }))
}

impl InProcessServer {
    /// Waits until the server has ended and all nodes are stopped.
    pub async fn ended(self) {
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the server in this process failed");
        }
    }

    /// Ends the server. Stops all nodes, or with `keep_nodes` leaves those that run in hosts. Pending replies are sent.
    pub async fn stop(self, keep_nodes: bool) {
        self.state.shut_down(keep_nodes);
        self.ended().await;
    }
}

async fn serve(link: Link, state: Arc<ServerState>) {
    let clients = TaskTracker::new();
    let publisher = tokio::spawn(publish_events(state.clone()));
    let connection = clients.spawn(connection::serve(link, None, state.clone()));
    tokio::select! {
        _ = connection => {}
        () = state.stopping.cancelled() => {}
    }
    shut_down_nodes(&state, &clients).await;
    publisher.abort();
}
