//! Time on one machine, and the durations of leases.

use std::time::Duration;

/// Milliseconds on a machine's own monotonic clock that includes suspension (`CLOCK_BOOTTIME`). Times of two machines, or of two
/// boots, are not comparable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct BootTime(pub u64);

impl BootTime {
    /// Returns the time since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: BootTime) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
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
    /// Creates the durations. `ttl`: time to live of a lease in the store since its last renewal; usually 15 seconds.
    pub fn new(ttl: Duration) -> LeaseTimes {
        LeaseTimes { ttl }
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
