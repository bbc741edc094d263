//! The client against fake servers that behave well, badly or not at all.
#![expect(clippy::unwrap_used, reason = "a failing test panics")]

mod deprecated;
mod faults;
mod graphs;
mod http;
mod reconnect;
mod responses;
mod streams;

use std::path::PathBuf;
use std::time::Duration;

use nerve_api::framing::{Frame, LineReader};
use nerve_client::{NerveClient, Reconnect};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixListener;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

/// The server's end of a connection.
struct Peer<R = OwnedReadHalf, W = OwnedWriteHalf> {
    lines: LineReader<R>,
    output: W,
    _folder: Option<TempDir>,
}

/// Creates a client and the other end of its only connection.
async fn connected_client() -> (NerveClient, Peer) {
    let (folder, path) = socket();
    let listener = UnixListener::bind(&path).unwrap();
    let (client, accepted) = tokio::join!(NerveClient::connect(&path), listener.accept());
    let (input, output) = accepted.unwrap().0.into_split();
    let client = client.unwrap().reconnect(Reconnect::Never);
    (client, Peer { lines: LineReader::new(input), output, _folder: Some(folder) })
}

fn socket() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.sock");
    (folder, path)
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Peer<R, W> {
    /// Reads the next request.
    async fn request(&mut self) -> Value {
        match self.lines.next().await.unwrap() {
            Frame::Line(line) => serde_json::from_slice(&line).unwrap(),
            frame => panic!("{frame:?}"),
        }
    }

    async fn send(&mut self, message: Value) {
        self.send_raw(format!("{message}\n").as_bytes()).await;
    }

    async fn send_raw(&mut self, bytes: &[u8]) {
        self.output.write_all(bytes).await.unwrap();
    }

    /// Answers a request.
    async fn answer(&mut self, request: &Value, data: Value) {
        self.send(json!({"type": "result", "success": true, "data": data, "error": null, "request_id": request["request_id"]}))
            .await;
    }

    /// Checks the next request and answers it.
    async fn expect(&mut self, command: &str, params: Value, data: Value) {
        let request = self.request().await;
        assert_eq!((&request["type"], &request["command_type"]), (&json!("command"), &json!(command)));
        assert_eq!(request["params"], params);
        self.answer(&request, data).await;
    }

    /// Checks that the client closes the connection.
    async fn wait_closed(&mut self) {
        match self.lines.next().await {
            Ok(Frame::Eof { .. }) | Err(_) => {}
            Ok(frame) => panic!("{frame:?}"),
        }
    }

    async fn send_event(&mut self, kind: &str, seq: u64) {
        self.send(json!({"type": "event", "event_type": kind, "node_id": "a", "data": {}, "emitted_at": "1970-01-01T00:00:01.500Z", "seq": seq}))
            .await;
    }

    async fn send_chunk(&mut self, node: &str, data: Value) {
        self.send(json!({"type": "event", "event_type": "OUTPUT_CHUNK", "node_id": node, "data": data, "emitted_at": "1970-01-01T00:00:01.500Z", "seq": 1}))
            .await;
    }
}

/// Waits for a condition, at most a minute.
async fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waiting)
        .await
        .unwrap_or_else(|_| panic!("timed out: {what}"));
}
