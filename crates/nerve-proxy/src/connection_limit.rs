//! Limits the connections of a proxy, and the total of their concurrent requests.
//!
//! If all slots are taken, a new connection replaces the oldest unauthenticated one, which has not sent a complete head
//! or the token. Idle connections therefore cannot lock out others. Authenticated connections keep their slots.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Maximum number of connections, and of concurrent requests on all of them. HTTP/2 allows many requests per
/// connection.
pub(crate) const MAX_ACTIVE: usize = 256;
/// Time limit for the first authenticated request of a connection.
const AUTH_TIMEOUT: Duration = Duration::from_secs(10);

/// Limits connections and concurrent requests.
#[derive(Debug, Clone, Default)]
pub(crate) struct Limiter(Arc<Mutex<Occupancy>>);

#[derive(Debug, Default)]
struct Occupancy {
    last_id: u64,
    /// Slots in order of arrival. The token evicts a connection; authenticated connections have none.
    slots: BTreeMap<u64, Option<CancellationToken>>,
    /// Requests in flight.
    requests: usize,
}

/// The slot of a connection; released on drop.
#[derive(Debug)]
pub(crate) struct Slot {
    id: u64,
    evicted: CancellationToken,
    /// Number of requests in flight on this connection.
    requests: watch::Sender<usize>,
    limiter: Limiter,
}

/// The permit of a request; released on drop.
#[derive(Debug)]
pub(crate) struct RequestPermit(Arc<Slot>);

impl Limiter {
    /// Returns a slot for a new connection, or `None` if authenticated connections hold all slots.
    pub(crate) fn acquire(&self) -> Option<Slot> {
        let mut occupancy = self.lock();
        if occupancy.slots.len() >= MAX_ACTIVE {
            let (id, oldest) = occupancy.slots.iter().find_map(|(id, slot)| Some((*id, slot.clone()?)))?;
            occupancy.slots.remove(&id);
            oldest.cancel();
        }
        occupancy.last_id += 1;
        let (id, evicted) = (occupancy.last_id, CancellationToken::new());
        occupancy.slots.insert(id, Some(evicted.clone()));
        drop(occupancy);
        Some(Slot { id, evicted, requests: watch::Sender::new(0), limiter: self.clone() })
    }

    /// No code panics while it holds this lock, and the counts would still be valid.
    fn lock(&self) -> MutexGuard<'_, Occupancy> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// Protects the connection from eviction.
    pub(crate) fn mark_authenticated(&self) {
        if let Some(slot) = self.limiter.lock().slots.get_mut(&self.id) {
            *slot = None;
        }
    }

    /// Returns a permit for a request, or `None` at the limit.
    pub(crate) fn acquire_request(self: &Arc<Slot>) -> Option<RequestPermit> {
        let mut occupancy = self.limiter.lock();
        if occupancy.requests >= MAX_ACTIVE {
            return None;
        }
        occupancy.requests += 1;
        drop(occupancy);
        self.requests.send_modify(|requests| *requests += 1);
        Some(RequestPermit(self.clone()))
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
        if tokio::time::timeout(AUTH_TIMEOUT, self.evicted.cancelled()).await.is_ok() {
            return;
        }
        if matches!(self.limiter.lock().slots.get(&self.id), Some(None)) {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.limiter.lock().slots.remove(&self.id);
    }
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        self.0.limiter.lock().requests -= 1;
        self.0.requests.send_modify(|requests| *requests -= 1);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[test]
    fn requests_are_limited_across_connections() {
        let slots = Limiter::default();
        let (one, other) = (Arc::new(slots.acquire().unwrap()), Arc::new(slots.acquire().unwrap()));
        let mut limiter: Vec<RequestPermit> =
            (0..MAX_ACTIVE).map(|_| one.acquire_request().unwrap()).collect();
        assert!(one.acquire_request().is_none() && other.acquire_request().is_none());
        limiter.pop();
        let last_id = other.acquire_request().unwrap();
        assert!(one.acquire_request().is_none());
        drop((limiter, last_id));
        assert!(slots.lock().requests == 0 && one.acquire_request().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn idle_only_after_time_without_requests() {
        let slot = Arc::new(Limiter::default().acquire().unwrap());
        let started = tokio::time::Instant::now();
        let second = Duration::from_secs(1);
        let mut wait_idle = std::pin::pin!(slot.wait_idle(second * 10));
        let mut is_quiet_within = async |time| timeout(time, wait_idle.as_mut()).await.is_ok();
        for _ in 0..3 {
            assert!(!is_quiet_within(second * 9).await);
            let permit = slot.acquire_request();
            assert!(!is_quiet_within(second * 100).await);
            drop(permit);
        }
        assert!(is_quiet_within(second * 11).await);
        assert!(started.elapsed().abs_diff(second * (3 * 109 + 10)) < second, "{:?}", started.elapsed());
    }

    #[test]
    fn oldest_unauthenticated_connection_is_evicted() {
        let slots = Limiter::default();
        let limiter: Vec<Slot> = (0..MAX_ACTIVE).map(|_| slots.acquire().unwrap()).collect();
        limiter[0].mark_authenticated();
        let late = slots.acquire().unwrap();
        let is_out = |slot: &Slot| slot.evicted.is_cancelled();
        assert!(!is_out(&limiter[0]) && is_out(&limiter[1]) && !is_out(&limiter[2]) && !is_out(&late));
        limiter.iter().chain([&late]).for_each(Slot::mark_authenticated);
        assert!(slots.acquire().is_none(), "authenticated connections stay");
        // An evicted connection has no slot to release.
        let mut limiter = limiter;
        drop(limiter.remove(1));
        assert!(slots.acquire().is_none());
        drop(late);
        assert!(slots.acquire().is_some());
        drop(limiter);
        assert!(slots.lock().slots.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn unauthenticated_connection_times_out() {
        let slots = Limiter::default();
        let (silent, authenticated) = (slots.acquire().unwrap(), slots.acquire().unwrap());
        authenticated.mark_authenticated();
        let started = tokio::time::Instant::now();
        silent.wait_evicted().await;
        assert!(started.elapsed().abs_diff(AUTH_TIMEOUT) < Duration::from_millis(100));
        assert!(tokio::time::timeout(AUTH_TIMEOUT * 10, authenticated.wait_evicted()).await.is_err());
    }
}
