//! Values on the command line: names of enums, durations, environment variables.

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use nerve_types::Size;
use strum::{EnumMessage, VariantNames};

/// Columns of a terminal.
pub const COLS: RangeInclusive<i64> = Size::MIN.cols as i64..=Size::MAX.cols as i64;
/// Rows of a terminal.
pub const ROWS: RangeInclusive<i64> = Size::MIN.rows as i64..=Size::MAX.rows as i64;

/// Returns a parser for values of the protocol. The help lists the values.
pub fn one_of<T>(
    values: impl IntoIterator<Item = impl Into<PossibleValue>>,
) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err: std::error::Error + Send + Sync> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(values).try_map(|name| name.parse::<T>())
}

/// Returns the values of an enum of the protocol with their descriptions.
pub(crate) fn described_values<T: FromStr + EnumMessage + VariantNames>()
-> impl Iterator<Item = PossibleValue> {
    T::VARIANTS.iter().map(|name| {
        let value = name.parse::<T>().ok();
        let description = value.and_then(|value| value.get_documentation()).unwrap_or_default();
        PossibleValue::new(name).help(description.trim_end_matches('.'))
    })
}

/// Units of time, in seconds.
pub const TIME_UNITS: [(&str, u32); 5] = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400), ("w", 604_800)];

/// Parses a number with an optional unit; returns it multiplied by the factor of the unit.
fn parse_scaled(text: &str, units: &[(&str, u32)]) -> Option<f64> {
    let with_unit = |(name, factor): &(&str, u32)| {
        Some(text.strip_suffix(name)?.parse::<f64>().ok()? * f64::from(*factor))
    };
    text.parse().ok().or_else(|| units.iter().find_map(with_unit))
}

/// A duration in seconds or with a unit, fractions allowed: more than 0, at most a year.
#[derive(Debug, Clone, Copy)]
pub struct DurationArg(pub Duration);

impl FromStr for DurationArg {
    type Err = String;
    fn from_str(text: &str) -> Result<DurationArg, String> {
        let seconds = parse_scaled(text, &TIME_UNITS)
            .ok_or_else(|| "expected a number of seconds, or a time such as 90s, 10m or 2h".to_string())?;
        if seconds > 0.0 && seconds <= 31_536_000.0 {
            return Ok(DurationArg(Duration::from_secs_f64(seconds)));
        }
        Err("must be more than 0 and at most a year".to_string())
    }
}

/// A number of tokens, optionally with k, M or G for powers of 1000; at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenCount(pub u64);

impl FromStr for TokenCount {
    type Err = String;
    fn from_str(text: &str) -> Result<TokenCount, String> {
        const UNITS: [(&str, u32); 4] = [("k", 1000), ("K", 1000), ("M", 1_000_000), ("G", 1_000_000_000)];
        let wrong = || "expected a number of tokens, at least 1, such as 200000, 500k or 2M".to_string();
        let count = parse_scaled(text, &UNITS).ok_or_else(wrong)?;
        // A fraction such as 2.01 is not exact in binary. Beyond 2^53 no number is.
        let whole = count.round();
        let is_valid = (1.0..=9e15).contains(&whole) && (count - whole).abs() < 1e-6 * whole;
        is_valid.then_some(TokenCount(whole as u64)).ok_or_else(wrong)
    }
}

/// An environment variable, written as `KEY=VALUE`.
#[derive(Debug, Clone)]
pub struct EnvPair {
    /// Name of the variable.
    pub key: String,
    /// Value of the variable.
    pub value: String,
}

impl FromStr for EnvPair {
    type Err = String;
    fn from_str(text: &str) -> Result<EnvPair, String> {
        match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => {
                Ok(EnvPair { key: key.to_string(), value: value.to_string() })
            }
            _ => Err("expected KEY=VALUE".to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let seconds = |text: &str| text.parse::<DurationArg>().map(|DurationArg(time)| time.as_secs_f64());
        for (text, expected) in
            [("90", 90.0), ("1.5", 1.5), ("10m", 600.0), ("1.5h", 5400.0), ("30d", 2_592_000.0)]
        {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for text in ["", "m", "-1", "0", "-5m", "10x", "1h30m", "53w", "inf", "nan"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn token_counts_have_units() {
        for (text, expected) in [("1", 1), ("200000", 200_000), ("500k", 500_000), ("1.5M", 1_500_000)] {
            assert_eq!(text.parse(), Ok(TokenCount(expected)), "{text}");
        }
        for text in ["", "0", "-1", "0.5", "1.5", "2T", "M", "1e300", "nan"] {
            assert!(text.parse::<TokenCount>().is_err(), "{text}");
        }
    }
}
