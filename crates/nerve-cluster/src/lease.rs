//! A lease: a key in the store that its holder renews by compare-and-set.

use crate::id::Sequence;
use crate::instance::Instance;
use crate::store::{Key, Request, Response};
use crate::time::{BootTime, LeaseTimes};

/// When a lease that another process holds may be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takeover {
    /// Only after its release or expiry.
    IfFree,
    /// At once if the holder is an earlier process of the same machine. For machines that hold their identity.
    FromSameMachine,
}

/// The lease as one process sees it. At most one request is outstanding.
#[derive(Debug)]
pub(crate) struct Lease {
    key: Key,
    me: Instance,
    times: LeaseTimes,
    takeover: Takeover,
    view: View,
    /// When this process sent the last renewal that the store accepted; `None` if the lease is not held.
    confirmed: Option<BootTime>,
    pending: Option<Pending>,
    /// No request before this time.
    quiet_until: Option<BootTime>,
}

/// The last known message of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum View {
    Unknown,
    Available(Sequence),
    Mine(Sequence),
    Other(Sequence, Instance),
}

#[derive(Debug, Clone, Copy)]
enum Pending {
    Get,
    Put { sent: BootTime },
    Delete,
}

impl Lease {
    /// Creates a lease in unknown state. `me`: this process.
    pub(crate) fn new(key: Key, me: Instance, times: LeaseTimes, takeover: Takeover) -> Lease {
        let view = View::Unknown;
        Lease { key, me, times, takeover, view, confirmed: None, pending: None, quiet_until: None }
    }

    /// Returns true if the holder may begin new work: the last accepted renewal was sent less than ⅔ of the TTL ago.
    pub(crate) fn is_fresh(&self, now: BootTime) -> bool {
        self.confirmed.is_some_and(|sent| now.is_within(self.times.begin_limit(), sent))
    }

    /// Returns the sequence of the last message if this process wrote it.
    pub(crate) fn sequence(&self) -> Option<Sequence> {
        match self.view {
            View::Mine(sequence) => Some(sequence),
            _ => None,
        }
    }

    /// Returns the last message if another process wrote it and the lease is not available.
    pub(crate) fn other(&self) -> Option<(Sequence, Instance)> {
        match self.view {
            View::Other(sequence, holder) => Some((sequence, holder)),
            _ => None,
        }
    }

    /// Returns true if another process may take the lease.
    pub(crate) fn is_released(&self) -> bool {
        matches!(self.view, View::Available(_) | View::Other(..))
    }

    /// Reads the lease before any other request.
    pub(crate) fn read_again(&mut self) {
        self.view = View::Unknown;
    }

    /// Returns the request that is due: read, take, renew or, unless `wanted`, release.
    pub(crate) fn poll(&mut self, now: BootTime, wanted: bool) -> Option<Request> {
        if self.pending.is_some() || self.quiet_until.is_some_and(|time| now < time) {
            return None;
        }
        let key = self.key.clone();
        let (pending, request) = match self.view {
            View::Unknown | View::Other(..) => (Pending::Get, Request::Get { key }),
            View::Available(expected) if wanted => self.put(now, expected),
            View::Mine(expected) if !wanted => {
                // The release may take effect at any time from now on.
                self.confirmed = None;
                (Pending::Delete, Request::Delete { key, expected })
            }
            View::Mine(expected) if self.is_renewal_due(now) => self.put(now, expected),
            View::Available(_) | View::Mine(_) => return None,
        };
        self.pending = Some(pending);
        Some(request)
    }

    /// Handles the response to the outstanding request.
    pub(crate) fn handle_response(&mut self, now: BootTime, response: &Response) {
        let pending = self.pending.take();
        self.quiet_until = None;
        match (pending, response) {
            (Some(Pending::Put { sent }), Response::Accepted(sequence)) => {
                self.view = View::Mine(*sequence);
                self.confirmed = Some(sent);
            }
            (Some(Pending::Delete), Response::Accepted(sequence)) => self.apply_read(now, *sequence, None),
            (Some(Pending::Get), Response::Entry { sequence, holder }) => {
                self.apply_read(now, *sequence, *holder)
            }
            // The message may be this process's own: an earlier request took effect late, or twice.
            (_, Response::WrongSequence { .. }) => self.view = View::Unknown,
            (_, _) => {
                self.view = View::Unknown;
                self.quiet_until = Some(now.after(self.times.retry()));
            }
        }
    }

    fn put(&self, now: BootTime, expected: Sequence) -> (Pending, Request) {
        let (key, ttl) = (self.key.clone(), self.times.ttl());
        (Pending::Put { sent: now }, Request::Put { key, holder: self.me, expected, ttl })
    }

    fn is_renewal_due(&self, now: BootTime) -> bool {
        !self.confirmed.is_some_and(|sent| now.is_within(self.times.renewal(), sent))
    }

    /// Takes over what a read returned. A read never extends the time in which the holder may begin work.
    fn apply_read(&mut self, now: BootTime, sequence: Sequence, holder: Option<Instance>) {
        self.view = match holder {
            None => View::Available(sequence),
            Some(holder) if holder == self.me => View::Mine(sequence),
            Some(holder) if self.can_replace(holder) => View::Available(sequence),
            Some(holder) => View::Other(sequence, holder),
        };
        if self.sequence().is_none() {
            self.confirmed = None;
        }
        if let Some((_, holder)) = self.other() {
            // A predecessor on the same machine is expected to release it soon.
            let is_predecessor = holder.machine == self.me.machine;
            let pause = if is_predecessor { self.times.retry() } else { self.times.renewal() };
            self.quiet_until = Some(now.after(pause));
        }
    }

    fn can_replace(&self, holder: Instance) -> bool {
        self.takeover == Takeover::FromSameMachine && holder.machine == self.me.machine
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Lease, Takeover};
    use crate::id::{RunId, Sequence};
    use crate::instance::{Instance, MachineId};
    use crate::store::{Key, Request, Response};
    use crate::time::{BootTime, LeaseTimes};

    const ME: Instance = Instance { machine: MachineId(1), boot: 2, nonce: 5 };
    const OTHER: Instance = Instance { machine: MachineId(2), boot: 1, nonce: 6 };

    fn lease() -> Lease {
        let times = LeaseTimes::new(Duration::from_secs(15));
        Lease::new(Key::Owner(RunId::new("r").unwrap()), ME, times, Takeover::FromSameMachine)
    }

    fn entry(sequence: u64, holder: Option<Instance>) -> Response {
        Response::Entry { sequence: Sequence(sequence), holder }
    }

    /// Returns a lease that was taken by a request sent at 0 and accepted at 3 s.
    fn held() -> Lease {
        let mut lease = lease();
        lease.poll(BootTime(0), true);
        lease.handle_response(BootTime(0), &entry(0, None));
        lease.poll(BootTime(0), true);
        lease.handle_response(BootTime(3_000), &Response::Accepted(Sequence(1)));
        lease
    }

    fn expected(request: Option<Request>) -> Option<u64> {
        match request? {
            Request::Put { expected, .. } => Some(expected.0),
            _ => None,
        }
    }

    #[test]
    fn freshness_counts_from_the_time_of_sending() {
        let lease = held();
        assert!(lease.is_fresh(BootTime(9_999)));
        assert!(!lease.is_fresh(BootTime(10_000)));
    }

    #[test]
    fn renewal_is_due_after_a_third() {
        let mut lease = held();
        assert_eq!(lease.poll(BootTime(4_999), true), None);
        assert_eq!(expected(lease.poll(BootTime(5_000), true)), Some(1));
    }

    #[test]
    fn marker_of_expiry_is_expected_by_the_next_holder() {
        let mut lease = lease();
        lease.poll(BootTime(0), true);
        lease.handle_response(BootTime(0), &entry(8, None));
        assert_eq!(expected(lease.poll(BootTime(0), true)), Some(8));
    }

    #[test]
    fn renewal_with_unknown_outcome_is_read_first() {
        let mut lease = held();
        lease.poll(BootTime(5_000), true);
        lease.handle_response(BootTime(6_000), &Response::Unavailable);
        assert_eq!(lease.poll(BootTime(6_000), true), None, "waits before the retry");
        assert!(lease.is_fresh(BootTime(8_000)));
        assert!(matches!(lease.poll(BootTime(8_000), true), Some(Request::Get { .. })));
        lease.handle_response(BootTime(8_000), &entry(2, Some(ME)));
        assert!(!lease.is_fresh(BootTime(10_000)), "a read does not extend it");
        assert_eq!(expected(lease.poll(BootTime(10_000), true)), Some(2));
    }

    #[test]
    fn loss_ends_freshness() {
        let mut lease = held();
        lease.poll(BootTime(5_000), true);
        lease.handle_response(BootTime(5_000), &Response::WrongSequence { last: Sequence(3) });
        lease.poll(BootTime(5_000), true);
        lease.handle_response(BootTime(5_000), &entry(3, Some(OTHER)));
        assert!(!lease.is_fresh(BootTime(5_000)));
        assert_eq!(lease.other(), Some((Sequence(3), OTHER)));
    }

    #[test]
    fn predecessor_on_same_machine_is_replaced_at_once() {
        let mut lease = lease();
        lease.poll(BootTime(0), true);
        lease.handle_response(BootTime(0), &entry(3, Some(Instance { boot: 1, ..ME })));
        assert_eq!(expected(lease.poll(BootTime(0), true)), Some(3));
    }

    #[test]
    fn lease_is_not_fresh_after_the_clock_went_back() {
        let mut lease = held();
        lease.poll(BootTime(5_000), true);
        lease.handle_response(BootTime(5_000), &Response::Accepted(Sequence(2)));
        assert!(lease.is_fresh(BootTime(5_000)));
        assert!(!lease.is_fresh(BootTime(4_999)));
        assert_eq!(expected(lease.poll(BootTime(4_999), true)), Some(2), "renews at once");
    }

    #[test]
    fn lease_is_not_fresh_while_its_release_has_no_response() {
        let mut lease = held();
        lease.poll(BootTime(4_000), false);
        assert!(!lease.is_fresh(BootTime(4_000)));
        lease.handle_response(BootTime(5_000), &Response::Unavailable);
        lease.poll(BootTime(7_000), true);
        lease.handle_response(BootTime(7_000), &entry(1, Some(ME)));
        assert!(!lease.is_fresh(BootTime(7_000)));
        assert_eq!(expected(lease.poll(BootTime(7_000), true)), Some(1));
    }

    #[test]
    fn unwanted_lease_is_released() {
        let mut lease = held();
        let request = lease.poll(BootTime(4_000), false);
        assert!(matches!(request, Some(Request::Delete { expected: Sequence(1), .. })), "{request:?}");
        lease.handle_response(BootTime(4_000), &Response::Accepted(Sequence(2)));
        assert!(!lease.is_fresh(BootTime(4_000)));
        assert_eq!(lease.poll(BootTime(4_000), false), None);
    }
}
