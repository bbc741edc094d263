//! Copies the intact parts of a damaged recording.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use nerve_types::TsNs;

use super::DEFAULT_QUALITY;
use super::block::Block;
use super::damaged_range::DamagedRange;
use super::error::AhrError;
use super::reader::{Part, Reader};
use super::record::{Body, Mark, Record};
use super::segment::Segment;
use super::writer::Writer;

/// The result of a repair.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// Blocks kept.
    pub blocks: u64,
    /// Blocks recompressed because some records or header fields were damaged.
    pub repacked: u64,
    /// Records kept.
    pub records: u64,
    /// Bytes of output kept.
    pub output: u64,
    /// Gap marks inserted where output is or may be missing.
    pub gaps: u64,
    /// Damaged ranges, including parts of blocks.
    pub stretches: u64,
    /// The first [`RepairReport::MAX_LOST`] lost stretches.
    pub lost: Vec<DamagedRange>,
}

impl RepairReport {
    /// Maximum number of listed stretches; further ones are only counted.
    pub const MAX_LOST: usize = 1000;
}

/// Copies the recording `from` to the new file `to`. Intact blocks are copied unchanged, damaged ones are recompressed
/// without the damage, and a [`Mark::GAP_REPAIRED`] is inserted where output is missing. The copy ends with a final
/// block. `from` is only read.
///
/// # Errors
/// As [`Reader::open`] and [`Writer::create`]; `to` is never overwritten, and is removed if the copy fails.
pub fn repair(from: &Path, to: &Path) -> Result<RepairReport, AhrError> {
    let mut reader = Reader::open(from)?;
    let source = File::open(from).map_err(AhrError::io("open", from))?;
    let writer = Writer::create(to)?;
    let mut repairer =
        Repairer { source, writer, report: RepairReport::default(), at: TsNs(0), end: 0, finished: false };
    match repairer.run(&mut reader) {
        Ok(()) => Ok(repairer.report),
        Err(error) => {
            // The source is unchanged, so the partial copy can go.
            let _ = fs::remove_file(to);
            Err(error)
        }
    }
}

struct Repairer {
    source: File,
    writer: Writer,
    report: RepairReport,
    /// Time of the last kept record.
    at: TsNs,
    /// Output offset after the last kept record.
    end: u64,
    /// The last written block is marked as final.
    finished: bool,
}

impl Repairer {
    fn run(&mut self, reader: &mut Reader<impl io::Read + io::Seek>) -> Result<(), AhrError> {
        // Reported with the next block, whose time the gap mark gets.
        let mut missing = false;
        while let Some(part) = reader.next()? {
            match part {
                Part::Lost(lost) => missing |= self.note(lost),
                Part::Block(block) => {
                    if missing {
                        self.gap(block.start())?;
                    }
                    missing = self.keep(&block)?;
                }
            }
        }
        if missing {
            self.gap(self.at)?;
        }
        if !self.finished {
            self.write(&Segment::starting_at(self.end, self.at).seal(DEFAULT_QUALITY, true))?;
        }
        self.writer.sync().map_err(AhrError::io("sync", self.writer.path()))
    }

    /// Records a lost stretch; returns true if output may be missing.
    fn note(&mut self, lost: DamagedRange) -> bool {
        let missing = lost.is_output_missing();
        self.report.stretches += 1;
        if self.report.lost.len() < RepairReport::MAX_LOST {
            self.report.lost.push(lost);
        }
        missing
    }

    /// Copies a block; returns true if part of its output may be missing.
    fn keep(&mut self, block: &Block) -> Result<bool, AhrError> {
        let missing = block.damage().is_some_and(|lost| self.note(lost.clone()));
        for record in block.records() {
            self.at = record.at;
            if let Body::Data { off, bytes } = record.body {
                self.report.output += bytes.len() as u64;
                self.end = off.saturating_add(bytes.len() as u64);
            }
        }
        self.report.blocks += 1;
        self.report.records += u64::from(block.record_count());
        if block.is_clean() {
            let mut bytes = vec![0; usize::try_from(block.file().end - block.file().start).unwrap_or(0)];
            self.source.read_exact_at(&mut bytes, block.file_off)?;
            self.write(&bytes)?;
        } else {
            self.report.repacked += 1;
            self.write(&repack(block))?;
        }
        self.finished = block.header.last;
        Ok(missing)
    }

    fn gap(&mut self, at: TsNs) -> Result<(), AhrError> {
        let mut segment = Segment::new(self.end);
        // A mark always fits.
        if segment.push(&Record { at, body: Body::Mark(Mark::GAP_REPAIRED) }).is_ok() {
            self.write(&segment.seal(DEFAULT_QUALITY, false))?;
            self.report.gaps += 1;
            self.finished = false;
        }
        Ok(())
    }

    fn write(&mut self, sealed: &[u8]) -> Result<(), AhrError> {
        self.writer.append(sealed).map_err(AhrError::io("write to", self.writer.path()))
    }
}

fn repack(block: &Block) -> Vec<u8> {
    let mut segment = Segment::starting_at(block.output().start, block.start());
    for record in block.records() {
        // The records fitted into one segment before.
        let result = segment.push(&record);
        debug_assert!(result.is_ok(), "{result:?}");
    }
    segment.seal(DEFAULT_QUALITY, block.header.last)
}
