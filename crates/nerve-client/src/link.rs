//! A client's link to its server, over one connection at a time.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use nerve_api::RequestName;
use nerve_api::request::ExecuteInput;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tracing::Instrument;

use crate::chunks::{self, Chunk};
use crate::connect::Connector;
use crate::connection::{Connection, Line, encode_request};
use crate::endpoint::{self, Endpoint};
use crate::error::ClientError;
use crate::event_router::{EventRouter, Events, Subscription};
use crate::pending_requests::{Outcome, PendingReply, ReplyHooks};
use crate::reconnect::Reconnect;

/// A link to a server, shared by clients, nodes and streams. Dropping the last reference closes the connection.
#[derive(Debug)]
pub(crate) struct Link {
    connector: Arc<Connector>,
    runtime: Handle,
    /// The task that reconnects for event streams, started with the first one.
    maintainer: Mutex<Option<AbortHandle>>,
}

/// The line of a prompt, to be sent over any connection, and the node whose chunks belong to its answer.
#[derive(Debug)]
pub(crate) struct Prompt {
    line: Line,
    /// Deadline for finding a connection.
    pub(crate) deadline: Instant,
    node: String,
    session: Option<String>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.close();
        if let Some(maintainer) = self.maintainer.lock().take() {
            maintainer.abort();
        }
    }
}

impl Link {
    /// Connects to a server; the link reconnects when the connection ends.
    pub(crate) async fn open(endpoint: Endpoint) -> Result<Link, ClientError> {
        let router = Arc::new(EventRouter::new(true));
        let connection = endpoint.connect(&router, false).await?;
        Ok(Link::new(Some(endpoint), router, connection, Reconnect::default()))
    }

    /// Uses a stream provided by the caller. Must be called within a tokio runtime.
    pub(crate) fn over(stream: impl AsyncRead + AsyncWrite + Send + 'static) -> Link {
        let router = Arc::new(EventRouter::new(false));
        let connection = endpoint::wrap_stream(stream, &router, false);
        Link::new(None, router, connection, Reconnect::Never)
    }

    pub(crate) fn is_local(&self) -> bool {
        self.connector.is_local()
    }

    fn new(
        endpoint: Option<Endpoint>,
        router: Arc<EventRouter>,
        connection: Connection,
        reconnect: Reconnect,
    ) -> Link {
        let connector = Arc::new(Connector::new(endpoint, router, connection, reconnect));
        Link { connector, runtime: Handle::current(), maintainer: Mutex::default() }
    }

    pub(crate) fn set_reconnect(&self, reconnect: Reconnect) {
        self.connector.set_reconnect(reconnect);
    }

    /// Encodes a request with a new id.
    pub(crate) fn encode<P: Serialize>(&self, command: RequestName, params: &P) -> Result<Line, ClientError> {
        encode_request(self.connector.router(), command, params)
    }

    /// Sends a request and waits for its reply. Boxed, so that callers' crates do not compile it again.
    pub(crate) fn request(&self, command: RequestName, line: Line) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            let subscription = match command {
                RequestName::Subscribe => Subscription::requested(&line.bytes),
                _ => None,
            };
            let span = tracing::debug_span!("request", %command, request_id = line.id);
            self.send(command, line, subscription).instrument(span).await
        })
    }

    async fn send(&self, command: RequestName, line: Line, subscription: Option<Subscription>) -> Outcome {
        let mut deadline = self.connector.deadline();
        let mut may_retry = command.is_idempotent();
        loop {
            let hooks = ReplyHooks { chunks: None, subscription: subscription.clone() };
            let sent = match self.connector.connection(deadline).await {
                Ok(connection) => connection.send(line.clone(), hooks).await,
                Err(error) => return Err(with_request_id(error, line.id)),
            };
            let outcome = match sent {
                Ok(mut pending) => pending.wait().await.outcome,
                Err(error) => Err(error),
            };
            // An unsent request can be resent. A sent one may have been executed, so only idempotent ones are
            // resent, once.
            match &outcome {
                Err(error) if self.should_resend(error, deadline) => {}
                Err(ClientError::Closed(unanswered))
                    if self.connector.reconnects() && unanswered.sent && std::mem::take(&mut may_retry) =>
                {
                    deadline = self.connector.deadline();
                }
                _ => return outcome,
            }
            tracing::debug!("resending");
        }
    }

    /// Returns true if the request was not sent and there is time for another connection.
    pub(crate) fn should_resend(&self, error: &ClientError, deadline: Instant) -> bool {
        let unsent = matches!(error, ClientError::Closed(unanswered) if !unanswered.sent);
        unsent && self.connector.reconnects() && Instant::now() < deadline
    }

    /// Creates a prompt whose output is streamed.
    pub(crate) fn prompt(&self, input: ExecuteInput) -> Result<Prompt, ClientError> {
        let line = self.encode(RequestName::ExecuteInput, &input)?;
        let deadline = self.connector.deadline();
        Ok(Prompt { line, deadline, node: input.node_id, session: input.session_id })
    }

    /// Sends a prompt. Dropping the reply cancels only the wait. Nothing is sent if this future is dropped
    /// early.
    pub(crate) async fn start(
        &self,
        prompt: &Prompt,
    ) -> Result<(PendingReply, mpsc::Receiver<Chunk>), ClientError> {
        let id = prompt.line.id;
        loop {
            let connection = self
                .connector
                .connection(prompt.deadline)
                .await
                .map_err(|error| with_request_id(error, id))?;
            tracing::debug!(request_id = id, "sent");
            let (sink, chunks) = chunks::queue(&prompt.node, prompt.session.as_deref());
            let hooks = ReplyHooks { chunks: Some(sink), subscription: None };
            match connection.send(prompt.line.clone(), hooks).await {
                Err(error) if self.should_resend(&error, prompt.deadline) => {}
                outcome => return outcome.map(|reply| (reply, chunks)),
            }
        }
    }

    /// Returns a stream of new events: all, unless the client has subscribed to some.
    pub(crate) fn events(&self) -> Events {
        let events = self.listen();
        // A new connection subscribes by itself.
        if let Some(connection) = self.connector.open() {
            self.connector.subscribe_once(&connection, &self.runtime);
        }
        events
    }

    /// Returns a stream of the events that the server sends, for which the link reconnects in the background.
    pub(crate) fn listen(&self) -> Events {
        let events = self.connector.router().listen();
        if self.connector.can_reconnect() {
            let mut maintainer = self.maintainer.lock();
            if maintainer.is_none() {
                let reconnect_task = Arc::clone(&self.connector).maintain();
                *maintainer = Some(self.runtime.spawn(reconnect_task).abort_handle());
            }
            if self.connector.open().is_none() {
                self.connector.router().notify_disconnected();
            }
        }
        events
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.connector.in_flight()
    }

    pub(crate) fn router(&self) -> &EventRouter {
        self.connector.router()
    }

    /// Closes the connection for good: pending requests fail and streams end.
    pub(crate) fn close(&self) {
        self.connector.close();
    }
}

/// Decodes a reply.
pub(crate) fn decode_reply<T: DeserializeOwned>(data: &RawValue) -> Result<T, ClientError> {
    serde_json::from_str(data.get())
        .map_err(|error| ClientError::Protocol(format!("unexpected reply from the server: {error}")))
}

/// Adds the request's id to an error of its connection.
fn with_request_id(error: ClientError, id: i64) -> ClientError {
    match error {
        ClientError::Closed(mut unanswered) => {
            unanswered.request_id = Some(id.to_string());
            ClientError::Closed(unanswered)
        }
        error => error,
    }
}
