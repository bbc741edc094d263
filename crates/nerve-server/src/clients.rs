//! Counts and limits the clients of a server over all transports.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;

use crate::access::PreauthLimiter;

/// The connected clients of a server.
#[derive(Debug, Clone)]
pub(crate) struct Clients {
    /// Tracks one task per connection, authenticated or not.
    pub(crate) tracker: TaskTracker,
    /// Connections that are not authenticated yet. They have a limit of their own.
    pub(crate) preauth: PreauthLimiter,
    max: usize,
    slots: Arc<Semaphore>,
}

/// The slot of one client. Dropping it frees the slot.
#[derive(Debug)]
pub(crate) struct ClientSlot {
    _permit: OwnedSemaphorePermit,
}

impl Clients {
    /// Allows `max` clients at a time; unauthenticated connections do not count.
    pub(crate) fn new(max: usize) -> Clients {
        let max = max.min(Semaphore::MAX_PERMITS);
        let (tracker, preauth) = (TaskTracker::new(), PreauthLimiter::default());
        Clients { tracker, preauth, max, slots: Arc::new(Semaphore::new(max)) }
    }

    /// Takes a slot if one is free.
    pub(crate) fn try_acquire(&self) -> Option<ClientSlot> {
        let permit = self.slots.clone().try_acquire_owned().ok()?;
        Some(ClientSlot { _permit: permit })
    }

    /// Logs that a client is rejected and returns the error message for it.
    pub(crate) fn reject(&self) -> String {
        tracing::warn!(max = self.max, "too many connections: client rejected");
        format!("too many connections: the limit is {}", self.max)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn number_of_slots_is_never_exceeded() {
        let (clients, max) = (Clients::new(3), 3);
        let (active, peak, begin) = (AtomicUsize::new(0), AtomicUsize::new(0), Barrier::new(8));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    begin.wait();
                    for _ in 0..2000 {
                        let Some(try_acquire) = clients.try_acquire() else { continue };
                        peak.fetch_max(active.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        active.fetch_sub(1, Ordering::SeqCst);
                        drop(try_acquire);
                    }
                });
            }
        });
        assert!((1..=max).contains(&peak.load(Ordering::SeqCst)));
        let slots: Vec<ClientSlot> = std::iter::from_fn(|| clients.try_acquire()).collect();
        assert_eq!(slots.len(), max);
    }
}
