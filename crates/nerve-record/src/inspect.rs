//! A recording block by block and record by record, with all that is wrong with it (seed agent-record §17).

use std::io::{Read, Seek};
use std::ops::Range;
use std::time::Duration;

use nerve_term::event::{ExitStatus, Size, TsNs};

use crate::ahr::{AhrError, Block, Body, Lost, Mark, Part, Reader};

/// What is found in a recording.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary {
    /// Intact blocks.
    pub blocks: u64,
    /// Records in them.
    pub records: u64,
    /// Records that are output, and their bytes.
    pub output: RecordCount,
    /// Records that are input, and their bytes.
    pub input: RecordCount,
    /// Changes of size, the first one included.
    pub resizes: u64,
    /// Snapshots.
    pub snapshots: u64,
    /// Times of the first and of the latest record.
    pub times: Option<(TsNs, TsNs)>,
    /// The size at the start.
    pub size: Option<Size>,
    /// How the child ended, if the recording tells.
    pub exit: Option<ExitStatus>,
    /// The last block says that it is the last: the recorder finished.
    pub finished: bool,
    /// Uncompressed bytes of all segments.
    pub uncompressed: u64,
    /// What is damaged: lost stretches, bad records, output that is missing or there twice.
    pub damaged: u64,
}

/// Records of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordCount {
    /// How many.
    pub records: u64,
    /// Bytes in them.
    pub bytes: u64,
}

impl Summary {
    /// From the first to the latest record.
    pub fn duration(&self) -> Duration {
        self.times.map_or(Duration::ZERO, |(first, last)| last.since(first))
    }

    /// Nothing is damaged.
    pub fn is_intact(&self) -> bool {
        self.damaged == 0
    }
}

/// Something found, in the order of the file.
#[derive(Debug)]
pub enum Finding<'a> {
    /// An intact block, with what is wrong with its records.
    Block(&'a Block, &'a [Fault]),
    /// A stretch of the file that is none.
    Lost(&'a Lost),
}

/// Something wrong with the records of an intact block.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// What could not be parsed, or does not agree with the header.
    #[error("{0}")]
    Damage(Lost),
    /// The output jumps ahead, and no mark says why.
    #[error("output bytes {}..{} are missing", .0.start, .0.end)]
    Missing(Range<u64>),
    /// The output goes back.
    #[error("output bytes {}..{} come twice", .0.start, .0.end)]
    Twice(Range<u64>),
}

/// Reads all that `reader` still has, shows it to `each` piece by piece and counts it. Memory is one block.
///
/// # Errors
/// The file cannot be read, or `each` says so. Damage is no error.
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
                // What is missing behind it has been told.
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
    /// Output bytes before what comes next.
    end: u64,
    /// A jump of the output is no news.
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
