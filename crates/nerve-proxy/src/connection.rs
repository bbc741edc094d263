//! A client's connection to a proxy, and its requests in flight.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use nerve_types::connection_limit::{ConnectionLimits, ConnectionSlot};

/// Maximum number of connections, and of concurrent requests on all of them. HTTP/2 allows many requests per
/// connection.
pub(crate) const MAX_ACTIVE: usize = 256;
/// Limits of the connections. Authenticated ones may hold all slots.
pub(crate) const LIMITS: ConnectionLimits =
    ConnectionLimits { unauthenticated: MAX_ACTIVE, authenticated: MAX_ACTIVE, total: MAX_ACTIVE };
/// Time limit for the first authenticated request of a connection.
const AUTH_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection with its slot.
#[derive(Debug)]
pub(crate) struct Connection {
    slot: ConnectionSlot,
    /// Permits of all connections' requests.
    permits: Arc<Semaphore>,
    /// Number of requests in flight on this connection.
    requests: watch::Sender<usize>,
}

/// The permit of a request; released on drop.
#[derive(Debug)]
pub(crate) struct RequestPermit {
    connection: Arc<Connection>,
    _permit: OwnedSemaphorePermit,
}

impl Connection {
    pub(crate) fn new(slot: ConnectionSlot, permits: Arc<Semaphore>) -> Connection {
        Connection { slot, permits, requests: watch::Sender::new(0) }
    }

    /// Protects the connection from eviction.
    pub(crate) fn mark_authenticated(&self) {
        self.slot.authenticate();
    }

    /// Returns a permit for a request, or `None` at the limit.
    pub(crate) fn acquire_request(self: &Arc<Connection>) -> Option<RequestPermit> {
        let permit = self.permits.clone().try_acquire_owned().ok()?;
        self.requests.send_modify(|requests| *requests += 1);
        Some(RequestPermit { connection: self.clone(), _permit: permit })
    }

    /// Completes when no request was in flight for `time`.
    pub(crate) async fn wait_idle(&self, time: Duration) {
        // Cannot fail: `self` keeps the sender alive.
        let mut requests = self.requests.subscribe();
        loop {
            if requests.wait_for(|requests| *requests == 0).await.is_err()
                || tokio::time::timeout(time, requests.wait_for(|requests| *requests > 0)).await.is_err()
            {
                return;
            }
        }
    }

    /// Completes when the connection must be closed: it was evicted, or not authenticated in time.
    pub(crate) async fn wait_evicted(&self) {
        let evicted = tokio::time::timeout(AUTH_TIMEOUT, self.slot.evicted().cancelled_owned()).await;
        if evicted.is_err() && self.slot.is_authenticated() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        self.connection.requests.send_modify(|requests| *requests -= 1);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use tokio::time::timeout;

    use super::*;
    use nerve_types::connection_limit::ConnectionLimiter;

    /// Creates two connections that share their limits.
    fn connections() -> [Arc<Connection>; 2] {
        let (limiter, permits) = (ConnectionLimiter::new(LIMITS), Arc::new(Semaphore::new(MAX_ACTIVE)));
        [(); 2].map(|()| {
            let (slot, _) = limiter.accept(IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap();
            Arc::new(Connection::new(slot, permits.clone()))
        })
    }

    #[test]
    fn requests_are_limited_across_connections() {
        let [one, other] = connections();
        let mut permits: Vec<RequestPermit> =
            (0..MAX_ACTIVE).map(|_| one.acquire_request().unwrap()).collect();
        assert!(one.acquire_request().is_none() && other.acquire_request().is_none());
        permits.pop();
        let last = other.acquire_request().unwrap();
        assert!(one.acquire_request().is_none());
        drop((permits, last));
        assert!(one.permits.available_permits() == MAX_ACTIVE && one.acquire_request().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn idle_only_after_time_without_requests() {
        let [connection, _] = connections();
        let started = tokio::time::Instant::now();
        let second = Duration::from_secs(1);
        let mut wait_idle = std::pin::pin!(connection.wait_idle(second * 10));
        let mut is_quiet_within = async |time| timeout(time, wait_idle.as_mut()).await.is_ok();
        for _ in 0..3 {
            assert!(!is_quiet_within(second * 9).await);
            let permit = connection.acquire_request();
            assert!(!is_quiet_within(second * 100).await);
            drop(permit);
        }
        assert!(is_quiet_within(second * 11).await);
        assert!(started.elapsed().abs_diff(second * (3 * 109 + 10)) < second, "{:?}", started.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn unauthenticated_connection_times_out() {
        let [silent, authenticated] = connections();
        authenticated.mark_authenticated();
        let started = tokio::time::Instant::now();
        silent.wait_evicted().await;
        assert!(started.elapsed().abs_diff(AUTH_TIMEOUT) < Duration::from_millis(100));
        assert!(timeout(AUTH_TIMEOUT * 10, authenticated.wait_evicted()).await.is_err());
    }
}
