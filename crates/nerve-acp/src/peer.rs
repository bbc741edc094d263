//! The client: responses, notifications and requests to it.

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
use crate::types::SessionUpdate;

/// Number of messages that may wait for a slow client. Turns then wait, too.
const QUEUE: usize = 256;

/// The sending side of the connection to the client.
#[derive(Debug)]
pub(crate) struct Peer {
    lines: mpsc::Sender<Vec<u8>>,
    /// Requests to the client without a response.
    pending: Mutex<HashMap<i64, oneshot::Sender<Result<Value, RpcError>>>>,
    last_id: AtomicI64,
    closing: CancellationToken,
}

/// A request to the client.
#[derive(Debug)]
pub(crate) struct ClientRequest {
    pub(crate) id: i64,
    /// Fails if the connection ends.
    pub(crate) response: oneshot::Receiver<Result<Value, RpcError>>,
}

impl Peer {
    /// Starts the task that writes to `output`. It cancels `closing` when `output` fails.
    pub(crate) fn start(
        output: impl AsyncWrite + Unpin + Send + 'static,
        closing: CancellationToken,
    ) -> (Peer, JoinHandle<()>) {
        let (lines, queue) = mpsc::channel(QUEUE);
        let writer = tokio::spawn(write(output, queue, closing.clone()));
        (Peer { lines, pending: Mutex::default(), last_id: AtomicI64::new(0), closing }, writer)
    }

    /// Responds to a request. `id` is null for input from which no id could be read.
    pub(crate) async fn respond(&self, id: Value, outcome: Result<Value, RpcError>) {
        self.send(match outcome {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error }),
        })
        .await;
    }

    /// Notifies the client of an update of a session.
    pub(crate) async fn update(&self, session: &str, update: &SessionUpdate) {
        let params = json!({ "sessionId": session, "update": update });
        self.send(json!({ "jsonrpc": "2.0", "method": "session/update", "params": params })).await;
    }

    /// Sends a request.
    pub(crate) async fn request(&self, method: &str, params: impl Serialize) -> ClientRequest {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, response) = oneshot::channel();
        self.pending.lock().insert(id, sender);
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        ClientRequest { id, response }
    }

    /// Withdraws a request. A later response is ignored.
    pub(crate) async fn cancel_request(&self, id: i64) {
        self.pending.lock().remove(&id);
        let params = json!({ "requestId": id });
        self.send(json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": params })).await;
    }

    /// Passes a response to the request it belongs to. Returns false if there is none.
    pub(crate) fn on_response(&self, id: &Value, outcome: Result<Value, RpcError>) -> bool {
        let Some(sender) = id.as_i64().and_then(|id| self.pending.lock().remove(&id)) else { return false };
        sender.send(outcome).is_ok()
    }

    async fn send(&self, message: Value) {
        let mut line = message.to_string().into_bytes();
        line.push(b'\n');
        tokio::select! {
            biased;
            // A send error means that the client is gone, which the writer reports.
            _ = self.lines.send(line) => {}
            // At the end, nothing waits for a client that does not read.
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
            tracing::debug!(%error, "the client does not read");
            closing.cancel();
            return;
        }
    }
}
