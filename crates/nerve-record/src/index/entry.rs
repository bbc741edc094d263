//! Encoding of the index sidecar: a head, a table of blocks, a table of keyframes, and the keyframes' dumps. All
//! numbers are little-endian; the head and every entry end with a CRC-32C of the preceding bytes.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;

use nerve_types::{Size, TsNs};
use nerve_vt::terminal::{HiddenFlags, HiddenState, Keyframe};

/// Maximum bytes of a keyframe's dump.
pub(super) const MAX_DUMP: usize = 16 << 20;
const MAGIC: [u8; 4] = *b"AHRX";
/// A sidecar of another version is rebuilt.
const VERSION: u32 = 1;
/// Bytes at the start and the end of the covered part that must be unchanged.
const SAMPLE: u64 = 4096;

/// A fixed-size part of the sidecar.
pub(super) trait Entry: Sized {
    /// Encoded length, checksum included.
    const LEN: usize;

    fn put(&self, out: &mut Vec<u8>);

    fn take(fields: &mut Fields<'_>) -> Option<Self>;

    fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        self.put(out);
        out.resize(start + Self::LEN - 4, 0);
        let checksum = crc32c::crc32c(&out[start..]);
        out.extend(checksum.to_le_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, checksum) = bytes.split_last_chunk::<4>()?;
        (crc32c::crc32c(body) == u32::from_le_bytes(*checksum)).then(|| Self::take(&mut Fields(body)))?
    }
}

/// The bytes not yet decoded.
pub(super) struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u16(&mut self) -> Option<u16> {
        self.bytes().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_le_bytes)
    }
}

/// The head of the sidecar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Head {
    /// Bytes of the recording that are indexed, up to the end of a block.
    pub(super) covered: u64,
    /// Checksums of samples of the covered part.
    pub(super) samples: [u32; 2],
    /// Lengths of the two tables.
    pub(super) blocks: u32,
    pub(super) frames: u32,
    /// One of `stride` blocks is listed; `skipped` counts those since the last listed one.
    pub(super) stride: u32,
    pub(super) skipped: u32,
    /// Output bytes and latest time of the covered part.
    pub(super) end_off: u64,
    pub(super) end_at: TsNs,
}

impl Entry for Head {
    const LEN: usize = 64;

    fn put(&self, out: &mut Vec<u8>) {
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend(self.covered.to_le_bytes());
        for number in [self.samples[0], self.samples[1], self.blocks, self.frames, self.stride, self.skipped]
        {
            out.extend(number.to_le_bytes());
        }
        out.extend(self.end_off.to_le_bytes());
        out.extend(self.end_at.0.to_le_bytes());
    }

    fn take(fields: &mut Fields<'_>) -> Option<Head> {
        if fields.bytes()? != MAGIC || fields.u32()? != VERSION {
            return None;
        }
        Some(Head {
            covered: fields.u64()?,
            samples: [fields.u32()?, fields.u32()?],
            blocks: fields.u32()?,
            frames: fields.u32()?,
            stride: fields.u32()?,
            skipped: fields.u32()?,
            end_off: fields.u64()?,
            end_at: TsNs(fields.u64()?),
        })
    }
}

impl Head {
    /// Reads the head; `None` unless both tables are complete.
    pub(super) fn read(file: &File) -> Option<Head> {
        let mut bytes = [0; Head::LEN];
        file.read_exact_at(&mut bytes, 0).ok()?;
        let head = Head::decode(&bytes)?;
        let tables = head.frames_at() + u64::from(head.frames) * FrameEntry::LEN as u64;
        (file.metadata().ok()?.len() >= tables && head.stride > 0).then_some(head)
    }

    pub(super) fn blocks_at(&self) -> u64 {
        Head::LEN as u64
    }

    pub(super) fn frames_at(&self) -> u64 {
        self.blocks_at() + u64::from(self.blocks) * BlockEntry::LEN as u64
    }

    /// Returns true if the samples of the recording are unchanged.
    pub(super) fn fits(&self, recording: &File) -> bool {
        samples(recording, self.covered) == Some(self.samples)
    }
}

/// Computes the checksums of the first and the last covered bytes.
pub(super) fn samples(recording: &File, covered: u64) -> Option<[u32; 2]> {
    let len = covered.min(SAMPLE);
    let mut bytes = vec![0; usize::try_from(len).ok()?];
    recording.read_exact_at(&mut bytes, 0).ok()?;
    let first = crc32c::crc32c(&bytes);
    recording.read_exact_at(&mut bytes, covered - len).ok()?;
    Some([first, crc32c::crc32c(&bytes)])
}

/// The position of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockEntry {
    /// File offset.
    pub file_off: u64,
    /// Time of its first record; never before that of the previous block.
    pub at: TsNs,
    /// Output bytes before it.
    pub offset: u64,
}

impl Entry for BlockEntry {
    const LEN: usize = 32;

    fn put(&self, out: &mut Vec<u8>) {
        for number in [self.file_off, self.at.0, self.offset] {
            out.extend(number.to_le_bytes());
        }
    }

    fn take(fields: &mut Fields<'_>) -> Option<BlockEntry> {
        Some(BlockEntry { file_off: fields.u64()?, at: TsNs(fields.u64()?), offset: fields.u64()? })
    }
}

/// A position to resume reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// File offset of a block.
    pub block: u64,
    /// Number of its records to skip.
    pub records: u32,
}

/// A keyframe and the position of its dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameEntry {
    pub(super) place: Place,
    pub(super) at: TsNs,
    pub(super) offset: u64,
    pub(super) first_line: u64,
    pub(super) size: Size,
    pub(super) hidden: HiddenState,
    /// Sidecar offset of the compressed dump.
    pub(super) dump_at: u64,
    pub(super) dump_len: u32,
    pub(super) dump_checksum: u32,
}

impl Entry for FrameEntry {
    const LEN: usize = 80;

    fn put(&self, out: &mut Vec<u8>) {
        for number in [self.place.block, self.at.0, self.offset, self.first_line, self.dump_at] {
            out.extend(number.to_le_bytes());
        }
        let last_char = self.hidden.last_char.map_or(0, u32::from);
        for number in [self.place.records, self.dump_len, self.dump_checksum, last_char] {
            out.extend(number.to_le_bytes());
        }
        out.extend(self.size.cols.to_le_bytes());
        out.extend(self.size.rows.to_le_bytes());
        out.push(self.hidden.flags.bits());
    }

    fn take(fields: &mut Fields<'_>) -> Option<FrameEntry> {
        let [block, at, offset, first_line, dump_at] =
            [fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?];
        let [records, dump_len, dump_checksum, last_char] =
            [fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?];
        let size = Size::new(fields.u16()?, fields.u16()?);
        let [flags] = fields.bytes()?;
        let hidden = HiddenState {
            last_char: char::from_u32(last_char).filter(|char| *char != '\0'),
            flags: HiddenFlags::from_bits_truncate(flags),
        };
        let (place, at) = (Place { block, records }, TsNs(at));
        Some(FrameEntry { place, at, offset, first_line, size, hidden, dump_at, dump_len, dump_checksum })
    }
}

impl FrameEntry {
    /// Reads the compressed dump; `None` if it is damaged.
    pub(super) fn packed(&self, sidecar: &File) -> Option<Vec<u8>> {
        let len = usize::try_from(self.dump_len).ok().filter(|len| *len <= MAX_DUMP)?;
        let end = self.dump_at.checked_add(len as u64)?;
        if end > sidecar.metadata().ok()?.len() {
            return None;
        }
        let mut packed = vec![0; len];
        sidecar.read_exact_at(&mut packed, self.dump_at).ok()?;
        (crc32c::crc32c(&packed) == self.dump_checksum).then_some(packed)
    }

    pub(super) fn keyframe(&self, sidecar: &File) -> Option<Keyframe> {
        let packed = self.packed(sidecar)?;
        let mut dump = Vec::new();
        let most = MAX_DUMP as u64 + 1;
        brotli::Decompressor::new(packed.as_slice(), 4096).take(most).read_to_end(&mut dump).ok()?;
        (dump.len() <= MAX_DUMP).then_some(Keyframe {
            at: self.at,
            offset: self.offset,
            first_line: self.first_line,
            size: self.size,
            dump,
            hidden: self.hidden,
        })
    }
}
