//! The times of `--since`.

use anyhow::{Context, Result};
use jiff::civil::Date;
use jiff::{Timestamp, Zoned};
use nerve_cli::recording::Age;

use crate::exit::{Failure, USAGE};

/// Parses a time, in milliseconds since the Unix epoch. Days begin at midnight in the time zone of `now`.
pub(super) fn parse(text: &str, now: &Zoned) -> Result<u64> {
    let midnight = |date: Date| date.to_zoned(now.time_zone().clone()).map(|day| day.timestamp());
    let time = match text {
        "today" => midnight(now.date()),
        "yesterday" => now.date().yesterday().and_then(midnight),
        _ => match (text.parse::<Date>(), text.parse::<Timestamp>(), text.parse::<Age>()) {
            // A time begins with a date too.
            (_, Ok(time), _) => Ok(time),
            (Ok(date), ..) => midnight(date),
            (_, _, Ok(Age(age))) => now.timestamp().checked_sub(age),
            _ => {
                let message = format!("--since '{text}' is not a time");
                let hint = "give today, yesterday, 12h, 30d, 2026-01-31 or 2026-01-31T10:30:00Z";
                return Err(Failure::new(USAGE, message).hint(hint).into());
            }
        },
    };
    let time = time.with_context(|| format!("--since '{text}' is out of range"))?;
    Ok(u64::try_from(time.as_millisecond()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_accepts_words_spans_dates_and_times() {
        let now: Zoned = "2026-03-10T15:00:00+01:00[Europe/Berlin]".parse().unwrap();
        let at = |text: &str| Timestamp::from_millisecond(i64::try_from(parse(text, &now).unwrap()).unwrap());
        let cases = [
            ("today", "2026-03-09T23:00:00Z"),
            ("yesterday", "2026-03-08T23:00:00Z"),
            ("2026-01-31", "2026-01-30T23:00:00Z"),
            ("12h", "2026-03-10T02:00:00Z"),
            ("2026-01-31T10:30:00Z", "2026-01-31T10:30:00Z"),
        ];
        for (text, expected) in cases {
            assert_eq!(at(text).unwrap().to_string(), expected, "{text}");
        }
        assert!(parse("soon", &now).is_err());
    }
}
