//! How a client comes to a connection, and to another one when that has ended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nerve_api::RequestName;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::connection::Connection;
use crate::error::ClientError;
use crate::inbox::Inbox;
use crate::pending::{Closed, Extras};
use crate::reconnect::{Backoff, Reconnect, chance};
use crate::way::{self, Way};

/// What makes connections. Shared by a link and its keeper.
#[derive(Debug)]
pub(crate) struct Core {
    /// None: a stream that was given, and cannot be opened again.
    way: Option<Way>,
    inbox: Arc<Inbox>,
    state: Mutex<State>,
    /// Held by who connects: one at a time.
    dialing: tokio::sync::Mutex<()>,
    /// Set when the client is closed.
    closed: watch::Sender<bool>,
    reconnected: AtomicBool,
}

#[derive(Debug)]
struct State {
    connection: Option<Arc<Connection>>,
    reconnect: Reconnect,
    backoff: Backoff,
    /// How often connecting was given up, and why at last.
    given_up: (u64, Option<ClientError>),
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Core {
    pub(crate) fn new(
        way: Option<Way>,
        inbox: Arc<Inbox>,
        connection: Connection,
        reconnect: Reconnect,
    ) -> Core {
        let state = State {
            connection: Some(Arc::new(connection)),
            reconnect,
            backoff: Backoff::default(),
            given_up: (0, None),
        };
        Core {
            way,
            inbox,
            state: Mutex::new(state),
            dialing: tokio::sync::Mutex::default(),
            closed: watch::Sender::new(false),
            reconnected: AtomicBool::new(false),
        }
    }

    pub(crate) fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    /// There is a way to a server, and not only a stream that was given.
    pub(crate) fn can_dial(&self) -> bool {
        self.way.is_some()
    }

    pub(crate) fn set_reconnect(&self, reconnect: Reconnect) {
        if self.can_dial() {
            lock(&self.state).reconnect = reconnect;
            self.inbox.set_goes_on(reconnect != Reconnect::Never);
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        lock(&self.state).connection.as_ref().map_or(0, |connection| connection.shared().in_flight())
    }

    /// Ends the connection for good.
    pub(crate) fn close(&self) {
        self.closed.send_replace(true);
        self.inbox.end();
        if let Some(connection) = lock(&self.state).connection.take() {
            connection.shared().abandon();
        }
    }

    pub(crate) fn goes_on(&self) -> bool {
        self.inbox.goes_on() && !*self.closed.borrow()
    }

    /// Until when a server that is not there is waited for.
    pub(crate) fn deadline(&self) -> Instant {
        match lock(&self.state).reconnect {
            Reconnect::Never => Instant::now(),
            // Some thirty years, if somebody means for ever.
            Reconnect::Within(patience) => Instant::now() + patience.min(Duration::from_secs(1 << 30)),
        }
    }

    /// The connection, if it is one that can be used.
    pub(crate) fn open(&self) -> Option<Arc<Connection>> {
        lock(&self.state).connection.clone().filter(|connection| connection.shared().is_open())
    }

    /// Why there is none and will be none.
    fn over(&self) -> Option<ClientError> {
        if *self.closed.borrow() {
            return Some(Closed::ByClient.error(false, None));
        }
        let closed =
            lock(&self.state).connection.as_ref().and_then(|connection| connection.shared().closed());
        match closed {
            Some(closed) if closed.is_for_good() || !self.goes_on() => Some(closed.error(false, None)),
            None if !self.goes_on() => Some(ClientError::closed()),
            _ => None,
        }
    }

    /// The connection, or another one if it has ended.
    pub(crate) async fn connection(&self, deadline: Instant) -> Result<Arc<Connection>, ClientError> {
        if let Some(open) = self.open() {
            return Ok(open);
        }
        if let Some(over) = self.over() {
            return Err(over);
        }
        let Some(way) = &self.way else { return Err(ClientError::closed()) };
        let mut closed = self.closed.subscribe();
        tokio::select! {
            connected = self.connect(way, deadline) => connected,
            _ = closed.wait_for(|closed| *closed) => Err(Closed::ByClient.error(false, None)),
        }
    }

    async fn connect(&self, way: &Way, deadline: Instant) -> Result<Arc<Connection>, ClientError> {
        let given_up = lock(&self.state).given_up.0;
        let _turn = self.dialing.lock().await;
        if let Some(open) = self.open() {
            return Ok(open);
        }
        if let (count, Some(why)) = &lock(&self.state).given_up
            && *count > given_up
            && (!why.is_passing() || Instant::now() >= deadline)
        {
            // Somebody has tried meanwhile, and this one would find out nothing else.
            return Err(why.again());
        }
        let ending = lock(&self.state).connection.clone();
        if let Some(ending) = ending {
            // A new one takes its place, which must not cut off the answers that it still reads.
            let _ = timeout_at(deadline, ending.shared().ended()).await;
        }
        self.ended();
        let mut last = None;
        loop {
            let next = lock(&self.state).backoff.next();
            let trying = async {
                if let Some(next) = next {
                    sleep_until(next).await;
                }
                self.dial(way).await
            };
            let why = match timeout_at(deadline, trying).await {
                Ok(Ok(connection)) => {
                    tracing::debug!("connected again");
                    return Ok(connection);
                }
                Ok(Err(error)) => error,
                Err(_) => return Err(self.give_up(last.unwrap_or_else(too_late))),
            };
            tracing::debug!(error = %why, "not connected");
            lock(&self.state).backoff.failed(Instant::now(), chance());
            if !why.is_passing() {
                return Err(self.give_up(why));
            }
            last = Some(why);
        }
    }

    /// Looks back at the connection that has ended: a server that closes each one at once is not asked without a pause.
    fn ended(&self) {
        let mut state = lock(&self.state);
        if let Some(connection) =
            state.connection.take_if(|connection| connection.shared().closed().is_some())
        {
            match connection.shared().was_heard() {
                true => state.backoff.succeeded(),
                false if self.reconnected.load(Ordering::Relaxed) => {
                    state.backoff.failed(Instant::now(), chance());
                }
                false => {}
            }
        }
    }

    /// Makes a connection that is as the last one was.
    async fn dial(&self, way: &Way) -> Result<Arc<Connection>, ClientError> {
        let connection = way.dial(&self.inbox, true).await?;
        if let Some(subscribing) = self.inbox.to_resume() {
            let anew = subscribing.clone().anew();
            for subscribing in [subscribing, anew] {
                let params = subscribing.params();
                let extras = Extras { chunks: None, subscribing: Some(subscribing) };
                let asked = way::ask(&connection, &self.inbox, RequestName::Subscribe, params, extras);
                asked.await?.wait().await.outcome?;
                if !connection.shared().is_muted() {
                    break;
                }
            }
        }
        connection.shared().unmute();
        let connection = Arc::new(connection);
        let mut state = lock(&self.state);
        if *self.closed.borrow() {
            return Err(Closed::ByClient.error(false, None));
        }
        state.connection = Some(Arc::clone(&connection));
        self.reconnected.store(true, Ordering::Relaxed);
        Ok(connection)
    }

    fn give_up(&self, why: ClientError) -> ClientError {
        let mut state = lock(&self.state);
        state.given_up = (state.given_up.0 + 1, Some(why.again()));
        why
    }

    /// Connects again as long as somebody reads events.
    pub(crate) async fn keep(self: Arc<Core>) {
        loop {
            self.inbox.missing().await;
            if !self.goes_on() || !self.inbox.is_heard() {
                continue;
            }
            if let Err(error) = self.connection(self.deadline()).await {
                tracing::debug!(%error, "streams of events end");
                self.inbox.end_streams();
            }
        }
    }
}

fn too_late() -> ClientError {
    let why = "nobody took the connection in time";
    let source = std::io::Error::new(std::io::ErrorKind::TimedOut, why);
    ClientError::Io { action: "cannot connect again".to_string(), source }
}
