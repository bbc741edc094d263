//! An overview of a whole recording: its activity over time, its sizes and its damage.
//!
//! A scan reads every record once and replays none, in pieces that its caller limits. It continues where it stopped, so an
//! overview of a growing recording costs only what is new.

use std::fs::{self, File};
use std::io::BufReader;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nerve_types::{Size, TsNs};

use crate::ahr::{AhrError, Block, Body, DamagedRange, Part, Reader};

/// Maximum number of slices of the activity. When exceeded, their duration doubles.
pub const MAX_SLICES: usize = 500;
/// Maximum number of sizes, and of damaged ranges, that a timeline lists.
const MAX_LISTED: usize = 1000;

/// Bytes of output over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    /// Duration of a slice in milliseconds: a power of two.
    pub slice_ms: u64,
    /// Bytes of output in each slice.
    pub bytes: Vec<u64>,
}

/// The scan of one recording.
#[derive(Debug)]
pub struct TimelineScan {
    path: PathBuf,
    /// Device and inode number of the file.
    file: (u64, u64),
    reader: Reader<BufReader<File>>,
    start: Option<TsNs>,
    clock: TsNs,
    end_offset: u64,
    activity: Activity,
    sizes: Vec<(Duration, Size)>,
    lost: Vec<(Duration, DamagedRange)>,
    /// The unfinished end of the file.
    tail: Option<DamagedRange>,
}

/// Returns the time of the first intact block, from which times in a recording are counted; `None` if there is no block.
///
/// # Errors
/// The file cannot be read.
pub fn start_of(recording: &Path) -> Result<Option<TsNs>, AhrError> {
    let mut reader = Reader::open(recording)?;
    while let Some(part) = reader.next()? {
        if let Part::Block(block) = part {
            return Ok(Some(block.start()));
        }
    }
    Ok(None)
}

impl TimelineScan {
    /// Opens a recording at its start.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn open(path: &Path) -> Result<TimelineScan, AhrError> {
        Ok(TimelineScan {
            path: path.into(),
            file: file_id(path).unwrap_or_default(),
            reader: Reader::open(path)?,
            start: None,
            clock: TsNs::default(),
            end_offset: 0,
            activity: Activity { slice_ms: 1, bytes: Vec::new() },
            sizes: Vec::new(),
            lost: Vec::new(),
            tail: None,
        })
    }

    /// Returns true if the file is still the one that is read.
    pub fn is_current(&mut self) -> bool {
        let position = self.reader.position();
        file_id(&self.path) == Some(self.file) && self.reader.file_len().is_ok_and(|len| len >= position)
    }

    /// Reads the following records, at most about `bytes` bytes. Returns true at the end of the file, which may grow.
    ///
    /// # Errors
    /// The file cannot be read, or demands too much work. What was read before remains.
    pub fn advance(&mut self, bytes: u64) -> Result<bool, AhrError> {
        let mut remaining = bytes;
        while remaining > 0 {
            match self.reader.next()? {
                None => return Ok(true),
                Some(Part::Lost(lost)) => self.note_lost(lost),
                Some(Part::Block(block)) => {
                    self.note_block(&block);
                    remaining = remaining.saturating_sub(u64::from(block.header.uncompressed).max(1));
                }
            }
        }
        Ok(false)
    }

    /// Returns the start; `None` without a block.
    pub fn start(&self) -> Option<TsNs> {
        self.start
    }

    /// Returns the time from the start to the latest record.
    pub fn duration(&self) -> Duration {
        self.start.map_or(Duration::ZERO, |start| self.clock.since(start))
    }

    /// Returns the bytes of output, lost ones included.
    pub fn end_offset(&self) -> u64 {
        self.end_offset
    }

    /// Returns the activity.
    pub fn activity(&self) -> &Activity {
        &self.activity
    }

    /// Returns the sizes of the terminal with the time from the start, at most the first 1000.
    pub fn sizes(&self) -> &[(Duration, Size)] {
        &self.sizes
    }

    /// Returns the lost stretches with the time of the record before, at most the first 1000. The unfinished end of the file
    /// is one of them only if the recording is not `live`.
    pub fn lost(&self, live: bool) -> impl Iterator<Item = (Duration, &DamagedRange)> {
        let tail = self.tail.iter().filter(move |_| !live).map(|lost| (self.duration(), lost));
        self.lost.iter().map(|(at, lost)| (*at, lost)).chain(tail)
    }

    /// Returns the bytes of the file that were read, and its length.
    pub fn progress(&mut self) -> (u64, u64) {
        let read = self.reader.position();
        (read, self.reader.file_len().unwrap_or(read).max(read))
    }

    fn note_lost(&mut self, lost: DamagedRange) {
        if lost.tail {
            self.tail = Some(lost);
        } else if self.lost.len() < MAX_LISTED {
            self.lost.push((self.duration(), lost));
        }
    }

    fn note_block(&mut self, block: &Block) {
        // The end that was unfinished is complete now, or was reported as lost.
        self.tail = None;
        let start = *self.start.get_or_insert_with(|| block.start());
        for record in block.records() {
            self.clock = self.clock.max(record.at).max(start);
            match record.body {
                Body::Data { off, bytes } => {
                    self.end_offset = self.end_offset.max(off.saturating_add(bytes.len() as u64));
                    self.activity.add(self.clock.since(start), bytes.len() as u64);
                }
                Body::Resize { cols, rows } => self.note_size(Size::new(cols, rows)),
                Body::Input { .. } | Body::Mark(_) | Body::Snapshot { .. } => {}
            }
        }
        if let Some(lost) = block.damage().filter(|_| self.lost.len() < MAX_LISTED) {
            self.lost.push((self.duration(), lost.clone()));
        }
    }

    fn note_size(&mut self, size: Size) {
        let is_same = self.sizes.last().is_some_and(|(_, last)| *last == size);
        if !is_same && self.sizes.len() < MAX_LISTED {
            self.sizes.push((self.duration(), size));
        }
    }
}

impl Activity {
    fn add(&mut self, at: Duration, bytes: u64) {
        let at = nerve_types::millis(at);
        while at / self.slice_ms >= MAX_SLICES as u64 {
            self.slice_ms *= 2;
            self.bytes = self.bytes.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
        let slice = usize::try_from(at / self.slice_ms).unwrap_or_default();
        if self.bytes.len() <= slice {
            self.bytes.resize(slice + 1, 0);
        }
        self.bytes[slice] += bytes;
    }
}

fn file_id(path: &Path) -> Option<(u64, u64)> {
    let file = fs::metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}
