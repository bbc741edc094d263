//! Numbers of bytes that people write, such as `500M`.

use std::fmt;
use std::str::FromStr;

/// Units of 1024, 1024² …
const UNITS: [&str; 5] = ["", "K", "M", "G", "T"];

/// A number of bytes, written with K, M, G or T for powers of 1024, or without a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteCount(pub u64);

/// A text that is no [`ByteCount`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidByteCount {
    /// It has another form.
    #[error("expected a number of bytes such as 1000, 500M or 2G")]
    Form,
    /// The number is too large.
    #[error("exceeds 64 bits")]
    TooLarge,
}

impl FromStr for ByteCount {
    type Err = InvalidByteCount;

    fn from_str(text: &str) -> Result<ByteCount, InvalidByteCount> {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let unit = unit.trim_end_matches("iB").trim_end_matches('B');
        let shift = UNITS.iter().position(|known| unit.eq_ignore_ascii_case(known));
        let factor = 1_u64 << (10 * shift.ok_or(InvalidByteCount::Form)?);
        let number: u64 = number.parse().map_err(|_| InvalidByteCount::Form)?;
        number.checked_mul(factor).map(ByteCount).ok_or(InvalidByteCount::TooLarge)
    }
}

impl fmt::Display for ByteCount {
    /// Writes the number exactly, with the largest unit that divides it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ByteCount(mut number) = *self;
        let mut unit = 0;
        while number > 0 && number.is_multiple_of(1024) && unit + 1 < UNITS.len() {
            number /= 1024;
            unit += 1;
        }
        write!(f, "{number}{}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_count_accepts_binary_units() {
        let bytes = |text: &str| text.parse::<ByteCount>().map(|size| size.0);
        assert_eq!(bytes("0"), Ok(0));
        assert_eq!(bytes("1000"), Ok(1000));
        assert_eq!(bytes("1000B"), Ok(1000));
        for text in ["2k", "2K", "2KB", "2KiB"] {
            assert_eq!(bytes(text), Ok(2048), "{text}");
        }
        assert_eq!(bytes("1G"), Ok(1 << 30));
        assert_eq!(bytes("16777215T"), Ok(16_777_215 << 40));
        for text in ["", "G", "-1", "1.5G", "1 G", "1X", "1GG", "16777216T", "99999999999999999999"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn byte_count_is_written_exactly() {
        for (number, text) in
            [(0, "0"), (1000, "1000"), (2048, "2K"), (10 << 30, "10G"), (u64::MAX, "18446744073709551615")]
        {
            assert_eq!(ByteCount(number).to_string(), text);
            assert_eq!(text.parse(), Ok(ByteCount(number)));
        }
    }
}
