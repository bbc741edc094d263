//! Tracks and limits the clients of a server over all transports.

use nerve_proxy::connection_limit::{ConnectionLimiter, ConnectionLimits};
use tokio_util::task::TaskTracker;

/// Maximum number of connections whose clients have not authenticated yet.
pub(crate) const MAX_UNAUTHENTICATED: usize = 256;

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

    /// Logs that a client is rejected and returns the error message for it.
    pub(crate) fn reject(&self) -> String {
        tracing::warn!(max = self.max, "too many connections: client rejected");
        format!("too many connections: the limit is {}", self.max)
    }
}
