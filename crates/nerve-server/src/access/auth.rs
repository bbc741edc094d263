//! Authenticates clients that connect over a network.
//!
//! A correct token is accepted at once, whatever other clients do. A wrong one is answered after a delay that
//! grows with each failure, to slow down guessing. At most [`MAX_DELAYED`] such answers wait at a time;
//! further failures get no delayed answer. Logging is rate-limited too.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use nerve_node::error::{EngineError, ErrorKind};
use nerve_types::connection_limit::Subnet;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::log_limit::LogLimiter;
use super::token::{Token, TokenFile};
use crate::web::{FoundSession, Role, SessionStore, SharedNode};

/// Maximum number of delayed answers to wrong tokens.
const MAX_DELAYED: usize = 64;
/// Longest delay of the answer to a wrong token.
const MAX_DELAY: Duration = Duration::from_secs(5);
/// Delay added by each wrong token within [`FAILURE_WINDOW`].
const DELAY_STEP: Duration = Duration::from_millis(250);
/// Time after the last failure at which a subnet's failure count is reset.
const FAILURE_WINDOW: Duration = Duration::from_secs(60);
/// Interval between checks of the token file. Clients may authenticate with a new token before the next check.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Maximum number of subnets with a failure count of their own; all others share one count.
const MAX_SUBNETS: usize = 1024;

/// Compares the tokens that clients send with the server's token.
#[derive(Debug)]
pub(crate) struct Authenticator {
    token: TokenFile,
    /// The token that the authenticated clients have used.
    active: Mutex<Option<ActiveToken>>,
    delayed: Semaphore,
    failures: Mutex<HashMap<Option<Subnet>, Failures>>,
    refused_log: LogLimiter,
    unreadable_log: LogLimiter,
}

/// A token that at least one client has authenticated with.
#[derive(Debug)]
struct ActiveToken {
    token: Token,
    revoked: CancellationToken,
}

/// Proof of a successful authentication, by the token or by the cookie of a web session. It is revoked when the
/// server's token changes or the web session ends.
#[derive(Debug, Clone)]
pub(crate) struct Credential {
    revoked: CancellationToken,
    /// The web session; `None` for a client with the token.
    session: Option<FoundSession>,
}

impl Credential {
    /// Returns the role of a web session; `None` for a client with the token, which may do everything.
    pub(crate) fn role(&self) -> Option<Role> {
        self.session.as_ref().map(|session| session.role)
    }

    /// Returns the id of a web session; `None` for a client with the token.
    pub(crate) fn session_id(&self) -> Option<String> {
        self.session.as_ref().map(FoundSession::id)
    }

    /// Returns the node of the session's share; `None` for all other clients.
    pub(crate) fn share(&self) -> Option<&SharedNode> {
        self.session.as_ref()?.share.as_ref()
    }

    /// Returns true if the credential is no longer valid.
    pub(crate) fn is_revoked(&self) -> bool {
        self.revoked.is_cancelled()
    }

    /// Completes with the reason for the client when the credential is no longer valid.
    pub(crate) async fn wait_for_revocation(self) -> &'static str {
        self.revoked.cancelled_owned().await;
        match self.session {
            Some(_) => "the web session has ended: log in again",
            None => "the server's token was changed: reconnect with the new one",
        }
    }
}

/// Completes like [`Credential::wait_for_revocation`]; never for a client that needs no credential.
pub(crate) async fn wait_for_revocation(credential: Option<Credential>) -> &'static str {
    match credential {
        Some(credential) => credential.wait_for_revocation().await,
        None => std::future::pending().await,
    }
}

#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    last: Instant,
}

impl Authenticator {
    pub(crate) fn new(token: TokenFile) -> Authenticator {
        Authenticator {
            token,
            active: Mutex::default(),
            delayed: Semaphore::new(MAX_DELAYED),
            failures: Mutex::default(),
            refused_log: LogLimiter::new(),
            unreadable_log: LogLimiter::new(),
        }
    }

    /// Authenticates a client. A failure is answered after a delay.
    ///
    /// # Errors
    /// `authentication_error` if the token is missing or wrong; `rate_limit_error`, without delay, if too
    /// many answers are delayed already (close the connection); `internal_error` if the server cannot read its own token.
    pub(crate) async fn authenticate(
        &self,
        received: Option<&[u8]>,
        from: IpAddr,
    ) -> Result<Credential, EngineError> {
        let token = self.read_token()?;
        let problem = match received {
            Some(received) if token.matches(received) => {
                return Ok(Credential { revoked: self.activate(token), session: None });
            }
            Some(_) => "the token is wrong",
            None => "there is no token",
        };
        Err(self.reject(problem, from).await.hint("'nerve token show' on the server's machine prints it"))
    }

    /// Authenticates a client by the cookie of a web session. A failure is answered after a delay.
    ///
    /// # Errors
    /// As [`Authenticator::authenticate`].
    pub(crate) async fn authenticate_session(
        &self,
        sessions: &SessionStore,
        secret: &str,
        from: IpAddr,
    ) -> Result<Credential, EngineError> {
        let token = self.read_token()?;
        match sessions.find(secret, &token) {
            Ok(Some(session)) => {
                let revoked = sessions.revocation(&session, &self.activate(token));
                Ok(Credential { revoked, session: Some(session) })
            }
            Ok(None) => {
                let error = self.reject("the web session has ended", from).await;
                Err(error.hint("log in again with the link that 'nerve web' prints"))
            }
            Err(error) => {
                if let Some(suppressed) = self.unreadable_log.allow() {
                    tracing::error!(%error, suppressed, "cannot read a web session");
                }
                let error = EngineError::new(ErrorKind::Busy, "the server cannot read the web session");
                Err(error.hint("see the server's log"))
            }
        }
    }

    /// Reads the server's token. The file is small and local: reading it each time makes a new token valid at once.
    ///
    /// # Errors
    /// `internal_error` if it cannot be read.
    pub(crate) fn read_token(&self) -> Result<Token, EngineError> {
        self.token.read().map_err(|error| {
            if let Some(suppressed) = self.unreadable_log.allow() {
                tracing::error!(%error, suppressed, "cannot read the token: all network clients are rejected");
            }
            EngineError::internal("the server cannot read its token").hint("see the server's log")
        })
    }

    /// Records a failed authentication and returns its error after a delay.
    pub(crate) async fn reject(&self, problem: &str, from: IpAddr) -> EngineError {
        if let Some(suppressed) = self.refused_log.allow() {
            tracing::warn!(%from, problem, suppressed, "authentication failed");
        }
        let delay = self.record_failure(from.into());
        let Ok(_permit) = self.delayed.try_acquire() else {
            return EngineError::new(ErrorKind::RateLimit, "too many failed logins at once")
                .hint("try again in a few seconds");
        };
        tokio::time::sleep(delay).await;
        EngineError::new(ErrorKind::Authentication, problem)
    }

    /// Watches for a new token while clients are connected, and revokes the credentials issued for the old one. Never completes.
    pub(crate) async fn watch(&self) {
        let mut poll = tokio::time::interval(POLL_INTERVAL);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            poll.tick().await;
            let is_active = self.active.lock().is_some();
            // With an unreadable token no client can authenticate, but it does not replace the old one.
            if is_active && let Ok(token) = self.token.read() {
                drop(self.activate(token));
            }
        }
    }

    /// Returns the revocation of the credentials for `token`. Revokes those of a previous token.
    fn activate(&self, token: Token) -> CancellationToken {
        let mut active = self.active.lock();
        let is_new = active.as_ref().is_none_or(|active| !active.token.matches(token.reveal().as_bytes()));
        if is_new && let Some(old) = active.take() {
            tracing::info!("token changed: disconnecting clients that used the old one");
            old.revoked.cancel();
        }
        let create = || ActiveToken { token, revoked: CancellationToken::new() };
        active.get_or_insert_with(create).revoked.clone()
    }

    /// Counts a failure and returns the delay of its answer.
    fn record_failure(&self, from: Subnet) -> Duration {
        let mut failures = self.failures.lock();
        let now = Instant::now();
        if failures.len() >= MAX_SUBNETS {
            failures.retain(|_, entry| now.duration_since(entry.last) < FAILURE_WINDOW);
        }
        let subnet =
            Some(from).filter(|_| failures.len() < MAX_SUBNETS || failures.contains_key(&Some(from)));
        let entry = failures.entry(subnet).or_insert(Failures { count: 0, last: now });
        if now.duration_since(entry.last) >= FAILURE_WINDOW {
            entry.count = 0;
        }
        *entry = Failures { count: entry.count.saturating_add(1), last: now };
        DELAY_STEP.saturating_mul(entry.count).min(MAX_DELAY)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn authenticator() -> (tempfile::TempDir, Authenticator, String) {
        let dir = tempfile::tempdir().unwrap();
        let file = TokenFile::new(dir.path().join("token"));
        let token = file.obtain().unwrap().reveal().to_string();
        (dir, Authenticator::new(file), token)
    }

    #[tokio::test(start_paused = true)]
    async fn delay_grows_with_failures_but_not_for_right_token() {
        let (_dir, authenticator, token) = authenticator();
        let from: IpAddr = "127.0.0.1".parse().unwrap();
        let mut waited = Vec::new();
        for _ in 0..30 {
            let start = Instant::now();
            let error = authenticator.authenticate(Some(b"guess"), from).await.unwrap_err();
            assert_eq!(error.kind.as_str(), "authentication_error");
            waited.push(start.elapsed());
            let start = Instant::now();
            authenticator.authenticate(Some(token.as_bytes()), from).await.unwrap();
            assert!(start.elapsed() < Duration::from_millis(1));
        }
        assert!(waited[1] > waited[0] && waited[29] >= MAX_DELAY, "{waited:?}");
        tokio::time::advance(FAILURE_WINDOW).await;
        let start = Instant::now();
        authenticator.authenticate(None, from).await.unwrap_err();
        assert!(start.elapsed() < MAX_DELAY / 2);
    }

    #[tokio::test(start_paused = true)]
    async fn delayed_answers_are_bounded_and_right_token_is_not_delayed() {
        let (_dir, authenticator, token) = authenticator();
        let authenticator = Arc::new(authenticator);
        let from: IpAddr = "10.0.0.1".parse().unwrap();
        let mut guesses = tokio::task::JoinSet::new();
        for _ in 0..10 * MAX_DELAYED {
            let authenticator = authenticator.clone();
            guesses.spawn(async move { authenticator.authenticate(Some(b"guess"), from).await.unwrap_err() });
        }
        let start = Instant::now();
        let mut at_once = 0;
        while at_once < 9 * MAX_DELAYED {
            let error = guesses.join_next().await.unwrap().unwrap();
            assert_eq!(error.kind.as_str(), "rate_limit_error");
            at_once += 1;
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        authenticator.authenticate(Some(token.as_bytes()), from).await.unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO);
        for error in guesses.join_all().await {
            assert_eq!(error.kind.as_str(), "authentication_error");
        }
        assert!(start.elapsed() <= MAX_DELAY + Duration::from_millis(1));
    }

    #[tokio::test(start_paused = true)]
    async fn credential_is_revoked_when_token_changes() {
        let (dir, authenticator, old) = authenticator();
        let authenticator = Arc::new(authenticator);
        let from: IpAddr = "127.0.0.1".parse().unwrap();
        let credential = authenticator.authenticate(Some(old.as_bytes()), from).await.unwrap();
        let watching = authenticator.clone();
        let watch = tokio::spawn(async move { watching.watch().await });
        assert!(
            tokio::time::timeout(3 * POLL_INTERVAL, credential.clone().wait_for_revocation()).await.is_err()
        );
        let file = TokenFile::new(dir.path().join("token"));
        std::fs::rename(file.path(), dir.path().join("away")).unwrap();
        assert!(
            tokio::time::timeout(3 * POLL_INTERVAL, credential.clone().wait_for_revocation()).await.is_err(),
            "there is no other"
        );
        let new = file.obtain().unwrap();
        tokio::time::timeout(2 * POLL_INTERVAL, credential.wait_for_revocation()).await.unwrap();
        let credential = authenticator.authenticate(Some(new.reveal().as_bytes()), from).await.unwrap();
        assert!(
            tokio::time::timeout(3 * POLL_INTERVAL, credential.clone().wait_for_revocation()).await.is_err()
        );
        watch.abort();
        // Authenticating with a newer token revokes the older one, even without the watcher.
        let newer = file.rotate().unwrap();
        authenticator.authenticate(Some(newer.reveal().as_bytes()), from).await.unwrap();
        credential.wait_for_revocation().await;
    }

    #[tokio::test]
    async fn unreadable_token_authenticates_no_client() {
        let (dir, authenticator, token) = authenticator();
        std::fs::remove_file(dir.path().join("token")).unwrap();
        let error = authenticator
            .authenticate(Some(token.as_bytes()), IpAddr::from([127, 0, 0, 1]))
            .await
            .unwrap_err();
        assert_eq!(error.kind, ErrorKind::Internal);
    }

    #[tokio::test(start_paused = true)]
    async fn failure_counts_are_bounded() {
        let (_dir, authenticator, _) = authenticator();
        for n in 0..3 * MAX_SUBNETS as u32 {
            authenticator.record_failure(IpAddr::from(n.to_be_bytes()).into());
        }
        assert!(authenticator.failures.lock().len() <= MAX_SUBNETS + 1);
    }
}
