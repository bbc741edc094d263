//! Limits what a client costs that shows output more slowly than a program writes it: each dump of the terminal takes time.

use std::time::{Duration, Instant};

/// Shortest pause between two dumps. A display that misses output shows a new screen four times a second.
const MIN_PAUSE: Duration = Duration::from_millis(250);
/// Longest pause: a machine that is busy with other work makes dumps slow, too.
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// Multiple of the time that a dump took after which the next one may follow: dumps take at most 4 % of a core.
const PAUSE_FACTOR: u32 = 25;

/// Limits the dumps for one client.
#[derive(Debug, Default)]
pub struct ResyncLimit {
    next: Option<Instant>,
}

impl ResyncLimit {
    /// Returns when the next dump may be made, if that is later than `now`.
    pub fn wait_until(&self, now: Instant) -> Option<Instant> {
        self.next.filter(|next| *next > now)
    }

    /// Records a dump that was made from `begun` to `done`.
    pub fn record(&mut self, begun: Instant, done: Instant) {
        let cost = done.saturating_duration_since(begun);
        self.next = Some(done + cost.saturating_mul(PAUSE_FACTOR).clamp(MIN_PAUSE, MAX_PAUSE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the dumps in 10 seconds for a client that always misses output. `cost`: time of a dump.
    fn count_dumps(cost: Duration) -> usize {
        let (start, mut limit) = (Instant::now(), ResyncLimit::default());
        let (mut now, mut dumps) = (start, 0);
        while now < start + Duration::from_secs(10) {
            match limit.wait_until(now) {
                Some(later) => now = later,
                None => {
                    limit.record(now, now + cost);
                    now += cost;
                    dumps += 1;
                }
            }
        }
        dumps
    }

    #[test]
    fn first_dump_is_made_at_once() {
        assert_eq!(ResyncLimit::default().wait_until(Instant::now()), None);
    }

    #[test]
    fn dumps_are_few_and_fewer_the_longer_they_take() {
        assert_eq!(count_dumps(Duration::ZERO), 40);
        // 4 % of the time at 20 ms each.
        assert_eq!(count_dumps(Duration::from_millis(20)), 20);
        // Other work makes them slow: the display still gets one a second.
        assert_eq!(count_dumps(Duration::from_millis(500)), 7);
    }
}
