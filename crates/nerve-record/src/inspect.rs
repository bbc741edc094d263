//! Inspects a recording block by block and record by record, including all damage.

use std::io::{Read, Seek};
use std::time::Duration;

use nerve_types::{ExitStatus, Size, TsNs};

use crate::ahr::{AhrError, Block, Body, Contradiction, DamagedRange, Mark, Part, Reader};

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
    /// A contradiction to the blocks before.
    #[error(transparent)]
    Contradiction(Contradiction),
}

/// Inspects the rest of `reader`, passes each part to `each`, and returns the totals. Uses the memory of one block.
///
/// # Errors
/// The file cannot be read, or `each` fails. Damage is not an error.
pub fn inspect<R: Read + Seek, E: From<AhrError>>(
    reader: &mut Reader<R>,
    mut each: impl FnMut(Finding<'_>) -> Result<(), E>,
) -> Result<Summary, E> {
    let mut inspector = Inspector { summary: Summary::default() };
    while let Some(part) = reader.next()? {
        match part {
            Part::Block(block) => {
                let faults = inspector.block(&block);
                each(Finding::Block(&block, &faults))?;
            }
            Part::Lost(lost) => {
                inspector.summary.damaged += 1;
                each(Finding::Lost(&lost))?;
            }
        }
    }
    Ok(inspector.summary)
}

struct Inspector {
    summary: Summary,
}

impl Inspector {
    fn block(&mut self, block: &Block) -> Vec<Fault> {
        for record in block.records() {
            let (first, last) = self.summary.times.unwrap_or((record.at, record.at));
            self.summary.times = Some((first, last.max(record.at)));
            match record.body {
                Body::Data { bytes, .. } => {
                    self.summary.output.records += 1;
                    self.summary.output.bytes += bytes.len() as u64;
                }
                body => self.count(body),
            }
        }
        let mut faults: Vec<Fault> =
            block.contradictions().iter().cloned().map(Fault::Contradiction).collect();
        faults.extend(block.damage().cloned().map(Fault::Damage));
        let summary = &mut self.summary;
        summary.blocks += 1;
        summary.records += u64::from(block.record_count());
        summary.uncompressed += u64::from(block.header.uncompressed);
        summary.finished = block.header.last;
        summary.damaged += faults.len() as u64;
        faults
    }

    /// Counts a record other than output.
    fn count(&mut self, body: Body<'_>) {
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
            Body::Mark(_) => {}
            Body::Snapshot { .. } => summary.snapshots += 1,
        }
    }
}
