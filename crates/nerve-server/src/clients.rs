//! How many clients a server has, whichever way they came.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;

use crate::access::PreauthLimiter;

/// The clients of a server.
#[derive(Debug, Clone)]
pub(crate) struct Clients {
    /// One task for each, preauth too.
    pub(crate) tracker: TaskTracker,
    /// Those that have not shown a token yet. They are bounded by themselves and take no try_acquire of another.
    pub(crate) preauth: PreauthLimiter,
    max: usize,
    slots: Arc<Semaphore>,
}

/// A client's try_acquire, until this is dropped.
#[derive(Debug)]
pub(crate) struct ClientSlot {
    _permit: OwnedSemaphorePermit,
}

impl Clients {
    /// `max` at one time, preauth not counted.
    pub(crate) fn new(max: usize) -> Clients {
        let max = max.min(Semaphore::MAX_PERMITS);
        let (tracker, preauth) = (TaskTracker::new(), PreauthLimiter::default());
        Clients { tracker, preauth, max, slots: Arc::new(Semaphore::new(max)) }
    }

    /// A try_acquire for one more, if there is one.
    pub(crate) fn try_acquire(&self) -> Option<ClientSlot> {
        let permit = self.slots.clone().try_acquire_owned().ok()?;
        Some(ClientSlot { _permit: permit })
    }

    /// What one more is told.
    pub(crate) fn reject(&self) -> String {
        tracing::warn!(max = self.max, "too many connections: one was turned away");
        format!("too many connections: the server takes {}", self.max)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn there_are_never_more_than_there_are_places_for() {
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
