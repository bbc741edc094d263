//! The tests of the Unix socket over TCP, with a token.

/// The tests below use this harness.
mod harness {
    pub(crate) use crate::harness::{Client, TcpServer as TestServer};
}

#[path = "bad_input.rs"]
mod bad_input;
#[path = "traffic.rs"]
mod traffic;

use nerve_api::EventType;
use nerve_api::request::CreateNode;
use nerve_api::value::BackendKind;
use nerve_client::{ClientError, NerveClient, Tls};
use nerve_server::config::ServerConfig;
use nerve_server::daemon;
use nerve_server::server::Server;
use nerve_testkit::{wait_until, within_deadline};
use serde_json::json;
use tokio::net::TcpStream;

use crate::harness::{Client, DEADLINE, TcpServer, paths};

fn one_shot(node: &str) -> CreateNode {
    CreateNode { backend: BackendKind::Bash, ..CreateNode::new(node) }
}

#[tokio::test]
async fn client_gets_nodes_answers_and_events() {
    let server = TcpServer::start();
    let address = server.tcp().to_string();
    let client = NerveClient::connect_tcp(&address, &server.token(), &Tls::Off).await.unwrap();
    let mut events = client.events();
    let node = client.create_node(&one_shot("a")).await.unwrap();
    let answer = node.execute("echo hello").await.unwrap();
    assert_eq!(answer.response.text.trim(), "hello");
    assert_eq!(events.next().await.unwrap().kind(), Some(EventType::NodeCreated));
    client.shutdown(false).await.unwrap();
    server.wait_for_exit().await;
}

#[tokio::test]
async fn wrong_token_and_missing_server_are_reported() {
    let server = TcpServer::start();
    let address = server.tcp().to_string();
    let error = NerveClient::connect_tcp(&address, "wrong", &Tls::Off).await.unwrap_err();
    assert_eq!(error.server().unwrap().details.error_type.as_str(), "authentication_error");
    assert!(!format!("{error} {error:?}").contains(&server.token()));
    let token = server.token();
    server.stop().await;
    let error = NerveClient::connect_tcp(&address, &token, &Tls::Off).await.unwrap_err();
    assert!(matches!(&error, ClientError::Io { action, .. } if action.contains(&address)), "{error}");
    assert!(!format!("{error} {error:?}").contains(&token));
    let error = NerveClient::connect_tcp("nowhere", &token, &Tls::Off).await.unwrap_err();
    assert!(matches!(error, ClientError::Protocol(_)), "{error}");
}

#[tokio::test]
async fn request_may_follow_token_at_once() {
    let server = TcpServer::start();
    let mut client = Client::tcp(server.tcp()).await;
    let hello =
        json!({ "command_type": "AUTHENTICATE", "params": { "token": server.token() }, "request_id": "0" });
    let more: String = (1..=500)
        .map(|n| {
            format!(
                "\n{}",
                json!({ "command_type": "PING", "params": { "x": "y".repeat(200) }, "request_id": n })
            )
        })
        .collect();
    client.send_raw(format!("\n \r\n{hello}{more}")).await;
    assert_eq!(client.reply().await["data"]["authenticated"], true);
    let mut answered: Vec<u64> = Vec::new();
    for _ in 0..500 {
        answered.push(client.reply().await["request_id"].as_u64().unwrap());
    }
    answered.sort_unstable();
    assert!(answered.into_iter().eq(1..=500));
    server.stop().await;
}

#[tokio::test]
async fn addresses_are_published_and_freed() {
    let server = TcpServer::start();
    let (address, paths) = (server.tcp(), paths(server.home.path()));
    let listens = daemon::addresses(&paths, "test").unwrap();
    assert_eq!((listens.tcp, listens.http, listens.tls), (Some(address), None, false));
    assert_eq!(listens.urls(), [format!("tcp://{address}")]);
    let config = ServerConfig { tcp: Some(address), ..ServerConfig::new("other", paths.clone()) };
    let error = Server::bind(&config).unwrap_err();
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    let mut client = server.client().await;
    client.request_ok("SHUTDOWN", json!({})).await;
    server.task.await.unwrap().unwrap();
    assert_eq!(daemon::addresses(&paths, "test").unwrap(), daemon::Addresses::default());
    Server::bind(&config).unwrap();
}

#[tokio::test]
async fn public_address_needs_tls_or_insecure() {
    let home = tempfile::tempdir().unwrap();
    let mut config = ServerConfig::new("test", paths(home.path()));
    config.tcp = Some(([0, 0, 0, 0], 0).into());
    let error = Server::bind(&config).unwrap_err();
    assert!(
        error.to_string().contains("needs TLS") && error.hint().unwrap().contains("--insecure"),
        "{error}"
    );
    config.insecure = true;
    Server::bind(&config).unwrap();
}

#[tokio::test]
async fn shutdown_does_not_wait_for_unauthenticated_clients() {
    let server = TcpServer::start();
    let mut silent = Client::tcp(server.tcp()).await;
    let mut wrong = Client::tcp(server.tcp()).await;
    wrong.send("AUTHENTICATE", json!({ "token": "wrong" })).await;
    let mut client = server.client().await;
    client.request_ok("SHUTDOWN", json!({})).await;
    within_deadline("the server exits", server.task).await.unwrap().unwrap();
    // After ten seconds it would get an error.
    assert_eq!(silent.line().await, None);
    wrong.line().await;
}

#[tokio::test]
async fn keepalive_detects_vanished_client() {
    let server = TcpServer::start();
    let stream = TcpStream::connect(server.tcp()).await.unwrap();
    let (near, far) = (stream.local_addr().unwrap().port(), server.tcp().port());
    let (read, write) = stream.into_split();
    let mut client = Client::new(read, write);
    client.request_ok("AUTHENTICATE", json!({ "token": server.token() })).await;
    // In the kernel's table (proc_pid_net(5)), the server's end has a keepalive timer (2).
    let probed = || {
        let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
        let fields = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let mut ends = fields.filter(|end| {
            end[1].ends_with(&format!(":{far:04X}")) && end[2].ends_with(&format!(":{near:04X}"))
        });
        ends.next().is_some_and(|end| end[5].starts_with("02:"))
    };
    assert!(wait_until(DEADLINE, probed));
    server.stop().await;
}
