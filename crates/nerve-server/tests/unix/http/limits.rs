//! Requests that are too large, too deep, too slow or incomplete.

use std::time::{Duration, Instant};

use nerve_testkit::{eventually, wait_until_async};
use rustix::net::sockopt::set_socket_linger;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::client::{HttpResponse, HttpServer};
use crate::harness::DEADLINE;

#[tokio::test]
async fn oversized_body_is_rejected_before_it_is_read() {
    let server = HttpServer::start();
    let head = server.head("POST", "/api/command");
    // Announced but not sent: the response comes without it.
    let response = server.raw(format!("{head}Content-Length: 17000000000\r\n\r\n")).await;
    response.problem(413, "too_large");
    // Not announced.
    let mut stream = server.connect().await;
    stream.write_all(format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes()).await.unwrap();
    let chunk = [&b"100000\r\n"[..], &vec![b' '; 1 << 20], b"\r\n"].concat();
    for _ in 0..17 {
        if stream.write_all(&chunk).await.is_err() {
            break;
        }
    }
    // The response arrives while the rest of the body is still being sent.
    let response = tokio::time::timeout(DEADLINE, HttpResponse::read(&mut stream)).await.unwrap();
    response.problem(413, "too_large");
    // Announced and sent completely before the response is read.
    let long_header =
        [format!("{head}Content-Length: {}\r\n\r\n", 17 << 20).as_bytes(), &vec![b' '; 17 << 20]].concat();
    server.raw(long_header).await.problem(413, "too_large");
    // Without a token, the body is not read at all.
    let host = server.address;
    let response = server
        .raw(format!("POST /api/command HTTP/1.1\r\nHost: {host}\r\nContent-Length: 16000000\r\n\r\n"))
        .await;
    response.problem(401, "authentication_error");
    server.stop().await;
}

#[tokio::test]
async fn deep_and_broken_json_is_reported() {
    let server = HttpServer::start();
    let deep = format!("{{\"node_id\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    for (path, body, word) in [
        ("/nodes", deep.as_bytes(), "deep"),
        ("/nodes", b"{\"node_id\":", "JSON"),
        ("/nodes", b"[1]", "object"),
        ("/nodes", b"{\"node_id\":\"\xff\"}", "unicode"),
        ("/nodes", b"{\"node_id\":7}", "node_id"),
        ("/nodes", b"{}", "node_id"),
        ("/nodes/a/execute", b"{}", "text"),
        ("/nodes/a/execute", b"{\"node_id\":\"b\",\"text\":\"x\"}", "node_id"),
        ("/nodes/a/interrupt", b"{\"x\":1}", "body"),
    ] {
        let head = format!(
            "{}Content-Length: {}\r\nConnection: close\r\n\r\n",
            server.head("POST", path),
            body.len()
        );
        let detail = server.raw([head.as_bytes(), body].concat()).await.problem(400, "invalid_request_error");
        assert!(detail.contains(word), "{path}: {detail}");
    }
    server.stop().await;
}

#[tokio::test]
async fn invalid_heads_end_only_their_connection() {
    let server = HttpServer::start();
    let long_header = format!("{}X: {}\r\n\r\n", server.head("GET", "/nodes"), "x".repeat(100_000));
    let many_headers = format!("{}{}\r\n", server.head("GET", "/nodes"), "X: y\r\n".repeat(200));
    let smuggled = format!(
        "{}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n",
        server.head("POST", "/nodes")
    );
    let endless = format!("{}X: {}", server.head("GET", "/nodes"), "x".repeat(1 << 20));
    let path = format!("{}\r\n", server.head("GET", &format!("/nodes/{}", "x".repeat(60_000))));
    for (bytes, statuses) in [
        (long_header.as_bytes(), &[431][..]),
        (path.as_bytes(), &[431, 414]),
        // The response comes while the request is still being sent, and may be lost.
        (endless.as_bytes(), &[431, 0]),
        (many_headers.as_bytes(), &[431, 400]),
        (smuggled.as_bytes(), &[400]),
        (b"hello\r\n\r\n", &[400]),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", &[400, 0]),
        (b"{\"type\":\"command\",\"command_type\":\"PING\"}\n", &[400]),
        (b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", &[400, 505, 0]),
    ] {
        let response = server.raw(bytes).await;
        let prefix = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]);
        assert!(statuses.contains(&response.status), "{prefix:?}: {response:?}");
    }
    assert_eq!(server.get("/health").await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn incomplete_request_times_out() {
    let server = HttpServer::start();
    let started = Instant::now();
    let mut incomplete = Vec::new();
    for bytes in ["", "GET /nodes HT", "GET /nodes HTTP/1.1\r\nHost: local"] {
        let mut stream = server.connect().await;
        stream.write_all(bytes.as_bytes()).await.unwrap();
        incomplete.push(stream);
    }
    // A connection that was served once without a token and is idle now.
    let mut idle = server.connect().await;
    idle.write_all(format!("GET /health HTTP/1.1\r\nHost: {}\r\n\r\n", server.address).as_bytes())
        .await
        .unwrap();
    assert_eq!(HttpResponse::read(&mut idle).await.status, 200);
    incomplete.push(idle);
    // An authenticated connection may idle longer.
    let mut authenticated = server.connect().await;
    let request = format!("{}\r\n", server.head("GET", "/nodes"));
    authenticated.write_all(request.as_bytes()).await.unwrap();
    assert_eq!(HttpResponse::read(&mut authenticated).await.status, 200);
    for mut stream in incomplete {
        let mut rest = Vec::new();
        let read = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut rest)).await;
        assert!(read.is_ok(), "connection still open");
    }
    assert!(started.elapsed() > Duration::from_secs(8), "{:?}", started.elapsed());
    authenticated.write_all(request.as_bytes()).await.unwrap();
    assert_eq!(HttpResponse::read(&mut authenticated).await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn half_closed_client_gets_its_response() {
    let server = HttpServer::start();
    server.bash("sh").await;
    let marker = server.home().join("go");
    let text = format!("until [ -e {} ]; do sleep 0.02; done; echo hello", marker.display());
    let body = json!({ "text": text }).to_string();
    let head = server.head("POST", "/nodes/sh/execute");
    let mut stream = server.connect().await;
    stream.write_all(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    std::fs::write(marker, "").unwrap();
    let response = HttpResponse::read(&mut stream).await;
    assert_eq!(response.status, 200, "{response:?}");
    assert!(response.json().to_string().contains("hello"), "{response:?}");
    // Two pipelined requests, then the end of input.
    let mut stream = server.connect().await;
    let twice = format!("{}\r\n", server.head("GET", "/nodes")).repeat(2);
    stream.write_all(twice.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    for _ in 0..2 {
        assert_eq!(HttpResponse::read(&mut stream).await.status, 200);
    }
    let mut rest = Vec::new();
    let end =
        tokio::time::timeout(DEADLINE, stream.read_to_end(&mut rest)).await.expect("connection still open");
    assert_eq!((end.unwrap(), rest.len()), (0, 0));
    server.stop().await;
}

#[tokio::test]
async fn started_command_continues_when_client_leaves() {
    let server = HttpServer::start();
    server.bash("sh").await;
    let (go, marker) = (server.home().join("go"), server.home().join("mark"));
    let text = format!("until [ -e {} ]; do sleep 0.01; done; touch {}", go.display(), marker.display());
    let body = json!({ "text": text }).to_string();
    let head = server.head("POST", "/nodes/sh/execute");
    let mut stream = server.connect().await;
    stream.write_all(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).await.unwrap();
    let state = async || server.request_ok("GET", "/nodes/sh", Value::Null).await["state"].take();
    eventually("the command runs", async || state().await == "busy").await;
    drop(stream);
    std::fs::write(go, "").unwrap();
    eventually("the command ends", async || marker.exists()).await;
    server.stop().await;
}

#[tokio::test]
async fn running_request_is_answered_at_shutdown() {
    let server = HttpServer::start();
    server.bash("sh").await;
    let body = json!({ "text": "sleep 600" }).to_string();
    let head = server.head("POST", "/nodes/sh/execute");
    let mut stream = server.connect().await;
    stream.write_all(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).await.unwrap();
    let state = async || server.request_ok("GET", "/nodes/sh", Value::Null).await["state"].take();
    eventually("the command runs", async || state().await == "busy").await;
    server.begin_shutdown();
    let response = HttpResponse::read(&mut stream).await;
    assert!(response.status >= 200, "{response:?}");
    assert_eq!(
        response.header("content-type").map(|kind| kind.ends_with("json")),
        Some(true),
        "{response:?}"
    );
    server.wait_for_exit().await;
}

#[tokio::test]
async fn excess_client_gets_an_error() {
    let server = HttpServer::start_with(|config| config.max_connections = 2);
    let mut connections = Vec::new();
    for _ in 0..2 {
        let mut stream = server.connect().await;
        stream.write_all(format!("{}\r\n", server.head("GET", "/events")).as_bytes()).await.unwrap();
        assert_eq!(super::client::read_head(&mut stream).await.0, 200);
        connections.push(stream);
    }
    let detail = server.get("/nodes").await.problem(503, "busy");
    assert!(detail.contains("too many connections"), "{detail}");
    // Closed clients free their slots long before the next heartbeat.
    for stream in connections {
        set_socket_linger(stream.get_ref(), Some(Duration::ZERO)).unwrap();
    }
    let deadline = Duration::from_secs(8);
    let has_slot = async || server.get("/nodes").await.status == 200;
    assert!(wait_until_async(deadline, has_slot).await, "no slot is free");
    server.stop().await;
}
