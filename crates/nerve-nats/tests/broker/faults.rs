//! Faults of a real broker.

use std::time::Duration;

use nerve_cluster::{Key, MachineId, Request, Response, Sequence};
use nerve_nats::{
    BrokerError, BrokerOptions, Connection, Credentials, Durability, NatsStore, StreamSettings,
};
use nerve_testkit::{DEADLINE, eventually};

use crate::harness::{ME, accepted, append, broker, options, run, store, streams};

async fn last_records(store: &NatsStore, after: Sequence) -> Result<usize, BrokerError> {
    match store.try_perform(&Request::Read { run: run("r"), after }).await? {
        Response::Records(records) => Ok(records.len()),
        other => panic!("no records: {other:?}"),
    }
}

#[tokio::test]
async fn acknowledged_writes_survive_a_kill() {
    let Some(mut broker) = broker("acknowledged_writes_survive_a_kill", "") else { return };
    let store = store(&broker, None, DEADLINE).await;
    let first = accepted(store.perform(&append(&run("r"), 1, Sequence(0))).await);
    let key = Key::Machine(MachineId(1));
    let ttl = Duration::from_secs(3_600);
    let put = Request::Put { key: key.clone(), holder: ME, expected: Sequence(0), ttl };
    let lease = accepted(store.perform(&put).await);
    broker.kill();
    eventually("the client notices", async || !store.connection().is_open()).await;
    let request = append(&run("r"), 2, first);
    assert!(matches!(store.try_perform(&request).await, Err(BrokerError::Unavailable(_))));
    assert_eq!(store.perform(&request).await, Response::Unavailable);
    broker.restart();
    // JetStream recovers its streams after it listens.
    eventually("the connection comes back", async || last_records(&store, Sequence(0)).await.is_ok()).await;
    assert_eq!(last_records(&store, Sequence(0)).await, Ok(1), "what was not sent is not written later");
    let entry = store.perform(&Request::Get { key }).await;
    assert_eq!(entry, Response::Entry { sequence: lease, holder: Some(ME) });
    accepted(store.perform(&request).await);
}

#[tokio::test]
async fn lost_disk_is_an_error() {
    let Some(mut broker) = broker("lost_disk_is_an_error", "") else { return };
    let store = store(&broker, None, DEADLINE).await;
    let first = accepted(store.perform(&append(&run("r"), 1, Sequence(0))).await);
    broker.lose_disk();
    eventually("the client notices", async || !store.connection().is_open()).await;
    broker.restart();
    eventually("the connection comes back", async || {
        matches!(store.try_perform(&append(&run("r"), 2, first)).await, Err(BrokerError::NoStream(_)))
    })
    .await;
    let inspected = streams().inspect(store.connection()).await;
    assert!(matches!(inspected, Err(BrokerError::NoStream(_))), "{inspected:?}");
    assert!(matches!(last_records(&store, Sequence(0)).await, Err(BrokerError::NoStream(_))));
}

#[tokio::test]
async fn write_to_a_stopped_broker_takes_effect_later() {
    let Some(broker) = broker("write_to_a_stopped_broker_takes_effect_later", "") else { return };
    let patient = store(&broker, None, DEADLINE).await;
    let hasty = store(&broker, None, Duration::from_millis(200)).await;
    broker.freeze();
    let request = append(&run("r"), 1, Sequence(0));
    assert!(matches!(hasty.try_perform(&request).await, Err(BrokerError::Unavailable(_))));
    broker.thaw();
    eventually("the write takes effect", async || last_records(&patient, Sequence(0)).await == Ok(1)).await;
    assert!(matches!(patient.perform(&request).await, Response::WrongSequence { .. }));
    assert_eq!(last_records(&patient, Sequence(0)).await, Ok(1));
}

#[tokio::test]
async fn full_stream_refuses_writes_and_keeps_records() {
    let Some(broker) = broker("full_stream_refuses_writes_and_keeps_records", "") else { return };
    let store = store(&broker, Some(20_000), DEADLINE).await;
    let mut last = Sequence(0);
    let mut count = 0;
    let error = loop {
        match store.try_perform(&append(&run("r"), count, last)).await {
            Ok(response) => last = accepted(response),
            Err(error) => break error,
        }
        count += 1;
        assert!(count < 20_000, "the stream has no limit");
    };
    assert!(matches!(error, BrokerError::Full(_)) && error.is_temporary(), "{error:?}");
    assert_eq!(last_records(&store, Sequence(0)).await, Ok(usize::try_from(count).unwrap()));
    assert_eq!(store.perform(&append(&run("r"), count, last)).await, Response::Unavailable);
}

#[tokio::test]
async fn wrong_credentials_are_refused() {
    let settings = "authorization { user: ann, password: right }";
    let Some(broker) = broker("wrong_credentials_are_refused", settings) else { return };
    let with = |password: &str| BrokerOptions {
        credentials: Credentials::Password { user: "ann".into(), password: password.into() },
        ..options(&broker)
    };
    let refused = Connection::open(&with("wrong")).await.unwrap_err();
    assert!(matches!(refused, BrokerError::Authentication(_)), "{refused:?}");
    let refused = Connection::open(&options(&broker)).await.unwrap_err();
    assert!(matches!(refused, BrokerError::Authentication(_)), "{refused:?}");
    assert!(Connection::open(&with("right")).await.unwrap().is_open());
}

#[tokio::test]
async fn absent_broker_is_unavailable() {
    let Some(mut broker) = broker("absent_broker_is_unavailable", "") else { return };
    broker.kill();
    let error = Connection::open(&options(&broker)).await.unwrap_err();
    assert!(matches!(error, BrokerError::Unavailable(_)), "{error:?}");
}

#[tokio::test]
async fn other_settings_of_a_stream_are_found() {
    let Some(broker) = broker("other_settings_of_a_stream_are_found", "") else { return };
    let store = store(&broker, None, DEADLINE).await;
    let inspected = streams().inspect(store.connection()).await.unwrap();
    assert!(inspected.iter().all(|stream| stream.differences.is_empty()), "{inspected:?}");
    assert_eq!(Durability::of(&inspected), Durability::OneBroker);
    // Created again with equal settings, it stays; with others, it is an error.
    let create = |max_bytes| StreamSettings { replicas: 1, max_bytes };
    assert_eq!(streams().create(store.connection(), create(None)).await, Ok(()));
    let other = streams().create(store.connection(), create(Some(30_000))).await;
    assert!(matches!(other, Err(BrokerError::Refused { .. })), "{other:?}");
}
