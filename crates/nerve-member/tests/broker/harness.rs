//! Machines with a server's membership, at a broker on loopback.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nerve_cluster::MachineId;
use nerve_engine::{Engine, EngineConfig};
use nerve_member::{
    ClusterConfig, ClusterRuns, Creation, MemberPaths, MemberState, MemberStatus, Membership, serve,
};
use nerve_nats::{BrokerOptions, Connection, Credentials, NatsStore, StreamSettings, Streams};
use nerve_testkit::harness::{Broker, EngineHarness};
use nerve_testkit::{DEADLINE, eventually, within_deadline};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Time to live of leases that expire in a test, in seconds.
pub(crate) const SHORT: u64 = 3;
/// Time to live of leases that never expire in a test, in seconds.
pub(crate) const LONG: u64 = 3_600;

pub(crate) const CREATE: Creation = Creation::Create(StreamSettings { replicas: 1, max_bytes: None });

/// A machine: its directories, and its server's membership.
pub(crate) struct Machine {
    folder: tempfile::TempDir,
    pub(crate) config: ClusterConfig,
    pub(crate) membership: Membership,
    server: Option<(JoinHandle<()>, CancellationToken)>,
    /// The engine of the server. It stays when only the membership ends.
    engine: Option<Engine>,
}

/// Starts a broker; `None` if `test` is skipped.
pub(crate) fn broker(test: &str, settings: &str) -> Option<Broker> {
    Broker::start_if_installed(test, settings)
}

/// Connects to the streams of the machines' cluster.
pub(crate) async fn store(broker: &Broker) -> NatsStore {
    let options = BrokerOptions {
        servers: vec![broker.url()],
        credentials: Credentials::None,
        ca: None,
        certificate: None,
        client_name: "test".into(),
        deadline: DEADLINE,
    };
    NatsStore::new(Connection::open(&options).await.unwrap(), Streams::new("team".parse().unwrap()))
}

/// Writes a file with a mode into a machine's directory.
pub(crate) fn write(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

impl Machine {
    pub(crate) fn new(name: &str, broker: &Broker, lease_seconds: u64) -> Machine {
        let folder = tempfile::tempdir().unwrap();
        let config = ClusterConfig {
            cluster: "team".parse().unwrap(),
            machine: name.into(),
            server: "default".into(),
            brokers: vec![broker.url()],
            credentials: None,
            ca: None,
            certificate: None,
            key: None,
            slots: 0,
            labels: Default::default(),
            lease_seconds,
        };
        let membership = Membership::new(paths(folder.path()));
        Machine { folder, config, membership, server: None, engine: None }
    }

    /// Creates a machine whose server is a member and executes steps.
    pub(crate) async fn executor(name: &str, broker: &Broker, slots: u32) -> Machine {
        let mut machine = Machine::new(name, broker, SHORT);
        machine.config.slots = slots;
        machine.config.labels = [format!("only-{name}"), "all".to_string()].into();
        machine.membership.join(&machine.config, CREATE).await.unwrap();
        machine.start();
        machine.wait_for(|status| status.state == MemberState::Member).await;
        machine
    }

    /// Returns the id of a machine that has been a member.
    pub(crate) fn id(&self) -> MachineId {
        let stored = fs::read_to_string(self.file("cluster/machine.json")).unwrap();
        let stored: serde_json::Value = serde_json::from_str(&stored).unwrap();
        serde_json::from_value(stored["machine_id"].clone()).unwrap()
    }

    /// Opens the runs of the machine's cluster.
    pub(crate) async fn runs(&self) -> ClusterRuns {
        ClusterRuns::open(&paths(self.folder.path())).await.unwrap()
    }

    /// Creates a machine whose server is a member of a new or existing cluster.
    pub(crate) async fn member(name: &str, broker: &Broker, lease_seconds: u64) -> Machine {
        let mut machine = Machine::new(name, broker, lease_seconds);
        machine.membership.join(&machine.config, CREATE).await.unwrap();
        machine.start();
        machine.wait_for(|status| status.state == MemberState::Member).await;
        machine
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Copies the state of another machine, as a backup that is restored elsewhere.
    pub(crate) fn copy_identity(&self, of: &Machine) {
        fs::create_dir_all(self.file("cluster")).unwrap();
        fs::copy(of.file("cluster/machine.json"), self.file("cluster/machine.json")).unwrap();
    }

    /// Starts the part of a server that makes the machine a member.
    pub(crate) fn start(&mut self) {
        let stop = CancellationToken::new();
        let runs_dir = Some(self.file("runs"));
        let config = || EngineConfig { runs_dir, ..EngineHarness::config(self.folder.path()) };
        let engine = self.engine.get_or_insert_with(|| Engine::new(config())).clone();
        let served = serve(paths(self.folder.path()), "default".into(), engine, stop.clone());
        self.server = Some((tokio::spawn(served), stop));
    }

    /// Ends it as a server that stops does.
    pub(crate) async fn stop(&mut self) {
        let (task, stop) = self.server.take().unwrap();
        stop.cancel();
        within_deadline("the membership ends", task).await.unwrap();
    }

    /// Ends it as a crash does: the lease is not released.
    pub(crate) async fn crash(&mut self) {
        let (task, _stop) = self.server.take().unwrap();
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
    }

    /// Returns the status that the server writes.
    pub(crate) async fn status(&self) -> Option<MemberStatus> {
        self.membership.wait_until_member(std::time::Duration::ZERO).await.unwrap()
    }

    pub(crate) async fn wait_for(&self, is_expected: impl Fn(&MemberStatus) -> bool) -> MemberStatus {
        let mut last = None;
        let is_found = nerve_testkit::wait_until_async(DEADLINE, async || {
            last = self.status().await;
            last.as_ref().is_some_and(&is_expected)
        });
        assert!(is_found.await, "{}: {last:?}", self.config.machine);
        last.unwrap()
    }

    /// Waits until the server sees these members, by name and number of starts.
    pub(crate) async fn wait_for_members(&self, expected: &[(&str, u64)]) {
        self.wait_for(|status| {
            let members = status.list.members.iter();
            members.map(|member| (member.machine_name.as_str(), member.boot)).eq(expected.iter().copied())
        })
        .await;
    }

    pub(crate) async fn wait_until_ended(&self) {
        eventually("no server is a member", async || self.status().await.is_none()).await;
    }
}

fn paths(folder: &Path) -> MemberPaths {
    MemberPaths::new(folder, folder)
}
