//! The retry policy: which requests are retried, and after which pause.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822;
use nerve_types::TsNs;

/// Maximum pause chosen by this client.
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// Maximum pause that an API may request; a longer one counts as a refusal.
const MAX_REQUESTED_PAUSE: Duration = Duration::from_secs(120);

/// Returns true if a retry may succeed after this status. 529 is Anthropic's status for overload.
pub fn is_transient(status: u16) -> bool {
    matches!(status, 429 | 500 | 502 | 503 | 504 | 529)
}

/// Returns the pause before the next attempt; `nth` counts from 0. The API's request has precedence; otherwise the pause starts
/// at a second and doubles up to thirty. `None`: the API requests more than two minutes.
pub fn pause(nth: u32, requested: Option<Duration>) -> Option<Duration> {
    match requested {
        Some(requested) => Some(requested).filter(|requested| *requested <= MAX_REQUESTED_PAUSE),
        None => Some(Duration::from_secs(1 << nth.min(5)).min(MAX_BACKOFF)),
    }
}

/// Parses `Retry-After` (RFC 9110 §10.2.3): seconds or a date. A date in the past means zero; an invalid value means `None`.
pub fn parse_retry_after(header: &str, now: TsNs) -> Option<Duration> {
    let header = header.trim();
    if let Ok(seconds) = header.parse::<f64>() {
        // The RFC requires an integer, but not every API sends one.
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date: Timestamp = rfc2822::DateTimeParser::new().parse_timestamp(header).ok()?;
    let at = u64::try_from(date.as_nanosecond()).unwrap_or(0);
    Some(TsNs(at).since(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Option<Duration> {
        Some(Duration::from_secs(seconds))
    }

    #[test]
    fn pauses_double_up_to_thirty_seconds() {
        let pauses: Vec<u64> = (0..8).map(|nth| pause(nth, None).unwrap().as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(pause(u32::MAX, None), seconds(30));
        assert_eq!(pause(0, seconds(7)), seconds(7));
        assert_eq!(pause(0, seconds(121)), None);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = TsNs(784_111_770 * 1_000_000_000);
        for (header, requested) in [
            ("7", seconds(7)),
            (" 0 ", seconds(0)),
            ("1.5", Some(Duration::from_millis(1500))),
            ("Sun, 06 Nov 1994 08:49:37 GMT", seconds(7)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", seconds(0)),
            ("-3", None),
            ("1e300", None),
            ("nan", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(parse_retry_after(header, now), requested, "{header:?}");
        }
    }

    #[test]
    fn transient_statuses_are_retried() {
        let passing: Vec<u16> = (200..600).filter(|status| is_transient(*status)).collect();
        assert_eq!(passing, [429, 500, 502, 503, 504, 529]);
    }
}
