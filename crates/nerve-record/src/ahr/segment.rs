//! The records of one block, gathered before compression.

use nerve_types::TsNs;

use super::record::{Body, Record, RecordError};
use super::{MAX_SEGMENT, ROTATE_BYTES};

/// Records to be sealed into one block.
#[derive(Debug, Clone)]
pub struct Segment {
    bytes: Vec<u8>,
    records: u32,
    first_at: Option<TsNs>,
    /// Output bytes before the first DATA record.
    start: u64,
    /// Output bytes after the last one.
    end: u64,
    has_data: bool,
}

impl Segment {
    /// Creates an empty segment; `off` is the number of output bytes before it.
    pub fn new(off: u64) -> Segment {
        Segment { bytes: Vec::new(), records: 0, first_at: None, start: off, end: off, has_data: false }
    }

    /// Creates an empty segment with a start time, which the block gets even if no record follows.
    pub fn starting_at(off: u64, at: TsNs) -> Segment {
        Segment { first_at: Some(at), ..Segment::new(off) }
    }

    /// Adds a record.
    ///
    /// # Errors
    /// [`RecordError`] if it does not fit; the segment is unchanged.
    pub fn push(&mut self, record: &Record<'_>) -> Result<(), RecordError> {
        let len = record.encoded_len();
        if len > MAX_SEGMENT - self.bytes.len() {
            // Reported first, because such a label or payload fits into no segment.
            record.encode(&mut Vec::new())?;
            return Err(RecordError::Segment { len });
        }
        record.encode(&mut self.bytes)?;
        if self.records == 0 {
            self.first_at = Some(record.at);
        }
        self.records += 1;
        if let Body::Data { off, bytes } = record.body {
            if !self.has_data {
                self.start = off;
                self.has_data = true;
            }
            self.end = off.saturating_add(bytes.len() as u64);
        }
        Ok(())
    }

    /// Returns the uncompressed length in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns true if there is no record.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Returns the number of records.
    pub fn records(&self) -> u32 {
        self.records
    }

    /// Returns the time of the first record.
    pub fn first_at(&self) -> Option<TsNs> {
        self.first_at
    }

    /// Returns the output offset of its start.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Returns the output offset of its end.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns true if it should be sealed: it has at least [`ROTATE_BYTES`].
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= ROTATE_BYTES
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
