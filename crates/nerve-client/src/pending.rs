//! The requests of one connection that wait for their answers, and what comes in for them.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nerve_api::reply::{ErrorDetails, Subscribed};
use nerve_api::{EventMessage, Message, RequestId, ResultMessage};
use serde_json::Value;
use tokio::sync::{Notify, oneshot};

use crate::error::{CLOSED_BY_SERVER, ClientError, ServerError, Unanswered};
use crate::execute::ChunkSink;
use crate::inbox::{Inbox, Subscribing};

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
        self.shared.state().waiting.remove(&self.id);
    }
}

/// What is to be done with an answer beside handing it out.
#[derive(Debug, Default)]
pub(crate) struct Extras {
    /// Gets the OUTPUT_CHUNK events that come before the answer.
    pub(crate) chunks: Option<ChunkSink>,
    /// The request is this SUBSCRIBE.
    pub(crate) subscribing: Option<Subscribing>,
}

/// Who waits for an answer.
#[derive(Debug)]
struct Waiting {
    reply: oneshot::Sender<Reply>,
    extras: Extras,
    /// Something of the request has gone out.
    sent: bool,
}

impl Waiting {
    fn answer(self, outcome: Outcome) {
        let missed = self.extras.chunks.map_or(0, |chunks| chunks.missed());
        // Fails when the request was given up just now.
        let _ = self.reply.send(Reply { outcome, missed });
    }
}

/// What the tasks of a connection share with those who ask.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    inbox: Arc<Inbox>,
    ended: Notify,
}

#[derive(Debug)]
struct State {
    waiting: HashMap<i64, Waiting>,
    closed: Option<Closed>,
    /// Nothing can be written any more; what the server has said is still read.
    falls_silent: bool,
    /// Events are passed over: what they are is not asked for yet.
    muted: bool,
    /// The server has said something.
    heard: bool,
}

/// Why a connection is of no more use.
#[derive(Debug, Clone)]
pub(crate) enum Closed {
    ByClient,
    ByServer,
    Broken(String),
    Garbled(String),
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
            Closed::Garbled(what) => ClientError::Protocol(what.clone()),
        }
    }

    /// Another connection would be no better: the other end is no nerve server, or nobody wants one.
    pub(crate) fn is_for_good(&self) -> bool {
        matches!(self, Closed::ByClient | Closed::Garbled(_))
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
    pub(crate) fn new(inbox: Arc<Inbox>, muted: bool) -> Shared {
        let state = State { waiting: HashMap::new(), closed: None, falls_silent: false, muted, heard: false };
        Shared { state: Mutex::new(state), inbox, ended: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.state().waiting.len()
    }

    pub(crate) fn unmute(&self) {
        self.state().muted = false;
    }

    pub(crate) fn is_muted(&self) -> bool {
        self.state().muted
    }

    pub(crate) fn was_heard(&self) -> bool {
        self.state().heard
    }

    /// Why it has ended, if it has.
    pub(crate) fn closed(&self) -> Option<Closed> {
        self.state().closed.clone()
    }

    /// It takes requests.
    pub(crate) fn is_open(&self) -> bool {
        let state = self.state();
        state.closed.is_none() && !state.falls_silent
    }

    /// No more requests are taken: they could not go out. Answers to those that did may still come.
    pub(crate) fn fall_silent(&self) {
        self.state().falls_silent = true;
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

    pub(crate) fn register(self: &Arc<Shared>, id: i64, extras: Extras) -> Result<PendingReply, ClientError> {
        let mut state = self.state();
        if let Some(closed) = &state.closed {
            return Err(closed.error(false, Some(id)));
        }
        if state.falls_silent {
            return Err(Closed::ByServer.error(false, Some(id)));
        }
        let (sender, reply) = oneshot::channel();
        state.waiting.insert(id, Waiting { reply: sender, extras, sent: false });
        Ok(PendingReply { id, reply, shared: Arc::clone(self) })
    }

    /// The request's line is about to go out: from here on it may be done. False when the connection has ended: then nothing of it must
    /// go out any more, for whoever asked was told that it did not.
    pub(crate) fn begins(&self, id: i64) -> bool {
        let mut state = self.state();
        if let Some(waiting) = state.waiting.get_mut(&id) {
            waiting.sent = true;
        }
        state.closed.is_none()
    }

    /// Ends the connection: all that wait are told, the first reason counts.
    pub(crate) fn close(&self, why: Closed) {
        let for_good = why.is_for_good();
        if self.end(why) {
            self.inbox.connection_ended(for_good);
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
        for (id, waiting) in std::mem::take(&mut state.waiting) {
            let error = why.error(waiting.sent, Some(id));
            waiting.answer(Err(error));
        }
        state.closed = Some(why);
        self.ended.notify_waiters();
        true
    }

    /// Hands a line's message to whom it concerns.
    pub(crate) fn deliver(&self, line: &[u8]) -> Result<(), Closed> {
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
        state.heard = true;
        for (id, waiting) in &mut state.waiting {
            if let Some(chunks) = &mut waiting.extras.chunks {
                chunks.offer(*id, &event);
            }
        }
        if !state.muted {
            self.inbox.publish(event);
        }
    }

    fn answer(&self, result: ResultMessage) {
        let mut state = self.state();
        state.heard = true;
        self.inbox.warn(result.warnings);
        let id = result.request_id.and_then(number);
        let Some((id, waiting)) = id.and_then(|id| Some((id, state.waiting.remove(&id)?))) else {
            self.inbox.count_unmatched(id);
            return;
        };
        let outcome = if result.success {
            Ok(result.data)
        } else {
            let data: ErrorDetails = serde_json::from_value(result.data).unwrap_or_default();
            Err(refused(ServerError::new(result.error, data), Some(id)))
        };
        if let (Some(asked), Ok(data)) = (&waiting.extras.subscribing, &outcome)
            && let Ok(told) = serde_json::from_value::<Subscribed>(data.clone())
        {
            // Before the events that come behind the answer.
            state.muted = !self.inbox.subscribed(asked, told);
        }
        waiting.answer(outcome);
    }

    /// The server could not read something. Which request that was it can only sometimes say; if not, none may wait for ever.
    fn refuse(&self, request_id: Option<RequestId>, message: String) {
        let mut state = self.state();
        state.heard = true;
        let waiting: Vec<_> = match request_id {
            Some(id) => {
                let id = number(id);
                let found = id.and_then(|id| Some((id, state.waiting.remove(&id)?)));
                if found.is_none() {
                    self.inbox.count_unmatched(id);
                }
                found.into_iter().collect()
            }
            None => state.waiting.drain().collect(),
        };
        let error = ServerError::new(Some(message), ErrorDetails::of(ErrorDetails::INVALID_REQUEST));
        for (id, waiting) in waiting {
            waiting.answer(Err(refused(error.clone(), Some(id))));
        }
    }
}

fn refused(error: ServerError, id: Option<i64>) -> ClientError {
    ClientError::Server(Box::new(ServerError { request_id: id.map(|id| id.to_string()), ..error }))
}

/// Ids are sent as text, as the first nerve's clients do; ours are numbers.
fn number(id: RequestId) -> Option<i64> {
    match id {
        RequestId::Text(text) => text.parse().ok(),
        RequestId::Number(number) => Some(number),
    }
}
