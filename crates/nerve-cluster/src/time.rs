//! Time on one machine, and the durations of leases.

use std::time::Duration;

/// Milliseconds on a machine's own monotonic clock that includes suspension (`CLOCK_BOOTTIME`). Times of two machines, or of two
/// boots, are not comparable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct BootTime(pub u64);

impl BootTime {
    /// Returns the time since `earlier`; `None` if the clock went back.
    pub fn since(self, earlier: BootTime) -> Option<Duration> {
        self.0.checked_sub(earlier.0).map(Duration::from_millis)
    }

    /// Returns true if `earlier` is less than `age` ago. If the clock went back, nothing is recent.
    pub(crate) fn is_within(self, age: Duration, earlier: BootTime) -> bool {
        self.since(earlier).is_some_and(|elapsed| elapsed < age)
    }

    /// Returns the time that is `duration` later.
    pub fn after(self, duration: Duration) -> BootTime {
        BootTime(self.0.saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
    }
}

/// Durations that follow from the time to live of leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTimes {
    ttl: Duration,
}

impl LeaseTimes {
    /// Creates the durations. `ttl`: time to live of a lease in the store since its last renewal, from 1 second to 1 hour; usually 15
    /// seconds. Values outside become the nearest limit.
    pub fn new(ttl: Duration) -> LeaseTimes {
        LeaseTimes { ttl: ttl.clamp(Duration::from_secs(1), Duration::from_secs(3_600)) }
    }

    /// Returns the time to live.
    pub fn ttl(self) -> Duration {
        self.ttl
    }

    /// Returns the age at which a holder renews its lease. State of others is read again at this interval too.
    pub fn renewal(self) -> Duration {
        self.ttl / 3
    }

    /// Returns the age from which a holder begins nothing new.
    pub fn begin_limit(self) -> Duration {
        self.ttl * 2 / 3
    }

    /// Returns the delay before a request is repeated when the store was unavailable.
    pub fn retry(self) -> Duration {
        self.ttl / 12
    }
}
