//! The relay with machines that refuse, that do not reply, and that a test plays.

use std::future::ready;
use std::pin::pin;

use futures_util::future::join_all;
use futures_util::poll;
use nerve_api::RequestName;
use nerve_client::{NerveClient, Reconnect};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::net::TcpListener;

use super::*;

/// Returns an empty list, and its directory.
fn empty_list() -> (TempDir, Machines) {
    let folder = tempfile::tempdir().unwrap();
    let machines = Machines::new(&folder.path().join("config"), &folder.path().join("state"));
    (folder, machines)
}

/// Adds a machine that is reached over TLS at a port of this one.
fn add(folder: &TempDir, machines: &Machines, name: &str, port: u16) -> Machine {
    let token = folder.path().join("token");
    std::fs::write(&token, "secret").unwrap();
    let address = format!("tls://127.0.0.1:{port}");
    let machine = Machine { name: name.to_string(), token_file: Some(token), ..Machine::unnamed(&address) };
    machines.add(machine.clone()).unwrap();
    machine
}

/// Listens on a port of this machine.
async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// The server of a machine, played by a test.
struct Peer {
    lines: BufReader<DuplexStream>,
}

impl Peer {
    /// Returns a client and its server.
    fn pair() -> (NerveClient, Peer) {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        (NerveClient::over(ours).reconnect(Reconnect::Never), Peer { lines: BufReader::new(theirs) })
    }

    /// Returns the next request; `None` if the client has closed.
    async fn receive(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.lines.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).ok()
    }

    /// Replies to the next request, which has this name.
    async fn reply(&mut self, name: &str, data: Value) {
        let request = self.receive().await.unwrap();
        assert_eq!(request["command_type"], name);
        let reply =
            json!({ "type": "result", "success": true, "data": data, "request_id": request["request_id"] });
        self.lines.get_mut().write_all(format!("{reply}\n").as_bytes()).await.unwrap();
    }
}

/// Opens a connection to a machine that a test plays.
async fn open(machines: &Machines, machine: &Machine) -> (Arc<MachineConnection>, Peer) {
    let (client, mut peer) = Peer::pair();
    let opening = MachineConnection::start(machines, machine, ready(Ok(client)));
    let subscribed = peer.reply("SUBSCRIBE", json!({ "subscribed": true, "seq": 0 }));
    let (opened, ()) = tokio::join!(opening, subscribed);
    (opened.unwrap(), peer)
}

#[tokio::test]
async fn unreachable_machine_has_a_reason_and_no_connection() {
    let (folder, machines) = empty_list();
    // Port 1 refuses connections.
    add(&folder, &machines, "laptop", 1);
    let relay = MachineRelay::new(machines.clone());
    assert_eq!(relay.list().unwrap()[0].reachable, None);
    assert_eq!(relay.connect("home").await.unwrap_err().kind, ErrorKind::NotFound);
    let error = relay.connect("laptop").await.unwrap_err();
    let listed = relay.list().unwrap();
    assert_eq!((listed[0].reachable, listed[0].error.as_ref()), (Some(false), Some(&error.message)));
    assert_eq!(relay.connect("laptop").await.unwrap_err(), error);
    machines.remove("laptop").unwrap();
    assert_eq!(relay.connect("laptop").await.unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(relay.list().unwrap(), []);
}

#[tokio::test]
async fn callers_share_an_attempt_that_ends_with_the_last() {
    let ((folder, machines), (listener, port)) = (empty_list(), listen().await);
    add(&folder, &machines, "laptop", port);
    let relay = MachineRelay::new(machines);
    {
        let mut first = pin!(relay.connect("laptop"));
        assert!(poll!(first.as_mut()).is_pending());
        {
            let mut second = pin!(relay.connect("laptop"));
            assert!(poll!(second.as_mut()).is_pending());
        }
        // The first caller still waits, so the attempt continues until the machine rejects it.
        let reject = async { drop(listener.accept().await.unwrap()) };
        let (outcome, ()) = tokio::join!(first, reject);
        outcome.unwrap_err();
        assert!(poll!(pin!(listener.accept())).is_pending());
    }
    assert_eq!(relay.list().unwrap()[0].reachable, Some(false));
}

#[tokio::test]
async fn attempt_without_callers_is_cancelled() {
    let ((folder, machines), (listener, port)) = (empty_list(), listen().await);
    add(&folder, &machines, "laptop", port);
    let relay = MachineRelay::new(machines);
    let mut stream = {
        let mut caller = pin!(relay.connect("laptop"));
        tokio::select! {
            outcome = caller.as_mut() => panic!("{outcome:?}"),
            accepted = listener.accept() => accepted.unwrap().0,
        }
    };
    // The client closes; the machine does not.
    stream.read_to_end(&mut Vec::new()).await.unwrap();
    assert_eq!(relay.list().unwrap()[0].reachable, None);
}

#[tokio::test]
async fn attempts_over_all_machines_are_limited() {
    let ((folder, machines), (hanging, port)) = (empty_list(), listen().await);
    let (waiting, last_port) = listen().await;
    for number in 0..PARALLEL {
        add(&folder, &machines, &format!("m{number}"), port);
    }
    add(&folder, &machines, "last", last_port);
    let relay = MachineRelay::new(machines);
    let names: Vec<String> = (0..PARALLEL).map(|number| format!("m{number}")).collect();
    let mut attempts = Box::pin(join_all(names.iter().map(|name| relay.connect(name))));
    let mut accepted = Vec::new();
    assert!(poll!(attempts.as_mut()).is_pending());
    let mut last = pin!(relay.connect("last"));
    while accepted.len() < PARALLEL {
        tokio::select! {
            stream = hanging.accept() => accepted.push(stream.unwrap()),
            _ = attempts.as_mut() => panic!("an attempt has ended"),
            _ = last.as_mut() => panic!("the last attempt has ended"),
        }
    }
    assert!(poll!(pin!(waiting.accept())).is_pending());
    drop(attempts);
    tokio::select! {
        _ = last => panic!("the last attempt has ended"),
        accepted = waiting.accept() => drop(accepted.unwrap()),
    }
}

#[tokio::test(start_paused = true)]
async fn machine_that_never_confirms_subscription_is_given_up() {
    let (folder, machines) = empty_list();
    let machine = add(&folder, &machines, "laptop", 1);
    let (client, mut peer) = Peer::pair();
    let error = MachineConnection::start(&machines, &machine, ready(Ok(client))).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout);
    assert_eq!(peer.receive().await.unwrap()["command_type"], "SUBSCRIBE");
    assert_eq!(peer.receive().await, None);
}

#[tokio::test(start_paused = true)]
async fn silent_machine_ends_requests_and_events() {
    let (folder, machines) = empty_list();
    let machine = add(&folder, &machines, "laptop", 1);
    let (connection, mut peer) = open(&machines, &machine).await;
    let mut events = MachineEvents::new(Arc::clone(&connection), nerve_api::request::Subscribe::default());
    // The first check succeeds, and the second does not. The peer reads on: the network is not at fault.
    let play = async {
        assert_eq!(peer.receive().await.unwrap()["command_type"], "GET_NODE");
        peer.reply("PING", json!({ "pong": true })).await;
        while peer.receive().await.is_some() {}
    };
    let request = connection.request(RequestName::GetNode, json!({ "node_id": "sh" }));
    let (reply, event, ()) = tokio::join!(request, events.next(), play);
    let Err(RelayError::Machine(error)) = reply else { panic!("{reply:?}") };
    assert_eq!(error.kind, ErrorKind::Timeout);
    assert_eq!(event.unwrap_err(), error);
    assert!(connection.has_ended());
}

#[tokio::test(start_paused = true)]
async fn last_contact_is_that_of_the_last_reply() {
    let (folder, machines) = empty_list();
    let machine = add(&folder, &machines, "laptop", 1);
    let (connection, mut peer) = open(&machines, &machine).await;
    assert_eq!(machines.last_contact(&machine), None);
    let mut events = MachineEvents::new(Arc::clone(&connection), nerve_api::request::Subscribe::default());
    peer.reply("PING", json!({ "pong": true })).await;
    let ping = peer.receive().await.unwrap();
    assert_eq!(ping["command_type"], "PING");
    let contact = machines.last_contact(&machine).unwrap();
    drop(peer);
    assert_eq!(events.next().await.unwrap_err().kind, ErrorKind::Network);
    assert_eq!(machines.last_contact(&machine), Some(contact));
}

#[tokio::test(start_paused = true)]
async fn changed_entry_ends_its_connection() {
    let (folder, machines) = empty_list();
    let machine = add(&folder, &machines, "laptop", 1);
    let (connection, _peer) = open(&machines, &machine).await;
    let mut events = MachineEvents::new(connection, nerve_api::request::Subscribe::default());
    machines.remove("laptop").unwrap();
    add(&folder, &machines, "laptop", 2);
    assert_eq!(events.next().await.unwrap_err().kind, ErrorKind::Cancelled);
}

#[tokio::test]
async fn attempt_of_an_older_entry_is_not_used() {
    let ((folder, machines), (listener, port)) = (empty_list(), listen().await);
    let older = add(&folder, &machines, "laptop", port);
    let relay = MachineRelay::new(machines.clone());
    let mut first = pin!(relay.connect("laptop"));
    assert!(poll!(first.as_mut()).is_pending());
    machines.remove("laptop").unwrap();
    add(&folder, &machines, "laptop", 1);
    assert_ne!(relay.connect("laptop").await.unwrap_err().kind, ErrorKind::Cancelled);
    let (connection, _peer) = open(&machines, &older).await;
    assert_eq!(relay.links.record(&older, Ok(connection)).unwrap_err().kind, ErrorKind::Cancelled);
    let reject = async { drop(listener.accept().await.unwrap()) };
    let (outcome, ()) = tokio::join!(first, reject);
    assert_eq!(outcome.unwrap_err().kind, ErrorKind::Cancelled);
}
