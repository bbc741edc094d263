//! Tracks and limits the clients of a server over all transports.

use std::net::SocketAddr;
use std::time::Duration;

use nerve_types::connection_limit::{ConnectionLimiter, ConnectionLimits, ConnectionSlot};
use tokio_util::task::TaskTracker;

use crate::link::Link;

/// Maximum number of connections whose clients have not authenticated yet.
pub(crate) const MAX_UNAUTHENTICATED: usize = 256;
/// Time that a client gets to read its pending replies when its connection is closed.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A client that has connected but not authenticated yet.
pub(crate) struct PendingClient {
    pub(crate) link: Link,
    pub(crate) peer: SocketAddr,
    /// Until the client has authenticated, the connection may be evicted.
    pub(crate) slot: ConnectionSlot,
}

/// The connected clients of a server.
#[derive(Debug, Clone)]
pub(crate) struct Clients {
    /// Tracks one task per connection, authenticated or not.
    pub(crate) tracker: TaskTracker,
    pub(crate) limiter: ConnectionLimiter,
    max: usize,
}

impl Clients {
    /// Allows `max` clients at a time; unauthenticated connections have a limit of their own.
    pub(crate) fn new(max: usize) -> Clients {
        let limiter = ConnectionLimiter::new(ConnectionLimits {
            unauthenticated: MAX_UNAUTHENTICATED,
            authenticated: max,
            total: usize::MAX,
        });
        Clients { tracker: TaskTracker::new(), limiter, max }
    }

    /// Closes the tracker, and waits for clients to read their pending replies, for at most [`CLOSE_TIMEOUT`].
    pub(crate) async fn close(clients: &TaskTracker) {
        clients.close();
        if tokio::time::timeout(CLOSE_TIMEOUT, clients.wait()).await.is_err() {
            tracing::warn!(clients = clients.len(), "clients did not read their remaining messages");
        }
    }

    /// Logs that a client is rejected and returns the error message for it.
    pub(crate) fn reject(&self) -> String {
        tracing::warn!(max = self.max, "too many connections: client rejected");
        format!("too many connections: the limit is {}", self.max)
    }
}
