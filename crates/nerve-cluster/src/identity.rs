//! The identity of a machine. A copied state folder has the same identity; a lease lets only one process use it.

use crate::id::Sequence;
use crate::instance::Instance;
use crate::lease::{Lease, Takeover};
use crate::store::{Key, Request, Response};
use crate::time::{BootTime, LeaseTimes};

/// The lease on a machine's identity.
#[derive(Debug)]
pub(crate) struct Identity {
    lease: Lease,
    /// The last foreign message under the identity.
    foreign: Option<ForeignMessage>,
    is_stopping: bool,
}

#[derive(Debug)]
struct ForeignMessage {
    sequence: Sequence,
    holder: Instance,
    /// Number of earlier messages of the same process that this process has seen.
    earlier: u32,
}

impl Identity {
    /// Creates the lease of an instance, not held yet. A restarted process waits for its predecessor's lease to expire, because it
    /// cannot distinguish the predecessor from a process with a copy of the folder.
    pub(crate) fn new(me: Instance, times: LeaseTimes) -> Identity {
        let lease = Lease::new(Key::Machine(me.machine), me, times, Takeover::IfFree);
        Identity { lease, foreign: None, is_stopping: false }
    }

    /// Returns true if this process has the identity for certain, and so may begin new work.
    pub(crate) fn is_held(&self, now: BootTime) -> bool {
        self.lease.is_fresh(now)
    }

    /// Returns the next request for the lease.
    pub(crate) fn poll(&mut self, now: BootTime) -> Option<Request> {
        self.lease.poll(now, !self.is_stopping)
    }

    /// Releases the identity, for the next process of this machine.
    pub(crate) fn stop(&mut self) {
        self.is_stopping = true;
    }

    /// Returns true once another process can take the identity.
    pub(crate) fn is_released(&self) -> bool {
        self.is_stopping && self.lease.is_released()
    }

    /// Handles the response. Returns another process that is alive under this identity, once per message.
    pub(crate) fn handle_response(&mut self, now: BootTime, response: &Response) -> Option<Instance> {
        self.lease.handle_response(now, response);
        let Some((sequence, holder)) = self.lease.other() else {
            self.foreign = None;
            return None;
        };
        let earlier = match &self.foreign {
            Some(last) if last.holder == holder && last.sequence == sequence => return None,
            Some(last) if last.holder == holder => last.earlier.saturating_add(1),
            _ => 0,
        };
        self.foreign = Some(ForeignMessage { sequence, holder, earlier });
        // A predecessor that crashed had at most one request under way. So the second new message proves life.
        (earlier >= 2).then_some(holder)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Identity, Instance};
    use crate::id::Sequence;
    use crate::instance::MachineId;
    use crate::store::{Request, Response};
    use crate::time::{BootTime, LeaseTimes};

    const ME: Instance = Instance { machine: MachineId(7), boot: 2, nonce: 1 };
    const COPY: Instance = Instance { machine: MachineId(7), boot: 2, nonce: 9 };

    fn entry(sequence: u64, holder: Option<Instance>) -> Response {
        Response::Entry { sequence: Sequence(sequence), holder }
    }

    #[test]
    fn copy_of_state_folder_is_refused_while_the_other_renews() {
        let mut identity = Identity::new(ME, LeaseTimes::new(Duration::from_secs(15)));
        assert!(matches!(identity.poll(BootTime(0)), Some(Request::Get { .. })));
        assert_eq!(identity.handle_response(BootTime(1), &entry(4, Some(COPY))), None);
        assert_eq!(identity.poll(BootTime(2)), None);
        // The second message may have been under way when its sender crashed. A repeated reading proves nothing.
        for (time, sequence, alive) in [(1_251, 5, None), (2_501, 5, None), (3_751, 6, Some(COPY))] {
            assert!(matches!(identity.poll(BootTime(time)), Some(Request::Get { .. })));
            assert_eq!(identity.handle_response(BootTime(time), &entry(sequence, Some(COPY))), alive);
        }
        assert!(!identity.is_held(BootTime(3_751)));
    }

    #[test]
    fn restarted_process_takes_identity_after_expiry() {
        let mut identity = Identity::new(ME, LeaseTimes::new(Duration::from_secs(15)));
        identity.poll(BootTime(0));
        let predecessor = Instance { boot: 1, ..COPY };
        assert_eq!(identity.handle_response(BootTime(1), &entry(4, Some(predecessor))), None);
        identity.poll(BootTime(5_001));
        assert_eq!(identity.handle_response(BootTime(5_002), &entry(5, None)), None);
        let put = identity.poll(BootTime(5_003));
        assert!(matches!(put, Some(Request::Put { expected: Sequence(5), holder: ME, .. })), "{put:?}");
        identity.handle_response(BootTime(5_100), &Response::Accepted(Sequence(6)));
        assert!(identity.is_held(BootTime(5_100)));
    }
}
