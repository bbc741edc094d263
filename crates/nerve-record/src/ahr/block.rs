//! A block that was read: its header and its records.

use std::ops::Range;

use super::header::{HEADER_LEN, Header};
use super::lost::Lost;
use super::record::{Body, Record};

/// An intact block, decompressed.
#[derive(Debug, Clone)]
pub struct Block {
    /// Where it begins in the file.
    pub file_off: u64,
    /// What it says of itself.
    pub header: Header,
    /// Bytes of the header on disk: 44, or 48.
    header_len: usize,
    segment: Vec<u8>,
    /// So much of the segment is records.
    parsed: usize,
    count: u32,
    output: Range<u64>,
    damage: Option<Lost>,
}

impl Block {
    /// Walks the segment's records once, so that all that is wrong with them is known before anybody uses them.
    pub(super) fn parse(file_off: u64, header: Header, header_len: usize, segment: Vec<u8>) -> Block {
        let mut walk = Walk::over(&segment);
        while walk.step() {}
        let (parsed, count) = (walk.at, walk.count);
        let output = walk.output.clone().unwrap_or(header.start_off..header.start_off);
        let reason = walk.fault.take().or_else(|| disagreement(&header, count, &output));
        let mut block = Block { file_off, header, header_len, segment, parsed, count, output, damage: None };
        block.damage = reason.map(|reason| Lost {
            file: block.file(),
            // Records that follow an unknown one may have been output; a wrong number in the header costs nothing.
            output: (block.parsed == block.segment.len()).then_some(block.output.end..block.output.end),
            after: Some(block.output.end),
            tail: false,
            reason,
        });
        block
    }

    /// The records, in the order they were written.
    pub fn records(&self) -> Records<'_> {
        Records { rest: &self.segment[..self.parsed] }
    }

    /// How many [`Block::records`] gives.
    pub fn record_count(&self) -> u32 {
        self.count
    }

    /// What could not be parsed, or does not agree with the header. The records before it are good.
    pub fn damage(&self) -> Option<&Lost> {
        self.damage.as_ref()
    }

    /// Its place in the file, header included.
    pub fn file(&self) -> Range<u64> {
        self.file_off..self.file_off + self.header_len as u64 + u64::from(self.header.compressed)
    }

    /// Output offsets of its DATA records, from the first byte to behind the last; empty where there is none.
    pub fn output(&self) -> Range<u64> {
        self.output.clone()
    }

    /// Whether its bytes are as this version of the format has them, fit to be copied.
    pub(super) fn is_clean(&self) -> bool {
        self.header_len == HEADER_LEN && self.damage.is_none()
    }

    /// Whether the segment is what an intact block can have: a record, or nothing at all.
    pub(super) fn is_plausible(&self) -> bool {
        self.count > 0 || self.segment.is_empty()
    }
}

fn disagreement(header: &Header, count: u32, output: &Range<u64>) -> Option<String> {
    if header.records != count {
        return Some(format!("the header says {} records, the block has {count}", header.records));
    }
    (header.start_off != output.start).then(|| {
        format!(
            "the header says output begins at byte {}, its records say {}",
            header.start_off, output.start
        )
    })
}

/// The first pass over a segment.
struct Walk<'a> {
    segment: &'a [u8],
    at: usize,
    count: u32,
    output: Option<Range<u64>>,
    fault: Option<String>,
}

impl<'a> Walk<'a> {
    fn over(segment: &'a [u8]) -> Walk<'a> {
        Walk { segment, at: 0, count: 0, output: None, fault: None }
    }

    /// Takes one record; false at the end or at a fault.
    fn step(&mut self) -> bool {
        let rest = &self.segment[self.at..];
        if rest.is_empty() {
            return false;
        }
        let (record, len) = match Record::decode(rest) {
            Ok(read) => read,
            Err(fault) => {
                self.fault = Some(format!("{fault}, {} bytes of records are not read", rest.len()));
                return false;
            }
        };
        if let Body::Data { off, bytes } = record.body {
            let start = self.output.as_ref().map_or(off, |output| output.start);
            self.output = Some(start..off.saturating_add(bytes.len() as u64).max(start));
        }
        self.at += len;
        self.count += 1;
        true
    }
}

/// The records of a [`Block`].
#[derive(Debug, Clone)]
pub struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        // Only parsed bytes are here, so an error can be but the end.
        let (record, len) = Record::decode(self.rest).ok()?;
        self.rest = &self.rest[len..];
        Some(record)
    }
}
