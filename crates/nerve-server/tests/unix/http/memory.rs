//! Limits of the memory for bodies.

use std::time::Duration;

use nerve_testkit::harness::memory_kib;
use rustix::net::sockopt::set_socket_recv_buffer_size;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::client::{HttpResponse, HttpServer};
use crate::harness::DEADLINE;

/// Returns the resident memory of this process, which includes the server, in MiB.
fn resident_mib() -> u64 {
    memory_kib(std::process::id(), "VmRSS") / 1024
}

#[tokio::test]
async fn request_bodies_share_a_memory_limit() {
    const LENGTH: usize = 15 << 20;
    let server = HttpServer::start();
    let before = resident_mib();
    let head = server.head("POST", "/api/command");
    let head = format!("{head}Content-Length: {LENGTH}\r\n\r\n");
    // All bodies are incomplete at the same time: none is sent twice or completely.
    let body = vec![b' '; LENGTH - 1];
    let uploads = (0..40).map(|_| async {
        let mut stream = server.connect().await;
        let sent = async {
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(&body).await
        };
        // Bodies without reserved memory are not read further.
        let _ = tokio::time::timeout(Duration::from_secs(2), sent).await;
        stream
    });
    let mut streams = futures_util::future::join_all(uploads).await;
    let used = resident_mib().saturating_sub(before);
    assert!(used < 120, "{used} MiB in use");
    // Small requests do not wait.
    let ping = server.request_ok("POST", "/api/command", json!({ "command_type": "PING" })).await;
    assert_eq!(ping["data"]["pong"], true);
    // Memory suffices for four bodies. The other clients get an error.
    let polls = streams.drain(..).map(|stream| async {
        let mut byte = [0; 1];
        let answered = tokio::time::timeout(Duration::from_secs(8), stream.get_ref().peek(&mut byte)).await;
        (answered.is_ok(), stream)
    });
    let (mut refused, mut accepted) = (0, Vec::new());
    for (is_answered, mut stream) in futures_util::future::join_all(polls).await {
        if !is_answered {
            accepted.push(stream);
            continue;
        }
        let response = HttpResponse::read(&mut stream).await;
        assert_eq!(response.header("retry-after"), Some("5"), "{response:?}");
        let detail = response.problem(503, "busy");
        assert!(detail.contains("memory"), "{detail}");
        refused += 1;
    }
    assert_eq!((refused, accepted.len()), (36, 4));
    for mut stream in accepted {
        stream.write_all(b" ").await.unwrap();
        let response = HttpResponse::read(&mut stream).await;
        assert_eq!(response.status, 400, "{response:?}");
    }
    // Afterwards memory is available again.
    let line = json!({ "command_type": "PING", "params": { "x": "x".repeat(LENGTH) } });
    assert_eq!(server.request_ok("POST", "/api/command", line).await["data"]["pong"], true);
    server.stop().await;
}

#[tokio::test]
async fn chunked_body_is_accepted() {
    let server = HttpServer::start();
    let head = server.head("POST", "/api/command");
    let line = json!({ "command_type": "PING", "params": { "x": "x".repeat(1 << 20) } }).to_string();
    for _ in 0..10 {
        let mut stream = server.connect().await;
        stream.write_all(format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes()).await.unwrap();
        for chunk in line.as_bytes().chunks(100_000) {
            stream.write_all(format!("{:x}\r\n", chunk.len()).as_bytes()).await.unwrap();
            stream.write_all(chunk).await.unwrap();
            stream.write_all(b"\r\n").await.unwrap();
        }
        stream.write_all(b"0\r\n\r\n").await.unwrap();
        assert_eq!(HttpResponse::read(&mut stream).await.json()["data"]["pong"], true);
    }
    server.stop().await;
}

#[tokio::test]
async fn unread_large_responses_are_limited() {
    /// The server keeps half a MiB of each turn.
    const TURNS: usize = 16;
    let server = HttpServer::start();
    server.bash("sh").await;
    let text = "head -c 900000 /dev/zero | tr '\\0' x";
    for _ in 0..TURNS {
        server.request_ok("POST", "/nodes/sh/execute", json!({ "text": text })).await;
    }
    let before = resident_mib();
    // About twice as long as the system's buffers of a connection, and never read.
    let request = format!("{}\r\n", server.head("GET", "/nodes/sh/history"));
    let mut readers = Vec::new();
    for _ in 0..40 {
        let mut stream = server.connect().await;
        // Otherwise the system may grow the buffer until a whole response fits.
        set_socket_recv_buffer_size(stream.get_ref(), 64 << 10).unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        readers.push(stream);
    }
    // The first responses fit into the limit and are read later.
    let mut started_responses = Vec::new();
    for mut stream in readers {
        let mut byte = [0; 1];
        if tokio::time::timeout(Duration::from_secs(12), stream.get_ref().peek(&mut byte)).await.is_err() {
            continue;
        }
        let (status, head) = super::client::read_head(&mut stream).await;
        match status {
            200 => started_responses.push((stream, head)),
            _ => assert_eq!(status, 503, "{head}"),
        }
    }
    let used = resident_mib().saturating_sub(before);
    assert!(
        started_responses.len() >= 8 && started_responses.len() < 40,
        "{} responses started",
        started_responses.len()
    );
    assert!(used < 350, "{used} MiB in use");
    assert_eq!(server.request_ok("GET", "/nodes", Value::Null).await["nodes"], json!(["sh"]));
    let (mut stream, head) = started_responses.swap_remove(0);
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    tokio::time::timeout(DEADLINE, stream.read_exact(&mut body)).await.expect("no body").unwrap();
    let history: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(history["entries"].as_array().unwrap().len(), TURNS);
    server.stop().await;
}
