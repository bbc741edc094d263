//! Pending requests of one connection, and the dispatch of incoming messages.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use nerve_api::reply::{ErrorDetails, Subscribed};
use nerve_api::{ErrorMessage, EventMessage, RequestId, ResultMessage};
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::error::Category;
use serde_json::value::RawValue;
use tokio::sync::{Notify, oneshot};

use crate::chunks::ChunkSink;
use crate::error::{CLOSED_BY_SERVER, ClientError, ServerError, UnansweredRequest};
use crate::event_router::{EventRouter, Subscription};

/// The reply to a request as JSON text, which is decoded straight into the type of the reply.
pub(crate) type Outcome = Result<Box<RawValue>, ClientError>;

/// A handle to the reply of a queued request.
#[derive(Debug)]
pub(crate) struct PendingReply {
    id: i64,
    reply: oneshot::Receiver<Reply>,
    shared: Arc<Shared>,
}

/// A reply, with the number of output chunks lost since the last one delivered.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) outcome: Outcome,
    pub(crate) missed: u64,
}

impl PendingReply {
    /// Waits for the reply. Cancel-safe.
    pub(crate) async fn wait(&mut self) -> Reply {
        match (&mut self.reply).await {
            Ok(reply) => reply,
            Err(_) => Reply { outcome: Err(self.shared.close_error(true, Some(self.id))), missed: 0 },
        }
    }
}

impl Drop for PendingReply {
    fn drop(&mut self) {
        self.shared.state.lock().pending.remove(&self.id);
    }
}

/// Side effects of a reply.
#[derive(Debug, Default)]
pub(crate) struct ReplyHooks {
    /// Receives the OUTPUT_CHUNK events before the reply.
    pub(crate) chunks: Option<ChunkSink>,
    /// The request is this SUBSCRIBE.
    pub(crate) subscription: Option<Subscription>,
}

/// A request without a reply yet.
#[derive(Debug)]
struct PendingRequest {
    reply: oneshot::Sender<Reply>,
    hooks: ReplyHooks,
    /// Some of the request may have been sent.
    sent: bool,
}

impl PendingRequest {
    fn complete(self, outcome: Outcome) {
        let missed = self.hooks.chunks.map_or(0, |chunks| chunks.missed());
        // Fails if the request was given up.
        let _ = self.reply.send(Reply { outcome, missed });
    }
}

/// State shared by a connection's task and its users.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    router: Arc<EventRouter>,
    ended: Notify,
}

#[derive(Debug)]
struct State {
    pending: HashMap<i64, PendingRequest>,
    closed: Option<CloseReason>,
    /// Writing has failed; input is still read.
    writes_closed: bool,
    /// Events are discarded until the subscription is restored.
    muted: bool,
    /// A SUBSCRIBE was queued and has not failed.
    subscribed: bool,
    /// The SUBSCRIBE for event streams, and its id. Nothing waits for its reply.
    own_subscribe: Option<(i64, Subscription)>,
    /// The server has sent a message.
    has_received: bool,
}

/// Reason why a connection has ended.
#[derive(Debug, Clone)]
pub(crate) enum CloseReason {
    ByClient,
    ByServer,
    Broken(String),
    InvalidData(String),
}

impl CloseReason {
    pub(crate) fn error(&self, sent: bool, id: Option<i64>) -> ClientError {
        let id = id.map(|id| id.to_string());
        match self {
            CloseReason::ByClient => {
                ClientError::Closed(UnansweredRequest::new("this client is closed", sent, id))
            }
            CloseReason::ByServer => ClientError::Closed(UnansweredRequest::new(CLOSED_BY_SERVER, sent, id)),
            CloseReason::Broken(cause) => {
                let reason = format!("connection to the server lost: {cause}");
                ClientError::Closed(UnansweredRequest::new(reason, sent, id))
            }
            CloseReason::InvalidData(problem) => ClientError::Protocol(problem.clone()),
        }
    }

    /// Returns true if reconnecting would not help: the peer is no nerve server, or the client is closed.
    pub(crate) fn is_permanent(&self) -> bool {
        matches!(self, CloseReason::ByClient | CloseReason::InvalidData(_))
    }

    pub(crate) fn broken(error: &io::Error) -> CloseReason {
        match error.kind() {
            // The peer is gone, whichever call fails first. TLS reports an end without close_notify as
            // unexpected.
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => {
                CloseReason::ByServer
            }
            _ => CloseReason::Broken(error.to_string()),
        }
    }
}

impl Shared {
    /// Creates the state. `muted`: events are discarded until [`Shared::unmute`] or the reply to a SUBSCRIBE.
    pub(crate) fn new(router: Arc<EventRouter>, muted: bool) -> Shared {
        let state = State {
            pending: HashMap::new(),
            closed: None,
            writes_closed: false,
            muted,
            subscribed: false,
            own_subscribe: None,
            has_received: false,
        };
        Shared { state: Mutex::new(state), router, ended: Notify::new() }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.state.lock().pending.len()
    }

    pub(crate) fn unmute(&self) {
        self.state.lock().muted = false;
    }

    pub(crate) fn is_muted(&self) -> bool {
        self.state.lock().muted
    }

    pub(crate) fn has_received(&self) -> bool {
        self.state.lock().has_received
    }

    /// Returns why the connection has ended, if it has.
    pub(crate) fn closed(&self) -> Option<CloseReason> {
        self.state.lock().closed.clone()
    }

    /// Returns true if the connection accepts requests.
    pub(crate) fn is_open(&self) -> bool {
        let state = self.state.lock();
        state.closed.is_none() && !state.writes_closed
    }

    /// Stops accepting requests, which could not be sent. Pending ones may still get their reply.
    pub(crate) fn close_writes(&self) {
        self.state.lock().writes_closed = true;
    }

    /// Waits until the connection has ended.
    pub(crate) async fn ended(&self) {
        // Created before the check, so that no notification is missed.
        let ended = self.ended.notified();
        if self.closed().is_none() {
            ended.await;
        }
    }

    pub(crate) fn close_error(&self, sent: bool, id: Option<i64>) -> ClientError {
        self.state.lock().closed.as_ref().unwrap_or(&CloseReason::ByServer).error(sent, id)
    }

    pub(crate) fn register(
        self: &Arc<Shared>,
        id: i64,
        hooks: ReplyHooks,
    ) -> Result<PendingReply, ClientError> {
        let mut state = self.state.lock();
        if let Some(closed) = &state.closed {
            return Err(closed.error(false, Some(id)));
        }
        if state.writes_closed {
            return Err(CloseReason::ByServer.error(false, Some(id)));
        }
        let (sender, reply) = oneshot::channel();
        state.subscribed |= hooks.subscription.is_some();
        state.pending.insert(id, PendingRequest { reply: sender, hooks, sent: false });
        Ok(PendingReply { id, reply, shared: Arc::clone(self) })
    }

    /// Registers the SUBSCRIBE for event streams. Returns false if the connection needs none: it has ended, or a
    /// SUBSCRIBE was queued before.
    pub(crate) fn register_own_subscribe(&self, id: i64, subscription: Subscription) -> bool {
        let mut state = self.state.lock();
        if state.closed.is_some() || state.writes_closed || state.subscribed {
            return false;
        }
        state.subscribed = true;
        state.own_subscribe = Some((id, subscription));
        true
    }

    /// Marks a request as sent, just before it is written. Returns false if the connection has ended: the
    /// request was reported as unsent and must not be written.
    pub(crate) fn mark_sent(&self, id: i64) -> bool {
        let mut state = self.state.lock();
        if let Some(pending) = state.pending.get_mut(&id) {
            pending.sent = true;
        }
        state.closed.is_none()
    }

    /// Ends the connection and fails all pending requests. The first reason is kept.
    pub(crate) fn close(&self, reason: CloseReason) {
        let permanent = reason.is_permanent();
        if self.end(reason) {
            self.router.connection_ended(permanent);
        }
    }

    /// Ends the connection because the client is closed. Unlike [`Shared::close`], does not report the end to the router: no other
    /// connection is needed.
    pub(crate) fn abandon(&self) {
        self.end(CloseReason::ByClient);
    }

    /// Fails all pending requests. Returns false if the connection had already ended.
    fn end(&self, reason: CloseReason) -> bool {
        let mut state = self.state.lock();
        if state.closed.is_some() {
            return false;
        }
        for (id, pending) in std::mem::take(&mut state.pending) {
            let error = reason.error(pending.sent, Some(id));
            pending.complete(Err(error));
        }
        state.closed = Some(reason);
        self.ended.notify_waiters();
        true
    }

    /// Dispatches the message in a line.
    pub(crate) fn deliver(&self, line: &[u8]) -> Result<(), CloseReason> {
        let MessageType { kind } = decode(line)?;
        match kind.as_str() {
            Some("result") => self.on_result(decode(line)?),
            Some("error") => self.reject(decode(line)?),
            Some("event") => self.publish(decode(line)?),
            // Newer servers may send further kinds of messages.
            _ => {}
        }
        Ok(())
    }

    fn publish(&self, event: EventMessage) {
        let mut state = self.state.lock();
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

    fn on_result(&self, result: ResultMessage<Box<RawValue>>) {
        let mut state = self.state.lock();
        state.has_received = true;
        self.router.warn(result.warnings);
        let id = result.request_id.and_then(parse_id);
        if let Some((_, subscription)) = state.own_subscribe.take_if(|(own, _)| Some(*own) == id) {
            let outcome = result.success.then_some(&*result.data);
            self.on_subscribe_reply(&mut state, &subscription, outcome);
            return;
        }
        let Some((id, pending)) = id.and_then(|id| Some((id, state.pending.remove(&id)?))) else {
            self.router.count_unmatched(id);
            return;
        };
        let outcome = if result.success {
            Ok(result.data)
        } else {
            let details = serde_json::from_str(result.data.get()).unwrap_or_default();
            Err(server_error(ServerError::new(result.error, details), Some(id)))
        };
        if let Some(subscription) = &pending.hooks.subscription {
            // Before the events that follow the reply.
            self.on_subscribe_reply(&mut state, subscription, outcome.as_deref().ok());
        }
        pending.complete(outcome);
    }

    /// Handles the reply to a SUBSCRIBE; `None` if the request failed.
    fn on_subscribe_reply(&self, state: &mut State, subscription: &Subscription, data: Option<&RawValue>) {
        match data {
            Some(data) => {
                if let Ok(reply) = serde_json::from_str::<Subscribed>(data.get()) {
                    state.muted = !self.router.apply_subscription(subscription, reply);
                }
            }
            None => state.subscribed = self.router.has_filter(),
        }
    }

    /// Handles an error about an unreadable request. If the server cannot tell which one, all pending
    /// requests fail.
    fn reject(&self, ErrorMessage { error, error_type, request_id }: ErrorMessage) {
        let mut state = self.state.lock();
        state.has_received = true;
        let pending: Vec<_> = match request_id {
            Some(id) => {
                let id = parse_id(id);
                let request = id.and_then(|id| Some((id, state.pending.remove(&id)?)));
                if request.is_none() {
                    self.router.count_unmatched(id);
                }
                request.into_iter().collect()
            }
            None => state.pending.drain().collect(),
        };
        let error = ServerError::new(Some(error), ErrorDetails::of(error_type));
        for (id, pending) in pending {
            pending.complete(Err(server_error(error.clone(), Some(id))));
        }
    }
}

/// The part of a message that says how to decode the rest.
#[derive(Deserialize)]
struct MessageType {
    #[serde(rename = "type", default)]
    kind: Value,
}

fn decode<T: DeserializeOwned>(line: &[u8]) -> Result<T, CloseReason> {
    // serde would also decode a list as a struct.
    let is_list = line.trim_ascii_start().starts_with(b"[");
    match serde_json::from_slice(line) {
        Ok(message) if !is_list => Ok(message),
        Ok(_) => Err(CloseReason::InvalidData("the server sent a list instead of a message".to_string())),
        Err(error) => {
            let kind = if error.classify() == Category::Data { "an invalid message" } else { "invalid JSON" };
            Err(CloseReason::InvalidData(format!("the server sent {kind}: {error}")))
        }
    }
}

fn server_error(error: ServerError, id: Option<i64>) -> ClientError {
    ClientError::Server(Box::new(ServerError { request_id: id.map(|id| id.to_string()), ..error }))
}

/// Parses a request id. The client sends its numbers as text.
fn parse_id(id: RequestId) -> Option<i64> {
    match id {
        RequestId::Text(text) => text.parse().ok(),
        RequestId::Number(number) => Some(number),
    }
}
