//! Encodes segments as blocks, one after the other.

use super::encoder_memory::EncoderMemory;
use super::header::{HEADER_LEN, Header};
use super::payload;
use super::segment::Segment;

/// An encoder of blocks. Keeps 1 to 2 MiB of memory for the next block.
#[derive(Debug, Default)]
pub struct Sealer {
    memory: EncoderMemory,
}

impl Sealer {
    /// Encodes a block: header and Brotli stream. `quality` is 0–11, higher is slower; `last` marks the final block of
    /// a recording.
    pub fn seal(&mut self, segment: &Segment, quality: u8, last: bool) -> Vec<u8> {
        let mut block = vec![0; HEADER_LEN];
        payload::compress(segment.bytes(), quality, &mut self.memory, &mut block);
        let payload = &block[HEADER_LEN..];
        let header = Header {
            // Both are far below u32::MAX: `Segment::push` enforces MAX_SEGMENT, and Brotli adds a few bytes at most.
            uncompressed: u32::try_from(segment.len()).unwrap_or(u32::MAX),
            compressed: u32::try_from(payload.len()).unwrap_or(u32::MAX),
            records: segment.records(),
            last,
            checksum: Some(crc32c::crc32c(payload)),
            ..Header::new(segment.first_at().unwrap_or_default(), segment.start())
        };
        block[..HEADER_LEN].copy_from_slice(&header.encode());
        block
    }

    /// Releases the memory that is kept for the next block.
    pub fn release(&mut self) {
        self.memory = EncoderMemory::default();
    }
}

impl Segment {
    /// Encodes one block: see [`Sealer::seal`].
    pub fn seal(&self, quality: u8, last: bool) -> Vec<u8> {
        Sealer::default().seal(self, quality, last)
    }
}

#[cfg(test)]
mod tests {
    use nerve_types::TsNs;

    use super::*;
    use crate::ahr::{Body, Record};

    #[test]
    fn reused_memory_does_not_change_blocks() {
        let mut sealer = Sealer::default();
        for (nth, quality) in [4, 2, 4, 9, 3, 11, 0, 1, 4].into_iter().enumerate() {
            let bytes: Vec<u8> =
                (0..60_000 * (nth % 3) + 7).map(|at| u8::try_from(at * at % (251 - nth)).unwrap()).collect();
            let mut segment = Segment::new(0);
            segment.push(&Record { at: TsNs(1), body: Body::Data { off: 0, bytes: &bytes } }).unwrap();
            assert_eq!(sealer.seal(&segment, quality, false), segment.seal(quality, false), "block {nth}");
        }
    }
}
