//! Sessions of clients: as many as there is room for, each ended when nobody was connected to it for long.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use rmcp::model::{ClientJsonRpcMessage, GetExtensions, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, SessionConfig,
};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::NO_ROOM;
use super::response_log::{Answer, after};
use crate::server::Gone;

/// At one time.
pub(super) const MOST: usize = 64;
/// When there are that many, one that nobody was connected to for so long gives way to a new one.
pub(super) const GIVES_WAY: Duration = Duration::from_secs(30);
/// One that nobody was connected to for so long ends: longer than a turn takes, whose answer somebody may come back for.
const IDLE: Duration = Duration::from_secs(60 * 60);
/// How often it is looked for such.
const LOOK: Duration = Duration::from_secs(60);
/// How long the end of a session may take.
const END_PATIENCE: Duration = Duration::from_secs(5);
/// Answers of one session that are over and can be read again.
const KEPT: usize = 4;

/// Why a session was not made or found.
#[derive(Debug)]
pub(crate) enum SessionError {
    /// There are as many as there may be.
    NoRoom,
    /// It has ended, or never was.
    Unknown,
    /// What is to be read again is not kept any more, or never was.
    NothingKept,
    /// The SDK's own.
    Sdk(LocalSessionManagerError),
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionError::NoRoom => f.write_str("too many sessions"),
            SessionError::Unknown => f.write_str("there is no such session: it has ended"),
            SessionError::NothingKept => f.write_str("nothing is kept of this answer"),
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

/// All sessions. The SDK runs them; how many there are, when they end and what is kept of their answers is decided here.
#[derive(Debug)]
pub(crate) struct Sessions {
    sdk: LocalSessionManager,
    book: Arc<Book>,
    /// One is made at a time: it is looked for room first.
    making: tokio::sync::Mutex<()>,
    /// All clients are gone.
    gone: CancellationToken,
}

#[derive(Debug, Default)]
struct Book(Mutex<HashMap<SessionId, Session>>);

#[derive(Debug)]
struct Session {
    /// Its client is gone.
    gone: CancellationToken,
    /// Connections that read of it.
    connected: usize,
    /// When the last one of them ended.
    since: Instant,
    answers: BTreeMap<u64, Answer>,
    last: u64,
}

impl Book {
    /// No code panics while it holds this lock; if it did, what is written would still be right.
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets one; its calls end without having been cancelled.
    fn strike(&self, id: &SessionId) {
        let struck = self.lock().remove(id);
        if let Some(session) = struck {
            session.gone.cancel();
        }
    }

    /// The one that nobody was connected to for longest, if that is `least` or more.
    fn most_idle(&self, least: Duration) -> Option<SessionId> {
        let book = self.lock();
        let idle = book.iter().filter(|(_, session)| session.connected == 0);
        let (id, session) = idle.min_by_key(|(_, session)| session.since)?;
        (session.since.elapsed() >= least).then(|| id.clone())
    }

    /// Somebody is connected, until this is dropped; `None`: the session has ended.
    fn connect(self: &Arc<Self>, id: &SessionId) -> Option<Connected> {
        self.lock().get_mut(id)?.connected += 1;
        Some(Connected { book: Arc::clone(self), id: id.clone() })
    }

    /// One more answer is over: the last ones are kept. Whether they arrived is not known here.
    fn forget_old_answers(&self, id: &SessionId) {
        let mut book = self.lock();
        let Some(session) = book.get_mut(id) else { return };
        let over: Vec<u64> = session
            .answers
            .iter()
            .filter(|(_, answer)| answer.is_over())
            .map(|(number, _)| *number)
            .collect();
        for number in over.iter().take(over.len().saturating_sub(KEPT)) {
            session.answers.remove(number);
        }
    }
}

/// A connection that reads of a session.
#[derive(Debug)]
struct Connected {
    book: Arc<Book>,
    id: SessionId,
}

impl Drop for Connected {
    fn drop(&mut self) {
        if let Some(session) = self.book.lock().get_mut(&self.id) {
            session.connected = session.connected.saturating_sub(1);
            session.since = Instant::now();
        }
    }
}

/// The connection counts as long as there is its stream.
fn held<S: Stream>(connected: Connected, stream: S) -> impl Stream<Item = S::Item> + use<S> {
    stream.inspect(move |_| {
        let _ = &connected;
    })
}

impl Sessions {
    /// `gone`: nobody is served any more.
    pub(super) fn new(gone: CancellationToken) -> Sessions {
        let mut sdk = LocalSessionManager::default();
        // When they end is decided here: the SDK takes a session for idle while one of its calls is at work.
        let mut settings = SessionConfig::default();
        settings.keep_alive = None;
        sdk.session_config = settings;
        Sessions { sdk, book: Arc::default(), making: tokio::sync::Mutex::default(), gone }
    }

    /// Ends those that nobody was connected to for long, as long as this is polled.
    pub(super) async fn end_idle_ones(&self) {
        loop {
            tokio::time::sleep(LOOK).await;
            while let Some(id) = self.book.most_idle(IDLE) {
                tracing::debug!("a session was idle for long and ends");
                self.end(&id).await;
            }
        }
    }

    pub(super) fn has(&self, id: &SessionId) -> bool {
        self.book.lock().contains_key(id)
    }

    /// It was the last message of its answer, or the answer is not kept any more.
    pub(super) fn has_nothing_after(&self, id: &SessionId, last: &str) -> bool {
        let book = self.book.lock();
        let (Some((number, from)), Some(session)) = (after(last), book.get(id)) else { return false };
        session.answers.get(&number).is_none_or(|answer| answer.is_over_before(from))
    }

    async fn end(&self, id: &SessionId) {
        self.book.strike(id);
        let ended = tokio::time::timeout(END_PATIENCE, self.sdk.close_session(id)).await;
        if !matches!(ended, Ok(Ok(()))) {
            tracing::warn!("a session of an MCP client did not end as it should");
        }
    }

    /// Marks a message with what tells that its client is gone.
    fn mark(&self, id: &SessionId, message: &mut ClientJsonRpcMessage) -> Result<(), SessionError> {
        let gone = Gone(self.book.lock().get(id).ok_or(SessionError::Unknown)?.gone.clone());
        match message {
            ClientJsonRpcMessage::Request(request) => {
                request.request.extensions_mut().insert(gone);
            }
            ClientJsonRpcMessage::Notification(notification) => {
                notification.notification.extensions_mut().insert(gone);
            }
            _ => {}
        }
        Ok(())
    }

    /// What is read of an answer, from a message on.
    fn read(
        &self,
        id: &SessionId,
        number: u64,
        from: usize,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static + use<>, SessionError> {
        let connected = self.book.connect(id).ok_or(SessionError::Unknown)?;
        let answer = self.book.lock().get(id).and_then(|session| session.answers.get(&number).cloned());
        let answer = answer.ok_or(SessionError::NothingKept)?;
        Ok(held(connected, answer.read(from)))
    }
}

impl SessionManager for Sessions {
    type Error = SessionError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), SessionError> {
        let _making = self.making.lock().await;
        if self.book.lock().len() >= MOST {
            let Some(idle) = self.book.most_idle(GIVES_WAY) else {
                let _ = NO_ROOM.try_with(|no_room| no_room.set(true));
                return Err(SessionError::NoRoom);
            };
            tracing::debug!("a session was idle and gives way to a new one");
            self.end(&idle).await;
        }
        let (id, transport) = self.sdk.create_session().await?;
        let session = Session {
            gone: self.gone.child_token(),
            connected: 0,
            since: Instant::now(),
            answers: BTreeMap::new(),
            last: 0,
        };
        self.book.lock().insert(id.clone(), session);
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionError> {
        self.mark(id, &mut message)?;
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
        self.mark(id, &mut message)?;
        let messages = self.sdk.create_stream(id, message).await?;
        let answer = {
            let mut book = self.book.lock();
            let session = book.get_mut(id).ok_or(SessionError::Unknown)?;
            session.last += 1;
            let answer = Answer::new(session.last);
            session.answers.insert(session.last, answer.clone());
            answer
        };
        let reading = self.read(id, answer.number(), 0)?;
        let (book, id) = (Arc::clone(&self.book), id.clone());
        tokio::spawn(async move {
            answer.take(messages).await;
            book.forget_old_answers(&id);
        });
        Ok(reading)
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<(), SessionError> {
        self.mark(id, &mut message)?;
        // It counts as a sign of life.
        let _connected = self.book.connect(id);
        Ok(self.sdk.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        let connected = self.book.connect(id).ok_or(SessionError::Unknown)?;
        let stream = self.sdk.create_standalone_stream(id).await?;
        Ok(held(connected, stream))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        match after(&last_event_id) {
            Some((number, from)) => Ok(self.read(id, number, from)?.left_stream()),
            // Of the stream that belongs to no request: what it tells is told again.
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
        while ids.len() < MOST {
            ids.push(sessions.create_session().await.unwrap().0);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        (sessions, ids)
    }

    #[tokio::test(start_paused = true)]
    async fn of_too_many_the_one_gives_way_that_nobody_was_connected_to_for_longest() {
        let (sessions, ids) = filled().await;
        let first = sessions.book.connect(&ids[0]).unwrap();
        let gone = sessions.book.lock()[&ids[1]].gone.clone();
        assert!(matches!(sessions.create_session().await, Err(SessionError::NoRoom)));
        tokio::time::advance(GIVES_WAY).await;
        drop(sessions.book.connect(&ids[2]));
        sessions.create_session().await.unwrap();
        assert!(sessions.has(&ids[0]) && sessions.has(&ids[2]) && !sessions.has(&ids[1]));
        assert!(gone.is_cancelled(), "its calls were not cancelled: their client is gone");
        assert_eq!(sessions.book.lock().len(), MOST);
        drop(first);
        assert!(sessions.close_session(&ids[0]).await.is_ok() && !sessions.has(&ids[0]));
        sessions.create_session().await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_nobody_is_connected_to_ends_and_no_other() {
        let (sessions, ids) = filled().await;
        let connected = sessions.book.connect(&ids[7]).unwrap();
        let patience = IDLE + 2 * LOOK;
        assert!(tokio::time::timeout(patience, sessions.end_idle_ones()).await.is_err());
        assert!(sessions.has(&ids[7]) && sessions.book.lock().len() == 1);
        drop(connected);
        assert!(tokio::time::timeout(IDLE / 2, sessions.end_idle_ones()).await.is_err());
        assert!(sessions.has(&ids[7]), "from its end on it counts");
        assert!(tokio::time::timeout(patience, sessions.end_idle_ones()).await.is_err());
        assert!(!sessions.has(&ids[7]));
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_answers_are_kept_and_no_others() {
        let (sessions, ids) = filled().await;
        let id = &ids[0];
        for number in 1..=10 {
            let answer = Answer::new(number);
            sessions.book.lock().get_mut(id).unwrap().answers.insert(number, answer.clone());
            if number != 1 {
                answer.take(futures_util::stream::empty()).await;
                sessions.book.forget_old_answers(id);
            }
        }
        let kept: Vec<u64> = sessions.book.lock()[id].answers.keys().copied().collect();
        assert_eq!(kept, [1, 7, 8, 9, 10], "the first is not over");
        assert!(sessions.has_nothing_after(id, "2-0") && sessions.has_nothing_after(id, "10-0"));
        assert!(!sessions.has_nothing_after(id, "1-0") && !sessions.has_nothing_after(id, "0"));
    }
}
