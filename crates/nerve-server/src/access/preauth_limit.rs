//! Limits the connections whose clients have not authenticated yet.
//!
//! When all slots are taken, a new connection evicts another one: the oldest of the subnet that holds the
//! most slots. A client that opens many connections therefore evicts its own, and one that authenticates at
//! once is served however many others are waiting.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use super::subnet::Subnet;

/// Maximum number of unauthenticated connections.
pub(crate) const MAX_SLOTS: usize = 256;

/// Hands out the slots.
#[derive(Debug, Clone, Default)]
pub(crate) struct PreauthLimiter(Arc<Mutex<Slots>>);

#[derive(Debug, Default)]
struct Slots {
    last: u64,
    /// Connections by number, and thereby in order of arrival.
    by_number: BTreeMap<u64, (Subnet, CancellationToken)>,
}

/// The slot of one unauthenticated connection. Dropping it frees the slot.
#[derive(Debug)]
pub(crate) struct PreauthSlot {
    number: u64,
    evicted: CancellationToken,
    limiter: PreauthLimiter,
}

impl PreauthLimiter {
    /// Takes a slot. The flag is true if another connection had to be evicted for it.
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

    /// Returns the number of slots in use.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.lock().by_number.len()
    }

    /// The slots stay consistent even if the lock is poisoned.
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
    /// Returns a token that is cancelled when the slot is evicted: the connection must be closed.
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
    fn evicts_oldest_slot_of_largest_subnet() {
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
    fn dropped_slot_is_free_and_cannot_be_evicted() {
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
