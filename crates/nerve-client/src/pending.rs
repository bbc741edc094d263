//! The requests of one connection that wait for their answers, and what comes in for them.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nerve_proto::data::{ErrorData, SubscribedData};
use nerve_proto::{EventMessage, Message, RequestId, ResultMessage};
use serde_json::Value;
use tokio::sync::{Notify, oneshot};

use crate::error::{CLOSED_BY_SERVER, ClientError, ServerError, Unanswered};
use crate::event_router::{EventRouter, Subscription};
use crate::execute::ChunkSink;

pub(crate) type Outcome = Result<Value, ClientError>;

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
            Err(_) => Reply { outcome: Err(self.shared.why_closed(true, Some(self.id))), missed: 0 },
        }
    }
}

impl Drop for PendingReply {
    fn drop(&mut self) {
        self.shared.state().pending.remove(&self.id);
    }
}

/// What is to be done with an answer beside handing it out.
#[derive(Debug, Default)]
pub(crate) struct ReplyHooks {
    /// Gets the OUTPUT_CHUNK events that come before the answer.
    pub(crate) chunks: Option<ChunkSink>,
    /// The request is this SUBSCRIBE.
    pub(crate) subscription: Option<Subscription>,
}

/// Who waits for an answer.
#[derive(Debug)]
struct PendingRequest {
    reply: oneshot::Sender<Reply>,
    hooks: ReplyHooks,
    /// Something of the request has gone out.
    sent: bool,
}

impl PendingRequest {
    fn answer(self, outcome: Outcome) {
        let missed = self.hooks.chunks.map_or(0, |chunks| chunks.missed());
        // Fails when the request was given up just now.
        let _ = self.reply.send(Reply { outcome, missed });
    }
}

/// What the tasks of a connection share with those who ask.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    router: Arc<EventRouter>,
    ended: Notify,
}

#[derive(Debug)]
struct State {
    pending: HashMap<i64, PendingRequest>,
    closed: Option<Closed>,
    /// Nothing can be written any more; what the server has said is still read.
    writes_closed: bool,
    /// Events are passed over: what they are is not subscription for yet.
    muted: bool,
    /// The server has said something.
    has_received: bool,
}

/// Purpose a connection is of no more use.
#[derive(Debug, Clone)]
pub(crate) enum Closed {
    ByClient,
    ByServer,
    Broken(String),
    InvalidData(String),
}

impl Closed {
    pub(crate) fn error(&self, sent: bool, id: Option<i64>) -> ClientError {
        let id = id.map(|id| id.to_string());
        match self {
            Closed::ByClient => ClientError::Closed(Unanswered::new("this client is closed", sent, id)),
            Closed::ByServer => ClientError::Closed(Unanswered::new(CLOSED_BY_SERVER, sent, id)),
            Closed::Broken(why) => {
                let reason = format!("the connection to the server broke: {why}");
                ClientError::Closed(Unanswered::new(reason, sent, id))
            }
            Closed::InvalidData(what) => ClientError::Protocol(what.clone()),
        }
    }

    /// Another connection would be no better: the other end is no nerve server, or nobody wants one.
    pub(crate) fn is_permanent(&self) -> bool {
        matches!(self, Closed::ByClient | Closed::InvalidData(_))
    }

    pub(crate) fn broken(error: &io::Error) -> Closed {
        match error.kind() {
            // The other end is gone, whichever call finds out. TLS calls an end without farewell unexpected.
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => {
                Closed::ByServer
            }
            _ => Closed::Broken(error.to_string()),
        }
    }
}

impl Shared {
    /// `muted`: events are passed over until [`Shared::unmute`], or until a SUBSCRIBE is answered.
    pub(crate) fn new(router: Arc<EventRouter>, muted: bool) -> Shared {
        let state =
            State { pending: HashMap::new(), closed: None, writes_closed: false, muted, has_received: false };
        Shared { state: Mutex::new(state), router, ended: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.state().pending.len()
    }

    pub(crate) fn unmute(&self) {
        self.state().muted = false;
    }

    pub(crate) fn is_muted(&self) -> bool {
        self.state().muted
    }

    pub(crate) fn has_received(&self) -> bool {
        self.state().has_received
    }

    /// Purpose it has ended, if it has.
    pub(crate) fn closed(&self) -> Option<Closed> {
        self.state().closed.clone()
    }

    /// It takes requests.
    pub(crate) fn is_open(&self) -> bool {
        let state = self.state();
        state.closed.is_none() && !state.writes_closed
    }

    /// No more requests are taken: they could not go out. Answers to those that did may still come.
    pub(crate) fn close_writes(&self) {
        self.state().writes_closed = true;
    }

    /// Waits until it has ended.
    pub(crate) async fn ended(&self) {
        // Before the look: whoever ends it between the two wakes this one.
        let ended = self.ended.notified();
        if self.closed().is_none() {
            ended.await;
        }
    }

    pub(crate) fn why_closed(&self, sent: bool, id: Option<i64>) -> ClientError {
        self.state().closed.as_ref().unwrap_or(&Closed::ByServer).error(sent, id)
    }

    pub(crate) fn register(
        self: &Arc<Shared>,
        id: i64,
        hooks: ReplyHooks,
    ) -> Result<PendingReply, ClientError> {
        let mut state = self.state();
        if let Some(closed) = &state.closed {
            return Err(closed.error(false, Some(id)));
        }
        if state.writes_closed {
            return Err(Closed::ByServer.error(false, Some(id)));
        }
        let (sender, reply) = oneshot::channel();
        state.pending.insert(id, PendingRequest { reply: sender, hooks, sent: false });
        Ok(PendingReply { id, reply, shared: Arc::clone(self) })
    }

    /// The request's line is about to go out: from here on it may be done. False when the connection has ended: then nothing of it must
    /// go out any more, for whoever subscription was reply that it did not.
    pub(crate) fn mark_sent(&self, id: i64) -> bool {
        let mut state = self.state();
        if let Some(pending) = state.pending.get_mut(&id) {
            pending.sent = true;
        }
        state.closed.is_none()
    }

    /// Ends the connection: all that wait are reply, the first reason counts.
    pub(crate) fn close(&self, why: Closed) {
        let permanent = why.is_permanent();
        if self.end(why) {
            self.router.connection_ended(permanent);
        }
    }

    /// The same for one that nobody wants any more: no other one is wanted either.
    pub(crate) fn abandon(&self) {
        self.end(Closed::ByClient);
    }

    fn end(&self, why: Closed) -> bool {
        let mut state = self.state();
        if state.closed.is_some() {
            return false;
        }
        for (id, pending) in std::mem::take(&mut state.pending) {
            let error = why.error(pending.sent, Some(id));
            pending.answer(Err(error));
        }
        state.closed = Some(why);
        self.ended.notify_waiters();
        true
    }

    /// Hands a line's message to whom it concerns.
    pub(crate) fn deliver(&self, line: &[u8]) -> Result<(), Closed> {
        let message: Value = serde_json::from_slice(line)
            .map_err(|error| Closed::InvalidData(format!("the server sent what is not JSON: {error}")))?;
        // A newer server may have more kinds of messages; they concern nobody here.
        if !matches!(message.get("type").and_then(Value::as_str), Some("result" | "error" | "event")) {
            return match message {
                Value::Object(_) => Ok(()),
                _ => Err(Closed::InvalidData("the server sent JSON that is no message".to_string())),
            };
        }
        let message = serde_json::from_value(message).map_err(|error| {
            Closed::InvalidData(format!("the server sent a message that is wrong: {error}"))
        })?;
        match message {
            Message::Result(result) => self.answer(result),
            Message::Error(error) => self.reject(error.request_id, error.error),
            Message::Event(event) => self.publish(event),
        }
        Ok(())
    }

    fn publish(&self, event: EventMessage) {
        let mut state = self.state();
        state.has_received = true;
        for (id, pending) in &mut state.pending {
            if let Some(chunks) = &mut pending.hooks.chunks {
                chunks.offer(*id, &event);
            }
        }
        if !state.muted {
            self.router.publish(event);
        }
    }

    fn answer(&self, result: ResultMessage) {
        let mut state = self.state();
        state.has_received = true;
        self.router.warn(result.warnings);
        let id = result.request_id.and_then(parse_id);
        let Some((id, pending)) = id.and_then(|id| Some((id, state.pending.remove(&id)?))) else {
            self.router.count_unmatched(id);
            return;
        };
        let outcome = if result.success {
            Ok(result.data)
        } else {
            let data: ErrorData = serde_json::from_value(result.data).unwrap_or_default();
            Err(server_error(ServerError::new(result.error, data), Some(id)))
        };
        if let (Some(subscription), Ok(data)) = (&pending.hooks.subscription, &outcome)
            && let Ok(reply) = serde_json::from_value::<SubscribedData>(data.clone())
        {
            // Before the events that come behind the answer.
            state.muted = !self.router.subscribed(subscription, reply);
        }
        pending.answer(outcome);
    }

    /// The server could not read something. Which request that was it can only sometimes say; if not, none may wait for ever.
    fn reject(&self, request_id: Option<RequestId>, message: String) {
        let mut state = self.state();
        state.has_received = true;
        let pending: Vec<_> = match request_id {
            Some(id) => {
                let id = parse_id(id);
                let found = id.and_then(|id| Some((id, state.pending.remove(&id)?)));
                if found.is_none() {
                    self.router.count_unmatched(id);
                }
                found.into_iter().collect()
            }
            None => state.pending.drain().collect(),
        };
        let error = ServerError::new(Some(message), ErrorData::of(ErrorData::INVALID_REQUEST));
        for (id, pending) in pending {
            pending.answer(Err(server_error(error.clone(), Some(id))));
        }
    }
}

fn server_error(error: ServerError, id: Option<i64>) -> ClientError {
    ClientError::Server(Box::new(ServerError { request_id: id.map(|id| id.to_string()), ..error }))
}

/// Ids are sent as text, as the first nerve's clients do; ours are numbers.
fn parse_id(id: RequestId) -> Option<i64> {
    match id {
        RequestId::Text(text) => text.parse().ok(),
        RequestId::Number(number) => Some(number),
    }
}
