//! Rate limit for log lines that unauthenticated clients can cause.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Maximum number of log lines per [`WINDOW`].
const MAX_LINES: u32 = 20;
const WINDOW: Duration = Duration::from_secs(60);

/// Limits how many events of one kind are logged per minute, and counts the suppressed ones.
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

    /// Returns `Some` if the event may be logged, with the number of events suppressed since the last logged one.
    pub(crate) fn allow(&self) -> Option<u64> {
        let mut window = self.0.lock();
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
    async fn logs_first_events_of_window_and_counts_the_rest() {
        let limiter = LogLimiter::new();
        let logged = (0..1000).filter_map(|_| limiter.allow()).count();
        assert_eq!(logged, 20);
        tokio::time::advance(WINDOW).await;
        assert_eq!(limiter.allow(), Some(980));
        assert_eq!(limiter.allow(), Some(0));
    }
}
