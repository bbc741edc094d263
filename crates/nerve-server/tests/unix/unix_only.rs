//! What works only over a Unix socket: the kernel reports a closed peer, and buffers are small enough for a
//! test to fill.

use std::time::Instant;

use serde_json::json;

use crate::harness::{DEADLINE, TestServer};

#[tokio::test]
async fn connection_ends_when_client_leaves_during_request() {
    let server = TestServer::start_with(|config| config.max_connections = 1);
    let mut leaver = server.client().await;
    let sh = json!({ "node_id": "sh", "command": ["bash", "--norc", "--noprofile"], "env": { "PS1": "$ " } });
    leaver.done("CREATE_NODE", sh).await;
    leaver.done("SUBSCRIBE", json!({ "types": [] })).await;
    leaver.send("WAIT_NODE", json!({ "node_id": "sh", "until": "blocked", "timeout": 1000 })).await;
    leaver.send("PING", json!({})).await;
    assert_eq!(leaver.line().await.unwrap()["data"]["pong"], true);
    drop(leaver);
    // One slot: the next client is served as soon as the first is gone.
    let served = async {
        loop {
            let mut next = server.client().await;
            next.try_send("PING").await;
            if next.line().await.is_some_and(|line| line["success"] == true) {
                return;
            }
        }
    };
    tokio::time::timeout(DEADLINE, served).await.expect("the connection was kept");
    server.stop().await;
}

#[tokio::test]
async fn slow_reader_loses_events_and_is_notified() {
    let server = TestServer::start();
    let mut slow = server.client().await;
    slow.done("SUBSCRIBE", json!({ "types": ["NODE_CREATED", "NODE_STOPPED"] })).await;
    let mut busy = server.client().await;
    busy.done("SUBSCRIBE", json!({ "types": [] })).await;
    // Events are small: enough of them to fill the socket's buffers and the queue.
    let started = Instant::now();
    for round in 0..3000 {
        let node = json!({ "node_id": format!("n{round}"), "backend": "bash", "history": false });
        busy.done("CREATE_NODE", node.clone()).await;
        busy.done("STOP_NODE", node).await;
    }
    assert!(started.elapsed() < DEADLINE, "a slow reader held up others");
    let last = "n2999";
    let (mut seen, mut dropped) = (0, 0);
    loop {
        let event = slow.line().await.unwrap();
        if event["event_type"] == "EVENTS_DROPPED" {
            dropped += event["data"]["dropped"].as_u64().unwrap();
        } else {
            seen += 1;
        }
        if event["event_type"] == "NODE_STOPPED" && event["node_id"] == last {
            break;
        }
    }
    assert!(dropped > 0, "the test made too few events");
    assert_eq!(seen + dropped, 6000);
    server.stop().await;
}
