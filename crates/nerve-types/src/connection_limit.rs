//! Limits the connections of a listener.
//!
//! When all slots are taken, a new connection evicts an unauthenticated one: the oldest of the subnet that holds the
//! most. A client that opens many connections therefore evicts its own, and one that authenticates at once is served
//! however many others are idle. Authenticated connections keep their slots.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Maximum numbers of connections.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// Connections whose clients have not authenticated yet.
    pub unauthenticated: usize,
    /// Connections of authenticated clients.
    pub authenticated: usize,
    /// Sum of both.
    pub total: usize,
}

/// Hands out the slots of connections.
#[derive(Debug, Clone)]
pub struct ConnectionLimiter(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limits: ConnectionLimits,
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    last: u64,
    /// Connections by number, and thereby in order of arrival. The token evicts them.
    unauthenticated: BTreeMap<u64, (Subnet, CancellationToken)>,
    authenticated: BTreeSet<u64>,
}

/// The slot of one connection. Dropping it frees the slot.
#[derive(Debug)]
pub struct ConnectionSlot {
    number: u64,
    evicted: CancellationToken,
    limiter: ConnectionLimiter,
}

impl ConnectionLimiter {
    /// Creates a limiter without connections.
    pub fn new(limits: ConnectionLimits) -> ConnectionLimiter {
        ConnectionLimiter(Arc::new(Inner { limits, slots: Mutex::default() }))
    }

    /// Returns a slot for a new connection, or `None` if authenticated connections hold all slots. The flag is true if
    /// another connection was evicted.
    pub fn accept(&self, from: IpAddr) -> Option<(ConnectionSlot, bool)> {
        let limits = &self.0.limits;
        let mut slots = self.0.slots.lock();
        let is_full = slots.unauthenticated.len() >= limits.unauthenticated || slots.len() >= limits.total;
        if is_full {
            let oldest = slots.oldest_of_largest_subnet()?;
            let (_, evicted) = slots.unauthenticated.remove(&oldest)?;
            evicted.cancel();
        }
        let (number, evicted) = (slots.next(), CancellationToken::new());
        slots.unauthenticated.insert(number, (from.into(), evicted.clone()));
        Some((ConnectionSlot { number, evicted, limiter: self.clone() }, is_full))
    }

    /// Returns a slot for a connection that needs no authentication, or `None` at the limit.
    pub fn accept_authenticated(&self) -> Option<ConnectionSlot> {
        let limits = &self.0.limits;
        let mut slots = self.0.slots.lock();
        if slots.authenticated.len() >= limits.authenticated || slots.len() >= limits.total {
            return None;
        }
        let number = slots.next();
        slots.authenticated.insert(number);
        Some(ConnectionSlot { number, evicted: CancellationToken::new(), limiter: self.clone() })
    }
}

impl Slots {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn len(&self) -> usize {
        self.unauthenticated.len() + self.authenticated.len()
    }

    fn oldest_of_largest_subnet(&self) -> Option<u64> {
        let mut counts: HashMap<Subnet, usize> = HashMap::new();
        for (subnet, _) in self.unauthenticated.values() {
            *counts.entry(*subnet).or_default() += 1;
        }
        let largest_count = counts.values().copied().max()?;
        self.unauthenticated
            .iter()
            .find(|(_, (subnet, _))| counts.get(subnet) == Some(&largest_count))
            .map(|(number, _)| *number)
    }
}

impl ConnectionSlot {
    /// Protects the connection from eviction. Returns false, without effect, if there are too many authenticated
    /// connections or this one was evicted.
    pub fn authenticate(&self) -> bool {
        let mut slots = self.limiter.0.slots.lock();
        if slots.authenticated.contains(&self.number) {
            return true;
        }
        let is_full = slots.authenticated.len() >= self.limiter.0.limits.authenticated;
        if is_full || slots.unauthenticated.remove(&self.number).is_none() {
            return false;
        }
        slots.authenticated.insert(self.number)
    }

    /// Returns true if the connection keeps its slot.
    pub fn is_authenticated(&self) -> bool {
        self.limiter.0.slots.lock().authenticated.contains(&self.number)
    }

    /// Returns a token that is cancelled when the slot is evicted: the connection must be closed.
    pub fn evicted(&self) -> CancellationToken {
        self.evicted.clone()
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut slots = self.limiter.0.slots.lock();
        slots.unauthenticated.remove(&self.number);
        slots.authenticated.remove(&self.number);
    }
}

/// The network that a client counts for, so that a client with many addresses counts once: an IPv4 address, or the /64
/// of an IPv6 address, which is what one customer usually gets (RFC 6177).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Subnet(IpAddr);

impl From<IpAddr> for Subnet {
    fn from(address: IpAddr) -> Subnet {
        match address.to_canonical() {
            IpAddr::V6(address) => Subnet(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into()),
            address => Subnet(address),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const MAX: usize = 8;

    fn limiter(authenticated: usize, total: usize) -> ConnectionLimiter {
        ConnectionLimiter::new(ConnectionLimits { unauthenticated: MAX, authenticated, total })
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn accept(limiter: &ConnectionLimiter, last: u8) -> ConnectionSlot {
        limiter.accept(address(last)).unwrap().0
    }

    fn is_evicted(slot: &ConnectionSlot) -> bool {
        slot.evicted().is_cancelled()
    }

    fn count(limiter: &ConnectionLimiter) -> usize {
        limiter.0.slots.lock().len()
    }

    #[test]
    fn oldest_slot_of_largest_subnet_is_evicted() {
        let limiter = limiter(1, usize::MAX);
        let other_subnet = accept(&limiter, 1);
        let many: Vec<ConnectionSlot> = (1..MAX).map(|_| accept(&limiter, 2)).collect();
        assert!(!many.iter().chain([&other_subnet]).any(is_evicted));
        let (newest, has_evicted) = limiter.accept(address(3)).unwrap();
        assert!(has_evicted && count(&limiter) == MAX);
        assert!(is_evicted(&many[0]) && !is_evicted(&many[1]));
        assert!(!is_evicted(&other_subnet) && !is_evicted(&newest));
        assert!(!many[0].authenticate(), "an evicted connection is to be closed");
    }

    #[test]
    fn dropped_slot_is_free_and_cannot_be_evicted() {
        let limiter = limiter(1, usize::MAX);
        let first = accept(&limiter, 1);
        let evicted = first.evicted();
        drop(first);
        assert_eq!(count(&limiter), 0);
        let slots: Vec<ConnectionSlot> = (0..2 * MAX).map(|_| accept(&limiter, 1)).collect();
        assert!(!evicted.is_cancelled());
        assert_eq!(count(&limiter), MAX);
        drop(slots);
        assert_eq!(count(&limiter), 0);
    }

    #[test]
    fn authenticated_connections_keep_shared_slots() {
        let limiter = limiter(MAX, MAX);
        let mut slots: Vec<ConnectionSlot> = (0..MAX).map(|_| accept(&limiter, 1)).collect();
        assert!(slots[0].authenticate() && slots[0].is_authenticated());
        let late = accept(&limiter, 1);
        assert!(!is_evicted(&slots[0]) && is_evicted(&slots[1]) && !is_evicted(&slots[2]));
        assert!(!is_evicted(&late));
        assert!(slots[2..].iter().chain([&late]).all(ConnectionSlot::authenticate));
        assert!(limiter.accept(address(1)).is_none() && limiter.accept_authenticated().is_none());
        // An evicted connection has no slot to release.
        drop(slots.remove(1));
        assert!(limiter.accept(address(1)).is_none());
        drop(late);
        assert!(limiter.accept(address(1)).is_some());
        drop(slots);
        assert_eq!(count(&limiter), 0);
    }

    #[test]
    fn separate_limits_do_not_affect_each_other() {
        let limiter = limiter(2, usize::MAX);
        let clients = [limiter.accept_authenticated().unwrap(), limiter.accept_authenticated().unwrap()];
        assert!(limiter.accept_authenticated().is_none());
        let waiting: Vec<ConnectionSlot> = (0..MAX).map(|_| accept(&limiter, 1)).collect();
        assert!(!waiting[0].authenticate() && !waiting[0].is_authenticated());
        drop(clients);
        assert!(waiting[0].authenticate() && waiting[0].authenticate() && waiting[1].authenticate());
        assert!(!waiting[2].authenticate());
        assert_eq!(count(&limiter), MAX);
    }

    #[test]
    fn number_of_clients_is_never_exceeded() {
        let (limiter, max) = (limiter(3, usize::MAX), 3);
        let (active, peak, begin) = (AtomicUsize::new(0), AtomicUsize::new(0), Barrier::new(8));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    begin.wait();
                    for _ in 0..2000 {
                        let Some(slot) = limiter.accept_authenticated() else { continue };
                        peak.fetch_max(active.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        active.fetch_sub(1, Ordering::SeqCst);
                        drop(slot);
                    }
                });
            }
        });
        assert!((1..=max).contains(&peak.load(Ordering::SeqCst)));
        let slots: Vec<ConnectionSlot> = std::iter::from_fn(|| limiter.accept_authenticated()).collect();
        assert_eq!(slots.len(), max);
    }

    #[test]
    fn ipv6_prefix_and_ipv4_address_are_one_subnet() {
        let subnet = |text: &str| Subnet::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(subnet("2001:db8::1"), subnet("2001:db8::ffff:1:2:3"));
        assert_ne!(subnet("2001:db8::1"), subnet("2001:db8:0:1::1"));
        assert_ne!(subnet("10.0.0.1"), subnet("10.0.0.2"));
        assert_eq!(subnet("::ffff:10.0.0.1"), subnet("10.0.0.1"));
    }
}
