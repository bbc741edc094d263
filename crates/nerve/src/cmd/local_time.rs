//! Times in local time.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Formats a time in seconds since 1970 as `2025-10-09 08:53:20`.
pub(crate) fn local_time(at: f64) -> String {
    let stamp = Timestamp::from_microsecond((at * 1e6) as i64).unwrap_or(Timestamp::MAX);
    stamp.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}
