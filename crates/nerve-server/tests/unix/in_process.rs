//! A server for a client in the same process.

use nerve_api::EventType;
use nerve_api::request::CreateNode;
use nerve_api::value::BackendKind;
use nerve_client::{ClientError, NerveClient};
use nerve_server::{InProcessServer, serve_in_process};
use tempfile::TempDir;

use crate::harness::{DEADLINE, engine, paths};

fn start_in_process() -> (NerveClient, InProcessServer, TempDir) {
    let home = tempfile::tempdir().unwrap();
    let (stream, server) = serve_in_process(engine(&paths(home.path()))).unwrap();
    (NerveClient::over(stream), server, home)
}

fn one_shot(node: &str) -> CreateNode {
    CreateNode { backend: BackendKind::Bash, ..CreateNode::new(node) }
}

async fn wait_for_exit(server: InProcessServer) {
    tokio::time::timeout(DEADLINE, server.ended()).await.expect("server did not exit");
}

#[tokio::test]
async fn client_gets_nodes_answers_and_events() {
    let (client, server, home) = start_in_process();
    let mut events = client.events();
    let node = client.create_node(&one_shot("a")).await.unwrap();
    let answer = node.execute("echo hello").await.unwrap();
    assert_eq!(answer.response.text.trim(), "hello");
    let event = events.next().await.unwrap();
    assert_eq!((event.kind(), event.node_id.as_deref()), (Some(EventType::NodeCreated), Some("a")));
    assert!(!paths(home.path()).runtime.exists(), "socket directory was created");
    drop((client, node, events));
    wait_for_exit(server).await;
}

#[tokio::test]
async fn shutdown_ends_server_and_notifies_client() {
    let (client, server, _home) = start_in_process();
    let mut events = client.events();
    client.create_node(&one_shot("a")).await.unwrap();
    client.shutdown(false).await.unwrap();
    wait_for_exit(server).await;
    let mut kinds = Vec::new();
    while let Some(event) = events.next().await {
        kinds.extend(event.kind());
    }
    assert_eq!(kinds.last(), Some(&EventType::ServerShutdown), "{kinds:?}");
    assert!(kinds.contains(&EventType::NodeStopped), "{kinds:?}");
    assert!(matches!(client.ping().await, Err(ClientError::Closed(_))));
}

#[tokio::test]
async fn stop_ends_server() {
    let (client, server, _home) = start_in_process();
    assert!(client.ping().await.unwrap().pong);
    tokio::time::timeout(DEADLINE, server.stop(false)).await.expect("server did not exit");
    assert!(matches!(client.ping().await, Err(ClientError::Closed(_))));
}
