//! Brotli (RFC 7932) within bounds, and the checksum over it.

use std::fmt;

use brotli::enc::{BrotliEncoderParams, StandardAlloc};
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState};

use super::header::Header;

/// Appends the Brotli stream of `segment` to `out`. `quality` above 11 is taken as 11.
pub(super) fn compress(segment: &[u8], quality: u8, out: &mut Vec<u8>) {
    let params = BrotliEncoderParams {
        quality: i32::from(quality.min(11)),
        lgwin: window_for(segment.len(), quality),
        size_hint: segment.len(),
        ..BrotliEncoderParams::default()
    };
    let mut input = segment;
    let compressed = brotli::BrotliCompress(&mut input, out, &params);
    // Reading a slice and writing a Vec do not fail, and no other error is there.
    debug_assert!(compressed.is_ok(), "{compressed:?}");
}

/// The smallest window that holds the segment, up to 18 bits: 18 for 256 KiB costs half the time of Brotli's default 22 at
/// the same ratio, and the window's tables are most of the cost of a small block. From quality 5 on, windows of 16 bits
/// and less have a matcher that is ten times slower for nothing, so there it is 17 at least.
fn window_for(len: usize, quality: u8) -> i32 {
    const SHORTFALL: usize = 16; // RFC 7932 §9.1: a window of n bits holds 2^n - 16 bytes
    let smallest = if quality < 5 { 10 } else { 17 };
    (smallest..18).find(|&bits| len <= (1 << bits) - SHORTFALL).unwrap_or(18)
}

/// Decompresses `payload` as `header` describes it: never to more than `header.uncompressed` bytes.
///
/// # Errors
/// [`PayloadFault`] when the checksum or the length is not what the header says, or it is no Brotli stream.
pub(super) fn decompress(header: &Header, payload: &[u8]) -> Result<Vec<u8>, PayloadFault> {
    if header.checksum.is_some_and(|checksum| checksum != crc32c::crc32c(payload)) {
        return Err(PayloadFault::Checksum);
    }
    // Brotli's nothing is one byte, which a recorder may leave out. With records announced it is a header gone wrong.
    if payload.is_empty() && header.uncompressed == 0 && header.records == 0 {
        return Ok(Vec::new());
    }
    let claimed = header.uncompressed as usize;
    let mut segment = vec![0; claimed];
    let (mut left, mut read, mut room, mut written, mut total) = (payload.len(), 0, claimed, 0, 0);
    // Strict: no windows beyond RFC 7932's 24 bits, which could ask for a gigabyte.
    let mut state =
        BrotliState::new_strict(StandardAlloc::default(), StandardAlloc::default(), StandardAlloc::default());
    let result = BrotliDecompressStream(
        &mut left,
        &mut read,
        payload,
        &mut room,
        &mut written,
        &mut segment,
        &mut total,
        &mut state,
    );
    match result {
        BrotliResult::ResultSuccess if room > 0 => Err(PayloadFault::Short { got: written, claimed }),
        BrotliResult::ResultSuccess if left > 0 => Err(PayloadFault::Trailing(left)),
        BrotliResult::ResultSuccess => Ok(segment),
        BrotliResult::NeedsMoreOutput => Err(PayloadFault::Long { claimed }),
        BrotliResult::NeedsMoreInput | BrotliResult::ResultFailure => Err(PayloadFault::Brotli),
    }
}

/// Why a payload gives no segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PayloadFault {
    Checksum,
    Brotli,
    Short { got: usize, claimed: usize },
    Long { claimed: usize },
    Trailing(usize),
}

impl fmt::Display for PayloadFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PayloadFault::Checksum => f.write_str("the block's checksum does not match"),
            PayloadFault::Brotli => f.write_str("the block does not decompress"),
            PayloadFault::Short { got, claimed } => {
                write!(f, "the block decompresses to {got} bytes instead of the {claimed} it claims")
            }
            PayloadFault::Long { claimed } => {
                write!(f, "the block decompresses to more than the {claimed} bytes it claims")
            }
            PayloadFault::Trailing(left) => write!(f, "{left} bytes follow the block's compressed stream"),
        }
    }
}
