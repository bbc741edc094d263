//! An intact block as read from a file: its header and records.

use std::ops::Range;

use nerve_types::TsNs;

use super::contradiction::Contradiction;
use super::damaged_range::DamagedRange;
use super::header::{HEADER_LEN, Header};
use super::record::{Body, Record};

/// An intact block, decompressed.
#[derive(Debug, Clone)]
pub struct Block {
    /// File offset of the block.
    pub file_off: u64,
    /// The block's header.
    pub header: Header,
    /// Bytes of the header on disk: 44, or 48.
    header_len: usize,
    segment: Vec<u8>,
    /// Bytes of the segment that were parsed as records.
    parsed: usize,
    count: u32,
    output: Range<u64>,
    damage: Option<DamagedRange>,
    contradictions: Vec<Contradiction>,
    /// Limits of the records' times; `None` if all are possible.
    times: Option<TimeRange>,
}

/// The possible times of a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeRange {
    pub(super) earliest: TsNs,
    pub(super) latest: TsNs,
    /// Time of an out-of-range record without a preceding record.
    pub(super) reference: TsNs,
}

impl TimeRange {
    pub(super) fn contains(&self, at: TsNs) -> bool {
        (self.earliest..=self.latest).contains(&at)
    }
}

impl Block {
    /// Parses all records of the segment once, so that all damage is known before they are used.
    pub(super) fn parse(file_off: u64, header: Header, header_len: usize, segment: Vec<u8>) -> Block {
        let mut walk = Walk::new(&segment);
        while walk.step() {}
        let (parsed, count) = (walk.at, walk.count);
        let output = walk.output.clone().unwrap_or(header.start_off..header.start_off);
        let reason = walk.fault.take().or_else(|| disagreement(&header, count, &output));
        let mut block = Block {
            file_off,
            header,
            header_len,
            segment,
            parsed,
            count,
            output,
            damage: None,
            contradictions: Vec::new(),
            times: None,
        };
        block.damage = reason.map(|reason| DamagedRange {
            file: block.file(),
            // Output may follow an unknown record; a wrong number in the header loses nothing.
            output: (block.parsed == block.segment.len()).then_some(block.output.end..block.output.end),
            after: Some(block.output.end),
            tail: false,
            reason,
        });
        block
    }

    /// Iterates over the records in file order.
    pub fn records(&self) -> Records<'_> {
        let last = self.times.map_or(TsNs(0), |times| times.reference);
        Records { rest: &self.segment[..self.parsed], times: self.times, last }
    }

    /// Returns the number of [`Block::records`].
    pub fn record_count(&self) -> u32 {
        self.count
    }

    /// Returns the part that could not be parsed or contradicts the header. The records before it are intact.
    pub fn damage(&self) -> Option<&DamagedRange> {
        self.damage.as_ref()
    }

    /// Returns the range of file offsets, header included.
    pub fn file(&self) -> Range<u64> {
        self.file_off..self.file_off + self.header_len as u64 + u64::from(self.header.compressed)
    }

    /// Returns the output offsets covered by its DATA records; an empty range if there are none.
    pub fn output(&self) -> Range<u64> {
        self.output.clone()
    }

    /// Returns the contradictions to the preceding blocks that the reader has read.
    pub fn contradictions(&self) -> &[Contradiction] {
        &self.contradictions
    }

    pub(super) fn set_contradictions(&mut self, found: Vec<Contradiction>) {
        self.contradictions = found;
    }

    /// Replaces out-of-range times with the time of the preceding record.
    pub(super) fn limit_times(&mut self, range: TimeRange) {
        self.times = Some(range);
    }

    /// Returns the time at which the block begins.
    pub fn start(&self) -> TsNs {
        match self.times {
            Some(times) if !times.contains(self.header.start) => {
                self.records().next().map_or(times.reference, |record| record.at)
            }
            _ => self.header.start,
        }
    }

    /// Returns true if the bytes conform to the current format version and can be copied unchanged.
    pub(super) fn is_clean(&self) -> bool {
        self.header_len == HEADER_LEN && self.damage.is_none() && self.times.is_none()
    }

    /// Returns true for at least one record, or an empty segment.
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

/// The initial pass over a segment.
struct Walk<'a> {
    segment: &'a [u8],
    at: usize,
    count: u32,
    output: Option<Range<u64>>,
    fault: Option<String>,
}

impl<'a> Walk<'a> {
    fn new(segment: &'a [u8]) -> Walk<'a> {
        Walk { segment, at: 0, count: 0, output: None, fault: None }
    }

    /// Parses one record; false at the end or at a fault.
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

/// Iterator over the records of a [`Block`].
#[derive(Debug, Clone)]
pub struct Records<'a> {
    rest: &'a [u8],
    times: Option<TimeRange>,
    /// The time of the record before.
    last: TsNs,
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        // All bytes were parsed before, so an error is the end.
        let (mut record, len) = Record::decode(self.rest).ok()?;
        self.rest = &self.rest[len..];
        if self.times.is_some_and(|times| !times.contains(record.at)) {
            record.at = self.last;
        }
        self.last = record.at;
        Some(record)
    }
}
