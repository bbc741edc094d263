//! The only module of this crate that reads a clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nerve_types::TsNs;
use tokio::time::Instant;

/// Upper limit of timeouts, thirty years: an `Instant` has a limited range.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(30 * 365 * 86_400);

/// Wall time that never goes backwards: anchored once, then advanced by the monotonic clock.
///
/// Stands still while the machine is suspended, so that no timer expires because of that. `WallClock` has the times of
/// records.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    wall: TsNs,
    anchor: Instant,
}

impl Clock {
    /// Creates a clock anchored now.
    pub fn start() -> Clock {
        Clock { wall: system_time(), anchor: Instant::now() }
    }

    /// Returns the current time.
    pub fn now(&self) -> TsNs {
        self.wall + self.anchor.elapsed()
    }

    /// Converts a time into an instant, for timers.
    pub fn instant(&self, at: TsNs) -> Instant {
        self.anchor + at.since(self.wall)
    }
}

/// The system's wall time, for records that are compared with those of other programs. Includes suspends and corrections of
/// the system's clock, but never goes backwards.
#[derive(Debug, Default)]
pub(crate) struct WallClock {
    last: TsNs,
}

impl WallClock {
    /// Returns the current time.
    pub(crate) fn now(&mut self) -> TsNs {
        self.advance(system_time())
    }

    fn advance(&mut self, to: TsNs) -> TsNs {
        self.last = self.last.max(to);
        self.last
    }
}

fn system_time() -> TsNs {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    TsNs(u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_clock_never_goes_backwards() {
        let mut clock = WallClock::default();
        let hour = 3_600_000_000_000;
        let times = [hour, 3 * hour, 2 * hour, 4 * hour].map(|time| clock.advance(TsNs(time)));
        assert_eq!(times, [hour, 3 * hour, 3 * hour, 4 * hour].map(TsNs));
    }

    #[tokio::test(start_paused = true)]
    async fn wall_clock_counts_time_of_stopped_timers() {
        // As during a suspend, the monotonic clock stands still and the system's time advances.
        let (clock, mut wall_clock) = (Clock::start(), WallClock::default());
        let (stopped, began) = (clock.now(), wall_clock.now());
        assert!(nerve_testkit::wait_until(nerve_testkit::DEADLINE, || wall_clock.now() > began));
        assert_eq!(clock.now(), stopped);
    }
}
