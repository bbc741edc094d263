//! The contract of a store: the same cases for the store of the simulation and for JetStream.

use std::time::Duration;

use nerve_cluster::{AttemptId, Instance, Key, MachineId, Record, Request, Response, Sequence, StepId};
use nerve_nats::NatsStore;
use nerve_testkit::{DEADLINE, eventually};

use crate::harness::{ME, OTHER, accepted, append, broker, record, run, store};
use crate::memory_store::MemoryStore;

const SHORT: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(3_600);

/// A store under test.
trait Store {
    /// Performs a request.
    async fn perform(&mut self, request: Request) -> Response;
    /// Lets the time pass after which a key that was put with [`SHORT`] is free.
    async fn expire(&mut self, key: &Key);
}

struct Memory {
    store: MemoryStore,
    now: u64,
}

impl Store for Memory {
    async fn perform(&mut self, request: Request) -> Response {
        self.store.perform(self.now, &request)
    }

    async fn expire(&mut self, _key: &Key) {
        self.now += 1_000;
    }
}

impl Store for NatsStore {
    async fn perform(&mut self, request: Request) -> Response {
        NatsStore::perform(self, &request).await
    }

    async fn expire(&mut self, key: &Key) {
        let is_free = async || matches!(get(&mut self.clone(), key).await, (_, None));
        eventually("the lease expires", is_free).await;
    }
}

async fn get(store: &mut impl Store, key: &Key) -> (Sequence, Option<Instance>) {
    match store.perform(Request::Get { key: key.clone() }).await {
        Response::Entry { sequence, holder } => (sequence, holder),
        other => panic!("no entry: {other:?}"),
    }
}

fn put(key: &Key, holder: Instance, expected: Sequence, ttl: Duration) -> Request {
    Request::Put { key: key.clone(), holder, expected, ttl }
}

async fn lease_is_taken_by_compare_and_set(store: &mut impl Store) {
    let key = Key::Machine(MachineId(7));
    assert_eq!(get(store, &key).await, (Sequence(0), None));
    let first = accepted(store.perform(put(&key, ME, Sequence(0), LONG)).await);
    assert_eq!(get(store, &key).await, (first, Some(ME)));
    let late = store.perform(put(&key, OTHER, Sequence(0), LONG)).await;
    assert_eq!(late, Response::WrongSequence { last: first });
    let renewed = accepted(store.perform(put(&key, ME, first, LONG)).await);
    assert!(renewed > first);
    let repeated = store.perform(put(&key, ME, first, LONG)).await;
    assert_eq!(repeated, Response::WrongSequence { last: renewed });
    assert_eq!(get(store, &key).await, (renewed, Some(ME)));
}

async fn released_lease_keeps_a_sequence(store: &mut impl Store) {
    let key = Key::Owner(run("released"));
    let first = accepted(store.perform(put(&key, ME, Sequence(0), LONG)).await);
    let delete = |expected| Request::Delete { key: key.clone(), expected };
    let stale = store.perform(delete(Sequence(first.0 + 9))).await;
    assert_eq!(stale, Response::WrongSequence { last: first });
    let marker = accepted(store.perform(delete(first)).await);
    assert!(marker > first);
    assert_eq!(get(store, &key).await, (marker, None));
    let new = store.perform(put(&key, OTHER, Sequence(0), LONG)).await;
    assert_eq!(new, Response::WrongSequence { last: marker });
    accepted(store.perform(put(&key, OTHER, marker, LONG)).await);
    assert_eq!(get(store, &key).await.1, Some(OTHER));
}

async fn expired_lease_leaves_a_marker(store: &mut impl Store) {
    let attempt = AttemptId { run: run("r"), step: StepId::new("s").unwrap(), attempt: 1 };
    let (key, renewed) = (Key::Step(attempt), Key::Owner(run("renewed")));
    let first = accepted(store.perform(put(&renewed, ME, Sequence(0), SHORT)).await);
    let last = accepted(store.perform(put(&renewed, ME, first, LONG)).await);
    let taken = accepted(store.perform(put(&key, ME, Sequence(0), SHORT)).await);
    assert!(taken > last, "keys share a stream");
    store.expire(&key).await;
    let (marker, holder) = get(store, &key).await;
    assert_eq!(holder, None);
    assert!(marker > taken);
    assert_eq!(get(store, &renewed).await, (last, Some(ME)), "a renewal replaces the time to live");
    let late = store.perform(put(&key, ME, taken, LONG)).await;
    assert_eq!(late, Response::WrongSequence { last: marker });
    accepted(store.perform(put(&key, OTHER, marker, LONG)).await);
}

async fn journal_accepts_only_what_follows_its_last_record(store: &mut impl Store) {
    let (a, b) = (run("a"), run("b"));
    assert_eq!(read(store, "a", Sequence(0)).await, []);
    let first = accepted(store.perform(append(&a, 1, Sequence(0))).await);
    let other = accepted(store.perform(append(&b, 2, Sequence(0))).await);
    let repeated = store.perform(append(&a, 1, Sequence(0))).await;
    assert_eq!(repeated, Response::WrongSequence { last: first });
    let foreign = store.perform(append(&a, 3, other)).await;
    assert_eq!(foreign, Response::WrongSequence { last: first });
    let second = accepted(store.perform(append(&a, 3, first)).await);
    assert_eq!(read(store, "a", Sequence(0)).await, [(first, 1), (second, 3)]);
    assert_eq!(read(store, "a", first).await, [(second, 3)]);
    assert_eq!(read(store, "a", second).await, []);
    assert_eq!(read(store, "b", Sequence(0)).await, [(other, 2)]);
}

async fn long_journal_is_read_whole(store: &mut impl Store) {
    let (long, short) = (run("long"), run("short"));
    let (mut last, mut last_short, mut written) = (Sequence(0), Sequence(0), Vec::new());
    for number in 0..2_100 {
        last = accepted(store.perform(append(&long, number, last)).await);
        written.push((last, number));
        if number % 50 == 0 {
            last_short = accepted(store.perform(append(&short, number, last_short)).await);
        }
    }
    assert_eq!(read(store, "long", Sequence(0)).await, written);
    assert_eq!(read(store, "short", Sequence(0)).await.len(), 42);
}

/// Returns the sequences and numbers of the records.
async fn read(store: &mut impl Store, id: &str, after: Sequence) -> Vec<(Sequence, u64)> {
    let Response::Records(records) = store.perform(Request::Read { run: run(id), after }).await else {
        panic!("no records");
    };
    let number = |(sequence, read)| {
        let read: Record = Result::unwrap(read);
        assert_eq!(read, record(read.epoch.0.0));
        (sequence, read.epoch.0.0)
    };
    records.into_iter().map(number).collect()
}

async fn check_contract(store: &mut impl Store) {
    lease_is_taken_by_compare_and_set(store).await;
    released_lease_keeps_a_sequence(store).await;
    expired_lease_leaves_a_marker(store).await;
    journal_accepts_only_what_follows_its_last_record(store).await;
    long_journal_is_read_whole(store).await;
}

#[tokio::test]
async fn simulated_store_meets_the_contract() {
    check_contract(&mut Memory { store: MemoryStore::new(None), now: 0 }).await;
}

#[tokio::test]
async fn jetstream_meets_the_contract() {
    let Some(broker) = broker("jetstream_meets_the_contract", "") else { return };
    check_contract(&mut store(&broker, None, DEADLINE).await).await;
}
