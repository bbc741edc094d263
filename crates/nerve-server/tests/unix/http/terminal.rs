//! The terminal of a node over a WebSocket.

use std::time::Instant;

use futures_util::{SinkExt, StreamExt};
use nerve_server::access::token::TokenFile;
use nerve_server::web::Role;
use nerve_testkit::within_deadline;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::client::HttpServer;
use super::web::Browser;
use crate::harness::{DEADLINE, paths};

/// Bytes at the end of a terminal that tests look at.
const TEXT_BYTES: usize = 16 << 10;

/// A client that shows a terminal.
pub(super) struct Viewer {
    pub(super) socket: WebSocketStream<TcpStream>,
    /// The last dump, and the output after it.
    pub(super) shown: Vec<u8>,
    stream: String,
    /// Offset after `shown`.
    pub(super) offset: u64,
    is_dump_next: bool,
    pub(super) dumps: usize,
}

#[derive(Debug)]
pub(super) enum Received {
    Json(Value),
    Output,
    Closed(Option<CloseCode>),
}

impl Viewer {
    pub(super) async fn connect(
        server: &HttpServer,
        path: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Viewer, Error> {
        let mut request = format!("ws://{}{path}", server.address).into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let stream = TcpStream::connect(server.address).await.unwrap();
        let (socket, _) = tokio_tungstenite::client_async(request, stream).await?;
        let (shown, stream) = (Vec::new(), String::new());
        Ok(Viewer { socket, shown, stream, offset: 0, is_dump_next: false, dumps: 0 })
    }

    /// Connects with the token. `query` begins with `?` if it is not empty.
    async fn open(server: &HttpServer, query: &str) -> Viewer {
        let bearer = format!("Bearer {}", server.token);
        let path = format!("/nodes/term/terminal{query}");
        Viewer::connect(server, &path, &[("authorization", &bearer)]).await.unwrap()
    }

    /// Connects and reads the beginning.
    pub(super) async fn started(server: &HttpServer, query: &str, kind: &str) -> Viewer {
        let mut viewer = Viewer::open(server, query).await;
        match viewer.next().await {
            Received::Json(start) => assert_eq!(start["type"], kind, "{start}"),
            other => panic!("{other:?}"),
        }
        viewer
    }

    pub(super) async fn next(&mut self) -> Received {
        loop {
            let next = tokio::time::timeout(DEADLINE, self.socket.next()).await.expect("no message");
            match next {
                Some(Ok(Message::Text(text))) => {
                    let message: Value = serde_json::from_str(text.as_str()).unwrap();
                    if let Some(stream) = message["stream"].as_str() {
                        self.stream = stream.to_string();
                        self.is_dump_next = message["type"] == "dump";
                        self.offset = message["offset"].as_u64().unwrap();
                    }
                    return Received::Json(message);
                }
                Some(Ok(Message::Binary(bytes))) => {
                    let (start, bytes) = bytes.split_first_chunk::<8>().unwrap();
                    // Nothing is lost or repeated.
                    assert_eq!(u64::from_be_bytes(*start), self.offset);
                    if std::mem::take(&mut self.is_dump_next) {
                        self.shown.clear();
                        self.dumps += 1;
                    } else {
                        self.offset += bytes.len() as u64;
                    }
                    self.shown.extend_from_slice(bytes);
                    return Received::Output;
                }
                Some(Ok(Message::Close(frame))) => return Received::Closed(frame.map(|frame| frame.code)),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Received::Closed(None),
            }
        }
    }

    async fn next_json(&mut self) -> Value {
        loop {
            match self.next().await {
                Received::Json(message) => return message,
                Received::Output => {}
                Received::Closed(code) => panic!("closed: {code:?}"),
            }
        }
    }

    /// Reads until the last output contains `text`.
    pub(super) async fn wait_for(&mut self, text: &str) {
        let started = Instant::now();
        while !self.text().contains(text) {
            assert!(started.elapsed() < DEADLINE, "{}", self.text());
            if let Received::Closed(code) = self.next().await {
                panic!("closed: {code:?}: {}", self.text());
            }
        }
    }

    /// Returns the last output as text.
    pub(super) fn text(&self) -> String {
        let start = self.shown.len().saturating_sub(TEXT_BYTES);
        String::from_utf8_lossy(&self.shown[start..]).into_owned()
    }

    pub(super) fn position(&self) -> String {
        format!("?since={}-{}", self.stream, self.offset)
    }

    pub(super) async fn send(&mut self, message: Value) {
        self.socket.send(Message::text(message.to_string())).await.unwrap();
    }

    pub(super) async fn type_keys(&mut self, text: &str) {
        self.send(json!({ "type": "keys", "text": text })).await;
    }

    pub(super) async fn end(&mut self) -> Option<CloseCode> {
        loop {
            if let Received::Closed(code) = self.next().await {
                return code;
            }
        }
    }
}

/// Starts a server with the node `term`, which runs a script of sh.
pub(super) async fn server_with(script: &str) -> HttpServer {
    let server = HttpServer::start();
    let node = json!({ "node_id": "term", "command": ["sh", "-c", script], "cols": 60, "rows": 5 });
    server.request_ok("POST", "/nodes", node).await;
    server
}

#[tokio::test]
async fn dump_is_followed_by_output_and_keys_reach_the_program() {
    let server = server_with("seq 1 30; echo all listed; exec cat").await;
    let mut first = Viewer::started(&server, "", "dump").await;
    first.wait_for("all listed").await;
    // A later client gets the scrollback and the screen in its dump.
    let mut second = Viewer::started(&server, "", "dump").await;
    assert!(matches!(second.next().await, Received::Output));
    let text = second.text();
    assert!(text.contains("1\r\n2\r\n3\r\n") && text.contains("all listed"), "{text}");
    let start = second.offset;
    second.type_keys("hello\r").await;
    second.wait_for("hello\r\nhello\r\n").await;
    first.wait_for("hello\r\nhello\r\n").await;
    assert_eq!(second.offset - start, "hello\r\nhello\r\n".len() as u64);
    first.socket.send(Message::binary(b"bytes\r".to_vec())).await.unwrap();
    second.wait_for("bytes\r\nbytes\r\n").await;
    assert_eq!((first.dumps, second.dumps), (1, 1));
    // The keys of a person are not in the history.
    let history = server.get("/nodes/term/history").await.json().to_string();
    assert!(!history.contains("hello"), "{history}");
    server.stop().await;
}

#[tokio::test]
async fn client_resumes_where_it_was() {
    let server = server_with("exec cat").await;
    let mut viewer = Viewer::started(&server, "", "dump").await;
    viewer.type_keys("one\r").await;
    viewer.wait_for("one\r\none\r\n").await;
    let position = viewer.position();
    drop(viewer);
    let write = json!({ "data": "two\r" });
    server.request_ok("POST", "/nodes/term/write", write).await;
    let mut again = Viewer::started(&server, &position, "resume").await;
    again.wait_for("two\r\ntwo\r\n").await;
    assert_eq!((again.text().as_str(), again.dumps), ("two\r\ntwo\r\n", 0));
    let (stream, offset) = (again.stream.clone(), again.offset);
    Viewer::started(&server, &format!("?since={offset}"), "resume").await;
    for gone in [format!("?since=other-{offset}"), format!("?since={stream}-{}", offset + 1)] {
        Viewer::started(&server, &gone, "dump").await;
    }
    server.get("/nodes/term/terminal?since=x").await.problem(400, "invalid_request_error");
    server.stop().await;
}

#[tokio::test]
async fn slow_client_gets_a_dump_instead_of_a_backlog() {
    const LAST: &str = "all written";
    // More than the server keeps.
    let script = format!("read line; yes {} | head -n 33000; echo all written; exec cat", "x".repeat(55));
    let server = server_with(&script).await;
    let mut slow = Viewer::started(&server, "", "dump").await;
    let acknowledged = slow.offset;
    slow.send(json!({ "type": "ack", "offset": acknowledged })).await;
    let mut fast = Viewer::started(&server, "", "dump").await;
    fast.type_keys("\r").await;
    fast.wait_for(LAST).await;
    // It got no more than the window, although it did not read.
    let mut sent = 0;
    while slow.dumps < 2 {
        match slow.next().await {
            Received::Output => sent = sent.max(slow.offset - acknowledged),
            Received::Json(_) => {}
            Received::Closed(code) => panic!("{code:?}"),
        }
        if sent >= 512 << 10 {
            slow.send(json!({ "type": "ack", "offset": slow.offset })).await;
            sent = 0;
        }
    }
    slow.wait_for(LAST).await;
    assert!(slow.shown.len() < 1 << 20, "{} bytes", slow.shown.len());
    slow.send(json!({ "type": "ack", "offset": slow.offset })).await;
    slow.type_keys("still here\r").await;
    slow.wait_for("still here\r\nstill here").await;
    fast.wait_for("still here\r\nstill here").await;
    server.stop().await;
}

#[tokio::test]
async fn resizes_and_the_end_are_messages() {
    let server = server_with("read line; exit 3").await;
    let mut viewer = Viewer::open(&server, "").await;
    let start = viewer.next_json().await;
    assert_eq!((&start["cols"], &start["rows"]), (&json!(60), &json!(5)));
    server.request_ok("POST", "/nodes/term/resize", json!({ "cols": 70, "rows": 6 })).await;
    let resize = viewer.next_json().await;
    assert_eq!(
        (&resize["type"], &resize["cols"], &resize["rows"]),
        (&json!("resize"), &json!(70), &json!(6))
    );
    viewer.type_keys("\r").await;
    let end = viewer.next_json().await;
    assert_eq!(end["type"], "end", "{end}");
    assert!(end["reason"].as_str().unwrap().contains('3'), "{end}");
    assert_eq!(viewer.end().await, Some(CloseCode::Normal));
    server.stop().await;
}

#[tokio::test]
async fn only_role_full_types() {
    let server = server_with("exec cat").await;
    let origin = format!("http://{}", server.address);
    for (role, can_type) in [(Role::View, false), (Role::Answer, false), (Role::Full, true)] {
        let browser = Browser::logged_in(&server, role).await;
        let cookie = ("cookie", browser.cookie.as_str());
        let path = "/nodes/term/terminal";
        for foreign in [&[cookie][..], &[cookie, ("origin", "http://localhost:1")], &[("origin", &origin)]] {
            match Viewer::connect(&server, path, foreign).await.map(|_| ()) {
                Err(Error::Http(response)) => assert!([401, 403].contains(&response.status().as_u16())),
                other => panic!("{foreign:?}: {other:?}"),
            }
        }
        let mut viewer = Viewer::connect(&server, path, &[cookie, ("origin", &origin)]).await.unwrap();
        assert_eq!(viewer.next_json().await["type"], "dump");
        viewer.type_keys(&format!("by {role}\r")).await;
        if can_type {
            viewer.wait_for("by full\r\nby full").await;
            assert!(!viewer.text().contains("by view"), "{}", viewer.text());
        } else {
            let refused = viewer.next_json().await;
            assert_eq!(
                (&refused["type"], &refused["error_type"]),
                (&json!("error"), &json!("permission_error"))
            );
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn invalid_messages_are_reported_and_large_ones_end_only_their_client() {
    let server = server_with("exec cat").await;
    let mut good = Viewer::started(&server, "", "dump").await;
    for garbage in ["", "hello", "{}", "{\"type\":\"keys\"}", "{\"type\":\"ack\",\"offset\":-1}", "[1]"] {
        good.socket.send(Message::text(garbage)).await.unwrap();
        let refused = good.next_json().await;
        assert_eq!(refused["error_type"], "invalid_request_error", "{garbage}: {refused}");
    }
    let mut bad = Viewer::started(&server, "", "dump").await;
    // The server closes before it has read the whole message.
    let _ = within_deadline("a large message", bad.socket.send(Message::binary(vec![b'x'; 100 << 20]))).await;
    assert!(matches!(bad.end().await, Some(CloseCode::Size) | None));
    good.type_keys("fine\r").await;
    good.wait_for("fine\r\nfine").await;
    server.stop().await;
}

#[tokio::test]
async fn token_change_closes_the_terminal() {
    let server = server_with("exec cat").await;
    let mut viewer = Viewer::started(&server, "", "dump").await;
    TokenFile::new(paths(server.home()).token()).rotate().unwrap();
    assert_eq!(viewer.end().await, Some(CloseCode::Policy));
    server.stop().await;
}

#[tokio::test]
async fn missing_terminal_is_an_error_of_the_request() {
    let server = server_with("exec cat").await;
    server.bash("job").await;
    let bearer = format!("Bearer {}", server.token);
    for (path, status) in [
        ("/nodes/none/terminal", 404),
        ("/nodes/term/terminal?session=other", 404),
        ("/nodes/job/terminal", 400),
        ("/nodes/term/terminal?since=-", 400),
    ] {
        match Viewer::connect(&server, path, &[("authorization", &bearer)]).await.map(|_| ()) {
            Err(Error::Http(response)) => assert_eq!(response.status(), status, "{path}"),
            other => panic!("{path}: {other:?}"),
        }
    }
    server.request_ok("DELETE", "/nodes/term", Value::Null).await;
    server.stop().await;
}
