//! Spreads requests over several connections to one upstream.
//!
//! HTTP/2 multiplexes requests on one connection, but upstreams limit the concurrent streams, often to 100. Further
//! requests would wait minutes for an answer to end. The pool therefore has several clients, each with its own
//! connections, and uses the first one with a free stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Concurrent requests per client, below the limit of any upstream (RFC 9113 §6.5.2 recommends at least 100).
pub(crate) const STREAMS_PER_CONNECTION: usize = 64;

/// Clients with a count of their active requests, each up to [`STREAMS_PER_CONNECTION`].
#[derive(Debug)]
pub(crate) struct ConnectionPool<T>(Vec<(T, Arc<AtomicUsize>)>);

/// Counts a request as active until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit(Arc<AtomicUsize>);

impl<T> ConnectionPool<T> {
    /// Creates as many clients as `max_requests` concurrent requests need.
    pub(crate) fn new(max_requests: usize, client: impl Fn() -> T) -> ConnectionPool<T> {
        ConnectionPool(
            (0..max_requests.div_ceil(STREAMS_PER_CONNECTION).max(1))
                .map(|_| (client(), Arc::default()))
                .collect(),
        )
    }

    /// Returns the first client below its limit, otherwise the least busy one.
    pub(crate) fn acquire(&self) -> (&T, Permit) {
        let try_acquire = |active: &AtomicUsize| {
            let one_more = |count: usize| (count < STREAMS_PER_CONNECTION).then_some(count + 1);
            active.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
        };
        let free = self.0.iter().find(|(_, active)| try_acquire(active));
        let (client, active) = free.unwrap_or_else(|| {
            let least_busy = self.0.iter().min_by_key(|(_, active)| active.load(Ordering::Relaxed));
            let client = least_busy.unwrap_or(&self.0[0]);
            client.1.fetch_add(1, Ordering::Relaxed);
            client
        });
        (client, Permit(active.clone()))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_is_filled_before_the_next_one() {
        let number = AtomicUsize::new(0);
        let pool =
            ConnectionPool::new(2 * STREAMS_PER_CONNECTION - 1, || number.fetch_add(1, Ordering::Relaxed));
        let mut first: Vec<_> = (0..STREAMS_PER_CONNECTION).map(|_| pool.acquire()).collect();
        assert!(first.iter().all(|(client, _)| **client == 0));
        let second: Vec<_> = (0..STREAMS_PER_CONNECTION).map(|_| pool.acquire()).collect();
        assert!(second.iter().all(|(client, _)| **client == 1));
        drop(first.pop());
        assert_eq!(*pool.acquire().0, 0, "a released permit");
        let _back = pool.acquire();
        let (_, over) = pool.acquire();
        drop((first, second, over));
        assert!(pool.0.iter().all(|(_, active)| active.load(Ordering::Relaxed) <= 1));
    }
}
