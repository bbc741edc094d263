//! Tests of recordings through the public interface: in memory for the format, in real files for the writer.
#![expect(clippy::unwrap_used, reason = "a failing test panics")]

mod contradictions;
mod damage;
mod embedded;
mod fixtures;
mod full_disk;
mod live;
mod lookup;
mod properties;
mod read_ahead;
mod repair;
mod sha256;
mod sidecars;
mod store;
mod writer;

use std::io::Cursor;
use std::path::PathBuf;

use nerve_record::ahr::{Block, Body, DamagedRange, HEADER_LEN, Part, Reader, Record, Segment};
use nerve_types::TsNs;

/// 2025-10-09T08:53:20Z.
const START: u64 = 1_760_000_000_000_000_000;

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/ahr").join(name)
}

/// Returns the time `millis` milliseconds after [`START`].
fn at(millis: u64) -> TsNs {
    TsNs(START + millis * 1_000_000)
}

fn data(millis: u64, off: u64, bytes: &[u8]) -> Record<'_> {
    Record { at: at(millis), body: Body::Data { off, bytes } }
}

/// Encodes one sealed block of these records.
fn sealed(records: &[Record<'_>]) -> Vec<u8> {
    let mut segment = Segment::new(0);
    for record in records {
        segment.push(record).unwrap();
    }
    segment.seal(4, false)
}

/// Encodes blocks of one DATA record each with continuous offsets; block `n` contains `n` copies of its byte.
fn counting(blocks: &[u8]) -> Vec<Vec<u8>> {
    let mut off = 0;
    blocks
        .iter()
        .map(|&n| {
            let bytes = vec![n; 100 + usize::from(n)];
            let block = sealed(&[data(u64::from(n) * 10, off, &bytes)]);
            off += bytes.len() as u64;
            block
        })
        .collect()
}

/// Encodes a block of arbitrary bytes without a checksum, as other recorders do.
fn foreign(segment: &[u8], records: u32, window: i32) -> Vec<u8> {
    let params = brotli::enc::BrotliEncoderParams { lgwin: window, quality: 5, ..Default::default() };
    let mut payload = Vec::new();
    brotli::BrotliCompress(&mut { segment }, &mut payload, &params).unwrap();
    let mut block = Vec::from(*b"AHRC\x01\x00\x30\x00");
    block.extend(START.to_le_bytes());
    block.extend(0_u64.to_le_bytes());
    block.extend(u32::try_from(segment.len()).unwrap().to_le_bytes());
    block.extend(u32::try_from(payload.len()).unwrap().to_le_bytes());
    block.extend(records.to_le_bytes());
    block.extend([0; 8]);
    assert_eq!(block.len(), HEADER_LEN);
    block.extend(payload);
    block
}

/// Generates incompressible bytes, which Brotli stores verbatim. Deterministic for a seed.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..len).map(|_| next()).collect()
}

/// Overwrites a number in a block's header.
fn patch<const N: usize>(block: &mut [u8], offset: usize, bytes: [u8; N]) {
    block[offset..offset + N].copy_from_slice(&bytes);
}

/// Reads all parts.
fn read(bytes: impl AsRef<[u8]>) -> Vec<Part> {
    let mut reader = Reader::new(Cursor::new(bytes)).unwrap();
    let mut parts = Vec::new();
    while let Some(part) = reader.next().unwrap() {
        parts.push(part);
    }
    parts
}

fn blocks(parts: &[Part]) -> Vec<&Block> {
    parts
        .iter()
        .filter_map(|part| match part {
            Part::Block(block) => Some(block),
            Part::Lost(_) => None,
        })
        .collect()
}

fn lost(parts: &[Part]) -> Vec<&DamagedRange> {
    parts
        .iter()
        .filter_map(|part| match part {
            Part::Lost(lost) => Some(lost),
            Part::Block(_) => None,
        })
        .collect()
}

fn records(parts: &[Part]) -> Vec<Record<'_>> {
    blocks(parts).into_iter().flat_map(Block::records).collect()
}

fn output(parts: &[Part]) -> Vec<u8> {
    let mut output = Vec::new();
    for record in records(parts) {
        if let Body::Data { bytes, .. } = record.body {
            output.extend_from_slice(bytes);
        }
    }
    output
}

/// Summarizes parts for comparison: `B` a block, `L` a loss.
fn shape(parts: &[Part]) -> String {
    parts.iter().map(|part| if matches!(part, Part::Block(_)) { 'B' } else { 'L' }).collect()
}
