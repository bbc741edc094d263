//! The 44-byte header before each block's payload.

use nerve_types::TsNs;

use super::MAX_SEGMENT;

/// Bytes of a header on disk, even in files whose `header_len` says 48.
pub const HEADER_LEN: usize = 44;

/// `AHRC`.
pub(super) const MAGIC: [u8; 4] = *b"AHRC";

const VERSION: u16 = 1;
const HEADER_LEN_FIELD: u16 = 44;
const LAST: u8 = 1;
/// Value of byte 41 if bytes 37–40 hold the CRC-32C of the compressed payload.
const HAS_CHECKSUM: u8 = 1;

/// The header of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Format version; 1.
    pub version: u16,
    /// Header length claimed by the file: 44, or 48 from an older recorder. Unreliable.
    pub header_len: u16,
    /// Time of the first record; for an empty block its creation time, or zero.
    pub start: TsNs,
    /// Output bytes before the block's first DATA record.
    pub start_off: u64,
    /// Uncompressed bytes of the segment.
    pub uncompressed: u32,
    /// Bytes of the Brotli stream.
    pub compressed: u32,
    /// Number of records in the segment.
    pub records: u32,
    /// The recorder finished with this block. Its absence proves nothing.
    pub last: bool,
    /// CRC-32C of the compressed payload; missing in files of older recorders.
    pub checksum: Option<u32>,
}

impl Header {
    /// Creates the header of a new block in the current format.
    pub(super) fn new(start: TsNs, start_off: u64) -> Header {
        Header {
            version: VERSION,
            header_len: HEADER_LEN_FIELD,
            start,
            start_off,
            uncompressed: 0,
            compressed: 0,
            records: 0,
            last: false,
            checksum: None,
        }
    }

    /// Encodes the header.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&self.version.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.header_len.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.start.0.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.start_off.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.uncompressed.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.compressed.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.records.to_le_bytes());
        bytes[36] = if self.last { LAST } else { 0 };
        if let Some(checksum) = self.checksum {
            bytes[37..41].copy_from_slice(&checksum.to_le_bytes());
            bytes[41] = HAS_CHECKSUM;
        }
        bytes
    }

    /// Decodes a header and checks magic, version and lengths (at most [`MAX_SEGMENT`]).
    ///
    /// # Errors
    /// [`HeaderFault`].
    pub(super) fn decode(bytes: &[u8; HEADER_LEN]) -> Result<Header, HeaderFault> {
        let header = Header::fields(bytes);
        if bytes[0..4] != MAGIC {
            return Err(HeaderFault::NoMagic);
        }
        if header.version != VERSION {
            return Err(HeaderFault::Version(header.version));
        }
        let claim = header.uncompressed.max(header.compressed);
        if claim as usize > MAX_SEGMENT {
            return Err(HeaderFault::TooLong(claim));
        }
        Ok(header)
    }

    fn fields(bytes: &[u8; HEADER_LEN]) -> Header {
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        Header {
            version: u16_at(4),
            header_len: u16_at(6),
            start: TsNs(u64_at(8)),
            start_off: u64_at(16),
            uncompressed: u32_at(24),
            compressed: u32_at(28),
            records: u32_at(32),
            last: bytes[36] & LAST != 0,
            checksum: (bytes[41] == HAS_CHECKSUM).then(|| u32_at(37)),
        }
    }
}

/// Reason why bytes are not a valid header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum HeaderFault {
    #[error("no block begins here")]
    NoMagic,
    #[error("the block is of the unknown version {0}")]
    Version(u16),
    #[error("the block claims {0} bytes, more than the {max} one may have", max = MAX_SEGMENT)]
    TooLong(u32),
}
