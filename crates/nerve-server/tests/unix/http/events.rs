//! Server-sent events.

use std::time::Instant;

use nerve_server::access::token::TokenFile;
use nerve_testkit::eventually;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::client::{HttpServer, read_head};
use crate::harness::{DEADLINE, paths};

/// An event stream, read line by line.
struct Events {
    stream: BufReader<TcpStream>,
}

impl Events {
    async fn open(server: &HttpServer, path: &str, headers: &str) -> Events {
        let mut stream = server.connect().await;
        let head = format!("{}{headers}\r\n", server.head("GET", path));
        stream.write_all(head.as_bytes()).await.unwrap();
        let (status, head) = read_head(&mut stream).await;
        assert_eq!(status, 200, "{head}");
        assert!(head.contains("text/event-stream"), "{head}");
        Events { stream }
    }

    /// Reads the next line of the stream across chunks; `None` at the end.
    async fn line(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            let read = tokio::time::timeout(DEADLINE, self.stream.read_line(&mut line)).await;
            if read.expect("no line received").unwrap_or(0) == 0 {
                return None;
            }
            let text = line.trim_end();
            // Chunk sizes are hexadecimal numbers on lines of their own; the last is 0.
            if text == "0" {
                return None;
            }
            let is_size = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            if !text.is_empty() && !is_size {
                return Some(text.to_string());
            }
        }
    }

    /// Reads the next event with its id; `None` at the end.
    async fn next(&mut self) -> Option<(String, Value)> {
        let deadline = Instant::now() + DEADLINE;
        let mut id = String::new();
        while let Some(line) = self.line().await {
            assert!(Instant::now() < deadline, "no event received");
            if let Some(found) = line.strip_prefix("id: ") {
                id = found.to_string();
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return Some((id, serde_json::from_str(data).unwrap()));
            }
        }
        None
    }
}

fn kind(event: &Option<(String, Value)>) -> &str {
    event.as_ref().map_or("the end", |(_, event)| event["event_type"].as_str().unwrap())
}

#[tokio::test]
async fn events_arrive_filtered_with_their_ids() {
    let server = HttpServer::start();
    let mut all = Events::open(&server, "/events", "").await;
    let mut some =
        Events::open(&server, "/events?node=b&types=NODE_CREATED,NODE_STOPPED&aliases=true", "").await;
    assert!(all.line().await.unwrap().starts_with("retry: "));
    server.bash("a").await;
    server.bash("b").await;
    let first = all.next().await;
    assert_eq!(kind(&first), "NODE_CREATED");
    let (id, event) = first.unwrap();
    let (server_id, seq) = id.rsplit_once('-').unwrap();
    assert_eq!((seq, &event["node_id"]), (event["seq"].to_string().as_str(), &json!("a")));
    assert_eq!(server_id.len(), 16, "{id}");
    let created = some.next().await;
    assert_eq!((kind(&created), &created.as_ref().unwrap().1["node_id"]), ("NODE_CREATED", &json!("b")));
    assert_eq!(kind(&some.next().await), "CHANNEL_CREATED");
    server.request_ok("DELETE", "/nodes/b", Value::Null).await;
    assert_eq!(kind(&some.next().await), "NODE_STOPPED");
    server.get("/events?types=NODE_EXPLODED").await.problem(400, "invalid_request_error");
    server.get("/events?since=-1").await.problem(400, "invalid_request_error");
    server.stop().await;
}

#[tokio::test]
async fn reconnected_reader_resumes() {
    let server = HttpServer::start();
    for id in ["a", "b", "c"] {
        server.bash(id).await;
    }
    let mut past = Events::open(&server, "/events?since=0&types=NODE_CREATED", "").await;
    let mut ids = Vec::new();
    for id in ["a", "b", "c"] {
        let (seq, event) = past.next().await.unwrap();
        assert_eq!(event["node_id"], id);
        ids.push(seq);
    }
    // A browser requests the same URL again; its header takes precedence.
    let header = format!("Last-Event-ID: {}\r\n", ids[1]);
    let mut again = Events::open(&server, "/events?since=0&types=NODE_CREATED", &header).await;
    assert_eq!(again.next().await.unwrap().0, ids[2]);
    let head = server.head("GET", "/events");
    let bad = server.raw(format!("{head}Last-Event-ID: yesterday\r\nConnection: close\r\n\r\n")).await;
    bad.problem(400, "invalid_request_error");
    server.stop().await;
}

#[tokio::test]
async fn reader_ahead_of_server_starts_over() {
    let server = HttpServer::start();
    server.bash("a").await;
    let mut events = Events::open(&server, "/events?types=NODE_CREATED", "Last-Event-ID: 99999\r\n").await;
    assert!(events.line().await.unwrap().starts_with("retry"));
    assert!(events.line().await.unwrap().contains("was restarted"));
    // A reader that leaves before the first event can resume correctly.
    let id = events.line().await.unwrap();
    assert!(id.starts_with("id: ") && id.ends_with("-0"), "{id}");
    assert_eq!(events.next().await.unwrap().1["node_id"], "a");
    server.bash("b").await;
    assert_eq!(events.next().await.unwrap().1["node_id"], "b");
    let huge = format!("Last-Event-ID: {}\r\n", u64::MAX);
    let mut events = Events::open(&server, "/events?types=NODE_CREATED", &huge).await;
    assert_eq!(events.next().await.unwrap().1["node_id"], "a");
    server.stop().await;
}

#[tokio::test]
async fn reader_of_another_server_misses_nothing() {
    let server = HttpServer::start();
    for id in ["a", "b"] {
        server.bash(id).await;
    }
    let mut events = Events::open(&server, "/events?since=0&types=NODE_CREATED", "").await;
    let own = events.next().await.unwrap().0;
    // The number exists on this server too; only the server's id differs.
    let number = own.rsplit_once('-').unwrap().1;
    let path = "/events?types=NODE_CREATED";
    let mut own_again = Events::open(&server, path, &format!("Last-Event-ID: {own}\r\n")).await;
    assert_eq!(own_again.next().await.unwrap().1["node_id"], "b");
    let other = format!("0123456789abcdef-{number}");
    let header = format!("Last-Event-ID: {other}\r\n");
    for (path, header) in [(path.to_string(), header.as_str()), (format!("{path}&since={other}"), "")] {
        let mut foreign = Events::open(&server, &path, header).await;
        assert!(foreign.line().await.unwrap().starts_with("retry"));
        assert!(foreign.line().await.unwrap().contains("was restarted"));
        for id in ["a", "b"] {
            assert_eq!(foreign.next().await.unwrap().1["node_id"], id);
        }
    }
    // A number without a server id refers to this server.
    let mut plain = Events::open(&server, path, &format!("Last-Event-ID: {number}\r\n")).await;
    assert_eq!(plain.next().await.unwrap().1["node_id"], "b");
    server.stop().await;
}

#[tokio::test]
async fn stalled_reader_loses_events_and_is_notified() {
    let server = HttpServer::start();
    let mut slow = Events::open(&server, "/events?types=GATE_ASKED,GATE_ANSWERED", "").await;
    let mut quick = Events::open(&server, "/events?types=GATE_ANSWERED", "").await;
    // Events with long questions, which exceed the buffers of both sides and the queue.
    let gate = json!({ "id": "g", "gate": { "question": "x".repeat(500_000), "choices": ["yes"] } });
    let graph = json!({ "definition": { "graph": "ask", "steps": [gate] }, "detach": true });
    for _ in 0..40 {
        let run = server.request_ok("POST", "/runs", graph.clone()).await;
        let path = format!("/runs/{}/answer", run["run_id"].as_str().unwrap());
        let answer = async || server.request("POST", &path, json!({ "choice": "yes" })).await.status == 200;
        eventually("the gate is answered", answer).await;
        assert_eq!(kind(&quick.next().await), "GATE_ANSWERED");
    }
    let (mut seen, mut dropped, mut last) = (0, 0, 0);
    while seen + dropped < 80 {
        let (id, event) = slow.next().await.expect("the stream ended");
        let seq = event["seq"].as_u64().unwrap();
        assert!(seq >= last && id.ends_with(&format!("-{seq}")), "{id} {seq} {last}");
        last = seq;
        match event["event_type"] == "EVENTS_DROPPED" {
            true => dropped += event["data"]["dropped"].as_u64().unwrap(),
            false => seen += 1,
        }
    }
    assert!(dropped > 0, "too few events to overflow the queue");
    assert_eq!(seen + dropped, 80);
    server.stop().await;
}

#[tokio::test]
async fn shutdown_is_announced_and_ends_streams() {
    let server = HttpServer::start();
    let mut one = Events::open(&server, "/events?types=SERVER_SHUTDOWN", "").await;
    let mut two = Events::open(&server, "/events?types=", "").await;
    let down = server.request_ok("POST", "/api/shutdown", json!({ "keep_nodes": false })).await;
    assert_eq!(down["stopped"], true);
    assert_eq!(kind(&one.next().await), "SERVER_SHUTDOWN");
    assert_eq!(kind(&one.next().await), "the end");
    assert_eq!(kind(&two.next().await), "the end");
    server.wait_for_exit().await;
}

#[tokio::test]
async fn token_change_ends_stream() {
    let server = HttpServer::start();
    let mut events = Events::open(&server, "/events", "").await;
    TokenFile::new(paths(server.home()).token()).rotate().unwrap();
    let mut lines = Vec::new();
    while let Some(line) = events.line().await {
        lines.push(line);
    }
    assert!(lines.last().unwrap().contains("token was changed"), "{lines:?}");
    let mut rest = Vec::new();
    let closed = tokio::time::timeout(DEADLINE, events.stream.read_to_end(&mut rest)).await;
    assert!(closed.is_ok(), "the connection is still open");
    server.stop().await;
}
