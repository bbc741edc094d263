//! Reads a recording block by block, using the memory of one block.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;

use super::block::Block;
use super::block_source::{Attempt, BlockSource, Fault};
use super::continuity::Continuity;
use super::contradiction::Contradiction;
use super::damaged_range::DamagedRange;
use super::error::AhrError;
use super::resync::{Resync, SearchResult};
use crate::meta::Meta;
use nerve_types::regular_file::{Links, open_regular};

/// Maximum number of contradictions that are remembered.
const MAX_CONTRADICTIONS: usize = 1000;
/// Decompressed bytes allowed for any recording.
const UNPACKED_ALLOWANCE: u64 = 256 << 20;
/// Additional decompressed bytes allowed per byte of the file. A recording that repeats one byte reaches about 4000.
const UNPACKED_PER_BYTE: u64 = 16 << 10;

/// The result of [`Reader::next`].
#[derive(Debug, Clone)]
pub enum Part {
    /// An intact block.
    Block(Block),
    /// A stretch that is not an intact block.
    Lost(DamagedRange),
}

/// Reads the blocks of a recording in order and continues after damage.
#[derive(Debug)]
pub struct Reader<R> {
    pub(super) source: BlockSource<R>,
    /// Expected file offset of the next block.
    at: u64,
    /// Output bytes before `at`, if known.
    output_end: Option<u64>,
    /// File length when an unfinished block at `at` was last reported.
    reported_end: Option<u64>,
    /// The block at `at` if it was read already, usually after a stretch that was just reported.
    pending: Option<Block>,
    /// Blocks that [`Reader::read_ahead`] read but did not pass on.
    pub(super) ahead: VecDeque<Block>,
    resync: Resync,
    continuity: Continuity,
    /// Contradictions of the blocks returned so far, each with its block's offset.
    pub(super) contradictions: Vec<(u64, Contradiction)>,
    /// Bytes that may still be decompressed.
    allowance: u64,
}

impl Reader<BufReader<File>> {
    /// Opens a recording, which may still be written.
    ///
    /// # Errors
    /// [`AhrError::NotAFile`] for a pipe or folder, [`AhrError::Io`] if it cannot be opened.
    pub fn open(path: &Path) -> Result<Self, AhrError> {
        let file =
            open_regular(path, File::options().read(true), Links::Follow).map_err(AhrError::open(path))?;
        let mut reader = Reader::new(BufReader::new(file))?;
        // An unreadable sidecar is ignored.
        if let Ok(Some(meta)) = Meta::load(path)
            && meta.started_at.0 > 0
            && let Some(first) = reader.source.peek_time(0)?
        {
            reader.continuity.set_session(meta.started_at, meta.ended_at, first);
        }
        Ok(reader)
    }
}

impl<R: Read + Seek> Reader<R> {
    /// Creates a reader that begins at the start of `inner`.
    ///
    /// # Errors
    /// `inner` cannot be positioned.
    pub fn new(inner: R) -> Result<Self, AhrError> {
        Ok(Reader {
            source: BlockSource::new(inner)?,
            at: 0,
            output_end: Some(0),
            reported_end: None,
            pending: None,
            ahead: VecDeque::new(),
            resync: Resync::default(),
            continuity: Continuity::new(),
            contradictions: Vec::new(),
            allowance: UNPACKED_ALLOWANCE,
        })
    }

    /// Returns the next intact block or lost stretch; `None` at the end. If the file grows, the next call continues
    /// there.
    ///
    /// An unfinished block at the end is reported once, as a [`DamagedRange`] with `tail`. If a later call finds it complete,
    /// it returns it; if other blocks have followed by then, it is reported again without `tail`.
    ///
    /// # Errors
    /// I/O errors only: damage is a [`Part::Lost`].
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator would end for good, this one may continue"
    )]
    pub fn next(&mut self) -> Result<Option<Part>, AhrError> {
        let part = match self.ahead.pop_front() {
            Some(block) => Some(Part::Block(block)),
            None => self.read_part()?,
        };
        if let Some(Part::Block(block)) = &part {
            add_contradictions(&mut self.contradictions, block);
        }
        Ok(part)
    }

    /// Reads the next block if it is intact. Otherwise, [`Reader::next`] finds the same fault or error.
    pub(super) fn next_intact(&mut self) -> Result<Option<Block>, AhrError> {
        if let Some(block) = self.pending.take() {
            return self.accept(block).map(Some);
        }
        match self.source.attempt(self.at)? {
            Attempt::Block(block) => self.accept(block).map(Some),
            Attempt::Fault(_) | Attempt::End => Ok(None),
        }
    }

    fn read_part(&mut self) -> Result<Option<Part>, AhrError> {
        if let Some(block) = self.pending.take() {
            return self.give(block).map(Some);
        }
        if let Some(end) = self.reported_end
            && self.file_len()? == end
        {
            return Ok(None);
        }
        match self.source.attempt(self.at)? {
            Attempt::End => Ok(None),
            Attempt::Block(block) => self.give(block).map(Some),
            Attempt::Fault(fault) => self.pass(fault),
        }
    }

    /// Skips the fault at `self.at`; `None` if it was reported before and nothing has changed.
    fn pass(&mut self, fault: Fault) -> Result<Option<Part>, AhrError> {
        let (from, unfinished) = (self.at, fault.unfinished);
        let (reason, found) = self.resync.search(&mut self.source, fault, self.at, self.output_end)?;
        // A concurrent writer may have completed this block and others during the search.
        if unfinished && let Attempt::Block(block) = self.source.attempt(from)? {
            return self.give(block).map(Some);
        }
        self.continuity.excuse();
        let (until, tail) = match &found {
            SearchResult::Block(block) => (block.file_off, false),
            SearchResult::Unfinished { end, .. } => (*end, true),
            SearchResult::Nothing { end } => (*end, false),
        };
        let output = match (&found, self.output_end) {
            (SearchResult::Block(block), Some(end)) => Some(end..block.output().start.max(end)),
            _ => None,
        };
        let lost = DamagedRange { file: from..until, output, after: self.output_end, tail, reason };
        let reported_before = self.reported_end.take();
        match found {
            SearchResult::Block(block) => self.pending = Some(*block),
            SearchResult::Unfinished { at, end } => {
                self.at = at;
                self.reported_end = Some(end);
                if reported_before.is_some() && at == from {
                    return Ok(None);
                }
            }
            SearchResult::Nothing { end } => self.at = end,
        }
        Ok(Some(Part::Lost(lost)))
    }

    /// Continues at the block that begins at `file_off`, usually taken from an index. For any other offset, the bytes
    /// up to the next block are reported as lost.
    ///
    /// # Errors
    /// None at present; the seek happens when the block is read.
    pub fn seek_to(&mut self, file_off: u64) -> Result<(), AhrError> {
        self.at = file_off;
        self.output_end = (file_off == 0).then_some(0);
        self.reported_end = None;
        self.pending = None;
        self.ahead.clear();
        self.continuity.restart(self.output_end);
        Ok(())
    }

    /// Returns the file offset at which the next part begins.
    pub fn position(&self) -> u64 {
        self.ahead.front().or(self.pending.as_ref()).map_or(self.at, |block| block.file_off)
    }

    /// Returns the current length of the file.
    ///
    /// # Errors
    /// Any I/O error.
    pub fn file_len(&mut self) -> io::Result<u64> {
        self.source.len()
    }

    /// Returns the contradictions between the blocks returned so far, at most 1000.
    pub fn contradictions(&self) -> impl Iterator<Item = &Contradiction> {
        self.contradictions.iter().map(|(_, contradiction)| contradiction)
    }

    fn give(&mut self, block: Block) -> Result<Part, AhrError> {
        self.accept(block).map(Part::Block)
    }

    /// Moves the position behind `block`. After an error, `block` is still the next one.
    fn accept(&mut self, mut block: Block) -> Result<Block, AhrError> {
        let file = block.file();
        let allowance = self.remaining_allowance(&block);
        let checked = allowance.and_then(|allowance| Ok((allowance, self.source.peek_time(file.end)?)));
        let (allowance, next) = match checked {
            Ok(checked) => checked,
            Err(error) => {
                self.pending = Some(block);
                return Err(error);
            }
        };
        self.allowance = allowance;
        let found = self.continuity.check(&mut block, next);
        block.set_contradictions(found);
        self.at = file.end;
        self.reported_end = None;
        // The expected offset of the following output. Blocks without output and inconsistent offsets are not trusted.
        let output = block.output();
        if self.output_end.is_none() || (!output.is_empty() && output.start == block.header.start_off) {
            self.output_end = Some(output.end);
        }
        Ok(block)
    }

    /// Returns how many bytes may be decompressed after `block`.
    fn remaining_allowance(&self, block: &Block) -> Result<u64, AhrError> {
        let file = block.file();
        (file.end - file.start)
            .saturating_mul(UNPACKED_PER_BYTE)
            .saturating_add(self.allowance)
            .checked_sub(u64::from(block.header.uncompressed))
            .ok_or(AhrError::Work { at: file.start })
    }
}

/// Adds the contradictions of a block unless they are known.
pub(super) fn add_contradictions(known: &mut Vec<(u64, Contradiction)>, block: &Block) {
    let is_known = || known.iter().any(|(at, _)| *at == block.file_off);
    if !block.contradictions().is_empty() && known.len() < MAX_CONTRADICTIONS && !is_known() {
        known.extend(block.contradictions().iter().map(|found| (block.file_off, found.clone())));
    }
}
