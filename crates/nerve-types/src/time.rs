//! Timestamps.

use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Returns whole milliseconds, rounded down. A duration over 584 million years is the largest number.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Nanoseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct TsNs(pub u64);

impl TsNs {
    /// Returns seconds since the Unix epoch, exact to well under a microsecond until the year 2100.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns the time since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: TsNs) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// The time from the start to the end of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeSpan {
    /// When it started.
    pub start: TsNs,
    /// When it ended.
    pub end: TsNs,
}

impl TimeSpan {
    /// Returns the time between start and end; zero if the clock went backwards.
    pub fn duration(self) -> Duration {
        self.end.since(self.start)
    }
}

impl Add<Duration> for TsNs {
    type Output = TsNs;
    fn add(self, rhs: Duration) -> TsNs {
        TsNs(self.0.saturating_add(u64::try_from(rhs.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for TsNs {
    type Output = TsNs;
    fn sub(self, rhs: Duration) -> TsNs {
        TsNs(self.0.saturating_sub(u64::try_from(rhs.as_nanos()).unwrap_or(u64::MAX)))
    }
}
