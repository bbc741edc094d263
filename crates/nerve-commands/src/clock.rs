//! The current time, and times for people: in local time. JSON has RFC 3339 in UTC instead.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::tz::TimeZone;
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

/// Formats a time in seconds since 1970 as `2025-10-09 08:53:20`, in local time.
pub fn local_time(at: f64) -> String {
    local(Timestamp::from_microsecond((at * 1e6) as i64).unwrap_or(Timestamp::MAX))
}

/// Formats a time in RFC 3339 as [`local_time`] does. Another text stays as it is.
pub fn local_time_of(text: &str) -> String {
    text.parse().map_or_else(|_| text.to_string(), local)
}

fn local(at: Timestamp) -> String {
    at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_local_in_all_forms() {
        let at = local_time(1_760_000_000.5);
        assert_eq!(local_time_of("2025-10-09T08:53:20.500Z"), at);
        assert_eq!(local_time_of("2025-10-09T09:53:20+01:00"), at);
        assert_eq!(at.len(), "2025-10-09 08:53:20".len());
        assert_eq!(local_time_of("?"), "?");
    }
}
