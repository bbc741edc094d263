//! Sessions of MCP clients: their limit, and the eviction of idle ones.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use parking_lot::{Mutex, MutexGuard};
use rmcp::model::{ClientJsonRpcMessage, GetExtensions, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, SessionConfig,
};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::response_log::{ResponseLog, parse_event_id};
use crate::server::DisconnectToken;

/// Maximum number of sessions.
pub(super) const MAX_SESSIONS: usize = 64;
/// Idle time after which a session may be evicted for a new one.
pub(super) const EVICTABLE_AFTER: Duration = Duration::from_secs(30);
/// Idle time after which a session ends. It exceeds the length of a turn, so that a client can reconnect to
/// read the response.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// Interval of the search for idle sessions.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
/// Time that a session may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// Number of complete responses per session that can be read again.
const KEPT_RESPONSES: usize = 4;

tokio::task_local! {
    /// Set if the current request needs a session and there is no room for one.
    pub(super) static SESSION_LIMIT_REACHED: Cell<bool>;
}

/// Reason why a session could not be created or used.
#[derive(Debug)]
pub(crate) enum SessionError {
    /// The maximum number of sessions is reached.
    LimitReached,
    /// The session has ended or never existed.
    Unknown,
    /// The response is not kept any more or never existed.
    ResponseExpired,
    /// An error of the SDK.
    Sdk(LocalSessionManagerError),
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionError::LimitReached => f.write_str("too many sessions"),
            SessionError::Unknown => f.write_str("unknown session: it may have ended"),
            SessionError::ResponseExpired => f.write_str("the response is no longer available"),
            SessionError::Sdk(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SessionError {}

impl From<LocalSessionManagerError> for SessionError {
    fn from(error: LocalSessionManagerError) -> SessionError {
        match error {
            LocalSessionManagerError::SessionNotFound(_) => SessionError::Unknown,
            error => SessionError::Sdk(error),
        }
    }
}

/// All sessions. The SDK runs them; this type decides how many there are, when they end, and which responses
/// are kept.
#[derive(Debug)]
pub(crate) struct Sessions {
    sdk: LocalSessionManager,
    table: Arc<SessionTable>,
    /// Held while a session is created, to check the limit.
    create_lock: tokio::sync::Mutex<()>,
    /// Cancelled when no client is served any more.
    disconnected: CancellationToken,
}

/// The sessions by their ids.
#[derive(Debug, Default)]
struct SessionTable(Mutex<HashMap<SessionId, Session>>);

#[derive(Debug)]
struct Session {
    /// Cancelled when the session ends.
    disconnected: CancellationToken,
    /// Number of connections that read from the session.
    connections: usize,
    /// End of the last connection.
    idle_since: Instant,
    responses: BTreeMap<u64, ResponseLog>,
    last_response: u64,
}

impl SessionTable {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Session>> {
        self.0.lock()
    }

    /// Removes a session. Its calls end without counting as cancelled.
    fn remove(&self, id: &SessionId) {
        let removed = self.lock().remove(id);
        if let Some(session) = removed {
            session.disconnected.cancel();
        }
    }

    /// Returns the session that has been idle longest, if for at least `min_idle`.
    fn longest_idle(&self, min_idle: Duration) -> Option<SessionId> {
        let table = self.lock();
        let idle = table.iter().filter(|(_, session)| session.connections == 0);
        let (id, session) = idle.min_by_key(|(_, session)| session.idle_since)?;
        (session.idle_since.elapsed() >= min_idle).then(|| id.clone())
    }

    /// Counts a connection until the guard is dropped. Returns `None` if the session has ended.
    fn connect(self: &Arc<Self>, id: &SessionId) -> Option<ConnectionGuard> {
        self.lock().get_mut(id)?.connections += 1;
        Some(ConnectionGuard { table: Arc::clone(self), id: id.clone() })
    }

    /// Drops all but the latest complete responses. Whether they were received is unknown.
    fn drop_old_responses(&self, id: &SessionId) {
        let mut table = self.lock();
        let Some(session) = table.get_mut(id) else { return };
        let complete: Vec<u64> = session
            .responses
            .iter()
            .filter(|(_, response)| response.is_complete())
            .map(|(number, _)| *number)
            .collect();
        for number in complete.iter().take(complete.len().saturating_sub(KEPT_RESPONSES)) {
            session.responses.remove(number);
        }
    }
}

/// A connection that reads from a session.
#[derive(Debug)]
struct ConnectionGuard {
    table: Arc<SessionTable>,
    id: SessionId,
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        if let Some(session) = self.table.lock().get_mut(&self.id) {
            session.connections = session.connections.saturating_sub(1);
            session.idle_since = Instant::now();
        }
    }
}

/// Keeps a connection counted as long as its stream exists.
fn guard_stream<S: Stream>(guard: ConnectionGuard, stream: S) -> impl Stream<Item = S::Item> + use<S> {
    stream.inspect(move |_| {
        let _ = &guard;
    })
}

impl Sessions {
    /// Creates the manager. `disconnected`: cancelled when no client is served any more.
    pub(super) fn new(disconnected: CancellationToken) -> Sessions {
        let mut sdk = LocalSessionManager::default();
        // The SDK's timeout is off: it would end a session while one of its calls is running.
        let mut settings = SessionConfig::default();
        settings.keep_alive = None;
        sdk.session_config = settings;
        Sessions { sdk, table: Arc::default(), create_lock: tokio::sync::Mutex::default(), disconnected }
    }

    /// Ends idle sessions while it is polled.
    pub(super) async fn end_idle(&self) {
        loop {
            tokio::time::sleep(SWEEP_INTERVAL).await;
            while let Some(id) = self.table.longest_idle(IDLE_TIMEOUT) {
                tracing::debug!("a session was idle for long and ends");
                self.end(&id).await;
            }
        }
    }

    pub(super) fn has(&self, id: &SessionId) -> bool {
        self.table.lock().contains_key(id)
    }

    /// Returns true if `last_response` is the last message of its response, or the response is no longer
    /// available.
    pub(super) fn is_read_to_end(&self, id: &SessionId, last_response: &str) -> bool {
        let table = self.table.lock();
        let (Some((number, from)), Some(session)) = (parse_event_id(last_response), table.get(id)) else {
            return false;
        };
        session.responses.get(&number).is_none_or(|response| response.ends_before(from))
    }

    async fn end(&self, id: &SessionId) {
        self.table.remove(id);
        let ended = tokio::time::timeout(END_TIMEOUT, self.sdk.close_session(id)).await;
        if !matches!(ended, Ok(Ok(()))) {
            tracing::warn!("a session of an MCP client did not end as it should");
        }
    }

    /// Attaches the session's disconnect token to a message.
    fn attach_token(&self, id: &SessionId, message: &mut ClientJsonRpcMessage) -> Result<(), SessionError> {
        let disconnected =
            DisconnectToken(self.table.lock().get(id).ok_or(SessionError::Unknown)?.disconnected.clone());
        match message {
            ClientJsonRpcMessage::Request(request) => {
                request.request.extensions_mut().insert(disconnected);
            }
            ClientJsonRpcMessage::Notification(notification) => {
                notification.notification.extensions_mut().insert(disconnected);
            }
            _ => {}
        }
        Ok(())
    }

    /// Reads a response from a message on.
    fn read(
        &self,
        id: &SessionId,
        number: u64,
        from: usize,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static + use<>, SessionError> {
        let guard = self.table.connect(id).ok_or(SessionError::Unknown)?;
        let response = self.table.lock().get(id).and_then(|session| session.responses.get(&number).cloned());
        let response = response.ok_or(SessionError::ResponseExpired)?;
        Ok(guard_stream(guard, response.read(from)))
    }
}

impl SessionManager for Sessions {
    type Error = SessionError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), SessionError> {
        let _lock = self.create_lock.lock().await;
        if self.table.lock().len() >= MAX_SESSIONS {
            let Some(idle) = self.table.longest_idle(EVICTABLE_AFTER) else {
                let _ = SESSION_LIMIT_REACHED.try_with(|limit_reached| limit_reached.set(true));
                return Err(SessionError::LimitReached);
            };
            tracing::debug!("a session was idle and gives way to a new one");
            self.end(&idle).await;
        }
        let (id, transport) = self.sdk.create_session().await?;
        let session = Session {
            disconnected: self.disconnected.child_token(),
            connections: 0,
            idle_since: Instant::now(),
            responses: BTreeMap::new(),
            last_response: 0,
        };
        self.table.lock().insert(id.clone(), session);
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionError> {
        self.attach_token(id, &mut message)?;
        Ok(self.sdk.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionError> {
        Ok(self.has(id))
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), SessionError> {
        self.end(id).await;
        Ok(())
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        self.attach_token(id, &mut message)?;
        let messages = self.sdk.create_stream(id, message).await?;
        let response = {
            let mut table = self.table.lock();
            let session = table.get_mut(id).ok_or(SessionError::Unknown)?;
            session.last_response += 1;
            let response = ResponseLog::new(session.last_response);
            session.responses.insert(session.last_response, response.clone());
            response
        };
        let stream = self.read(id, response.number(), 0)?;
        let (table, id) = (Arc::clone(&self.table), id.clone());
        tokio::spawn(async move {
            response.record(messages).await;
            table.drop_old_responses(&id);
        });
        Ok(stream)
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<(), SessionError> {
        self.attach_token(id, &mut message)?;
        // Counts as activity.
        let _connection = self.table.connect(id);
        Ok(self.sdk.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        let guard = self.table.connect(id).ok_or(SessionError::Unknown)?;
        let stream = self.sdk.create_standalone_stream(id).await?;
        Ok(guard_stream(guard, stream))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        match parse_event_id(&last_event_id) {
            Some((number, from)) => Ok(self.read(id, number, from)?.left_stream()),
            // The stream without a request: its notifications are simply sent again.
            None => Ok(self.create_standalone_stream(id).await?.right_stream()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn filled() -> (Sessions, Vec<SessionId>) {
        let sessions = Sessions::new(CancellationToken::new());
        let mut ids = Vec::new();
        while ids.len() < MAX_SESSIONS {
            ids.push(sessions.create_session().await.unwrap().0);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        (sessions, ids)
    }

    #[tokio::test(start_paused = true)]
    async fn longest_idle_session_is_evicted() {
        let (sessions, ids) = filled().await;
        let first = sessions.table.connect(&ids[0]).unwrap();
        let disconnected = sessions.table.lock()[&ids[1]].disconnected.clone();
        assert!(matches!(sessions.create_session().await, Err(SessionError::LimitReached)));
        tokio::time::advance(EVICTABLE_AFTER).await;
        drop(sessions.table.connect(&ids[2]));
        sessions.create_session().await.unwrap();
        assert!(sessions.has(&ids[0]) && sessions.has(&ids[2]) && !sessions.has(&ids[1]));
        assert!(disconnected.is_cancelled(), "its calls were not cancelled: their client is disconnected");
        assert_eq!(sessions.table.lock().len(), MAX_SESSIONS);
        drop(first);
        assert!(sessions.close_session(&ids[0]).await.is_ok() && !sessions.has(&ids[0]));
        sessions.create_session().await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn only_idle_sessions_end() {
        let (sessions, ids) = filled().await;
        let connections = sessions.table.connect(&ids[7]).unwrap();
        let patience = IDLE_TIMEOUT + 2 * SWEEP_INTERVAL;
        assert!(tokio::time::timeout(patience, sessions.end_idle()).await.is_err());
        assert!(sessions.has(&ids[7]) && sessions.table.lock().len() == 1);
        drop(connections);
        assert!(tokio::time::timeout(IDLE_TIMEOUT / 2, sessions.end_idle()).await.is_err());
        assert!(sessions.has(&ids[7]), "from its end on it counts");
        assert!(tokio::time::timeout(patience, sessions.end_idle()).await.is_err());
        assert!(!sessions.has(&ids[7]));
    }

    #[tokio::test(start_paused = true)]
    async fn latest_responses_are_kept() {
        let (sessions, ids) = filled().await;
        let id = &ids[0];
        for number in 1..=10 {
            let response = ResponseLog::new(number);
            sessions.table.lock().get_mut(id).unwrap().responses.insert(number, response.clone());
            if number != 1 {
                response.record(futures_util::stream::empty()).await;
                sessions.table.drop_old_responses(id);
            }
        }
        let kept: Vec<u64> = sessions.table.lock()[id].responses.keys().copied().collect();
        assert_eq!(kept, [1, 7, 8, 9, 10], "the first is not over");
        assert!(sessions.is_read_to_end(id, "2-0") && sessions.is_read_to_end(id, "10-0"));
        assert!(!sessions.is_read_to_end(id, "1-0") && !sessions.is_read_to_end(id, "0"));
    }
}
