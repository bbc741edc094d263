//! The list of present machines.

use std::time::Duration;

use nerve_cluster::{Instance, Key, MachineId, Request, Sequence};
use nerve_nats::{BrokerError, NameHolder, NatsStore, Streams};
use nerve_testkit::{DEADLINE, eventually};
use serde_json::json;

use crate::harness::{ME, OTHER, accepted, append, broker, run, store};

const LONG: Duration = Duration::from_secs(3_600);

async fn put(store: &NatsStore, holder: Instance, ttl: Duration) -> Sequence {
    let (key, expected) = (Key::Machine(holder.machine), Sequence(0));
    accepted(store.perform(&Request::Put { key, holder, expected, ttl }).await)
}

async fn holders(store: &NatsStore) -> Vec<Instance> {
    let present = store.present_machines().await.unwrap();
    present.machines.iter().map(|machine| machine.holder).collect()
}

#[tokio::test]
async fn machines_are_listed_while_they_hold_their_lease() {
    let Some(broker) = broker("machines_are_listed_while_they_hold_their_lease", "") else { return };
    let store = store(&broker, None, DEADLINE).await;
    assert_eq!(holders(&store).await, []);
    store.set_presence(json!({ "name": "a" }));
    let first = put(&store, OTHER, LONG).await;
    put(&store, ME, LONG).await;
    put(&store, Instance { machine: MachineId(9), ..ME }, Duration::from_secs(1)).await;
    eventually("the short lease expires", async || holders(&store).await == [ME, OTHER]).await;
    let machine = store.present_machines().await.unwrap().machines.remove(0);
    assert_eq!(machine.presence, json!({ "name": "a" }));
    eventually("the lease ages", async || {
        store.present_machines().await.unwrap().machines[0].lease_age > machine.lease_age
    })
    .await;
    let key = Key::Machine(OTHER.machine);
    accepted(store.perform(&Request::Delete { key, expected: first }).await);
    assert_eq!(holders(&store).await, [ME]);
}

#[tokio::test]
async fn name_belongs_to_one_machine_until_it_is_free() {
    let Some(broker) = broker("name_belongs_to_one_machine_until_it_is_free", "") else { return };
    let store = store(&broker, None, DEADLINE).await;
    assert_eq!(store.name_holder("build").await, Ok((Sequence(0), None)));
    let holder = NameHolder { machine_id: ME.machine, is_drained: true };
    store.set_name_holder("build", Some(&holder), Sequence(0)).await.unwrap();
    let other = NameHolder { machine_id: OTHER.machine, is_drained: false };
    let taken = store.set_name_holder("build", Some(&other), Sequence(0)).await;
    assert_eq!(taken, Err(BrokerError::WrongSequence));
    let (sequence, found) = store.name_holder("build").await.unwrap();
    assert_eq!(found, Some(holder));
    let present = store.present_machines().await.unwrap();
    assert_eq!(present.names.into_iter().collect::<Vec<_>>(), [("build".to_string(), holder)]);
    assert_eq!(present.machines, [], "a name is no lease");
    store.set_name_holder("build", None, sequence).await.unwrap();
    let (sequence, free) = store.name_holder("build").await.unwrap();
    assert!(free.is_none() && store.present_machines().await.unwrap().names.is_empty());
    store.set_name_holder("build", Some(&other), sequence).await.unwrap();
}

#[tokio::test]
async fn list_of_an_unknown_cluster_is_an_error() {
    let Some(broker) = broker("list_of_an_unknown_cluster_is_an_error", "") else { return };
    let store = store(&broker, None, DEADLINE).await;
    let other = NatsStore::new(store.connection().clone(), Streams::new("other".parse().unwrap()));
    let error = other.present_machines().await.unwrap_err();
    assert!(matches!(error, BrokerError::NoStream(_)), "{error:?}");
}

#[tokio::test]
async fn runs_are_listed_and_their_changes_are_seen() {
    let Some(broker) = broker("runs_are_listed_and_their_changes_are_seen", "") else { return };
    let store = store(&broker, None, DEADLINE).await;
    assert!(store.runs().await.unwrap().is_empty());
    let mut changes = store.journal_changes().await.unwrap();
    // A response proves that the broker has the subscription, which the client sent before.
    store.runs().await.unwrap();
    let first = accepted(store.perform(&append(&run("a"), 1, Sequence(0))).await);
    accepted(store.perform(&append(&run("a"), 2, first)).await);
    accepted(store.perform(&append(&run("b"), 3, Sequence(0))).await);
    for id in ["a", "a", "b"] {
        let change = nerve_testkit::within_deadline("a change", changes.next()).await;
        assert_eq!(change, Some(run(id)));
    }
    let runs: Vec<_> = store.runs().await.unwrap().into_iter().collect();
    assert_eq!(runs, [(run("a"), 2), (run("b"), 1)]);
}
