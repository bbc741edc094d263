//! Cases that need a Unix socket: the kernel reports a closed peer, and the buffers are small enough to fill.

use serde_json::json;

use crate::harness::{DEADLINE, TestServer};

#[tokio::test]
async fn connection_ends_when_client_leaves_during_request() {
    let server = TestServer::start_with(|config| config.max_connections = 1);
    let mut leaver = server.client().await;
    let sh = json!({ "node_id": "sh", "command": ["bash", "--norc", "--noprofile"], "env": { "PS1": "$ " } });
    leaver.request_ok("CREATE_NODE", sh).await;
    leaver.request_ok("SUBSCRIBE", json!({ "types": [] })).await;
    leaver.send("WAIT_NODE", json!({ "node_id": "sh", "until": "blocked", "timeout": 1000 })).await;
    leaver.send("PING", json!({})).await;
    assert_eq!(leaver.line().await.unwrap()["data"]["pong"], true);
    drop(leaver);
    // One slot: the next client is served as soon as the first is gone.
    let accepted = async {
        loop {
            let mut next = server.client().await;
            next.try_send("PING").await;
            if next.line().await.is_some_and(|line| line["success"] == true) {
                return;
            }
        }
    };
    tokio::time::timeout(DEADLINE, accepted).await.expect("connection was not closed");
    server.stop().await;
}

#[tokio::test]
async fn slow_reader_loses_events_and_is_notified() {
    let server = TestServer::start();
    let mut slow = server.client().await;
    let types = ["NODE_CREATED", "NODE_STOPPED", "NODE_REMOVED"];
    slow.request_ok("SUBSCRIBE", json!({ "types": types })).await;
    let mut busy = server.client().await;
    busy.request_ok("SUBSCRIBE", json!({ "types": [] })).await;
    // The queue holds 1024 events, and the socket's buffers about as many: a long name makes the events longer.
    const ROUNDS: usize = 1000;
    let name = |round: usize| format!("{round:0>32}");
    for round in 0..ROUNDS {
        let node = json!({ "node_id": name(round), "backend": "bash", "history": false });
        busy.request_ok("CREATE_NODE", node.clone()).await;
        busy.request_ok("STOP_NODE", node.clone()).await;
        // Stopped nodes are stored with each change.
        busy.request_ok("REMOVE_NODE", node).await;
    }
    let last = name(ROUNDS - 1);
    let (mut seen, mut dropped) = (0, 0);
    loop {
        let event = slow.line().await.unwrap();
        if event["event_type"] == "EVENTS_DROPPED" {
            dropped += event["data"]["dropped"].as_u64().unwrap();
        } else {
            seen += 1;
        }
        if event["event_type"] == "NODE_REMOVED" && event["node_id"] == last {
            break;
        }
    }
    assert!(dropped > 0, "too few events to overflow the queue");
    assert_eq!(seen + dropped, (ROUNDS * types.len()) as u64);
    server.stop().await;
}
