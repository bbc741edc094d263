//! Connections whose client has not shown a token yet.
//!
//! There are few by_number for them. When limiter are taken, a new one gets the place of another: of the network that has most of them, the one
//! that has stood longest. So whoever opens connections and leaves them pushes out his own, and a client that shows its token at once
//! comes in however many stand there.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use super::subnet::Subnet;

/// At one time.
pub(crate) const MAX_SLOTS: usize = 256;

/// The by_number, and who stands there.
#[derive(Debug, Clone, Default)]
pub(crate) struct PreauthLimiter(Arc<Mutex<Slots>>);

#[derive(Debug, Default)]
struct Slots {
    last: u64,
    /// In the order they came.
    by_number: BTreeMap<u64, (Subnet, CancellationToken)>,
}

/// A client that has not shown a token yet. It is a slot until this is dropped.
#[derive(Debug)]
pub(crate) struct PreauthSlot {
    number: u64,
    evicted: CancellationToken,
    limiter: PreauthLimiter,
}

impl PreauthLimiter {
    /// A place for one more; `true` if another had to go for it.
    pub(crate) fn acquire(&self, from: IpAddr) -> (PreauthSlot, bool) {
        let mut slots = self.lock();
        let full = slots.by_number.len() >= MAX_SLOTS;
        if let Some(number) = full.then(|| slots.oldest_of_largest_subnet()).flatten()
            && let Some((_, evicted)) = slots.by_number.remove(&number)
        {
            evicted.cancel();
        }
        slots.last += 1;
        let (number, evicted) = (slots.last, CancellationToken::new());
        slots.by_number.insert(number, (from.into(), evicted.clone()));
        (PreauthSlot { number, evicted, limiter: self.clone() }, full)
    }

    /// How many there are.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.lock().by_number.len()
    }

    /// No code panics while it holds this lock; if it did, the by_number would still be right.
    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slots {
    fn oldest_of_largest_subnet(&self) -> Option<u64> {
        let mut counts: HashMap<Subnet, usize> = HashMap::new();
        for (subnet, _) in self.by_number.values() {
            *counts.entry(*subnet).or_default() += 1;
        }
        let most = counts.values().copied().max()?;
        self.by_number
            .iter()
            .find(|(_, (subnet, _))| counts.get(subnet) == Some(&most))
            .map(|(number, _)| *number)
    }
}

impl PreauthSlot {
    /// Cancelled when its place is needed for another: the connection is to be closed.
    pub(crate) fn evicted(&self) -> CancellationToken {
        self.evicted.clone()
    }
}

impl Drop for PreauthSlot {
    fn drop(&mut self) {
        self.limiter.lock().by_number.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn who_has_most_places_loses_the_oldest_of_them() {
        let limiter = PreauthLimiter::default();
        let other_subnet = limiter.acquire(address(1)).0;
        let many: Vec<PreauthSlot> = (1..MAX_SLOTS).map(|_| limiter.acquire(address(2)).0).collect();
        assert!(many.iter().chain([&other_subnet]).all(|slot| !slot.evicted().is_cancelled()));
        let (newest, has_evicted) = limiter.acquire(address(3));
        assert!(has_evicted && limiter.len() == MAX_SLOTS);
        assert!(many[0].evicted().is_cancelled() && !many[1].evicted().is_cancelled());
        assert!(!other_subnet.evicted().is_cancelled() && !newest.evicted().is_cancelled());
    }

    #[test]
    fn who_comes_in_frees_a_place_and_is_not_pushed_out_any_more() {
        let limiter = PreauthLimiter::default();
        let (first, _) = limiter.acquire(address(1));
        let evicted = first.evicted();
        drop(first);
        assert_eq!(limiter.len(), 0);
        let slots: Vec<PreauthSlot> = (0..2 * MAX_SLOTS).map(|_| limiter.acquire(address(1)).0).collect();
        assert!(!evicted.is_cancelled());
        assert_eq!(limiter.len(), MAX_SLOTS);
        drop(slots);
        assert_eq!(limiter.len(), 0);
    }
}
