//! The connection to an agent: dispatches its messages, and knows its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nerve_acp_protocol::message::{Incoming, decode};
use nerve_acp_protocol::peer::Peer;
use nerve_acp_protocol::rpc_error::{METHOD_NOT_FOUND, RpcError};
use nerve_acp_protocol::types::{PermissionOutcome, PermissionParams, PermissionResponse, UpdateParams};
use nerve_api::event::EventKind;
use nerve_api::framing::{Frame, LineReader, MAX_LINE_BYTES};
use nerve_host::backend::{Program, SpawnError};
use nerve_host::clock::Clock;
use nerve_node::context::ChunkSink;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::turn_state::TurnState;
use nerve_types::ExitStatus;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::process::ChildStdout;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::process::{AgentProcess, Started, StderrTail};
use crate::session::{Decision, Session};
use crate::turn_content::{Effect, TurnContent};

/// Maximum size of a chunk of an answer, in bytes.
const MAX_CHUNK: usize = 256 << 10;
/// Maximum length of a quoted message in an error, in characters.
const MAX_QUOTE: usize = 200;
/// Time that responses to cancelled permissions have to be queued: an agent that does not read does not delay a cancellation.
const QUEUE_TIME: Duration = Duration::from_secs(2);

/// Silence after which the earlier turns of a loaded session have arrived.
const SETTLE_TIME: Duration = Duration::from_millis(200);

/// A connection to an agent.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) state: Arc<TurnState>,
    pub(crate) pid: Option<u32>,
    peer: Peer,
    session: Mutex<Session>,
    stream: Mutex<Option<TurnStream>>,
    /// Number of updates of the session.
    updates: watch::Sender<u64>,
    clock: Clock,
    stderr: StderrTail,
    /// The agent has responded to `initialize`, so that it speaks the protocol.
    is_initialized: AtomicBool,
    /// Ends the agent.
    stop: CancellationToken,
    /// Ends the connection: the agent is stopped, or does not read.
    closing: CancellationToken,
    end: watch::Sender<Option<AgentEnd>>,
}

/// Receivers of the answer of a turn.
pub(crate) struct TurnStream {
    /// Number of the turn.
    pub(crate) number: u64,
    /// Tag of its events.
    pub(crate) tag: Option<u64>,
    /// Publishes chunks as events.
    pub(crate) has_events: bool,
    pub(crate) sink: Option<ChunkSink>,
}

impl std::fmt::Debug for TurnStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TurnStream").field("number", &self.number).finish_non_exhaustive()
    }
}

/// The end of an agent.
#[derive(Debug, Clone)]
pub(crate) struct AgentEnd {
    /// Reason, for people.
    pub(crate) reason: String,
    pub(crate) exit: ExitStatus,
    /// The last lines of its standard error.
    pub(crate) stderr: String,
}

/// A request that failed.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The agent responded with an error.
    Rpc(RpcError),
    /// The agent has ended.
    Ended(AgentEnd),
}

impl Link {
    /// Starts an agent.
    pub(crate) fn start(
        program: &Program,
        state: Arc<TurnState>,
        clock: Clock,
    ) -> Result<Arc<Link>, SpawnError> {
        let (stderr, stop) = (StderrTail::default(), CancellationToken::new());
        let Started { process, pid, stdin, stdout } = AgentProcess::start(program, &stderr)?;
        let closing = stop.child_token();
        let (peer, writer) = Peer::start(stdin, closing.clone());
        let link = Arc::new(Link {
            state,
            pid,
            peer,
            session: Mutex::default(),
            stream: Mutex::default(),
            updates: watch::Sender::new(0),
            clock,
            stderr,
            is_initialized: AtomicBool::new(false),
            stop,
            closing,
            end: watch::Sender::new(None),
        });
        tokio::spawn(supervise(Arc::clone(&link), process, stdout, writer));
        Ok(link)
    }

    /// Returns the token that ends the agent.
    pub(crate) fn stop_token(&self) -> &CancellationToken {
        &self.stop
    }

    /// Waits for the end of the agent.
    pub(crate) async fn ended(&self) -> AgentEnd {
        let mut end = self.end.subscribe();
        let ended = end.wait_for(Option::is_some).await.ok().and_then(|end| end.clone());
        // The link owns the sender, so there is always an end.
        ended.unwrap_or(AgentEnd { reason: String::new(), exit: ExitStatus::Unknown, stderr: String::new() })
    }

    /// Returns the end of the agent, if it has ended.
    pub(crate) fn end(&self) -> Option<AgentEnd> {
        self.end.borrow().clone()
    }

    /// Returns the last lines of the agent's standard error.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.last_lines()
    }

    /// Sends a request and waits for the response.
    ///
    /// # Errors
    /// The agent responded with an error, or has ended.
    pub(crate) async fn call(&self, method: &str, params: impl Serialize) -> Result<Value, CallError> {
        let work = async { self.peer.request(method, params).await.response.await };
        tokio::select! {
            biased;
            // A lost response means that the agent ends.
            Ok(outcome) = work => outcome.map_err(CallError::Rpc),
            end = self.ended() => Err(CallError::Ended(end)),
        }
    }

    /// Records that the agent speaks the protocol: from here on, it may write nothing else.
    pub(crate) fn set_initialized(&self) {
        self.is_initialized.store(true, Ordering::Relaxed);
    }

    pub(crate) fn session_id(&self) -> String {
        self.session.lock().id.clone()
    }

    pub(crate) fn set_session_id(&self, id: &str) {
        self.session.lock().id = id.to_string();
    }

    /// Waits until no update has arrived for a moment. Agents may send the earlier turns of a loaded session after their response, and the
    /// next turn must not contain them.
    pub(crate) async fn await_silence(&self) {
        let mut updates = self.updates.subscribe();
        while let Ok(Ok(())) = tokio::time::timeout(SETTLE_TIME, updates.changed()).await {}
    }

    /// Returns the answer of the running turn so far, and the open dialog, as text.
    pub(crate) fn text(&self) -> String {
        self.session.lock().text()
    }

    /// Returns true if the running turn is being cancelled.
    pub(crate) fn is_cancelling(&self) -> bool {
        self.session.lock().is_cancelling()
    }

    /// Begins a turn.
    pub(crate) fn begin_turn(&self, stream: TurnStream) {
        *self.stream.lock() = Some(stream);
        self.session.lock().begin_turn();
    }

    /// Ends the turn and returns its content.
    pub(crate) async fn end_turn(&self) -> TurnContent {
        let (content, last, requests) = {
            let mut session = self.session.lock();
            let ended = session.end_turn(self.clock.now().into());
            self.state.set_dialog(None);
            ended
        };
        self.publish(last);
        *self.stream.lock() = None;
        self.cancel_requests(requests).await;
        content
    }

    /// Cancels the running turn at the agent. Does nothing if no turn runs.
    pub(crate) async fn cancel_turn(&self) {
        let (requests, id) = {
            let mut session = self.session.lock();
            let Some(requests) = session.cancel_turn() else { return };
            self.state.set_dialog(None);
            (requests, session.id.clone())
        };
        let notify = self.peer.notify("session/cancel", json!({ "sessionId": id }));
        let _ = tokio::time::timeout(QUEUE_TIME, notify).await;
        self.cancel_requests(requests).await;
    }

    async fn cancel_requests(&self, requests: Vec<Value>) {
        let respond = async {
            for id in requests {
                self.respond_permission(id, PermissionOutcome::Cancelled).await;
            }
        };
        let _ = tokio::time::timeout(QUEUE_TIME, respond).await;
    }

    /// Answers a dialog and shows the next one. Returns false if it is not open any more. `picked`: position of the choice, `None` for no
    /// choice. `log` runs before the agent gets the answer.
    pub(crate) async fn answer(&self, dialog: &str, picked: Option<usize>, log: impl FnOnce()) -> bool {
        let answered = {
            let mut session = self.session.lock();
            let answered = session.answer(dialog, picked);
            if answered.is_some() {
                log();
                self.state.set_dialog(session.dialog());
            }
            answered
        };
        let Some((id, outcome)) = answered else { return false };
        self.respond_permission(id, outcome).await;
        true
    }

    async fn respond_permission(&self, id: Value, outcome: PermissionOutcome) {
        self.peer.respond(id, Ok(json!(PermissionResponse { outcome }))).await;
    }

    /// Reads messages until the connection ends. Returns the reason; `None` if the agent closed its output or input.
    async fn read(&self, stdout: ChildStdout) -> Option<String> {
        let mut reader = LineReader::new(stdout);
        loop {
            let frame = tokio::select! {
                biased;
                frame = reader.next() => frame,
                () = self.closing.cancelled() => return self.stop_reason(),
            };
            let line = match frame {
                Ok(Frame::Line(line)) => line,
                Ok(Frame::TooLong { bytes }) => {
                    return Some(format!(
                        "it sent a line of {bytes} bytes: at most {MAX_LINE_BYTES} are read"
                    ));
                }
                Ok(Frame::Eof { .. }) | Err(_) => return None,
            };
            tokio::select! {
                // An agent that does not read its responses is not waited for.
                problem = self.on_line(&line) => if problem.is_some() { return problem },
                () = self.closing.cancelled() => return self.stop_reason(),
            }
        }
    }

    fn stop_reason(&self) -> Option<String> {
        self.stop.is_cancelled().then(|| "it was stopped".to_string())
    }

    /// Handles a line. Returns why the connection must end, if it must.
    async fn on_line(&self, line: &[u8]) -> Option<String> {
        match decode(line) {
            Ok(Incoming::Response { id: Value::Null, outcome: Err(error) }) => {
                return Some(describe_invalid(line, &error));
            }
            Ok(Incoming::Response { id, outcome }) => {
                if !self.peer.on_response(&id, outcome) {
                    tracing::debug!(%id, "response to no request");
                }
            }
            Ok(Incoming::Notification { method, params }) => self.on_notification(&method, params),
            Ok(Incoming::Request { id, method, params }) => self.on_request(id, &method, params).await,
            Err(_) if !self.is_initialized.load(Ordering::Relaxed) => {
                // Some programs greet before they begin.
                self.stderr.push(line);
                self.stderr.push(b"\n");
            }
            Err(invalid) => return Some(describe_invalid(line, &invalid.error)),
        }
        None
    }

    fn on_notification(&self, method: &str, params: Value) {
        match method {
            "session/update" => match serde_json::from_value::<UpdateParams>(params) {
                Ok(params) => self.on_update(params),
                Err(error) => tracing::debug!(%error, "update ignored"),
            },
            "$/cancel_request" => {
                let mut session = self.session.lock();
                if session.withdraw(&params["requestId"]) {
                    self.state.set_dialog(session.dialog());
                }
            }
            _ => tracing::debug!(method, "notification ignored"),
        }
    }

    fn on_update(&self, UpdateParams { session_id, update }: UpdateParams) {
        let effects = {
            let mut session = self.session.lock();
            if session.id != session_id {
                return;
            }
            session.on_update(update, self.clock.now().into())
        };
        self.updates.send_modify(|count| *count += 1);
        self.publish(effects);
    }

    async fn on_request(&self, id: Value, method: &str, params: Value) {
        if method != "session/request_permission" {
            let error = RpcError::new(METHOD_NOT_FOUND, format!("unknown method '{method}'"));
            return self.peer.respond(id, Err(error)).await;
        }
        let params: PermissionParams = match serde_json::from_value(params) {
            Ok(params) => params,
            Err(error) => {
                let error = RpcError::invalid_params(error.to_string());
                return self.peer.respond(id, Err(error)).await;
            }
        };
        let (decision, effects) = {
            let mut session = self.session.lock();
            session.on_request(id.clone(), params, self.clock.now().into())
        };
        self.publish(effects);
        match decision {
            Decision::Wait => {
                let session = self.session.lock();
                // A later request waits for the answer to the first one.
                if self.state.dialog().is_none() {
                    self.state.set_dialog(session.dialog());
                }
            }
            Decision::Cancelled => self.respond_permission(id, PermissionOutcome::Cancelled).await,
            Decision::Refuse(error) => self.peer.respond(id, Err(error)).await,
        }
    }

    fn publish(&self, effects: impl IntoIterator<Item = Effect>) {
        for effect in effects {
            match effect {
                Effect::Chunk(text) => self.publish_chunks(&text),
                Effect::Activity(activity) => {
                    self.state.publish(EventKind::NodeActivity(Box::new(activity)));
                }
            }
        }
    }

    fn publish_chunks(&self, mut text: &str) {
        let stream = self.stream.lock();
        let Some(TurnStream { number, tag, has_events, sink }) = stream.as_ref() else { return };
        while !text.is_empty() {
            let (chunk, rest) = text.split_at(text.floor_char_boundary(MAX_CHUNK));
            if let Some(sink) = sink {
                sink(chunk);
            }
            if *has_events {
                let chunk = chunk.to_string();
                let event = EventKind::OutputChunk { turn: *number, chunk, request_id: None, tag: *tag };
                self.state.publish(event);
            }
            text = rest;
        }
    }
}

impl AgentEnd {
    /// Creates the error of an operation that the end interrupts. `what`: the operation, for the message.
    pub(crate) fn error(&self, state: &TurnState, what: &str) -> EngineError {
        let last = self.stderr.lines().last().map_or(String::new(), |line| format!(" ({line})"));
        let mut error =
            state.error(ErrorKind::Process, &format!("{what}: the agent ended: {}{last}", self.reason));
        error.screen = Some(self.stderr.clone()).filter(|text| !text.is_empty());
        error.hint(format!("start it again: `nerve start {}`", state.node.node))
    }
}

/// Describes a line that is no message.
fn describe_invalid(line: &[u8], error: &RpcError) -> String {
    let quote: String = String::from_utf8_lossy(line).chars().take(MAX_QUOTE).collect();
    format!("it sent an invalid message ({error}): {}", quote.escape_debug())
}

/// Reads the agent's messages to the end of the connection, and ends the agent.
async fn supervise(link: Arc<Link>, process: AgentProcess, stdout: ChildStdout, writer: JoinHandle<()>) {
    let problem = link.read(stdout).await;
    // Closes the agent's input.
    writer.abort();
    let _ = writer.await;
    let exit = process.end().await;
    // Nothing waits for the agent any more.
    link.closing.cancel();
    let reason = problem.unwrap_or_else(|| exit.to_string());
    link.end.send_replace(Some(AgentEnd { reason, exit, stderr: link.stderr() }));
}
