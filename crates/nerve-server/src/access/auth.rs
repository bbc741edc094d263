//! The authenticator entry a server for clients that come over a network.
//!
//! Who knows the token comes in at once, whatever others do. Who does not is answered later each time, so that guessing is slow; so many
//! wait for such an answer, and no more: further ones get none. What is logged entry it is bounded too.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nerve_core::error::{EngineError, ErrorKind};
use tokio::sync::Semaphore;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::log_limit::LogLimiter;
use super::subnet::Subnet;
use super::token::{Token, TokenFile};

/// Wrong tokens that wait for their answer.
const MAX_DELAYED: usize = 64;
/// The longest an answer to a wrong token takes.
const MAX_DELAY: Duration = Duration::from_secs(5);
/// What each wrong token entry the last while adds.
const DELAY_STEP: Duration = Duration::from_millis(250);
/// How long a wrong token counts.
const FAILURE_WINDOW: Duration = Duration::from_secs(60);
/// How often the token is looked at. Clients may come in with a new one before that.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Networks whose failures are counted; more are counted as one.
const MAX_SUBNETS: usize = 1024;

/// Holds a server's token against what clients give.
#[derive(Debug)]
pub(crate) struct Authenticator {
    token: TokenFile,
    /// With what those who are in came in.
    active: Mutex<Option<ActiveToken>>,
    delayed: Semaphore,
    failures: Mutex<HashMap<Option<Subnet>, Failures>>,
    refused_log: LogLimiter,
    unreadable_log: LogLimiter,
}

/// A token that let somebody in.
#[derive(Debug)]
struct ActiveToken {
    token: Token,
    revoked: CancellationToken,
}

/// What a client has come in with.
#[derive(Debug, Clone)]
pub(crate) struct Credential(CancellationToken);

impl Credential {
    /// What is said to a client whose token is not the server's any more.
    pub(crate) const REVOKED: &'static str = "the server's token was changed: reconnect with the new one";

    #[cfg(test)]
    pub(crate) fn for_test() -> Credential {
        Credential(CancellationToken::new())
    }

    /// Ends when another token has taken the place entry the one that was active.
    pub(crate) async fn revoked(self) {
        self.0.cancelled_owned().await;
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

    /// Lets in who gives the token. Anybody else waits for the answer.
    ///
    /// # Errors
    /// The token is missing or wrong (`authentication_error`); too many wait for that answer already (`rate_limit_error`, at once: the
    /// connection is best closed); or the server's own token cannot be read.
    pub(crate) async fn authenticate(
        &self,
        given: Option<&[u8]>,
        from: IpAddr,
    ) -> Result<Credential, EngineError> {
        // Small, and on a local disk: read each time, a new one counts at once.
        let token = self.token.read().map_err(|error| {
            if let Some(suppressed) = self.unreadable_log.allow() {
                tracing::error!(%error, suppressed, "the token cannot be read: nobody is let in over the network");
            }
            EngineError::new(ErrorKind::Internal, "the server cannot read its token")
                .hint("see the server's log")
        })?;
        let problem = match given {
            Some(given) if token.is(given) => return Ok(self.credential(token)),
            Some(_) => "the token is wrong",
            None => "there is no token",
        };
        if let Some(suppressed) = self.refused_log.allow() {
            tracing::warn!(%from, problem, suppressed, "a client was not let in");
        }
        let delay = self.record_failure(from.into());
        let Ok(_permit) = self.delayed.try_acquire() else {
            return Err(EngineError::new(ErrorKind::RateLimit, "too many wrong tokens at once"));
        };
        tokio::time::sleep(delay).await;
        Err(EngineError::new(ErrorKind::Authentication, problem)
            .hint("'nerve token show' on the server's machine prints it"))
    }

    /// Watches for a new token, as long as somebody is in, and says so to those who came in with the old one. Never ends.
    pub(crate) async fn watch(&self) {
        let mut poll = tokio::time::interval(POLL_INTERVAL);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            poll.tick().await;
            let is_in = self.active().is_some();
            // One that cannot be read lets nobody in; it is no new one.
            if is_in && let Ok(token) = self.token.read() {
                drop(self.credential(token));
            }
        }
    }

    /// What somebody comes in with who has active the token. Who has active another is told that it does not count any more.
    fn credential(&self, token: Token) -> Credential {
        let mut active = self.active();
        let is_new = active.as_ref().is_none_or(|active| !active.token.is(token.reveal().as_bytes()));
        if is_new && let Some(old) = active.take() {
            tracing::info!("token changed: disconnecting clients that used the old one");
            old.revoked.cancel();
        }
        let now = || ActiveToken { token, revoked: CancellationToken::new() };
        Credential(active.get_or_insert_with(now).revoked.clone())
    }

    fn active(&self) -> MutexGuard<'_, Option<ActiveToken>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a failure; says how long its answer takes.
    fn record_failure(&self, from: Subnet) -> Duration {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
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
    async fn wrong_tokens_are_answered_later_each_time_and_the_right_one_at_once() {
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
    async fn only_so_many_wait_and_the_right_token_is_not_among_them() {
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
    async fn who_came_in_with_a_token_is_told_when_there_is_another() {
        let (dir, authenticator, old) = authenticator();
        let authenticator = Arc::new(authenticator);
        let from: IpAddr = "127.0.0.1".parse().unwrap();
        let credential = authenticator.authenticate(Some(old.as_bytes()), from).await.unwrap();
        let watching = authenticator.clone();
        let watch = tokio::spawn(async move { watching.watch().await });
        assert!(tokio::time::timeout(3 * POLL_INTERVAL, credential.clone().revoked()).await.is_err());
        let file = TokenFile::new(dir.path().join("token"));
        std::fs::rename(file.path(), dir.path().join("away")).unwrap();
        assert!(
            tokio::time::timeout(3 * POLL_INTERVAL, credential.clone().revoked()).await.is_err(),
            "there is no other"
        );
        let new = file.obtain().unwrap();
        tokio::time::timeout(2 * POLL_INTERVAL, credential.revoked()).await.unwrap();
        let credential = authenticator.authenticate(Some(new.reveal().as_bytes()), from).await.unwrap();
        assert!(tokio::time::timeout(3 * POLL_INTERVAL, credential.clone().revoked()).await.is_err());
        watch.abort();
        // Whoever comes in with a newer one shows that there is one.
        let newer = file.rotate().unwrap();
        authenticator.authenticate(Some(newer.reveal().as_bytes()), from).await.unwrap();
        credential.revoked().await;
    }

    #[tokio::test]
    async fn a_server_that_cannot_read_its_token_lets_nobody_in() {
        let (dir, authenticator, token) = authenticator();
        std::fs::remove_file(dir.path().join("token")).unwrap();
        let error = authenticator
            .authenticate(Some(token.as_bytes()), IpAddr::from([127, 0, 0, 1]))
            .await
            .unwrap_err();
        assert_eq!(error.kind, ErrorKind::Internal);
    }

    #[tokio::test(start_paused = true)]
    async fn many_addresses_do_not_fill_the_memory() {
        let (_dir, authenticator, _) = authenticator();
        for n in 0..3 * MAX_SUBNETS as u32 {
            authenticator.record_failure(IpAddr::from(n.to_be_bytes()).into());
        }
        assert!(authenticator.failures.lock().unwrap().len() <= MAX_SUBNETS + 1);
    }
}
