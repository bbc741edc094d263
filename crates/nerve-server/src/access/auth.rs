//! The door of a server for clients that come over a network.
//!
//! Who knows the token comes in at once, whatever others do. Who does not is answered later each time, so that guessing is slow; so many
//! wait for such an answer, and no more: further ones get none. What is logged of it is bounded too.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nerve_core::error::{EngineError, ErrorKind};
use tokio::sync::Semaphore;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::log_limit::Notices;
use super::subnet::Origin;
use super::token::{Token, TokenFile};

/// Wrong tokens that wait for their answer.
const HELD_OFF: usize = 64;
/// The longest an answer to a wrong token takes.
const LONGEST: Duration = Duration::from_secs(5);
/// What each wrong token of the last while adds.
const STEP: Duration = Duration::from_millis(250);
/// How long a wrong token counts.
const REMEMBERED: Duration = Duration::from_secs(60);
/// How often the token is looked at. Clients may come in with a new one before that.
const LOOKS: Duration = Duration::from_secs(2);
/// Networks whose failures are counted; more are counted as one.
const ORIGINS: usize = 1024;

/// Holds a server's token against what clients give.
#[derive(Debug)]
pub(crate) struct Door {
    token: TokenFile,
    /// With what those who are in came in.
    shown: Mutex<Option<Shown>>,
    held_off: Semaphore,
    failures: Mutex<HashMap<Option<Origin>, Failures>>,
    refused: Notices,
    unreadable: Notices,
}

/// A token that let somebody in.
#[derive(Debug)]
struct Shown {
    token: Token,
    counts_no_more: CancellationToken,
}

/// What a client has come in with.
#[derive(Debug, Clone)]
pub(crate) struct Pass(CancellationToken);

impl Pass {
    /// What is said to a client whose token is not the server's any more.
    pub(crate) const CHANGED: &'static str = "the server's token was changed: come again with the new one";

    #[cfg(test)]
    pub(crate) fn of_test() -> Pass {
        Pass(CancellationToken::new())
    }

    /// Ends when another token has taken the place of the one that was shown.
    pub(crate) async fn changed(self) {
        self.0.cancelled_owned().await;
    }
}

#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    last: Instant,
}

impl Door {
    pub(crate) fn new(token: TokenFile) -> Door {
        Door {
            token,
            shown: Mutex::default(),
            held_off: Semaphore::new(HELD_OFF),
            failures: Mutex::default(),
            refused: Notices::new(),
            unreadable: Notices::new(),
        }
    }

    /// Lets in who gives the token. Anybody else waits for the answer.
    ///
    /// # Errors
    /// The token is missing or wrong (`authentication_error`); too many wait for that answer already (`rate_limit_error`, at once: the
    /// connection is best closed); or the server's own token cannot be read.
    pub(crate) async fn knock(&self, given: Option<&[u8]>, from: IpAddr) -> Result<Pass, EngineError> {
        // Small, and on a local disk: read each time, a new one counts at once.
        let token = self.token.read().map_err(|error| {
            if let Some(untold) = self.unreadable.next() {
                tracing::error!(%error, untold, "the token cannot be read: nobody is let in over the network");
            }
            EngineError::new(ErrorKind::Internal, "the server cannot read its token")
                .hint("see the server's log")
        })?;
        let problem = match given {
            Some(given) if token.is(given) => return Ok(self.pass(token)),
            Some(_) => "the token is wrong",
            None => "there is no token",
        };
        if let Some(untold) = self.refused.next() {
            tracing::warn!(%from, problem, untold, "a client was not let in");
        }
        let delay = self.failed(from.into());
        let Ok(_place) = self.held_off.try_acquire() else {
            return Err(EngineError::new(ErrorKind::RateLimit, "too many wrong tokens at once"));
        };
        tokio::time::sleep(delay).await;
        Err(EngineError::new(ErrorKind::Authentication, problem)
            .hint("'nerve token show' on the server's machine prints it"))
    }

    /// Watches for a new token, as long as somebody is in, and says so to those who came in with the old one. Never ends.
    pub(crate) async fn watch(&self) {
        let mut looks = tokio::time::interval(LOOKS);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            let is_in = self.shown().is_some();
            // One that cannot be read lets nobody in; it is no new one.
            if is_in && let Ok(token) = self.token.read() {
                drop(self.pass(token));
            }
        }
    }

    /// What somebody comes in with who has shown the token. Who has shown another is told that it does not count any more.
    fn pass(&self, token: Token) -> Pass {
        let mut shown = self.shown();
        let is_new = shown.as_ref().is_none_or(|shown| !shown.token.is(token.reveal().as_bytes()));
        if is_new && let Some(old) = shown.take() {
            tracing::info!("the token was changed: those who came in with the old one have to go");
            old.counts_no_more.cancel();
        }
        let now = || Shown { token, counts_no_more: CancellationToken::new() };
        Pass(shown.get_or_insert_with(now).counts_no_more.clone())
    }

    fn shown(&self) -> MutexGuard<'_, Option<Shown>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a failure; says how long its answer takes.
    fn failed(&self, from: Origin) -> Duration {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if failures.len() >= ORIGINS {
            failures.retain(|_, of| now.duration_since(of.last) < REMEMBERED);
        }
        let origin = Some(from).filter(|_| failures.len() < ORIGINS || failures.contains_key(&Some(from)));
        let of = failures.entry(origin).or_insert(Failures { count: 0, last: now });
        if now.duration_since(of.last) >= REMEMBERED {
            of.count = 0;
        }
        *of = Failures { count: of.count.saturating_add(1), last: now };
        STEP.saturating_mul(of.count).min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn door() -> (tempfile::TempDir, Door, String) {
        let dir = tempfile::tempdir().unwrap();
        let file = TokenFile::new(dir.path().join("token"));
        let token = file.obtain().unwrap().reveal().to_string();
        (dir, Door::new(file), token)
    }

    #[tokio::test(start_paused = true)]
    async fn wrong_tokens_are_answered_later_each_time_and_the_right_one_at_once() {
        let (_dir, door, token) = door();
        let from: IpAddr = "127.0.0.1".parse().unwrap();
        let mut waited = Vec::new();
        for _ in 0..30 {
            let start = Instant::now();
            let error = door.knock(Some(b"guess"), from).await.unwrap_err();
            assert_eq!(error.kind.as_str(), "authentication_error");
            waited.push(start.elapsed());
            let start = Instant::now();
            door.knock(Some(token.as_bytes()), from).await.unwrap();
            assert!(start.elapsed() < Duration::from_millis(1));
        }
        assert!(waited[1] > waited[0] && waited[29] >= LONGEST, "{waited:?}");
        tokio::time::advance(REMEMBERED).await;
        let start = Instant::now();
        door.knock(None, from).await.unwrap_err();
        assert!(start.elapsed() < LONGEST / 2);
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_wait_and_the_right_token_is_not_among_them() {
        let (_dir, door, token) = door();
        let door = Arc::new(door);
        let from: IpAddr = "10.0.0.1".parse().unwrap();
        let mut guesses = tokio::task::JoinSet::new();
        for _ in 0..10 * HELD_OFF {
            let door = door.clone();
            guesses.spawn(async move { door.knock(Some(b"guess"), from).await.unwrap_err() });
        }
        let start = Instant::now();
        let mut at_once = 0;
        while at_once < 9 * HELD_OFF {
            let error = guesses.join_next().await.unwrap().unwrap();
            assert_eq!(error.kind.as_str(), "rate_limit_error");
            at_once += 1;
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        door.knock(Some(token.as_bytes()), from).await.unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO);
        for error in guesses.join_all().await {
            assert_eq!(error.kind.as_str(), "authentication_error");
        }
        assert!(start.elapsed() <= LONGEST + Duration::from_millis(1));
    }

    #[tokio::test(start_paused = true)]
    async fn who_came_in_with_a_token_is_told_when_there_is_another() {
        let (dir, door, old) = door();
        let door = Arc::new(door);
        let from: IpAddr = "127.0.0.1".parse().unwrap();
        let pass = door.knock(Some(old.as_bytes()), from).await.unwrap();
        let watching = door.clone();
        let watch = tokio::spawn(async move { watching.watch().await });
        assert!(tokio::time::timeout(3 * LOOKS, pass.clone().changed()).await.is_err());
        let file = TokenFile::new(dir.path().join("token"));
        std::fs::rename(file.path(), dir.path().join("away")).unwrap();
        assert!(tokio::time::timeout(3 * LOOKS, pass.clone().changed()).await.is_err(), "there is no other");
        let new = file.obtain().unwrap();
        tokio::time::timeout(2 * LOOKS, pass.changed()).await.unwrap();
        let pass = door.knock(Some(new.reveal().as_bytes()), from).await.unwrap();
        assert!(tokio::time::timeout(3 * LOOKS, pass.clone().changed()).await.is_err());
        watch.abort();
        // Whoever comes in with a newer one shows that there is one.
        let newer = file.rotate().unwrap();
        door.knock(Some(newer.reveal().as_bytes()), from).await.unwrap();
        pass.changed().await;
    }

    #[tokio::test]
    async fn a_server_that_cannot_read_its_token_lets_nobody_in() {
        let (dir, door, token) = door();
        std::fs::remove_file(dir.path().join("token")).unwrap();
        let error = door.knock(Some(token.as_bytes()), IpAddr::from([127, 0, 0, 1])).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Internal);
    }

    #[tokio::test(start_paused = true)]
    async fn many_addresses_do_not_fill_the_memory() {
        let (_dir, door, _) = door();
        for n in 0..3 * ORIGINS as u32 {
            door.failed(IpAddr::from(n.to_be_bytes()).into());
        }
        assert!(door.failures.lock().unwrap().len() <= ORIGINS + 1);
    }
}
