//! Several connections to one upstream.
//!
//! Over HTTP/2 all requests share a connection, and an upstream takes so many at once on each (100, say): the next one would wait until
//! an answer ends, which takes minutes. So there are several lanes, each with connections of its own, and a request takes the first that
//! has room.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Requests of a lane at once: fewer than any upstream allows (RFC 9113 §6.5.2 recommends no less than 100).
pub(crate) const EACH: usize = 64;

/// Lanes with room for `EACH` requests.
#[derive(Debug)]
pub(crate) struct Lanes<T>(Vec<(T, Arc<AtomicUsize>)>);

/// A place in a lane; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Ticket(Arc<AtomicUsize>);

impl<T> Lanes<T> {
    /// As many lanes as `most` requests at once need.
    pub(crate) fn new(most: usize, lane: impl Fn() -> T) -> Lanes<T> {
        Lanes((0..most.div_ceil(EACH).max(1)).map(|_| (lane(), Arc::default())).collect())
    }

    /// The first lane with room; the emptiest if there is none.
    pub(crate) fn take(&self) -> (&T, Ticket) {
        let has_room = |taken: &AtomicUsize| {
            let one_more = |count: usize| (count < EACH).then_some(count + 1);
            taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
        };
        let free = self.0.iter().find(|(_, taken)| has_room(taken));
        let (lane, taken) = free.unwrap_or_else(|| {
            let emptiest = self.0.iter().min_by_key(|(_, taken)| taken.load(Ordering::Relaxed));
            let lane = emptiest.unwrap_or(&self.0[0]);
            lane.1.fetch_add(1, Ordering::Relaxed);
            lane
        });
        (lane, Ticket(taken.clone()))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_filled_before_the_next_one() {
        let number = AtomicUsize::new(0);
        let lanes = Lanes::new(2 * EACH - 1, || number.fetch_add(1, Ordering::Relaxed));
        let mut first: Vec<_> = (0..EACH).map(|_| lanes.take()).collect();
        assert!(first.iter().all(|(lane, _)| **lane == 0));
        let second: Vec<_> = (0..EACH).map(|_| lanes.take()).collect();
        assert!(second.iter().all(|(lane, _)| **lane == 1));
        drop(first.pop());
        assert_eq!(*lanes.take().0, 0, "a place that was given back");
        let _back = lanes.take();
        let (_, over) = lanes.take();
        drop((first, second, over));
        assert!(lanes.0.iter().all(|(_, taken)| taken.load(Ordering::Relaxed) <= 1));
    }
}
