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

/// A duration in seconds, fractions allowed: more than 0, at most a year.
#[derive(Debug, Clone, Copy)]
pub struct Seconds(pub Duration);

impl FromStr for Seconds {
    type Err = String;
    fn from_str(text: &str) -> Result<Seconds, String> {
        let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds".to_string())?;
        if seconds > 0.0 && seconds <= 31_536_000.0 {
            return Ok(Seconds(Duration::from_secs_f64(seconds)));
        }
        Err("must be more than 0 and at most a year".to_string())
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
