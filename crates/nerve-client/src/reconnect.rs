//! Policy and backoff for reconnects.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::time::Instant;

/// Pause before the second attempt; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Maximum pause between attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Behaviour of a client when its connection has ended.
///
/// A connection is reopened when a request or an event stream needs it. The client authenticates again and resumes its event subscription
/// after the last event received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reconnect {
    /// Does not reconnect: further requests fail, and event streams end.
    Never,
    /// Tries to reach the server for this long, with pauses of up to two seconds, before a request fails or
    /// event streams end. The next request tries again.
    Within(Duration),
}

impl Default for Reconnect {
    /// Ten seconds, which covers a restart of the server.
    fn default() -> Reconnect {
        Reconnect::Within(Duration::from_secs(10))
    }
}

/// Exponential backoff between connection attempts.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
    next: Option<Instant>,
}

impl Backoff {
    /// Returns when the next attempt may begin; `None` means at once.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Records a failed attempt. `jitter`: 0 to 1, to spread the attempts of many clients.
    pub(crate) fn failed(&mut self, now: Instant, jitter: f64) {
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(16)).min(LONGEST_PAUSE);
        self.failures = self.failures.saturating_add(1);
        self.next = Some(now + pause.mul_f64(0.5 + jitter / 2.0));
    }

    /// Resets the backoff after the server has sent something.
    pub(crate) fn succeeded(&mut self) {
        *self = Backoff::default();
    }
}

/// Returns a random number from 0 to 1.
pub(crate) fn jitter() -> f64 {
    // The keys of a new hasher are random.
    f64::from((RandomState::new().hash_one(0) >> 32) as u32) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pauses_grow_to_limit_and_reset_on_success() {
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
    fn jitter_varies_between_zero_and_one() {
        let jitters: Vec<f64> = (0..100).map(|_| jitter()).collect();
        assert!(jitters.iter().all(|jitter| (0.0..=1.0).contains(jitter)));
        assert!(jitters.windows(2).any(|two| two[0] != two[1]));
    }
}
