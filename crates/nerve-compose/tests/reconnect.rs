//! Reconnecting clients over each transport, with real servers that are restarted and connections that are cut.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use std::net::SocketAddr;
use std::time::Duration;

use nerve_api::EventType;
use nerve_api::request::{CommandLine, CreateNode, Subscribe};
use nerve_api::value::BackendKind;
use nerve_client::{ClientError, EventStream, NerveClient, RemoteNode, Tls};
use nerve_compose::{RunningServer, StandaloneClient, create_socket_server, engine_config};
use nerve_server::config::ServerConfig;
use nerve_server::paths::ServerPaths;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

const DEADLINE: Duration = Duration::from_secs(30);

struct Home {
    _folder: TempDir,
    paths: ServerPaths,
}

impl Home {
    fn new() -> Home {
        let folder = tempfile::tempdir().unwrap();
        let paths = ServerPaths::under(folder.path());
        Home { _folder: folder, paths }
    }

    fn serve(&self, tcp: SocketAddr, http: SocketAddr) -> RunningServer {
        let config = ServerConfig {
            tcp: Some(tcp),
            http: Some(http),
            ..ServerConfig::new("mine", self.paths.clone())
        };
        create_socket_server(&config, engine_config("mine", &self.paths, None)).unwrap()
    }
}

fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Forwards connections to a server and can cut them.
struct Relay {
    address: SocketAddr,
    cuts: watch::Sender<u32>,
}

impl Relay {
    async fn to(server: SocketAddr) -> Relay {
        let listener = TcpListener::bind(any_port()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (cuts, cut) = watch::channel(0);
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut cut = cut.clone();
                cut.mark_unchanged();
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(server).await.unwrap();
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                        _ = cut.changed() => {}
                    }
                });
            }
        });
        Relay { address, cuts }
    }

    fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}

async fn shell(client: &NerveClient, name: &str) -> RemoteNode {
    let params = CreateNode { backend: BackendKind::Bash, ..CreateNode::new(name) };
    client.create_node(&params).await.unwrap()
}

async fn echo(node: &RemoteNode, text: &str) -> Result<String, ClientError> {
    Ok(node.execute(format!("echo {text}")).await?.response.text)
}

async fn event(events: &mut EventStream) -> nerve_api::EventMessage {
    tokio::time::timeout(DEADLINE, events.next()).await.expect("no event").expect("the stream ended")
}

/// Cuts connections while a node works, and counts the events.
async fn cut_in_the_middle(client: NerveClient, other: NerveClient, relay: Relay) {
    let filter = Subscribe { node_id: Some("sh".into()), ..Subscribe::default() };
    let mut events = client.subscribe(&filter).await.unwrap();
    let node = shell(&other, "sh").await;
    let mut seen = Vec::new();
    for turn in 0..20 {
        if turn % 2 == 1 {
            relay.cut();
        }
        assert_eq!(echo(&node, "x").await.unwrap(), "x");
        while seen.len() < turn {
            seen.push(event(&mut events).await);
        }
    }
    node.stop().await.unwrap();
    while seen.last().and_then(|event| event.kind()) != Some(EventType::NodeStopped) {
        seen.push(event(&mut events).await);
    }
    // Every event arrived exactly once, and none was reported missing.
    let late = other.subscribe(&Subscribe { since: Some(0), ..filter }).await;
    let mut late = late.unwrap();
    for seen in seen {
        assert_eq!(event(&mut late).await, seen);
    }
    // Requests work too.
    relay.cut();
    assert!(client.ping().await.unwrap().pong);
    assert_eq!(client.unmatched_replies(), 0);
}

#[tokio::test]
async fn tcp_events_are_complete_after_cut_connections() {
    let home = Home::new();
    let server = home.serve(any_port(), any_port());
    let token = server.token().read().unwrap().reveal().to_string();
    let relay = Relay::to(server.tcp().unwrap()).await;
    let client = NerveClient::connect_tcp(&relay.address.to_string(), &token, &Tls::Off).await.unwrap();
    let other = NerveClient::connect(server.socket()).await.unwrap();
    cut_in_the_middle(client, other, relay).await;
    server.stop().await.unwrap();
}

#[tokio::test]
async fn http_events_are_complete_after_cut_connections() {
    let home = Home::new();
    let server = home.serve(any_port(), any_port());
    let token = server.token().read().unwrap().reveal().to_string();
    let relay = Relay::to(server.http().unwrap()).await;
    let url = format!("http://{}", relay.address);
    let client = NerveClient::connect_http(&url, &token, &Tls::Off).await.unwrap();
    let other = NerveClient::connect(server.socket()).await.unwrap();
    cut_in_the_middle(client, other, relay).await;
    server.stop().await.unwrap();
}

#[tokio::test]
async fn all_clients_reconnect_to_a_restarted_server() {
    let home = Home::new();
    let server = home.serve(any_port(), any_port());
    let (tcp, http) = (server.tcp().unwrap(), server.http().unwrap());
    let token = server.token().read().unwrap().reveal().to_string();
    let clients = [
        NerveClient::connect(server.socket()).await.unwrap(),
        NerveClient::connect_tcp(&tcp.to_string(), &token, &Tls::Off).await.unwrap(),
        NerveClient::connect_http(&format!("http://{http}"), &token, &Tls::Off).await.unwrap(),
    ];
    let mut streams: Vec<EventStream> = clients.iter().map(NerveClient::events).collect();
    for (number, client) in clients.iter().enumerate() {
        assert_eq!(echo(&shell(client, &format!("sh{number}")).await, "one").await.unwrap(), "one");
    }
    tokio::time::timeout(DEADLINE, server.stop()).await.expect("it does not stop").unwrap();
    let server = home.serve(tcp, http);
    for (number, client) in clients.iter().enumerate() {
        // A read-only command detects the closed connection and reconnects.
        assert!(client.ping().await.unwrap().pong);
        assert_eq!(echo(&shell(client, &format!("again{number}")).await, "two").await.unwrap(), "two");
    }
    for events in &mut streams {
        while event(events).await.kind() != Some(EventType::ServerShutdown) {}
        let missing = event(events).await;
        assert_eq!(missing.kind(), Some(EventType::EventsDropped), "{missing:?}");
        let first = event(events).await;
        assert_eq!((first.kind(), first.seq), (Some(EventType::NodeCreated), 1));
        for number in 0..3 {
            let name = format!("again{number}");
            while event(events).await.node_id.as_deref() != Some(name.as_str()) {}
        }
    }
    server.stop().await.unwrap();
}

#[tokio::test]
async fn standalone_server_ends_with_the_last_client_clone() {
    let home = Home::new();
    let process = {
        let client = NerveClient::standalone(engine_config("mine", &home.paths, None)).unwrap();
        let copy = client.clone();
        drop(client);
        let params = CreateNode {
            command: Some(CommandLine::Text("sleep 1000".to_string())),
            ..CreateNode::new("sleeper")
        };
        let node = copy.create_node(&params).await.unwrap();
        drop(copy);
        assert_eq!(echo(&shell(&client_of(&node), "sh").await, "alive").await.unwrap(), "alive");
        let pid = node.info().await.unwrap().metadata.display("pid").parse().unwrap();
        pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).unwrap()
    };
    // Becomes readable when the process has ended.
    let ended = move || {
        let deadline = Timespec::try_from(DEADLINE).unwrap();
        poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&deadline)).unwrap()
    };
    assert_eq!(tokio::task::spawn_blocking(ended).await.unwrap(), 1, "its node is still running");
}

/// Returns the client of a node.
fn client_of(node: &RemoteNode) -> NerveClient {
    node.client().clone()
}
