//! Parses the time at which a usage limit ends, as worded by an agent.
//!
//! Uses no clock and no time zone database: a time of day counts only if it names UTC.

use std::time::Duration;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::Offset;
use jiff::{Timestamp, ToSpan};

use nerve_types::TsNs;

/// Maximum number of words of a text that are read.
const MAX_WORDS: usize = 24;
/// A time of day at most this long ago has just passed; an earlier one means tomorrow.
const RECENT_PAST: Duration = Duration::from_secs(3600);
const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

/// Parses `3pm (UTC)`, `15:05 UTC`, `Nov 25, 3:05am (UTC)`, `in 2 days 3 hours 5 minutes` or seconds since the Unix
/// epoch, as written at `now`. Returns `None` for a text without a time or with another time zone.
pub(super) fn parse_reset_time(text: &str, now: TsNs) -> Option<TsNs> {
    let text = text.to_lowercase();
    let separates = |c: char| c.is_whitespace() || matches!(c, ',' | '(' | ')' | '·' | '∙');
    let words: Vec<&str> = text
        .split(separates)
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| !word.is_empty() && !matches!(*word, "at" | "in" | "on" | "and"))
        .take(MAX_WORDS)
        .collect();
    parse_epoch(&words).or_else(|| parse_duration(&words, now)).or_else(|| parse_date(&words, now))
}

/// Parses `1751230800`, the format of older Claude Code versions.
fn parse_epoch(words: &[&str]) -> Option<TsNs> {
    let [word] = words else { return None };
    let seconds: u64 = word.parse().ok().filter(|_| word.len() == 10)?;
    seconds.checked_mul(1_000_000_000).map(TsNs)
}

/// Parses `2 days 3 hours 5 minutes` and `2h 5m`.
fn parse_duration(words: &[&str], now: TsNs) -> Option<TsNs> {
    let mut rest = words.iter();
    let mut seconds = 0u64;
    while let Some(word) = rest.next() {
        let split = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
        let (number, unit) = word.split_at(split);
        let unit = if unit.is_empty() { rest.next()? } else { unit };
        let each = match unit {
            "d" | "day" | "days" => SECONDS_PER_DAY,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3600,
            "m" | "min" | "mins" | "minute" | "minutes" => 60,
            "s" | "sec" | "secs" | "second" | "seconds" => 1,
            _ => return None,
        };
        seconds = seconds.checked_add(number.parse::<u64>().ok()?.checked_mul(each)?)?;
    }
    (seconds > 0).then(|| now + Duration::from_secs(seconds))
}

/// Parses a time of day in UTC with an optional date.
fn parse_date(words: &[&str], now: TsNs) -> Option<TsNs> {
    let (zone, words) = words.split_last()?;
    if !matches!(*zone, "utc" | "gmt" | "etc/utc" | "z") {
        return None;
    }
    let now = Timestamp::from_nanosecond(i128::from(now.0)).ok()?;
    let today = Offset::UTC.to_datetime(now).date();
    let reset_at = match words.split_first() {
        Some((name, rest)) if parse_month(name).is_some() => {
            let (day, rest) = rest.split_first()?;
            let day = day.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse().ok()?;
            let (year, rest) = match rest.split_first() {
                Some((year, rest)) if year.len() == 4 => (year.parse().ok(), rest),
                _ => (None, rest),
            };
            let date = Date::new(year.unwrap_or(today.year()), parse_month(name)?, day).ok()?;
            let at = date.to_datetime(parse_clock(rest)?);
            if year.is_some() { at } else { resolve_year(at, today) }
        }
        _ => resolve_day(today.to_datetime(parse_clock(words)?), now)?,
    };
    let reset_at = Offset::UTC.to_timestamp(reset_at).ok()?;
    u64::try_from(reset_at.as_nanosecond()).ok().map(TsNs)
}

/// Returns the next such time of day, or the last one if it has just passed.
fn resolve_day(today: DateTime, now: Timestamp) -> Option<DateTime> {
    let at = Offset::UTC.to_timestamp(today).ok()?;
    let seconds_ahead = at.as_second() - now.as_second();
    let recent_seconds = i64::try_from(RECENT_PAST.as_secs()).ok()?;
    let days = match seconds_ahead {
        seconds_ahead if seconds_ahead < -recent_seconds => 1,
        seconds_ahead if seconds_ahead > 86_400 - recent_seconds => -1,
        _ => 0,
    };
    today.checked_add(days.days()).ok()
}

/// Adds the year that brings the date within half a year of today.
fn resolve_year(at: DateTime, today: Date) -> DateTime {
    let days = at.date().since(today).map_or(0, |span| span.get_days());
    let years = match days {
        days if days < -183 => 1,
        days if days > 183 => -1,
        _ => 0,
    };
    at.checked_add(years.years()).unwrap_or(at)
}

fn parse_month(name: &str) -> Option<i8> {
    const MONTHS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let at = MONTHS.iter().position(|month| name.get(..3) == Some(month))?;
    i8::try_from(at + 1).ok()
}

/// Parses `3pm`, `3:05pm`, `3:05 pm` and `15:05`.
fn parse_clock(words: &[&str]) -> Option<Time> {
    let (time, half) = match words {
        [time, half @ ("am" | "pm")] => (*time, Some(*half)),
        [time] => {
            match time.strip_suffix("am").map(|t| (t, "am")).or(time.strip_suffix("pm").map(|t| (t, "pm"))) {
                Some((time, half)) => (time, Some(half)),
                None => (*time, None),
            }
        }
        _ => return None,
    };
    let (hour, minute) = match time.split_once(':') {
        Some((hour, minute)) => (hour.parse::<i8>().ok()?, minute.parse::<i8>().ok()?),
        // A bare number is not a time of day.
        None => (time.parse::<i8>().ok().filter(|_| half.is_some())?, 0),
    };
    let hour = match half {
        Some(_) if !(1..=12).contains(&hour) => return None,
        Some("am") => hour % 12,
        Some(_) => hour % 12 + 12,
        None => hour,
    };
    Time::new(hour, minute, 0, 0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> TsNs {
        let time: Timestamp = text.parse().unwrap();
        TsNs(time.as_nanosecond().try_into().unwrap())
    }

    fn read(text: &str, now: &str) -> Option<String> {
        let until = parse_reset_time(text, at(now))?;
        Some(Timestamp::from_nanosecond(until.0.into()).unwrap().to_string())
    }

    #[test]
    fn time_of_day_is_the_next_one() {
        let now = "2026-11-22T02:00:00Z";
        for (text, expected) in [
            ("5:02am (UTC)", "2026-11-22T05:02:00Z"),
            ("3pm (UTC)", "2026-11-22T15:00:00Z"),
            ("3:05 PM (UTC)", "2026-11-22T15:05:00Z"),
            ("15:05 UTC", "2026-11-22T15:05:00Z"),
            ("12am (UTC)", "2026-11-23T00:00:00Z"),
            ("12pm (UTC)", "2026-11-22T12:00:00Z"),
            ("1:30am (UTC)", "2026-11-22T01:30:00Z"),
            ("12:59am (UTC)", "2026-11-23T00:59:00Z"),
        ] {
            assert_eq!(read(text, now).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(read("11:55pm (UTC)", "2026-11-22T00:10:00Z").as_deref(), Some("2026-11-21T23:55:00Z"));
    }

    #[test]
    fn date_without_year_is_resolved() {
        for (text, now, expected) in [
            ("Nov 25, 3:05am (UTC)", "2026-11-22T02:00:00Z", "2026-11-25T03:05:00Z"),
            ("Jan 2, 5pm (UTC)", "2026-12-30T02:00:00Z", "2027-01-02T17:00:00Z"),
            ("Dec 31 at 5pm (UTC)", "2027-01-01T02:00:00Z", "2026-12-31T17:00:00Z"),
            ("Jul 5th, 2026 8:19 PM (UTC)", "2026-06-05T02:00:00Z", "2026-07-05T20:19:00Z"),
        ] {
            assert_eq!(read(text, now).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn time_span_begins_now() {
        let now = "2026-11-22T02:00:00Z";
        for (text, expected) in [
            ("in 2 days 3 hours 5 minutes.", "2026-11-24T05:05:00Z"),
            ("1 hour and 5 minutes", "2026-11-22T03:05:00Z"),
            ("2h 5m", "2026-11-22T04:05:00Z"),
            ("1795312800", "2026-11-22T02:00:00Z"),
        ] {
            assert_eq!(read(text, now).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn ambiguous_time_is_not_guessed() {
        for text in [
            "3pm",
            "5:02 AM",
            "3pm (Europe/Berlin)",
            "Nov 25, 3:05am (Europe/Berlin)",
            "",
            "soon",
            "25:00 UTC",
            "13pm (UTC)",
            "3 UTC",
            "Feb 30, 3pm (UTC)",
            "in a while",
            "0 minutes",
            "99999999999999999999 days",
            "12345",
            "UTC",
        ] {
            assert_eq!(read(text, "2026-11-22T02:00:00Z"), None, "{text}");
        }
    }
}
