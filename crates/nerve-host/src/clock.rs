//! The only module of this crate that reads a clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nerve_types::TsNs;
use tokio::time::Instant;

/// Upper limit of timeouts, thirty years: an `Instant` has a limited range.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(30 * 365 * 86_400);

/// Wall time that never goes backwards: anchored once, then advanced by the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    wall: TsNs,
    anchor: Instant,
}

impl Clock {
    /// Creates a clock anchored now.
    pub fn start() -> Clock {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock {
            wall: TsNs(u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX)),
            anchor: Instant::now(),
        }
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
