//! When a request is sent again, and after how long.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822;
use nerve_term::event::TsNs;

/// The longest pause of our own.
const LONGEST: Duration = Duration::from_secs(30);
/// The longest pause that an API may ask for; who asks for more has refused.
const PATIENCE: Duration = Duration::from_secs(120);

/// Can the same request have another answer a little later? 529 is Anthropic's word for overloaded.
pub(super) fn is_passing(status: u16) -> bool {
    matches!(status, 429 | 500 | 502 | 503 | 504 | 529)
}

/// The pause before the next try; `nth` counts from 0. What the API asks for counts, else a second, twice as long each time, thirty
/// at most. `None`: it asks for more than anybody waits for.
pub(super) fn pause(nth: u32, asked: Option<Duration>) -> Option<Duration> {
    match asked {
        Some(asked) => Some(asked).filter(|asked| *asked <= PATIENCE),
        None => Some(Duration::from_secs(1 << nth.min(5)).min(LONGEST)),
    }
}

/// What a `Retry-After` asks for (RFC 9110 §10.2.3): seconds, or a date. A date that is past is now; what cannot be read is nothing.
pub(super) fn asked_for(header: &str, now: TsNs) -> Option<Duration> {
    let header = header.trim();
    if let Ok(seconds) = header.parse::<f64>() {
        // Whole by the RFC, and not by everybody.
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
        for (header, asked) in [
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
            assert_eq!(asked_for(header, now), asked, "{header:?}");
        }
    }

    #[test]
    fn what_passes_by_itself() {
        let passing: Vec<u16> = (200..600).filter(|status| is_passing(*status)).collect();
        assert_eq!(passing, [429, 500, 502, 503, 504, 529]);
    }
}
