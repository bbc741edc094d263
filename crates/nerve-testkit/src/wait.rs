//! Waiting for a condition with a deadline. Nothing else in the tests sleeps.

use std::time::{Duration, Instant};

use tokio::time::timeout;

/// Limit for any step of a test; exceeded only if the test hangs.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Shortest pause between two polls.
const MIN_PAUSE: Duration = Duration::from_millis(5);
/// Longest pause between two polls.
const MAX_PAUSE: Duration = Duration::from_millis(100);

/// Returns the pause after a poll that began at `start`: twice as long as the poll took. A condition that starts a program thus leaves
/// most of the processor to the program that it waits for.
fn pause_after(start: Instant) -> Duration {
    (start.elapsed() * 2).clamp(MIN_PAUSE, MAX_PAUSE)
}

/// Polls `condition` like [`wait_for`]. Returns whether it became true.
#[must_use]
pub fn wait_until(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    wait_for(limit, || condition().then_some(())).is_some()
}

/// Polls for a value for at most `limit`, at least once. Between two polls it sleeps for 5 ms, or longer if a poll takes long.
pub fn wait_for<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    loop {
        let start = Instant::now();
        if let Some(value) = look() {
            return Some(value);
        }
        if Instant::now() >= deadline {
            return None;
        }
        std::thread::sleep(pause_after(start));
    }
}

/// Awaits `work` for at most [`DEADLINE`].
///
/// # Panics
/// After that time, with `what` in the message.
pub async fn within_deadline<T>(what: &str, work: impl Future<Output = T>) -> T {
    timeout(DEADLINE, work).await.unwrap_or_else(|_| panic!("timed out: {what}"))
}

/// Polls `condition` like [`wait_for`]. Returns whether it became true.
#[must_use]
pub async fn wait_until_async(limit: Duration, mut condition: impl AsyncFnMut() -> bool) -> bool {
    let waiting = async {
        loop {
            let start = Instant::now();
            if condition().await {
                return;
            }
            tokio::time::sleep(pause_after(start)).await;
        }
    };
    timeout(limit, waiting).await.is_ok()
}

/// Polls `condition` until it is true, for at most [`DEADLINE`].
///
/// # Panics
/// After that time, with `what` in the message.
pub async fn eventually(what: &str, condition: impl AsyncFnMut() -> bool) {
    assert!(wait_until_async(DEADLINE, condition).await, "timed out: {what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_until_true_or_timeout() {
        let mut looks = 0;
        assert!(wait_until(Duration::from_secs(60), || {
            looks += 1;
            looks == 3
        }));
        assert_eq!(wait_for(Duration::ZERO, || None::<()>), None);
        assert_eq!(wait_for(Duration::ZERO, || Some(1)), Some(1));
    }

    #[tokio::test]
    async fn async_conditions_are_polled() {
        let mut looks = 0;
        eventually("third look", async || {
            looks += 1;
            looks == 3
        })
        .await;
        assert_eq!(within_deadline("a value", async { 1 }).await, 1);
    }
}
