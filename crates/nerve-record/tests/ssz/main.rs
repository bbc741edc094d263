//! Tests of the recorder's wire format, byte for byte.
#![expect(clippy::unwrap_used, reason = "a failing test panics")]

mod event;
mod frame;
mod snapshot;

/// Parses a hex dump; spaces are ignored.
fn hex(dump: &str) -> Vec<u8> {
    let digits: Vec<u8> = dump.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}
