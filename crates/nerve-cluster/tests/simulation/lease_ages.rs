//! The ages of a process's leases, by its own clock, kept independently of the core.

use std::collections::BTreeMap;
use std::time::Duration;

use nerve_cluster::{BootTime, Effect, Instance, Key, RecordKind, Request, RequestId, Response};

/// When a process sent its renewals.
#[derive(Debug)]
pub(crate) struct LeaseAges {
    me: Instance,
    limit: Duration,
    /// Renewals without a response.
    sent: BTreeMap<RequestId, (Key, BootTime)>,
    /// The sending of the last accepted renewal of each lease that is not released.
    confirmed: BTreeMap<Key, BootTime>,
}

impl LeaseAges {
    /// Creates the ages of a process without leases. `ttl`: in milliseconds.
    pub(crate) fn new(me: Instance, ttl: u64) -> LeaseAges {
        let limit = Duration::from_millis(ttl * 2 / 3);
        LeaseAges { me, limit, sent: BTreeMap::new(), confirmed: BTreeMap::new() }
    }

    /// Follows an effect of the core.
    pub(crate) fn on_effect(&mut self, now: BootTime, effect: &Effect) {
        match effect {
            Effect::Store { id, request: Request::Put { key, .. } } => {
                self.sent.insert(*id, (key.clone(), now));
            }
            Effect::Store { request: Request::Delete { key, .. }, .. } => {
                self.confirmed.remove(key);
            }
            _ => {}
        }
    }

    /// Follows a response. Only the first of a request counts.
    pub(crate) fn on_response(&mut self, id: RequestId, response: &Response) {
        if let Some((key, sent)) = self.sent.remove(&id)
            && matches!(response, Response::Accepted(_))
        {
            self.confirmed.insert(key, sent);
        }
    }

    /// Returns false for an effect that begins something without the leases that it needs.
    pub(crate) fn may_begin(&self, now: BootTime, effect: &Effect) -> bool {
        let identity = Key::Machine(self.me.machine);
        match effect {
            Effect::Prepare { attempt } | Effect::TypePrompt { attempt } => {
                self.is_fresh(now, &identity) && self.is_fresh(now, &Key::Step(attempt.clone()))
            }
            Effect::Store { request: Request::Append { run, record, .. }, .. } => match &record.kind {
                RecordKind::OwnerTookOver { .. }
                | RecordKind::Offered { .. }
                | RecordKind::InDoubt { .. }
                | RecordKind::Failed { .. }
                | RecordKind::Ended { .. } => {
                    self.is_fresh(now, &identity) && self.is_fresh(now, &Key::Owner(run.clone()))
                }
                RecordKind::Started { .. }
                | RecordKind::PreparationFailed { .. }
                | RecordKind::Resumed { .. } => self.is_fresh(now, &identity),
                _ => true,
            },
            _ => true,
        }
    }

    fn is_fresh(&self, now: BootTime, key: &Key) -> bool {
        let age = self.confirmed.get(key).and_then(|sent| now.since(*sent));
        age.is_some_and(|age| age < self.limit)
    }
}
