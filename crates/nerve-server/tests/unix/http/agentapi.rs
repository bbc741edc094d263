//! The compatibility layer for clients of agentapi.

use nerve_testkit::eventually;
use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWriteExt};

use super::client::{HttpServer, read_head};
use crate::harness::{DEADLINE, paths};

#[tokio::test]
async fn agentapi_client_talks_to_a_node() {
    let server = HttpServer::start();
    server.bash("sh").await;
    let at = |path: &str| format!("/compat/agentapi/sh/{path}");
    let mut events = server.connect().await;
    events.write_all(format!("{}\r\n", server.head("GET", &at("events"))).as_bytes()).await.unwrap();
    assert_eq!(read_head(&mut events).await.0, 200);
    let status = server.request_ok("GET", &at("status"), Value::Null).await;
    assert_eq!((&status["status"], &status["transport"]), (&json!("stable"), &json!("pty")), "{status}");
    assert_eq!(server.request_ok("GET", &at("messages"), Value::Null).await, json!({ "messages": [] }));

    let go = server.home().join("go");
    let command = format!("until [ -e {} ]; do sleep 0.01; done; echo hello", go.display());
    let prompt = json!({ "content": command, "type": "user" });
    assert_eq!(server.request_ok("POST", &at("message"), prompt.clone()).await, json!({ "ok": true }));
    // Once the message is accepted, the agent runs and its status is not stable.
    assert_eq!(server.request_ok("GET", &at("status"), Value::Null).await["status"], "running");
    server.request("POST", &at("message"), prompt).await.problem(409, "busy");
    std::fs::write(go, "").unwrap();
    let status = async || server.request_ok("GET", &at("status"), Value::Null).await["status"].take();
    eventually("the answer", async || status().await == "stable").await;
    let messages = server.request_ok("GET", &at("messages"), Value::Null).await;
    let transcript: Vec<(&Value, &Value)> =
        messages["messages"].as_array().unwrap().iter().map(|one| (&one["role"], &one["content"])).collect();
    assert_eq!(transcript, [(&json!("user"), &json!(command)), (&json!("agent"), &json!("hello"))]);
    assert!(messages["messages"][0]["time"].as_str().unwrap().ends_with('Z'), "{messages}");

    // The event stream contained all of it, in this order.
    let expected = ["\"stable\"", "\"running\"", "until [ -e", "\"hello\"", "\"stable\""];
    let mut remaining = expected.iter();
    let mut next = remaining.next();
    let deadline = tokio::time::Instant::now() + DEADLINE;
    while let Some(word) = next {
        let mut line = String::new();
        let read = tokio::time::timeout_at(deadline, events.read_line(&mut line)).await;
        assert!(read.unwrap_or_else(|_| panic!("no line with {word}")).unwrap() > 0, "{word}");
        if line.starts_with("data: ") && line.contains(word) {
            next = remaining.next();
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn errors_are_problem_documents() {
    let server = HttpServer::start();
    server.bash("sh").await;
    for path in ["status", "messages", "events"] {
        server.get(&format!("/compat/agentapi/absent/{path}")).await.problem(404, "not_found_error");
    }
    for bad in [json!({}), json!({ "content": "x" }), json!({ "content": "x", "type": "shout" }), json!([])] {
        server
            .request("POST", "/compat/agentapi/sh/message", bad)
            .await
            .problem(400, "invalid_request_error");
    }
    // A bash node has no terminal to write to.
    let raw = json!({ "content": "x", "type": "raw" });
    server.request("POST", "/compat/agentapi/sh/message", raw).await.problem(400, "invalid_request_error");
    server.stop().await;
}

/// Reads an event stream up to the line with this word and returns its data; `None` if the stream ends first.
async fn wait_for_line(stream: &mut (impl AsyncBufRead + Unpin), word: &str) -> Option<String> {
    let search = async {
        loop {
            let mut line = String::new();
            // The last chunk is empty; the connection is kept.
            if stream.read_line(&mut line).await.unwrap() == 0 || line.trim_end() == "0" {
                return None;
            }
            if line.starts_with("data: ") && line.contains(word) {
                return Some(line);
            }
        }
    };
    tokio::time::timeout(DEADLINE, search).await.unwrap_or_else(|_| panic!("no line with {word}"))
}

#[tokio::test]
async fn history_is_not_read_for_every_event() {
    let server = HttpServer::start();
    server.bash("sh").await;
    let mut events = server.connect().await;
    let head = server.head("GET", "/compat/agentapi/sh/events");
    events.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
    assert_eq!(read_head(&mut events).await.0, 200);
    assert!(wait_for_line(&mut events, "\"stable\"").await.is_some());
    // From now on, reading the history fails and ends the stream.
    let history = paths(server.home()).data.history.join("test/sh.jsonl");
    let _ = std::fs::remove_file(&history);
    std::fs::create_dir_all(&history).unwrap();
    server.request_ok("POST", "/nodes/sh/execute", json!({ "text": "sleep 600", "async": true })).await;
    assert!(wait_for_line(&mut events, "\"running\"").await.is_some(), "the stream ended");
    server.request_ok("POST", "/nodes/sh/interrupt", Value::Null).await;
    // When the turn has ended, the history is read.
    assert_eq!(wait_for_line(&mut events, "nothing has this").await, None);
    server.stop().await;
}

#[tokio::test]
async fn missed_messages_are_sent_once_in_order() {
    let server = HttpServer::start();
    server.bash("sh").await;
    for turn in 0..20 {
        server.request_ok("POST", "/nodes/sh/execute", json!({ "text": format!("echo said-{turn}") })).await;
    }
    let mut events = server.connect().await;
    let head = server.head("GET", "/compat/agentapi/sh/events");
    events.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
    assert_eq!(read_head(&mut events).await.0, 200);
    // First all existing messages, then new ones.
    let mut last = 0;
    for turn in 0..40 {
        if turn >= 20 {
            server
                .request_ok("POST", "/nodes/sh/execute", json!({ "text": format!("echo said-{turn}") }))
                .await;
        }
        for role in ["user", "agent"] {
            let line = wait_for_line(&mut events, "\"role\"").await.unwrap();
            let message: Value = serde_json::from_str(line.trim_start_matches("data: ")).unwrap();
            assert_eq!(message["role"], role, "{line}");
            assert!(message["message"].as_str().unwrap().ends_with(&format!("said-{turn}")), "{line}");
            assert!(message["id"].as_u64().unwrap() > last, "{line}");
            last = message["id"].as_u64().unwrap();
        }
    }
    server.stop().await;
}
