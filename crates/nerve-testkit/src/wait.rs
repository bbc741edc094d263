//! How a test waits: for a condition, up to a deadline. Nothing else here or in the tests sleeps.

use std::time::{Duration, Instant};

const STEP: Duration = Duration::from_millis(5);

/// Looks every 5 ms whether `condition` holds, for at most `limit`. Returns whether it came to hold.
#[must_use]
pub fn wait_until(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    wait_for(limit, || condition().then_some(())).is_some()
}

/// Looks every 5 ms for a value, for at most `limit`. It is asked for at least once.
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
    fn a_condition_is_looked_at_until_it_holds_or_time_is_up() {
        let mut looks = 0;
        assert!(wait_until(Duration::from_secs(60), || {
            looks += 1;
            looks == 3
        }));
        assert_eq!(wait_for(Duration::ZERO, || None::<()>), None);
        assert_eq!(wait_for(Duration::ZERO, || Some(1)), Some(1));
    }
}
