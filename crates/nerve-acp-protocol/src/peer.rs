//! The other side of a connection: responses, notifications and requests to it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::rpc_error::RpcError;

/// Number of messages that may wait for a slow reader. Turns then wait, too.
const QUEUE: usize = 256;

/// The sending side of a connection.
#[derive(Debug)]
pub struct Peer {
    lines: mpsc::Sender<Vec<u8>>,
    /// Requests without a response.
    pending: Mutex<HashMap<i64, oneshot::Sender<Result<Value, RpcError>>>>,
    last_id: AtomicI64,
    closing: CancellationToken,
}

/// A request to the other side.
#[derive(Debug)]
pub struct PeerRequest {
    /// Id of the request.
    pub id: i64,
    /// The response. Fails if the connection ends.
    pub response: oneshot::Receiver<Result<Value, RpcError>>,
}

impl Peer {
    /// Starts the task that writes to `output`. It cancels `closing` when `output` fails.
    pub fn start(
        output: impl AsyncWrite + Unpin + Send + 'static,
        closing: CancellationToken,
    ) -> (Peer, JoinHandle<()>) {
        let (lines, queue) = mpsc::channel(QUEUE);
        let writer = tokio::spawn(write(output, queue, closing.clone()));
        (Peer { lines, pending: Mutex::default(), last_id: AtomicI64::new(0), closing }, writer)
    }

    /// Responds to a request. `id` is null for input from which no id could be read.
    pub async fn respond(&self, id: Value, outcome: Result<Value, RpcError>) {
        self.send(match outcome {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error }),
        })
        .await;
    }

    /// Notifies the other side of an update of a session.
    pub async fn update(&self, session: &str, update: &impl Serialize) {
        let params = json!({ "sessionId": session, "update": update });
        self.notify("session/update", params).await;
    }

    /// Sends a notification.
    pub async fn notify(&self, method: &str, params: impl Serialize) {
        self.send(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    /// Sends a request.
    pub async fn request(&self, method: &str, params: impl Serialize) -> PeerRequest {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, response) = oneshot::channel();
        self.pending.lock().insert(id, sender);
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        PeerRequest { id, response }
    }

    /// Withdraws a request. A later response is ignored.
    pub async fn cancel_request(&self, id: i64) {
        self.pending.lock().remove(&id);
        self.notify("$/cancel_request", json!({ "requestId": id })).await;
    }

    /// Passes a response to the request it belongs to. Returns false if there is none.
    pub fn on_response(&self, id: &Value, outcome: Result<Value, RpcError>) -> bool {
        let Some(sender) = id.as_i64().and_then(|id| self.pending.lock().remove(&id)) else { return false };
        sender.send(outcome).is_ok()
    }

    async fn send(&self, message: Value) {
        let mut line = message.to_string().into_bytes();
        line.push(b'\n');
        tokio::select! {
            biased;
            // A send error means that the other side is gone, which the writer reports.
            _ = self.lines.send(line) => {}
            // At the end, nothing waits for a reader that does not read.
            () = self.closing.cancelled() => {}
        }
    }
}

async fn write(
    mut output: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<Vec<u8>>,
    closing: CancellationToken,
) {
    while let Some(line) = queue.recv().await {
        let written = async {
            output.write_all(&line).await?;
            output.flush().await
        };
        if let Err(error) = written.await {
            tracing::debug!(%error, "the other side does not read");
            closing.cancel();
            return;
        }
    }
}
