//! The door of a server for clients that come over a network.
//!
//! Who knows the token comes in at once, whatever others do. Who does not is answered later each time, so that guessing and filling the log are
//! slow; and only so many may stand before the door.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nerve_core::error::{EngineError, ErrorKind};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::token::TokenFile;

/// Connections whose client has not shown a token yet.
const STRANGERS: usize = 256;
/// Wrong tokens that wait for their answer.
const HELD_OFF: usize = 64;
/// The longest an answer to a wrong token takes.
const LONGEST: Duration = Duration::from_secs(5);
/// What each wrong token of the last while adds.
const STEP: Duration = Duration::from_millis(250);
/// How long a wrong token counts.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Addresses whose failures are counted; more are counted as one.
const ADDRESSES: usize = 1024;

/// Holds a server's token against what clients give.
#[derive(Debug)]
pub(crate) struct Door {
    token: TokenFile,
    strangers: Arc<Semaphore>,
    held_off: Semaphore,
    failures: Mutex<HashMap<Option<IpAddr>, Failures>>,
}

#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    last: Instant,
}

/// A client before the door. It stands there until this is dropped.
#[derive(Debug)]
pub(crate) struct Stranger(#[expect(dead_code, reason = "held")] OwnedSemaphorePermit);

impl Door {
    pub(crate) fn new(token: TokenFile) -> Door {
        let strangers = Arc::new(Semaphore::new(STRANGERS));
        Door { token, strangers, held_off: Semaphore::new(HELD_OFF), failures: Mutex::default() }
    }

    /// A place before the door; `None`: too many stand there.
    pub(crate) fn stranger(&self) -> Option<Stranger> {
        self.strangers.clone().try_acquire_owned().ok().map(Stranger)
    }

    /// Lets in who gives the token. Anybody else waits for the answer.
    ///
    /// # Errors
    /// The token is missing or wrong (`authentication_error`), or the server's own cannot be read.
    pub(crate) async fn knock(&self, given: Option<&[u8]>, from: IpAddr) -> Result<(), EngineError> {
        let token = self.token.read().map_err(|error| {
            tracing::error!(%error, "the token cannot be read: nobody is let in over the network");
            EngineError::new(ErrorKind::Internal, "the server cannot read its token")
                .hint("see the server's log")
        })?;
        let problem = match given {
            Some(given) if token.is(given) => return Ok(()),
            Some(_) => "the token is wrong",
            None => "there is no token",
        };
        tracing::warn!(%from, problem, "a client was not let in");
        // With too many waiting already, the answer comes at once: to wait would be to keep what they cost.
        if let Ok(_place) = self.held_off.try_acquire() {
            tokio::time::sleep(self.failed(from)).await;
        }
        Err(EngineError::new(ErrorKind::Authentication, problem)
            .hint("'nerve token show' on the server's machine prints it"))
    }

    /// Counts a failure; says how long its answer takes.
    fn failed(&self, from: IpAddr) -> Duration {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if failures.len() >= ADDRESSES {
            failures.retain(|_, of| now.duration_since(of.last) < REMEMBERED);
        }
        let address = Some(from).filter(|_| failures.len() < ADDRESSES || failures.contains_key(&Some(from)));
        let of = failures.entry(address).or_insert(Failures { count: 0, last: now });
        if now.duration_since(of.last) >= REMEMBERED {
            of.count = 0;
        }
        *of = Failures { count: of.count.saturating_add(1), last: now };
        (STEP * of.count.min(1000)).min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
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
    async fn many_addresses_do_not_fill_the_memory() {
        let (_dir, door, _) = door();
        for n in 0..3 * ADDRESSES as u32 {
            door.failed(IpAddr::from(n.to_be_bytes()));
        }
        assert!(door.failures.lock().unwrap().len() <= ADDRESSES + 1);
    }

    #[tokio::test]
    async fn only_so_many_stand_before_the_door() {
        let (_dir, door, _) = door();
        let standing: Vec<Stranger> = std::iter::from_fn(|| door.stranger()).collect();
        assert_eq!(standing.len(), STRANGERS);
        drop(standing);
        assert!(door.stranger().is_some());
    }
}
