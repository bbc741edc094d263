//! Brotli (RFC 7932) with size limits, and the checksum of the stream.

use brotli::enc::encode::{BrotliEncoderDestroyInstance, BrotliEncoderOperation, BrotliEncoderStateStruct};
use brotli::enc::{BrotliEncoderMaxCompressedSize, BrotliEncoderParams, StandardAlloc};
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState};

use super::encoder_memory::EncoderMemory;
use super::header::Header;

/// Appends the Brotli stream of `segment` to `out`. `quality` is clamped to 11.
pub(super) fn compress(segment: &[u8], quality: u8, memory: &mut EncoderMemory, out: &mut Vec<u8>) {
    let mut encoder = BrotliEncoderStateStruct::new(std::mem::take(memory));
    encoder.params = BrotliEncoderParams {
        quality: i32::from(quality.min(11)),
        lgwin: window_for(segment.len(), quality),
        size_hint: segment.len(),
        ..BrotliEncoderParams::default()
    };
    let start = out.len();
    out.resize(start + BrotliEncoderMaxCompressedSize(segment.len()), 0);
    let (mut left, mut read, mut room, mut written) = (segment.len(), 0, out.len() - start, 0);
    let is_done = encoder.compress_stream(
        BrotliEncoderOperation::BROTLI_OPERATION_FINISH,
        &mut left,
        segment,
        &mut read,
        &mut room,
        &mut out[start..],
        &mut written,
        &mut None,
        &mut |_, _, _, _| {},
    );
    // There is room for the longest stream.
    debug_assert!(is_done && encoder.is_finished());
    out.truncate(start + written);
    BrotliEncoderDestroyInstance(&mut encoder);
    *memory = encoder.m8;
    memory.end_block();
}

/// Selects the smallest window that holds the segment, up to 18 bits. 18 bits for 256 KiB take half the time of
/// Brotli's default 22 at the same ratio, because the window's tables dominate the cost of a small block. From quality
/// 5 on, windows of at most 16 bits use a matcher that is ten times slower, so the minimum there is 17.
fn window_for(len: usize, quality: u8) -> i32 {
    const SHORTFALL: usize = 16; // RFC 7932 §9.1: a window of n bits holds 2^n - 16 bytes
    let smallest = if quality < 5 { 10 } else { 17 };
    (smallest..18).find(|&bits| len <= (1 << bits) - SHORTFALL).unwrap_or(18)
}

/// Decompresses `payload` to exactly `header.uncompressed` bytes.
///
/// # Errors
/// [`PayloadFault`] if the checksum or the length does not match the header, or the stream is not valid Brotli.
pub(super) fn decompress(header: &Header, payload: &[u8]) -> Result<Vec<u8>, PayloadFault> {
    if header.checksum.is_some_and(|checksum| checksum != crc32c::crc32c(payload)) {
        return Err(PayloadFault::Checksum);
    }
    // An empty Brotli stream is one byte, which a recorder may omit. If records are announced, the header is damaged.
    if payload.is_empty() && header.uncompressed == 0 && header.records == 0 {
        return Ok(Vec::new());
    }
    let claimed = header.uncompressed as usize;
    let mut segment = vec![0; claimed];
    let (mut left, mut read, mut room, mut written, mut total) = (payload.len(), 0, claimed, 0, 0);
    // Strict: rejects windows above the 24 bits of RFC 7932, which could require a gigabyte.
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

/// Reason why a payload cannot be decompressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum PayloadFault {
    #[error("the block's checksum does not match")]
    Checksum,
    #[error("the block does not decompress")]
    Brotli,
    #[error("the block decompresses to {got} bytes instead of the {claimed} it claims")]
    Short { got: usize, claimed: usize },
    #[error("the block decompresses to more than the {claimed} bytes it claims")]
    Long { claimed: usize },
    #[error("{0} bytes follow the block's compressed stream")]
    Trailing(usize),
}
