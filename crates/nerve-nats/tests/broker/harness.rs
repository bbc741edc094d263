//! A broker with the streams of a cluster, and connections to it.

use std::time::Duration;

use nerve_cluster::journal::{Epoch, StepSpec};
use nerve_cluster::{Instance, MachineId, Record, RecordKind, Request, Response, RunId, Sequence, StepId};
use nerve_nats::{BrokerOptions, Connection, Credentials, NatsStore, StreamSettings, Streams};
use nerve_testkit::DEADLINE;
use nerve_testkit::harness::Broker;

pub(crate) const ME: Instance = Instance { machine: MachineId(1), boot: 2, nonce: u64::MAX };
pub(crate) const OTHER: Instance = Instance { machine: MachineId(2), boot: 1, nonce: 6 };

/// Starts a broker; `None` if `test` is skipped.
pub(crate) fn broker(test: &str, settings: &str) -> Option<Broker> {
    Broker::start_if_installed(test, settings)
}

pub(crate) fn options(broker: &Broker) -> BrokerOptions {
    BrokerOptions {
        servers: vec![broker.url()],
        credentials: Credentials::None,
        ca: None,
        certificate: None,
        client_name: "test".into(),
        deadline: DEADLINE,
    }
}

pub(crate) fn streams() -> Streams {
    Streams::new("test".parse().unwrap())
}

/// Creates the streams and returns their store. `deadline`: limit of its calls.
pub(crate) async fn store(broker: &Broker, max_bytes: Option<u64>, deadline: Duration) -> NatsStore {
    let creator = Connection::open(&options(broker)).await.unwrap();
    streams().create(&creator, StreamSettings { replicas: 1, max_bytes }).await.unwrap();
    let connection = Connection::open(&BrokerOptions { deadline, ..options(broker) }).await;
    NatsStore::new(connection.unwrap(), streams())
}

pub(crate) fn run(id: &str) -> RunId {
    RunId::new(id).unwrap()
}

/// Returns a record that differs from others by its `number`.
pub(crate) fn record(number: u64) -> Record {
    let id = StepId::new(format!("s{number}")).unwrap();
    let step = StepSpec {
        id,
        after: Vec::new(),
        is_safe: false,
        on_machine_lost: Default::default(),
        requirement: Default::default(),
    };
    Record {
        epoch: Epoch(Sequence(number)),
        kind: RecordKind::Planned { steps: vec![step], work: Default::default() },
    }
}

pub(crate) fn append(run: &RunId, number: u64, expected: Sequence) -> Request {
    Request::Append { run: run.clone(), record: record(number), expected }
}

/// Returns the sequence of an accepted write.
#[track_caller]
pub(crate) fn accepted(response: Response) -> Sequence {
    match response {
        Response::Accepted(sequence) => sequence,
        other => panic!("not accepted: {other:?}"),
    }
}
