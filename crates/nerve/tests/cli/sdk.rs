//! The Rust client against a daemon that is killed and started again: its nodes are in hosts and live on.

use std::net::TcpListener;

use nerve_api::EventType;
use nerve_api::value::NodeState;
use nerve_client::{ClientError, EventStream, NerveClient, Reconnect, Tls};

use crate::harness::{DEADLINE, Home};

/// Returns a free loopback address: a restarted server has to use the same one.
fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

async fn until(events: &mut EventStream, kind: EventType, node: Option<&str>) {
    let found = async {
        loop {
            let event = events.next().await.expect("the stream ended");
            if event.kind() == Some(kind) && (node.is_none() || event.node_id.as_deref() == node) {
                return;
            }
        }
    };
    tokio::time::timeout(DEADLINE, found).await.unwrap_or_else(|_| panic!("no {kind}"));
}

#[test]
fn clients_reconnect_to_same_node_after_server_kill() {
    let home = Home::new();
    let (tcp, http) = (free_address(), free_address());
    let start = ["server", "start", "--tcp", &tcp, "--http", &http];
    home.ok(&start);
    home.ok(&["server", "node", "create", "sh", "-c", "bash --norc", "--env", "PS1=$ "]);
    let token = home.ok(&["token", "show"]).trim().to_string();
    let socket = home.hermetic.nerve_home().join("run/default.sock");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let clients = [
            NerveClient::connect(&socket).await.unwrap(),
            NerveClient::connect_tcp(&tcp, &token, &Tls::Off).await.unwrap(),
            NerveClient::connect_http(&format!("http://{http}"), &token, &Tls::Off).await.unwrap(),
        ]
        .map(|client| client.reconnect(Reconnect::Within(DEADLINE)));
        let nodes: Vec<_> = clients.iter().map(|client| client.node("sh", None)).collect();
        let mut streams: Vec<_> = clients.iter().map(NerveClient::events).collect();
        for node in &nodes {
            assert_eq!(node.execute("echo before").await.unwrap().response.text, "before");
        }
        // A turn under way: one prompt runs, the others wait for it.
        let pending: Vec<_> = nodes
            .iter()
            .map(|node| {
                let node = node.clone();
                tokio::spawn(async move { node.execute("sleep 1000").await })
            })
            .collect();
        for node in &nodes {
            node.wait(&[NodeState::Busy], Some(DEADLINE)).await.unwrap();
        }
        tokio::task::block_in_place(|| {
            home.kill_server("default");
        });
        for request in pending {
            match request.await.unwrap().unwrap_err() {
                ClientError::Closed(unanswered) => assert!(unanswered.sent, "{unanswered}"),
                error => panic!("{error}"),
            }
        }
        tokio::task::block_in_place(|| home.ok(&start));
        // The shell still runs the first `sleep`: no prompt was typed again.
        nodes[0].interrupt().await.unwrap();
        for (number, node) in nodes.iter().enumerate() {
            node.wait(&[NodeState::Ready], Some(DEADLINE)).await.unwrap();
            let said = node.execute(format!("echo after {number}")).await.unwrap();
            assert_eq!(said.response.text, format!("after {number}"));
        }
        let typed = nodes[0].read(None).await.unwrap();
        assert_eq!(typed.matches("$ sleep 1000").count(), 1, "{typed}");
        for events in &mut streams {
            until(events, EventType::EventsDropped, None).await;
            until(events, EventType::NodeBusy, Some("sh")).await;
        }
        for client in &clients {
            assert_eq!(client.unmatched_replies(), 0);
        }
    });
}
