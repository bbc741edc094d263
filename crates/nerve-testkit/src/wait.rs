//! Waiting for a condition with a deadline. Nothing else in the tests sleeps.

use std::time::{Duration, Instant};

const STEP: Duration = Duration::from_millis(5);

/// Polls `condition` every 5 ms for at most `limit`. Returns whether it became true.
#[must_use]
pub fn wait_until(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    wait_for(limit, || condition().then_some(())).is_some()
}

/// Polls for a value every 5 ms for at most `limit`, at least once.
pub fn wait_for<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if Instant::now() >= deadline {
            return None;
        }
        std::thread::sleep(STEP);
    }
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
}
