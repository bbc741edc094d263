//! One socket shared by all requests: a task that reads and hands out, a task that writes.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nerve_proto::data::ErrorData;
use nerve_proto::framing::{Frame, LineReader, encode};
use nerve_proto::{CommandType, EventMessage, Message, Request, RequestId, ResultMessage};
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::task::AbortHandle;

use crate::error::{ClientError, ServerError};
use crate::execute::ChunkSink;

/// Requests that wait for the socket; a further one waits for its place.
const WRITE_QUEUE: usize = 64;

/// Events kept for a reader that is slow; then the oldest are lost, and it is told.
const EVENT_QUEUE: usize = 1024;

/// Warnings kept until somebody takes them.
const KEPT_WARNINGS: usize = 64;

type Outcome = Result<Value, ClientError>;

/// A connected socket. Dropping it ends its tasks.
#[derive(Debug)]
pub(crate) struct Connection {
    lines: mpsc::Sender<Vec<u8>>,
    shared: Arc<Shared>,
    tasks: [AbortHandle; 2],
}

impl Drop for Connection {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Connection {
    pub(crate) async fn open(path: &Path) -> Result<Connection, ClientError> {
        let socket = UnixStream::connect(path).await.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => ClientError::NotRunning {
                path: path.to_path_buf(),
                hint: "start one with: nerve server start",
            },
            _ => ClientError::Io { action: format!("cannot connect to {}", path.display()), source },
        })?;
        let (reading, writing) = socket.into_split();
        Ok(Connection::over(reading, writing))
    }

    /// Must be called within a tokio runtime.
    pub(crate) fn over(
        reading: impl AsyncRead + Unpin + Send + 'static,
        writing: impl AsyncWrite + Unpin + Send + 'static,
    ) -> Connection {
        let (lines, queue) = mpsc::channel(WRITE_QUEUE);
        let shared = Arc::new(Shared::default());
        let reader = tokio::spawn(read_all(reading, Arc::clone(&shared)));
        let writer = tokio::spawn(write_all(writing, queue, Arc::clone(&shared)));
        Connection { lines, shared, tasks: [reader.abort_handle(), writer.abort_handle()] }
    }

    /// Sends a request. It is on its way when this returns; dropping the result gives up on the answer. `chunks` gets the
    /// OUTPUT_CHUNK events that come before the answer.
    pub(crate) async fn send(
        &self,
        command: CommandType,
        params: Map<String, Value>,
        chunks: Option<ChunkSink>,
    ) -> Result<PendingReply, ClientError> {
        let (pending, request_id) = self.shared.register(chunks)?;
        let line = encode(&Request::new(command, params, request_id))
            .map_err(|error| ClientError::Protocol(format!("{command}: {error}")))?;
        // A line enters the queue whole or not at all, also when this future is dropped here.
        if self.lines.send(line).await.is_err() {
            return Err(self.shared.why_closed());
        }
        Ok(pending)
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.shared.state().pending.len()
    }

    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.state().warnings)
    }

    /// Events from now on; of a closed connection none.
    pub(crate) fn events(&self) -> broadcast::Receiver<Arc<EventMessage>> {
        match &self.shared.state().events {
            Some(events) => events.subscribe(),
            None => broadcast::channel(1).1,
        }
    }
}

/// The answer to a request that was sent.
#[derive(Debug)]
pub(crate) struct PendingReply {
    id: i64,
    reply: oneshot::Receiver<Reply>,
    shared: Arc<Shared>,
}

/// An answer, and how many chunks of it were lost since the last one that was handed on.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) outcome: Outcome,
    pub(crate) missed: u64,
}

impl PendingReply {
    /// May be called again when it was dropped before it was done.
    pub(crate) async fn wait(&mut self) -> Reply {
        match (&mut self.reply).await {
            Ok(reply) => reply,
            Err(_) => Reply { outcome: Err(self.shared.why_closed()), missed: 0 },
        }
    }
}

/// Who waits for an answer.
#[derive(Debug)]
struct Waiting {
    reply: oneshot::Sender<Reply>,
    chunks: Option<ChunkSink>,
}

impl Waiting {
    fn answer(self, outcome: Outcome) {
        let missed = self.chunks.map_or(0, |chunks| chunks.missed());
        // Fails when the request was given up just now.
        let _ = self.reply.send(Reply { outcome, missed });
    }
}

impl Drop for PendingReply {
    fn drop(&mut self) {
        self.shared.state().pending.remove(&self.id);
    }
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    last_id: i64,
    pending: HashMap<i64, Waiting>,
    /// `None` once the connection is closed: streams of events end then.
    events: Option<broadcast::Sender<Arc<EventMessage>>>,
    closed: Option<Closed>,
    warnings: Vec<String>,
}

impl Default for State {
    fn default() -> State {
        State {
            last_id: 0,
            pending: HashMap::new(),
            events: Some(broadcast::channel(EVENT_QUEUE).0),
            closed: None,
            warnings: Vec::new(),
        }
    }
}

/// Why a connection is of no more use.
#[derive(Debug, Clone)]
enum Closed {
    ByServer,
    Broken(io::ErrorKind, String),
    Garbled(String),
}

impl Closed {
    fn error(&self) -> ClientError {
        match self {
            Closed::ByServer => ClientError::Closed,
            Closed::Broken(kind, text) => ClientError::Io {
                action: "the connection to the server broke".to_string(),
                source: io::Error::new(*kind, text.clone()),
            },
            Closed::Garbled(what) => ClientError::Protocol(what.clone()),
        }
    }

    fn broken(error: &io::Error) -> Closed {
        match error.kind() {
            // The other end is gone, whichever call finds out.
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Closed::ByServer,
            kind => Closed::Broken(kind, error.to_string()),
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn why_closed(&self) -> ClientError {
        self.state().closed.as_ref().unwrap_or(&Closed::ByServer).error()
    }

    fn register(
        self: &Arc<Shared>,
        chunks: Option<ChunkSink>,
    ) -> Result<(PendingReply, RequestId), ClientError> {
        let mut state = self.state();
        if let Some(closed) = &state.closed {
            return Err(closed.error());
        }
        state.last_id += 1;
        let id = state.last_id;
        let (sender, reply) = oneshot::channel();
        state.pending.insert(id, Waiting { reply: sender, chunks });
        let request_id = RequestId::Text(id.to_string());
        Ok((PendingReply { id, reply, shared: Arc::clone(self) }, request_id))
    }

    /// Ends the connection: all that wait are told, the first reason counts.
    fn close(&self, why: Closed) {
        let mut state = self.state();
        state.closed.get_or_insert(why);
        state.events = None;
        // Their senders go, so that each waiting request looks up the reason.
        state.pending.clear();
    }

    /// Hands a line's message to whom it concerns.
    fn deliver(&self, line: &[u8]) -> Result<(), Closed> {
        let message: Value = serde_json::from_slice(line)
            .map_err(|error| Closed::Garbled(format!("the server sent what is not JSON: {error}")))?;
        // A newer server may have more kinds of messages; they concern nobody here.
        if !matches!(message.get("type").and_then(Value::as_str), Some("result" | "error" | "event")) {
            return match message {
                Value::Object(_) => Ok(()),
                _ => Err(Closed::Garbled("the server sent JSON that is no message".to_string())),
            };
        }
        let message = serde_json::from_value(message)
            .map_err(|error| Closed::Garbled(format!("the server sent a message that is wrong: {error}")))?;
        match message {
            Message::Result(result) => self.answer(result),
            Message::Error(error) => self.refuse(error.request_id, error.error),
            Message::Event(event) => self.publish(event),
        }
        Ok(())
    }

    fn publish(&self, event: EventMessage) {
        let mut state = self.state();
        for (id, waiting) in &mut state.pending {
            if let Some(chunks) = &mut waiting.chunks {
                chunks.offer(*id, &event);
            }
        }
        if let Some(events) = &state.events {
            // Fails when nobody listens.
            let _ = events.send(Arc::new(event));
        }
    }

    fn answer(&self, result: ResultMessage) {
        let mut state = self.state();
        for warning in result.warnings {
            if state.warnings.len() < KEPT_WARNINGS && !state.warnings.contains(&warning) {
                state.warnings.push(warning);
            }
        }
        let outcome = if result.success {
            Ok(result.data)
        } else {
            let data: ErrorData = serde_json::from_value(result.data).unwrap_or_default();
            Err(ClientError::Server(Box::new(ServerError::new(result.error, data))))
        };
        // No entry: the request was given up.
        if let Some(waiting) = result.request_id.and_then(number).and_then(|id| state.pending.remove(&id)) {
            waiting.answer(outcome);
        }
    }

    /// The server could not read something. Which request that was it can only sometimes say; if not, none may wait for ever.
    fn refuse(&self, request_id: Option<RequestId>, message: String) {
        let mut state = self.state();
        let refused: Vec<_> = match request_id {
            Some(id) => number(id).and_then(|id| state.pending.remove(&id)).into_iter().collect(),
            None => state.pending.drain().map(|(_, waiting)| waiting).collect(),
        };
        let error = ServerError::new(Some(message), ErrorData::of(ErrorData::INVALID_REQUEST));
        for waiting in refused {
            waiting.answer(Err(ClientError::Server(Box::new(error.clone()))));
        }
    }
}

/// Ids are sent as text, as the first nerve's clients do; ours are numbers.
fn number(id: RequestId) -> Option<i64> {
    match id {
        RequestId::Text(text) => text.parse().ok(),
        RequestId::Number(number) => Some(number),
    }
}

async fn read_all(socket: impl AsyncRead + Unpin, shared: Arc<Shared>) {
    let mut lines = LineReader::new(socket);
    let why = loop {
        match lines.next().await {
            Ok(Frame::Line(line)) => {
                if let Err(why) = shared.deliver(&line) {
                    break why;
                }
            }
            Ok(Frame::TooLong { bytes }) => {
                break Closed::Garbled(format!("the server sent a line of {bytes} bytes"));
            }
            Ok(Frame::Eof { .. }) => break Closed::ByServer,
            Err(error) => break Closed::broken(&error),
        }
    };
    shared.close(why);
}

async fn write_all(
    mut socket: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<Vec<u8>>,
    shared: Arc<Shared>,
) {
    while let Some(line) = queue.recv().await {
        // TLS may keep the end of a line for itself until it is told to hand it on.
        let written = async {
            socket.write_all(&line).await?;
            socket.flush().await
        };
        if let Err(error) = written.await {
            shared.close(Closed::broken(&error));
            return;
        }
    }
}
