//! When a connection that has ended is made again.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::time::Instant;

/// The first pause between two tries; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest one.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What a client does when its connection has ended.
///
/// A connection is made again when somebody needs it: a request, or a stream of events. It shows the token again, and asks for the same
/// events, from the last one on that has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reconnect {
    /// Nothing: all that is asked from then on fails, and streams of events end.
    Never,
    /// Tries for so long to reach the server again, with pauses of up to two seconds, before a request fails or streams of events end.
    /// The next request tries anew.
    Within(Duration),
}

impl Default for Reconnect {
    /// Within ten seconds: as long as a server takes that is started again.
    fn default() -> Reconnect {
        Reconnect::Within(Duration::from_secs(10))
    }
}

/// How long to wait before the next try, after some that failed.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
    next: Option<Instant>,
}

impl Backoff {
    /// When the next try may begin; at once if `None`.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// A try failed. `jitter`: 0 to 1, so that many clients do not come all at once.
    pub(crate) fn failed(&mut self, now: Instant, jitter: f64) {
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(16)).min(LONGEST_PAUSE);
        self.failures = self.failures.saturating_add(1);
        self.next = Some(now + pause.mul_f64(0.5 + jitter / 2.0));
    }

    /// The server was heard.
    pub(crate) fn succeeded(&mut self) {
        *self = Backoff::default();
    }
}

/// A number from 0 to 1.
pub(crate) fn jitter() -> f64 {
    // The keys of a new hasher are random.
    f64::from((RandomState::new().hash_one(0) >> 32) as u32) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pauses_grow_to_a_limit_and_begin_anew_after_success() {
        let now = Instant::now();
        let mut backoff = Backoff::default();
        assert_eq!(backoff.next(), None);
        let mut pauses = Vec::new();
        for _ in 0..40 {
            backoff.failed(now, 1.0);
            pauses.push((backoff.next().unwrap() - now).as_millis());
        }
        assert_eq!(pauses[..7], [50, 100, 200, 400, 800, 1600, 2000]);
        assert!(pauses[7..].iter().all(|pause| *pause == 2000));
        backoff.succeeded();
        assert_eq!(backoff.next(), None);
        backoff.failed(now, 0.0);
        assert_eq!((backoff.next().unwrap() - now).as_millis(), 25);
    }

    #[test]
    fn chances_differ_and_are_between_none_and_one() {
        let jitters: Vec<f64> = (0..100).map(|_| jitter()).collect();
        assert!(jitters.iter().all(|jitter| (0.0..=1.0).contains(jitter)));
        assert!(jitters.windows(2).any(|two| two[0] != two[1]));
    }
}
