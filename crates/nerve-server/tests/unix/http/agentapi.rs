//! A node as agentapi shows an agent: the words its clients know.

use std::time::Instant;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};

use super::client::{HttpServer, read_head};
use crate::harness::DEADLINE;

#[tokio::test]
async fn a_client_of_agentapi_talks_to_a_node() {
    let server = HttpServer::start();
    server.bash("sh").await;
    let at = |path: &str| format!("/compat/agentapi/sh/{path}");
    let mut events = server.connect().await;
    events.write_all(format!("{}\r\n", server.head("GET", &at("events"))).as_bytes()).await.unwrap();
    assert_eq!(read_head(&mut events).await.0, 200);
    let status = server.done("GET", &at("status"), Value::Null).await;
    assert_eq!((&status["status"], &status["transport"]), (&json!("stable"), &json!("pty")), "{status}");
    assert_eq!(server.done("GET", &at("messages"), Value::Null).await, json!({ "messages": [] }));

    let said = json!({ "content": "sleep 0.5; echo hello", "type": "user" });
    assert_eq!(server.done("POST", &at("message"), said.clone()).await, json!({ "ok": true }));
    // It has begun when that is answered: who asks now is not told that it waits.
    assert_eq!(server.done("GET", &at("status"), Value::Null).await["status"], "running");
    server.ask("POST", &at("message"), said).await.problem(409, "busy");
    let deadline = Instant::now() + DEADLINE;
    while server.done("GET", &at("status"), Value::Null).await["status"] != "stable" {
        assert!(Instant::now() < deadline);
    }
    let messages = server.done("GET", &at("messages"), Value::Null).await;
    let said: Vec<(&Value, &Value)> =
        messages["messages"].as_array().unwrap().iter().map(|one| (&one["role"], &one["content"])).collect();
    assert_eq!(said, [(&json!("user"), &json!("sleep 0.5; echo hello")), (&json!("agent"), &json!("hello"))]);
    assert!(messages["messages"][0]["time"].as_str().unwrap().ends_with('Z'), "{messages}");

    // The reader of events was told all of it, in this order.
    let wanted = ["\"stable\"", "\"running\"", "sleep 0.5", "\"hello\"", "\"stable\""];
    let mut left = wanted.iter();
    let mut next = left.next();
    let deadline = tokio::time::Instant::now() + DEADLINE;
    while let Some(word) = next {
        let mut line = String::new();
        let read = tokio::time::timeout_at(deadline, events.read_line(&mut line)).await;
        assert!(read.unwrap_or_else(|_| panic!("{word} was not told")).unwrap() > 0, "{word}");
        if line.starts_with("data: ") && line.contains(word) {
            next = left.next();
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn what_is_wrong_is_told_as_everywhere() {
    let server = HttpServer::start();
    server.bash("sh").await;
    for path in ["status", "messages", "events"] {
        server.get(&format!("/compat/agentapi/nobody/{path}")).await.problem(404, "not_found_error");
    }
    for bad in [json!({}), json!({ "content": "x" }), json!({ "content": "x", "type": "shout" }), json!([])] {
        server.ask("POST", "/compat/agentapi/sh/message", bad).await.problem(400, "invalid_request_error");
    }
    // A bash node has no terminal to write into.
    let raw = json!({ "content": "x", "type": "raw" });
    server.ask("POST", "/compat/agentapi/sh/message", raw).await.problem(400, "invalid_request_error");
    server.stop().await;
}
