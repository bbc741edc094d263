//! The terminal of a node over a WebSocket: a dump, then the output with its offsets. Keys come back.
//!
//! | message of the server | contents |
//! |---|---|
//! | `{"type":"dump"}` with `stream`, `offset`, `cols`, `rows` | the next binary message recreates the terminal at this offset |
//! | `{"type":"resume"}` with the same | output continues at the requested offset |
//! | binary | an offset (8 bytes, big-endian), and the output or the dump at this offset |
//! | `{"type":"resize"}` with `offset`, `cols`, `rows` | the program's terminal was resized |
//! | `{"type":"heartbeat"}` | every 15 s with a ping, which browsers hide from a page |
//! | `{"type":"error"}` with `error_type`, `message`, `hint` | a message of the client was refused |
//! | `{"type":"end"}` with `reason` | the program has ended; a close follows |
//!
//! The client sends keys as `{"type":"keys","text":…}` or binary, and `{"type":"ack","offset":…}` when it has shown the output
//! before an offset. A client that acknowledges is never more than [`WINDOW_BYTES`] behind what was sent.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ws::{Message, WebSocket, close_code};
use axum::extract::{Request, State};
use axum::response::Response;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use nerve_api::RequestName;
use nerve_api::request::NodeRef;
use nerve_host::resync_limit::ResyncLimit;
use nerve_node::error::EngineError;
use nerve_node::terminal::{OutputPosition, OutputStart, OutputSubscription, OutputUpdate};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::SiteState;
use super::events_socket::{PING_INTERVAL, SILENCE_TIMEOUT};
use super::operation::Operation;
use super::problem::Problem;
use super::query;
use super::resource::{PathParams, raw_query};
use super::websocket::{self, Handshake, error_close_code};
use crate::access::{Credential, wait_for_revocation};
use crate::state::ServerState;
use crate::web::role;

/// Maximum size of a client's message in bytes.
const MAX_INPUT_BYTES: usize = 1 << 20;
/// Maximum output in a message in bytes.
const MAX_OUTPUT_BYTES: usize = 128 << 10;
/// Shortest time between two messages with output: no display shows more. Output after a pause is sent at once.
const OUTPUT_INTERVAL: Duration = Duration::from_millis(8);
/// Output that is sent beyond what the client has acknowledged, in bytes.
const WINDOW_BYTES: u64 = 512 << 10;
/// Errors that wait to be sent. Further ones are dropped.
const MAX_ERRORS: usize = 16;

/// Switches to a WebSocket that shows a node's terminal.
pub(crate) async fn serve(
    operation: &'static Operation,
    State(site): State<SiteState>,
    PathParams(path): PathParams,
    request: Request,
) -> Result<Response, Problem> {
    role::check_permission(RequestName::ExplainNode).map_err(Problem::permission_denied)?;
    let (mut parts, _) = request.into_parts();
    let mut query = query::read(operation.query(), &raw_query(&parts.uri)?)?;
    let mut take = |name: &str| query.remove(name)?.as_str().map(str::to_string);
    let since = take("since").map(|text| parse_position(&text)).transpose()?;
    let node = path.iter().next().map(|(_, node)| node.to_string()).unwrap_or_default();
    let node = NodeRef { session: take("session_id"), node };
    let handshake = Handshake::read(&mut parts, &site).await?;
    let state = site.state.clone();
    let (start, updates) = state.engine.watch_output(&node, since).await?;
    Ok(handshake.accept(MAX_INPUT_BYTES, async move |socket, credential| {
        run(socket, credential, node, (start, updates), state).await;
    }))
}

/// Reads `OFFSET` or `STREAM-OFFSET`.
fn parse_position(text: &str) -> Result<OutputPosition, Problem> {
    let (stream, offset) = match text.rsplit_once('-') {
        Some((stream, offset)) => (Some(stream.to_string()), offset),
        None => (None, text),
    };
    match offset.parse() {
        Ok(offset) => Ok(OutputPosition { stream, offset }),
        Err(_) => {
            let text = query::short(text);
            Err(Problem::invalid(format!("since: expected OFFSET or STREAM-OFFSET, got {text:?}")))
        }
    }
}

/// Serves a client until it leaves, the program ends or the server closes.
async fn run(
    socket: WebSocket,
    credential: Option<Credential>,
    node: NodeRef,
    (start, updates): (OutputStart, OutputSubscription),
    state: Arc<ServerState>,
) {
    let (sink, stream) = socket.split();
    let (errors, pending_errors) = mpsc::channel(MAX_ERRORS);
    let (acknowledge, acknowledged) = watch::channel(None);
    let incoming =
        InputReader { stream, errors, acknowledge, node: node.clone(), state: state.clone() }.run();
    let outgoing = OutputWriter {
        sink,
        updates,
        sent: 0,
        next_output: Instant::now(),
        resyncs: ResyncLimit::default(),
        errors: pending_errors,
        acknowledged,
        node,
        state,
    };
    outgoing.run(start, credential, incoming).await;
}

/// A message of the client.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum ClientMessage {
    Keys { text: String },
    Ack { offset: u64 },
}

/// The reason for the end of a connection: a close code and a text.
type Close = (u16, &'static str);

const LEFT: Close = (close_code::NORMAL, "");
const CLOSING: Close = (close_code::AWAY, "the server is closing");

/// Reads the client's keys and acknowledgements.
struct InputReader {
    stream: SplitStream<WebSocket>,
    errors: mpsc::Sender<Message>,
    acknowledge: watch::Sender<Option<u64>>,
    node: NodeRef,
    state: Arc<ServerState>,
}

impl InputReader {
    /// Handles messages until the client leaves or sends an invalid frame.
    async fn run(mut self) -> Close {
        loop {
            let next = tokio::time::timeout(SILENCE_TIMEOUT, self.stream.next()).await;
            let handled = match next {
                Ok(Some(Ok(Message::Binary(keys)))) => self.type_keys(keys.into()).await,
                Ok(Some(Ok(Message::Text(text)))) => self.handle(text.as_str()).await,
                Ok(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => Ok(()),
                Ok(Some(Err(error))) => match error_close_code(&error) {
                    Some(close_code::SIZE) => return (close_code::SIZE, "a message holds at most 1 MiB"),
                    Some(code) => return (code, "a text must be UTF-8"),
                    None => return LEFT,
                },
                Ok(Some(Ok(Message::Close(_))) | None) | Err(_) => return LEFT,
            };
            if let Err(error) = handled {
                // A client that floods the server with errors does not get all of them.
                let _ = self.errors.try_send(json_message(&json!({
                    "type": "error",
                    "error_type": error.kind,
                    "message": error.message,
                    "hint": error.hint,
                })));
            }
        }
    }

    async fn handle(&self, text: &str) -> Result<(), EngineError> {
        match serde_json::from_str(text) {
            Ok(ClientMessage::Keys { text }) => self.type_keys(text.into_bytes()).await,
            Ok(ClientMessage::Ack { offset }) => {
                self.acknowledge.send_replace(Some(offset));
                Ok(())
            }
            Err(error) => Err(EngineError::invalid_request(format!("invalid message: {error}"))),
        }
    }

    async fn type_keys(&self, keys: Vec<u8>) -> Result<(), EngineError> {
        role::check_permission(RequestName::WriteData)?;
        self.state.engine.type_keys(&self.node, keys).await
    }
}

/// Writes the terminal's output.
struct OutputWriter {
    sink: SplitSink<WebSocket, Message>,
    updates: OutputSubscription,
    /// Offset after the last output that was sent.
    sent: u64,
    /// Time before which no further output is sent.
    next_output: Instant,
    resyncs: ResyncLimit,
    errors: mpsc::Receiver<Message>,
    acknowledged: watch::Receiver<Option<u64>>,
    node: NodeRef,
    state: Arc<ServerState>,
}

impl OutputWriter {
    /// Sends the terminal until either side ends.
    async fn run(
        mut self,
        start: OutputStart,
        credential: Option<Credential>,
        incoming: impl Future<Output = Close>,
    ) {
        let closing = self.state.closing.clone();
        let end = async {
            tokio::select! {
                close = incoming => close,
                reason = wait_for_revocation(credential) => (close_code::POLICY, reason),
                () = closing.cancelled() => CLOSING,
            }
        };
        tokio::pin!(end);
        // The client is read while a message is sent: it may send everything before it reads.
        let close = tokio::select! {
            close = self.send_all(start) => close,
            close = &mut end => Ok(close),
        };
        if let Ok(close) = close {
            websocket::close(&mut self.sink, close).await;
        }
    }

    /// Sends the terminal until the program ends.
    async fn send_all(&mut self, start: OutputStart) -> Result<Close, axum::Error> {
        self.send_start(start).await?;
        let mut ping = tokio::time::interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
        loop {
            let has_window = self.has_window();
            let update = async {
                tokio::time::sleep_until(self.next_output).await;
                self.updates.next(MAX_OUTPUT_BYTES).await
            };
            tokio::select! {
                update = update, if has_window => {
                    if let Some(close) = self.send_update(update).await? {
                        return Ok(close);
                    }
                }
                Ok(()) = self.acknowledged.changed() => {}
                Some(error) = self.errors.recv() => self.sink.send(error).await?,
                _ = ping.tick() => {
                    self.sink.send(Message::Ping(Bytes::new())).await?;
                    self.sink.send(json_message(&json!({ "type": "heartbeat" }))).await?;
                }
            }
        }
    }

    /// Returns true if the client has acknowledged enough. One that never does is limited by its connection alone.
    fn has_window(&mut self) -> bool {
        let acknowledged = *self.acknowledged.borrow_and_update();
        acknowledged.is_none_or(|offset| self.sent.saturating_sub(offset) < WINDOW_BYTES)
    }

    async fn send_start(&mut self, start: OutputStart) -> Result<(), axum::Error> {
        let OutputStart { stream, offset, size, dump } = start;
        let kind = if dump.is_some() { "dump" } else { "resume" };
        let (cols, rows) = (size.cols, size.rows);
        let start = json!({ "type": kind, "stream": stream, "offset": offset, "cols": cols, "rows": rows });
        self.sink.send(json_message(&start)).await?;
        if let Some(dump) = dump {
            self.sink.send(output_message(offset, &dump)).await?;
        }
        self.sent = offset;
        Ok(())
    }

    async fn send_update(&mut self, update: OutputUpdate) -> Result<Option<Close>, axum::Error> {
        match update {
            OutputUpdate::Bytes(offset, bytes) => {
                self.sink.send(output_message(offset, &bytes)).await?;
                self.sent = offset + bytes.len() as u64;
                self.next_output = Instant::now() + OUTPUT_INTERVAL;
            }
            OutputUpdate::Resized(offset, size) => {
                let (cols, rows) = (size.cols, size.rows);
                let resize = json!({ "type": "resize", "offset": offset, "cols": cols, "rows": rows });
                self.sink.send(json_message(&resize)).await?;
            }
            OutputUpdate::Missed => return self.resynchronize().await,
            OutputUpdate::Ended(reason) => return self.send_end(&reason).await.map(Some),
            OutputUpdate::Detached => return Ok(Some(CLOSING)),
        }
        Ok(None)
    }

    /// Sends a new dump instead of missed output, or waits until the next one may be made: then the update comes again.
    async fn resynchronize(&mut self) -> Result<Option<Close>, axum::Error> {
        let begun = Instant::now();
        if let Some(later) = self.resyncs.wait_until(begun.into_std()) {
            self.next_output = later.into();
            return Ok(None);
        }
        match self.state.engine.watch_output(&self.node, None).await {
            Ok((start, updates)) => {
                self.resyncs.record(begun.into_std(), Instant::now().into_std());
                self.updates = updates;
                self.send_start(start).await.map(|()| None)
            }
            Err(error) => self.send_end(&error.message).await.map(Some),
        }
    }

    async fn send_end(&mut self, reason: &str) -> Result<Close, axum::Error> {
        self.sink.send(json_message(&json!({ "type": "end", "reason": reason }))).await?;
        Ok((close_code::NORMAL, "the program has ended"))
    }
}

fn json_message(value: &Value) -> Message {
    Message::Text(value.to_string().into())
}

fn output_message(offset: u64, bytes: &[u8]) -> Message {
    Message::Binary([&offset.to_be_bytes(), bytes].concat().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_is_an_offset_with_optional_stream() {
        let read = |text| parse_position(text).map(|at| (at.stream, at.offset)).ok();
        assert_eq!(read("17"), Some((None, 17)));
        assert_eq!(read("a-b-17"), Some((Some("a-b".to_string()), 17)));
        for bad in ["", "-", "a", "a-", "1-18446744073709551616"] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }
}
