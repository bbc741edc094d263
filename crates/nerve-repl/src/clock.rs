//! The current time.

use std::time::{SystemTime, UNIX_EPOCH};

use nerve_types::TsNs;

/// Returns the current time.
pub fn now() -> TsNs {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    TsNs(u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX))
}

/// Returns the current time in seconds since the Unix epoch, as in events.
pub fn now_seconds() -> f64 {
    now().0 as f64 / 1e9
}
