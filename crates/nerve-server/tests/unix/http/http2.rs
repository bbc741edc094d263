//! HTTP/2 in plain text with prior knowledge. Over TLS: `tls.rs`.

use std::process::Command;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use futures_util::future::join_all;
use http::{Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use nerve_testkit::skip;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::client::HttpServer;
use crate::harness::DEADLINE;

/// The connection of an authenticated client.
pub(super) struct Http2 {
    pub(super) send: SendRequest<Full<Bytes>>,
    pub(super) connection: JoinHandle<hyper::Result<()>>,
    authority: String,
    token: String,
}

impl Http2 {
    pub(super) async fn connect(server: &HttpServer) -> Http2 {
        let stream = TcpStream::connect(server.address).await.unwrap();
        Http2::handshake(stream, &server.address.to_string(), &server.token).await
    }

    pub(super) async fn handshake(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        authority: &str,
        token: &str,
    ) -> Http2 {
        let (send, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        Http2 { send, connection, authority: authority.to_string(), token: token.to_string() }
    }

    fn builder(&self, method: &str, path: &str) -> http::request::Builder {
        Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.authority))
            .header("authorization", format!("Bearer {}", self.token))
    }

    async fn send_request(&self, request: Request<Full<Bytes>>) -> Response<Incoming> {
        let response = self.send.clone().send_request(request);
        tokio::time::timeout(DEADLINE, response).await.expect("no answer").unwrap()
    }

    pub(super) async fn request(&self, method: &str, path: &str, body: Value) -> (StatusCode, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        read_response(self.send_request(self.builder(method, path).body(body.into()).unwrap()).await).await
    }

    /// Returns true if the server ends the connection in time.
    async fn wait_for_close(self) -> bool {
        drop(self.send);
        tokio::time::timeout(DEADLINE, self.connection).await.is_ok()
    }
}

async fn read_response(response: Response<Incoming>) -> (StatusCode, Value) {
    assert_eq!(response.version(), Version::HTTP_2);
    let status = response.status();
    let body = tokio::time::timeout(DEADLINE, response.into_body().collect()).await.expect("no body");
    let body = body.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or_else(|error| panic!("{error}: {body:?}")))
}

/// Reads an event stream until it contains this word.
async fn wait_for_event(events: &mut Incoming, word: &str) {
    let mut text = String::new();
    while !text.contains(word) {
        let frame = tokio::time::timeout(DEADLINE, events.frame()).await;
        let frame = frame.unwrap_or_else(|_| panic!("no {word}: {text}")).expect("the end").unwrap();
        text.push_str(&String::from_utf8_lossy(frame.data_ref().unwrap()));
    }
}

#[tokio::test]
async fn one_connection_carries_concurrent_requests_and_events() {
    let server = HttpServer::start();
    let client = Http2::connect(&server).await;
    let events = client.send_request(client.builder("GET", "/events").body(Full::default()).unwrap()).await;
    assert_eq!(events.status(), StatusCode::OK);
    assert_eq!(events.headers()["content-type"], "text/event-stream");
    let mut events = events.into_body();
    let (status, created) =
        client.request("POST", "/nodes", json!({ "node_id": "sh", "backend": "bash" })).await;
    assert_eq!((status, &created["node_id"]), (StatusCode::CREATED, &json!("sh")));
    wait_for_event(&mut events, "NODE_CREATED").await;
    // More than the server runs concurrently: the rest waits, and none is lost.
    let requests = (0..300).map(|n| {
        let line = json!({ "command_type": "PING", "request_id": n });
        let client = &client;
        async move { client.request("POST", "/api/command", line).await.1["request_id"].as_u64().unwrap() }
    });
    assert_eq!(join_all(requests).await, (0..300).collect::<Vec<u64>>());
    // A long turn blocks no other request.
    let marker = server.home().join("go");
    let text = format!("until [ -e {} ]; do sleep 0.05; done; echo late", marker.display());
    let slow = client.request("POST", "/nodes/sh/execute", json!({ "text": text }));
    let quick = async {
        wait_for_event(&mut events, "NODE_BUSY").await;
        assert_eq!(client.request("GET", "/nodes/sh", Value::Null).await.0, StatusCode::OK);
        std::fs::write(&marker, "").unwrap();
    };
    let ((status, late), ()) = tokio::join!(slow, quick);
    assert!(status == StatusCode::OK && late.to_string().contains("late"), "{late}");
    assert_eq!(client.request("DELETE", "/nodes/sh", Value::Null).await.0, StatusCode::OK);
    wait_for_event(&mut events, "NODE_STOPPED").await;
    // HTTP/1.1 works on the same port.
    assert_eq!(server.get("/nodes").await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn curl_speaks_both_versions_on_one_port() {
    let version = Command::new("curl").arg("--version").output();
    if !version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("HTTP2")) {
        return skip("curl_speaks_both_versions_on_one_port", "no curl with HTTP/2");
    }
    let server = HttpServer::start();
    let body = server.home().join("body");
    let ping = json!({ "command_type": "PING", "params": { "x": "x".repeat(1 << 20) } });
    std::fs::write(&body, ping.to_string()).unwrap();
    for (option, version) in [("--http2-prior-knowledge", "2"), ("--http1.1", "1.1"), ("--http2", "1.1")] {
        let mut curl = Command::new("curl");
        curl.args(["-sS", option, "-w", "\\n%{http_version} %{http_code}", "--json"])
            .arg(format!("@{}", body.display()))
            .arg(format!("http://{}/api/command", server.address))
            .arg("-H")
            .arg(format!("Authorization: Bearer {}", server.token));
        let output = tokio::task::spawn_blocking(move || curl.output()).await.unwrap().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(
            stdout.contains("\"pong\":true") && stdout.ends_with(&format!("\n{version} 200")),
            "{option}: {output:?}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn failed_authentication_closes_the_connection() {
    let server = HttpServer::start();
    let host = server.address.to_string();
    let try_one = async |uri: String, headers: &[(&str, &str)]| {
        let client = Http2::connect(&server).await;
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = client.send_request(request.body(Full::default()).unwrap()).await;
        assert_eq!(response.headers().get("connection"), None);
        let (status, problem) = read_response(response).await;
        (status.as_u16(), problem, client)
    };
    let bearer = format!("Bearer {}", server.token);
    let token = ("authorization", bearer.as_str());
    let nodes = format!("http://{host}/nodes");
    for headers in [&[][..], &[("authorization", "Bearer wrong")][..]] {
        let (status, problem, client) = try_one(nodes.clone(), headers).await;
        assert_eq!((status, &problem["error_type"]), (401, &json!("authentication_error")));
        assert!(client.wait_for_close().await, "connection was not closed");
    }
    let evil = "http://evil.example/nodes".to_string();
    assert_eq!(try_one(evil, &[token]).await.0, 403);
    assert_eq!(try_one(nodes.clone(), &[token, ("origin", "http://evil.example")]).await.0, 403);
    // `:authority` and Host must match.
    assert_eq!(try_one(nodes.clone(), &[token, ("host", "evil.example")]).await.0, 400);
    assert_eq!(try_one(nodes.clone(), &[token, ("host", &host)]).await.0, 200);
    let (status, problem, _) = try_one(format!("http://{host}/api/events"), &[token]).await;
    assert_eq!(status, 400);
    let text = format!("{} {}", problem["detail"], problem["hint"]);
    assert!(text.contains("HTTP/1.1") && text.contains("/events"), "{text}");
    server.stop().await;
}

#[tokio::test]
async fn excessive_request_is_rejected_and_connection_stays() {
    let server = HttpServer::start();
    let client = Http2::connect(&server).await;
    let status = async |request: http::request::Builder, body: Vec<u8>| {
        let response = client.send.clone().send_request(request.body(body.into()).unwrap());
        let response = tokio::time::timeout(DEADLINE, response).await.expect("no answer").unwrap();
        response.status().as_u16()
    };
    let mut many = client.builder("GET", "/nodes");
    for n in 0..80 {
        many = many.header(format!("x-{n}"), "y");
    }
    assert_eq!(status(many, Vec::new()).await, 431);
    let long = client.builder("GET", "/nodes").header("x", "x".repeat(40_000));
    assert_eq!(status(long, Vec::new()).await, 431);
    let longer = client.builder("GET", "/nodes").header("x", "x".repeat(100_000));
    assert_eq!(status(longer, Vec::new()).await, 431);
    let path = client.builder("GET", &format!("/nodes/{}", "x".repeat(33_000)));
    assert_eq!(status(path, Vec::new()).await, 431);
    assert_eq!(status(client.builder("POST", "/api/command"), vec![b' '; 17 << 20]).await, 413);
    assert_eq!(client.request("GET", "/nodes", Value::Null).await.0, StatusCode::OK);
    server.stop().await;
}

/// Sends bytes over a new connection and returns how long the server keeps it.
async fn time_until_close(server: &HttpServer, bytes: &[u8]) -> Duration {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let started = Instant::now();
    let mut rest = Vec::new();
    let end = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut rest)).await;
    assert!(end.is_ok(), "connection still open: {bytes:?}");
    started.elapsed()
}

#[tokio::test]
async fn stalled_and_invalid_connections_are_ended() {
    let server = HttpServer::start();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    // A head without its end.
    let headers = [0, 0, 1, 1, 0, 0, 0, 0, 1, 0x82];
    let stalled = [
        preface[..10].to_vec(),
        preface.to_vec(),
        [&preface[..], &settings].concat(),
        [&preface[..], &settings, &headers].concat(),
    ];
    let invalid = [
        [&preface[..], b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"].concat(),
        [&preface[..], &[0xff; 64]].concat(),
        // Data for no request.
        [&preface[..], &settings, &[0, 0, 1, 0, 0, 0, 0, 0, 1, 0]].concat(),
        // An endless head.
        [&preface[..], &settings, &headers, &[0, 0, 0, 9, 0, 0, 0, 0, 1].repeat(10_000)].concat(),
    ];
    let stalled = async {
        let times = join_all(stalled.iter().map(|bytes| time_until_close(&server, bytes))).await;
        for (bytes, elapsed) in stalled.iter().zip(times) {
            assert!(elapsed.as_secs() >= 8, "{bytes:?}: {elapsed:?}");
        }
    };
    let mut stalled = Box::pin(stalled);
    // Invalid connections are closed while stalled ones still have time.
    let invalid = join_all(invalid.iter().map(|bytes| time_until_close(&server, bytes)));
    tokio::select! {
        biased;
        () = &mut stalled => panic!("invalid connections are open as long as stalled ones"),
        _ = invalid => {}
    }
    stalled.await;
    assert_eq!(server.get("/health").await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn unauthenticated_client_must_read_its_responses() {
    let server = HttpServer::start();
    let stream = TcpStream::connect(server.address).await.unwrap();
    // A window of 0 blocks the body.
    let (send, connection) =
        h2::client::Builder::new().initial_window_size(0).handshake::<_, Bytes>(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = Request::get(format!("http://{}/docs", server.address)).body(()).unwrap();
    let mut send = send.ready().await.unwrap();
    let started = Instant::now();
    let (response, _stream) = send.send_request(request, true).unwrap();
    let response = response.await.unwrap();
    assert_eq!(response.status(), 200);
    let _ = tokio::time::timeout(DEADLINE, connection).await.expect("connection was not closed").unwrap();
    assert!(started.elapsed() > Duration::from_secs(8), "{:?}", started.elapsed());
    server.stop().await;
}

/// Encodes a frame (RFC 9113 §4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

#[tokio::test]
async fn rapid_resets_end_only_their_connection() {
    let server = HttpServer::start();
    let other = Http2::connect(&server).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    // GET http://localhost/ in HPACK, and nothing after it.
    let head = [&[0x82, 0x86, 0x84, 0x41, 9][..], b"localhost"].concat();
    let requests = (0..10_000).flat_map(|n| {
        let stream = 2 * n + 1;
        [frame(1, 5, stream, &head), frame(3, 0, stream, &[0, 0, 0, 8])]
    });
    let bytes: Vec<u8> = requests.flatten().collect();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    stream.write_all(&frame(4, 0, 0, &[])).await.unwrap();
    // The connection may be closed before all is sent.
    let _ = stream.write_all(&bytes).await;
    let mut received = Vec::new();
    let end = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut received)).await;
    assert!(end.is_ok(), "connection was not closed");
    // GOAWAY with ENHANCE_YOUR_CALM.
    let mut rest = &received[..];
    let mut has_enhance_your_calm = false;
    while let [a, b, c, kind, _, _, _, _, _, payload @ ..] = rest {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        has_enhance_your_calm |= *kind == 7 && payload.get(4..8) == Some(&[0, 0, 0, 11]);
        rest = payload.get(length..).unwrap_or_default();
    }
    assert!(has_enhance_your_calm, "{received:?}");
    assert_eq!(other.request("GET", "/nodes", Value::Null).await.0, StatusCode::OK);
    server.stop().await;
}

#[tokio::test]
async fn shutdown_completes_requests_and_ends_streams() {
    let server = HttpServer::start();
    let client = Http2::connect(&server).await;
    client.request("POST", "/nodes", json!({ "node_id": "sh", "backend": "bash" })).await;
    let events = client.send_request(client.builder("GET", "/events").body(Full::default()).unwrap()).await;
    let mut events = events.into_body();
    let turn = client.request("POST", "/nodes/sh/execute", json!({ "text": "sleep 600" }));
    let shutdown = async {
        wait_for_event(&mut events, "NODE_BUSY").await;
        server.begin_shutdown();
        wait_for_event(&mut events, "SERVER_SHUTDOWN").await;
        while let Some(frame) =
            tokio::time::timeout(DEADLINE, events.frame()).await.expect("event stream did not end")
        {
            frame.unwrap();
        }
    };
    let ((status, response), ()) = tokio::join!(turn, shutdown);
    assert!(status.as_u16() >= 200 && response.is_object(), "{status} {response}");
    assert!(client.wait_for_close().await);
    server.wait_for_exit().await;
}
