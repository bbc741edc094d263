//! Inspects a recording block by block and record by record, including all damage.

use std::io::{Read, Seek};
use std::ops::Range;
use std::time::Duration;

use nerve_types::{ExitStatus, Size, TsNs};

use crate::ahr::{AhrError, Block, Body, DamagedRange, Mark, Part, Reader};

/// Totals of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary {
    /// Intact blocks.
    pub blocks: u64,
    /// Records in them.
    pub records: u64,
    /// Output records.
    pub output: RecordCount,
    /// Input records.
    pub input: RecordCount,
    /// Resizes, including the initial size.
    pub resizes: u64,
    /// Snapshot records.
    pub snapshots: u64,
    /// Times of the first and the latest record.
    pub times: Option<(TsNs, TsNs)>,
    /// Initial size.
    pub size: Option<Size>,
    /// Exit status of the child, if recorded.
    pub exit: Option<ExitStatus>,
    /// The last block is marked as final: the recorder finished.
    pub finished: bool,
    /// Uncompressed bytes of all segments.
    pub uncompressed: u64,
    /// Number of faults: lost stretches, bad records, missing or repeated output.
    pub damaged: u64,
}

/// A count of records and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordCount {
    /// Number of records.
    pub records: u64,
    /// Total bytes.
    pub bytes: u64,
}

impl Summary {
    /// Returns the time from the first to the latest record.
    pub fn duration(&self) -> Duration {
        self.times.map_or(Duration::ZERO, |(first, last)| last.since(first))
    }

    /// Returns true if nothing is damaged.
    pub fn is_intact(&self) -> bool {
        self.damaged == 0
    }
}

/// A part of the file, in file order.
#[derive(Debug)]
pub enum Finding<'a> {
    /// An intact block and the faults of its records.
    Block(&'a Block, &'a [Fault]),
    /// A stretch that is not an intact block.
    Lost(&'a DamagedRange),
}

/// A fault in the records of an intact block.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Unparsable records, or a contradiction to the header.
    #[error("{0}")]
    Damage(DamagedRange),
    /// Output is missing, and no mark explains it.
    #[error("output bytes {}..{} are missing", .0.start, .0.end)]
    Missing(Range<u64>),
    /// Output is repeated.
    #[error("output bytes {}..{} are repeated", .0.start, .0.end)]
    Twice(Range<u64>),
}

/// Inspects the rest of `reader`, passes each part to `each`, and returns the totals. Uses the memory of one block.
///
/// # Errors
/// The file cannot be read, or `each` fails. Damage is not an error.
pub fn inspect<R: Read + Seek, E: From<AhrError>>(
    reader: &mut Reader<R>,
    mut each: impl FnMut(Finding<'_>) -> Result<(), E>,
) -> Result<Summary, E> {
    let mut inspector = Inspector { summary: Summary::default(), end: 0, excused: false };
    while let Some(part) = reader.next()? {
        match part {
            Part::Block(block) => {
                let faults = inspector.block(&block);
                each(Finding::Block(&block, &faults))?;
            }
            Part::Lost(lost) => {
                // The output missing after it has been reported.
                inspector.excused = true;
                inspector.summary.damaged += 1;
                each(Finding::Lost(&lost))?;
            }
        }
    }
    Ok(inspector.summary)
}

struct Inspector {
    summary: Summary,
    /// Expected output offset of the next record.
    end: u64,
    /// The next jump in the output is already explained.
    excused: bool,
}

impl Inspector {
    fn block(&mut self, block: &Block) -> Vec<Fault> {
        let mut faults = Vec::new();
        for record in block.records() {
            let (first, last) = self.summary.times.unwrap_or((record.at, record.at));
            self.summary.times = Some((first, last.max(record.at)));
            match record.body {
                Body::Data { off, bytes } => faults.extend(self.output(off, bytes.len() as u64)),
                body => self.other(body),
            }
        }
        if let Some(damage) = block.damage() {
            faults.push(Fault::Damage(damage.clone()));
            self.excused = true;
        }
        let summary = &mut self.summary;
        summary.blocks += 1;
        summary.records += u64::from(block.record_count());
        summary.uncompressed += u64::from(block.header.uncompressed);
        summary.finished = block.header.last;
        summary.damaged += faults.len() as u64;
        faults
    }

    fn output(&mut self, off: u64, len: u64) -> Option<Fault> {
        self.summary.output.records += 1;
        self.summary.output.bytes += len;
        let before = std::mem::replace(&mut self.end, off.saturating_add(len));
        let excused = std::mem::take(&mut self.excused);
        if off < before {
            return Some(Fault::Twice(off..before.min(self.end)));
        }
        (off > before && !excused).then_some(Fault::Missing(before..off))
    }

    fn other(&mut self, body: Body<'_>) {
        let summary = &mut self.summary;
        match body {
            Body::Data { .. } => {}
            Body::Resize { cols, rows } => {
                summary.resizes += 1;
                summary.size = summary.size.or(Some(Size::new(cols, rows)));
            }
            Body::Input { bytes } => {
                summary.input.records += 1;
                summary.input.bytes += bytes.len() as u64;
            }
            Body::Mark(Mark::Exit(status)) => summary.exit = Some(status),
            Body::Mark(Mark::Gap(_)) => self.excused = true,
            Body::Mark(_) => {}
            Body::Snapshot { .. } => summary.snapshots += 1,
        }
    }
}
