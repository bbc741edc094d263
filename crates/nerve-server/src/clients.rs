//! How many clients a server has, whichever way they came.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;

use crate::access::Strangers;

/// The clients of a server.
#[derive(Debug, Clone)]
pub(crate) struct Clients {
    /// One task for each, strangers too.
    pub(crate) tracker: TaskTracker,
    /// Those that have not shown a token yet. They are bounded by themselves and take no place of another.
    pub(crate) strangers: Strangers,
    most: usize,
    places: Arc<Semaphore>,
}

/// A client's place, until this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _permit: OwnedSemaphorePermit,
}

impl Clients {
    /// `most` at one time, strangers not counted.
    pub(crate) fn new(most: usize) -> Clients {
        let most = most.min(Semaphore::MAX_PERMITS);
        let (tracker, strangers) = (TaskTracker::new(), Strangers::default());
        Clients { tracker, strangers, most, places: Arc::new(Semaphore::new(most)) }
    }

    /// A place for one more, if there is one.
    pub(crate) fn place(&self) -> Option<Place> {
        let permit = self.places.clone().try_acquire_owned().ok()?;
        Some(Place { _permit: permit })
    }

    /// What one more is told.
    pub(crate) fn too_many(&self) -> String {
        tracing::warn!(most = self.most, "too many connections: one was turned away");
        format!("too many connections: the server takes {}", self.most)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn there_are_never_more_than_there_are_places_for() {
        let (clients, most) = (Clients::new(3), 3);
        let (inside, seen, begin) = (AtomicUsize::new(0), AtomicUsize::new(0), Barrier::new(8));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    begin.wait();
                    for _ in 0..2000 {
                        let Some(place) = clients.place() else { continue };
                        seen.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(place);
                    }
                });
            }
        });
        assert!((1..=most).contains(&seen.load(Ordering::SeqCst)));
        let places: Vec<Place> = std::iter::from_fn(|| clients.place()).collect();
        assert_eq!(places.len(), most);
    }
}
