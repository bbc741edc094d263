//! The in-memory store, with the semantics that were measured on NATS JetStream.

use std::collections::BTreeMap;

use nerve_cluster::{Instance, Key, Record, Request, Response, RunId, Sequence};

/// A defect of the store that the core cannot survive, to see that the checker notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sabotage {
    /// Journals accept every append, whatever sequence the writer expects.
    IgnoreExpected,
    /// Appends of `Started` are acknowledged but dropped.
    LoseStarted,
    /// Records that an old owner sends again carry the current epoch.
    ForgeEpoch,
}

/// The store. Time is its own, in milliseconds.
#[derive(Debug, Default)]
pub(crate) struct MemoryStore {
    leases: BTreeMap<Key, Lease>,
    /// The last sequence of the stream of all leases.
    lease_stream: u64,
    journals: BTreeMap<RunId, Vec<(Sequence, Record)>>,
    /// The last sequence of the stream of all journals.
    journal_stream: u64,
    pub(crate) sabotage: Option<Sabotage>,
}

/// The last message of a key: a holder, or a marker.
#[derive(Debug)]
struct Lease {
    sequence: Sequence,
    holder: Option<Instance>,
    expires: u64,
}

impl MemoryStore {
    /// Creates an empty store.
    pub(crate) fn new(sabotage: Option<Sabotage>) -> MemoryStore {
        MemoryStore { sabotage, ..MemoryStore::default() }
    }

    /// Performs a request and returns the response.
    pub(crate) fn perform(&mut self, now: u64, request: &Request) -> Response {
        match request {
            Request::Get { key } => {
                let (sequence, holder) = self.lease(now, key);
                Response::Entry { sequence, holder }
            }
            Request::Put { key, holder, expected, ttl } => {
                let expires = now + u64::try_from(ttl.as_millis()).unwrap();
                self.write_lease(now, key, *expected, Some(*holder), expires)
            }
            Request::Delete { key, expected } => self.write_lease(now, key, *expected, None, 0),
            Request::Read { run, after } => {
                let records = self.records(run);
                let start = records.partition_point(|(sequence, _)| sequence <= after);
                let decoded = |(sequence, record): &(Sequence, Record)| (*sequence, Ok(record.clone()));
                Response::Records(records[start..].iter().map(decoded).collect())
            }
            Request::Append { run, record, expected } => self.append(run, record, *expected),
        }
    }

    /// Returns the records of a journal.
    pub(crate) fn records(&self, run: &RunId) -> &[(Sequence, Record)] {
        self.journals.get(run).map_or(&[], Vec::as_slice)
    }

    /// Returns the last sequence of a journal.
    pub(crate) fn last(&self, run: &RunId) -> Sequence {
        self.records(run).last().map_or(Sequence(0), |(last, _)| *last)
    }

    /// Returns the holder of a lease.
    pub(crate) fn holder(&mut self, now: u64, key: &Key) -> Option<Instance> {
        self.lease(now, key).1
    }

    /// Returns the last sequence and the holder of a key. Expiry leaves a marker with a sequence of its own.
    fn lease(&mut self, now: u64, key: &Key) -> (Sequence, Option<Instance>) {
        let Some(lease) = self.leases.get_mut(key) else { return (Sequence(0), None) };
        if lease.holder.is_some() && lease.expires <= now {
            self.lease_stream += 1;
            (lease.sequence, lease.holder) = (Sequence(self.lease_stream), None);
        }
        (lease.sequence, lease.holder)
    }

    fn write_lease(
        &mut self,
        now: u64,
        key: &Key,
        expected: Sequence,
        holder: Option<Instance>,
        expires: u64,
    ) -> Response {
        let (last, _) = self.lease(now, key);
        if last != expected {
            return Response::WrongSequence { last };
        }
        self.lease_stream += 1;
        let sequence = Sequence(self.lease_stream);
        self.leases.insert(key.clone(), Lease { sequence, holder, expires });
        Response::Accepted(sequence)
    }

    fn append(&mut self, run: &RunId, record: &Record, expected: Sequence) -> Response {
        let last = self.last(run);
        if last != expected && self.sabotage != Some(Sabotage::IgnoreExpected) {
            return Response::WrongSequence { last };
        }
        self.journal_stream += 1;
        let sequence = Sequence(self.journal_stream);
        let is_started = matches!(record.kind, nerve_cluster::RecordKind::Started { .. });
        if !(is_started && self.sabotage == Some(Sabotage::LoseStarted)) {
            self.journals.entry(run.clone()).or_default().push((sequence, record.clone()));
        }
        Response::Accepted(sequence)
    }
}
