//! The one place of this crate that reads a clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nerve_term::event::TsNs;
use tokio::time::Instant;

/// Longer limits mean this one, thirty years: an instant cannot be any distance away.
pub(crate) const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);

/// Wall time that never goes backwards: anchored once, then advanced by the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    wall: TsNs,
    anchor: Instant,
}

impl Clock {
    /// A clock anchored now.
    pub fn start() -> Clock {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock {
            wall: TsNs(u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX)),
            anchor: Instant::now(),
        }
    }

    /// The time now.
    pub fn now(&self) -> TsNs {
        self.wall + self.anchor.elapsed()
    }

    /// The instant of a time; for timers.
    pub fn instant(&self, at: TsNs) -> Instant {
        self.anchor + at.since(self.wall)
    }
}
