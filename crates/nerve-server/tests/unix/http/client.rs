//! A server that listens for HTTP, and a minimal client.

use std::net::SocketAddr;
use std::path::Path;

use nerve_server::config::ServerConfig;
use nerve_testkit::within_deadline;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::harness::TestServer;

pub(super) struct HttpServer {
    pub(super) address: SocketAddr,
    pub(super) token: String,
    server: TestServer,
}

impl HttpServer {
    pub(super) fn start() -> HttpServer {
        HttpServer::start_with(|_| {})
    }

    pub(super) fn start_with(change: impl FnOnce(&mut ServerConfig)) -> HttpServer {
        let server = TestServer::start_with(|config| {
            config.http = Some(([127, 0, 0, 1], 0).into());
            change(config);
        });
        HttpServer { address: server.http(), token: server.token(), server }
    }

    /// Returns the server's directory.
    pub(super) fn home(&self) -> &Path {
        self.server.home.path()
    }

    pub(super) async fn stop(self) {
        self.server.stop().await;
    }

    pub(super) fn begin_shutdown(&self) {
        self.server.begin_shutdown();
    }

    pub(super) async fn wait_for_exit(self) {
        self.server.wait_for_exit().await;
    }

    pub(super) async fn connect(&self) -> BufReader<TcpStream> {
        BufReader::new(TcpStream::connect(self.address).await.unwrap())
    }

    /// Returns the head of an authenticated request, without the blank line.
    pub(super) fn head(&self, method: &str, path: &str) -> String {
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n",
            self.address, self.token
        )
    }

    /// Sends bytes over a new connection and reads the response.
    pub(super) async fn raw(&self, bytes: impl AsRef<[u8]>) -> HttpResponse {
        let mut stream = self.connect().await;
        // A server that rejects the request closes while the rest is being sent.
        let _ = stream.write_all(bytes.as_ref()).await;
        HttpResponse::read(&mut stream).await
    }

    pub(super) async fn request(&self, method: &str, path: &str, body: Value) -> HttpResponse {
        let head = self.head(method, path);
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.raw(format!("{head}Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())).await
    }

    pub(super) async fn get(&self, path: &str) -> HttpResponse {
        self.request("GET", path, Value::Null).await
    }

    /// Like [`HttpServer::request`] for a request that must succeed; returns its body.
    pub(super) async fn request_ok(&self, method: &str, path: &str, body: Value) -> Value {
        let response = self.request(method, path, body).await;
        assert!((200..300).contains(&response.status), "{method} {path}: {response:?}");
        response.json()
    }

    /// Creates a shell node that runs each prompt.
    pub(super) async fn bash(&self, id: &str) {
        self.request_ok("POST", "/nodes", json!({ "node_id": id, "backend": "bash" })).await;
    }
}

/// A complete response.
#[derive(Debug)]
pub(super) struct HttpResponse {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl HttpResponse {
    /// Reads a response with a Content-Length.
    pub(super) async fn read(stream: &mut BufReader<TcpStream>) -> HttpResponse {
        let (status, head) = read_head(stream).await;
        let length = header(&head, "content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        within_deadline("a body", stream.read_exact(&mut body)).await.unwrap();
        HttpResponse { status, head, body }
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    /// Checks that the response is a problem of this kind and returns its detail.
    pub(super) fn problem(&self, status: u16, error_type: &str) -> String {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let problem = self.json();
        assert_eq!(
            (&problem["status"], &problem["error_type"]),
            (&json!(status), &json!(error_type)),
            "{problem}"
        );
        assert_eq!(problem["request_id"].as_str(), self.header("x-request-id"), "{self:?}");
        format!("{} {}", problem["detail"].as_str().unwrap(), problem["hint"].as_str().unwrap_or_default())
    }
}

/// Reads the head of a response; status 0 if the connection ended first.
pub(super) async fn read_head(stream: &mut BufReader<TcpStream>) -> (u16, String) {
    let mut head = String::new();
    loop {
        let line = stream.read_line(&mut head);
        match within_deadline("a response", line).await {
            Ok(0) | Err(_) => return (0, head),
            Ok(2) => break,
            Ok(_) => {}
        }
    }
    (head[9..12].parse().unwrap(), head)
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.into_iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}
