//! Connects a client to its server, and reconnects after a connection has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nerve_api::RequestName;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::connection::{Connection, encode_request};
use crate::endpoint::Endpoint;
use crate::error::ClientError;
use crate::event_router::{EventRouter, Subscription};
use crate::pending_requests::{CloseReason, ReplyHooks};
use crate::reconnect::{Backoff, Reconnect, jitter};

/// Opens and reopens the connection to one server. Shared by a link and its reconnect task.
#[derive(Debug)]
pub(crate) struct Connector {
    /// `None` for a stream provided by the caller, which cannot be reopened.
    endpoint: Option<Endpoint>,
    router: Arc<EventRouter>,
    state: Mutex<State>,
    /// Held while connecting: one attempt at a time.
    connect_lock: tokio::sync::Mutex<()>,
    /// Set when the client is closed.
    closed: watch::Sender<bool>,
    reconnected: AtomicBool,
}

#[derive(Debug)]
struct State {
    connection: Option<Arc<Connection>>,
    reconnect: Reconnect,
    backoff: Backoff,
    failures: Failures,
}

/// The times that connecting was given up.
#[derive(Debug, Default)]
struct Failures {
    count: u64,
    last_error: Option<ClientError>,
}

impl Connector {
    /// Returns true if the connection is a Unix socket or a stream provided by the caller.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.endpoint, None | Some(Endpoint::Unix(_)))
    }

    pub(crate) fn new(
        endpoint: Option<Endpoint>,
        router: Arc<EventRouter>,
        connection: Connection,
        reconnect: Reconnect,
    ) -> Connector {
        let state = State {
            connection: Some(Arc::new(connection)),
            reconnect,
            backoff: Backoff::default(),
            failures: Failures::default(),
        };
        Connector {
            endpoint,
            router,
            state: Mutex::new(state),
            connect_lock: tokio::sync::Mutex::default(),
            closed: watch::Sender::new(false),
            reconnected: AtomicBool::new(false),
        }
    }

    pub(crate) fn router(&self) -> &EventRouter {
        &self.router
    }

    /// Returns true if the server's address is known, so that a connection can be made again.
    pub(crate) fn can_reconnect(&self) -> bool {
        self.endpoint.is_some()
    }

    pub(crate) fn set_reconnect(&self, reconnect: Reconnect) {
        if self.can_reconnect() {
            self.state.lock().reconnect = reconnect;
            self.router.set_reconnects(reconnect != Reconnect::Never);
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.state.lock().connection.as_ref().map_or(0, |connection| connection.shared().in_flight())
    }

    /// Closes the connection for good.
    pub(crate) fn close(&self) {
        self.closed.send_replace(true);
        self.router.end();
        if let Some(connection) = self.state.lock().connection.take() {
            connection.shared().abandon();
        }
    }

    pub(crate) fn reconnects(&self) -> bool {
        self.router.reconnects() && !*self.closed.borrow()
    }

    /// Returns the time at which the client stops waiting for an unreachable server.
    pub(crate) fn deadline(&self) -> Instant {
        match self.state.lock().reconnect {
            Reconnect::Never => Instant::now(),
            // Limited to about thirty years, to avoid an overflow.
            Reconnect::Within(patience) => Instant::now() + patience.min(Duration::from_secs(1 << 30)),
        }
    }

    /// Returns the connection if it is usable.
    pub(crate) fn open(&self) -> Option<Arc<Connection>> {
        self.state.lock().connection.clone().filter(|connection| connection.shared().is_open())
    }

    /// Returns the error of further requests if there is no connection and none will be opened.
    fn terminal_error(&self) -> Option<ClientError> {
        if *self.closed.borrow() {
            return Some(CloseReason::ByClient.error(false, None));
        }
        let closed =
            self.state.lock().connection.as_ref().and_then(|connection| connection.shared().closed());
        match closed {
            Some(closed) if closed.is_permanent() || !self.reconnects() => Some(closed.error(false, None)),
            None if !self.reconnects() => Some(ClientError::closed()),
            _ => None,
        }
    }

    /// Returns the connection, or a new one if it has ended.
    pub(crate) async fn connection(&self, deadline: Instant) -> Result<Arc<Connection>, ClientError> {
        if let Some(open) = self.open() {
            return Ok(open);
        }
        if let Some(terminal_error) = self.terminal_error() {
            return Err(terminal_error);
        }
        let Some(endpoint) = &self.endpoint else { return Err(ClientError::closed()) };
        let mut closed = self.closed.subscribe();
        tokio::select! {
            result = self.connect(endpoint, deadline) => result,
            _ = closed.wait_for(|closed| *closed) => Err(CloseReason::ByClient.error(false, None)),
        }
    }

    async fn connect(&self, endpoint: &Endpoint, deadline: Instant) -> Result<Arc<Connection>, ClientError> {
        let known_failures = self.state.lock().failures.count;
        let _guard = self.connect_lock.lock().await;
        if let Some(open) = self.open() {
            return Ok(open);
        }
        if let Failures { count, last_error: Some(error) } = &self.state.lock().failures
            && *count > known_failures
            && (!error.is_transient() || Instant::now() >= deadline)
        {
            // Another task has failed meanwhile, and a further attempt would fail too.
            return Err(error.duplicate());
        }
        let old_connection = self.state.lock().connection.clone();
        if let Some(old_connection) = old_connection {
            // Wait for the replies that the old connection still receives, before it is replaced.
            let _ = timeout_at(deadline, old_connection.shared().ended()).await;
        }
        self.record_end();
        let mut last_error = None;
        loop {
            let next = self.state.lock().backoff.next();
            let attempt = async {
                if let Some(next) = next {
                    sleep_until(next).await;
                }
                self.connect_once(endpoint).await
            };
            let error = match timeout_at(deadline, attempt).await {
                Ok(Ok(connection)) => {
                    tracing::debug!("reconnected");
                    return Ok(connection);
                }
                Ok(Err(error)) => error,
                Err(_) => return Err(self.give_up(last_error.unwrap_or_else(timed_out))),
            };
            tracing::debug!(%error, "not connected");
            self.state.lock().backoff.failed(Instant::now(), jitter());
            if !error.is_transient() {
                return Err(self.give_up(error));
            }
            last_error = Some(error);
        }
    }

    /// Updates the backoff after a connection has ended: a server that closes each connection at once is not
    /// retried without a pause.
    fn record_end(&self) {
        let mut state = self.state.lock();
        if let Some(connection) =
            state.connection.take_if(|connection| connection.shared().closed().is_some())
        {
            match connection.shared().has_received() {
                true => state.backoff.succeeded(),
                false if self.reconnected.load(Ordering::Relaxed) => {
                    state.backoff.failed(Instant::now(), jitter());
                }
                false => {}
            }
        }
    }

    /// Connects once and restores the subscription to events.
    async fn connect_once(&self, endpoint: &Endpoint) -> Result<Arc<Connection>, ClientError> {
        let connection = endpoint.connect(&self.router, true).await?;
        if let Some(subscription) = self.router.resume_subscription() {
            let restart = subscription.clone().restarted();
            self.subscribe(&connection, subscription).await?;
            // Only the same server can resume. The reply of a different one leaves the connection muted.
            if connection.shared().is_muted() {
                self.subscribe(&connection, restart).await?;
            }
        }
        connection.shared().unmute();
        let connection = Arc::new(connection);
        let mut state = self.state.lock();
        if *self.closed.borrow() {
            return Err(CloseReason::ByClient.error(false, None));
        }
        state.connection = Some(Arc::clone(&connection));
        drop(state);
        self.reconnected.store(true, Ordering::Relaxed);
        // The first event stream may have been created after the subscription was looked up.
        if self.router.has_listeners() {
            self.subscribe_once(&connection, &Handle::current());
        }
        Ok(connection)
    }

    /// Sends a SUBSCRIBE and waits for its reply, which unmutes the connection if the events continue from `subscription`.
    async fn subscribe(
        &self,
        connection: &Connection,
        subscription: Subscription,
    ) -> Result<(), ClientError> {
        let params = subscription.params();
        let line = encode_request(&self.router, RequestName::Subscribe, &params)?;
        let hooks = ReplyHooks { chunks: None, subscription: Some(subscription) };
        connection.send(line, hooks).await?.wait().await.outcome.map(drop)
    }

    /// Subscribes to all events, unless the connection already has a subscription. Without one, a server sends only the events of the
    /// protocol's first version.
    pub(crate) fn subscribe_once(&self, connection: &Connection, runtime: &Handle) {
        let subscription = Subscription::all();
        match encode_request(&self.router, RequestName::Subscribe, &subscription.params()) {
            Ok(line) => connection.subscribe_once(line, subscription, runtime),
            Err(error) => tracing::warn!(%error, "cannot subscribe to events"),
        }
    }

    fn give_up(&self, error: ClientError) -> ClientError {
        let mut state = self.state.lock();
        state.failures.count += 1;
        state.failures.last_error = Some(error.duplicate());
        error
    }

    /// Reconnects after each disconnect while there are event streams. Never returns.
    pub(crate) async fn maintain(self: Arc<Connector>) {
        loop {
            self.router.wait_disconnected().await;
            if !self.reconnects() || !self.router.has_listeners() {
                continue;
            }
            if let Err(error) = self.connection(self.deadline()).await {
                tracing::debug!(%error, "event streams end");
                self.router.end_streams();
            }
        }
    }
}

fn timed_out() -> ClientError {
    let reason = "connection not accepted in time";
    let source = std::io::Error::new(std::io::ErrorKind::TimedOut, reason);
    ClientError::Io { action: "cannot reconnect".to_string(), source }
}
