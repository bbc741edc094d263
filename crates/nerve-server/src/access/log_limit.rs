//! Lines in the log about what strangers do: few, whatever they do.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Lines in a [`WINDOW`].
const MAX_LINES: u32 = 20;
const WINDOW: Duration = Duration::from_secs(60);

/// Says which of many things of a kind are logged: the first of each minute, and how many were not.
#[derive(Debug)]
pub(crate) struct LogLimiter(Mutex<Window>);

#[derive(Debug)]
struct Window {
    since: Instant,
    logged: u32,
    suppressed: u64,
}

impl LogLimiter {
    pub(crate) fn new() -> LogLimiter {
        LogLimiter(Mutex::new(Window { since: Instant::now(), logged: 0, suppressed: 0 }))
    }

    /// `Some`: this one is to be logged, and so many were not since the last one that was.
    pub(crate) fn allow(&self) -> Option<u64> {
        let mut window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if now.duration_since(window.since) >= WINDOW {
            (window.since, window.logged) = (now, 0);
        }
        if window.logged >= MAX_LINES {
            window.suppressed = window.suppressed.saturating_add(1);
            return None;
        }
        window.logged += 1;
        Some(std::mem::take(&mut window.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_the_first_of_a_minute_are_told_and_then_how_many_were_not() {
        let limiter = LogLimiter::new();
        let logged = (0..1000).filter_map(|_| limiter.allow()).count();
        assert_eq!(logged, 20);
        tokio::time::advance(WINDOW).await;
        assert_eq!(limiter.allow(), Some(980));
        assert_eq!(limiter.allow(), Some(0));
    }
}
