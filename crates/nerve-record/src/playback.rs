//! Plays a recording: a position, and the terminal at that position.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use nerve_types::{Size, TsNs};

use crate::ahr::{AhrError, Block, Body, Contradiction, DamagedRange, Part, Reader, Record};
use crate::index::{Index, Place, Position};
use crate::open_sequence::OpenSequence;
use crate::output_page::OutputPage;
use crate::replay::TerminalReplay;

/// Maximum number of remembered lost stretches.
const MAX_LOST: usize = 1000;

/// Plays a recording forward record by record, and seeks to any position.
#[derive(Debug)]
pub struct Playback {
    path: PathBuf,
    reader: Reader<BufReader<File>>,
    /// Size until the first resize record.
    size: Size,
    replay: TerminalReplay,
    /// The unfinished end of the output that the terminal has.
    open: OpenSequence,
    block: Option<Block>,
    /// Number of applied records of `block`, and applied bytes of the next record.
    applied: u32,
    within: usize,
    lost: Vec<DamagedRange>,
}

impl Playback {
    /// Opens a recording at its start. `size` applies until the first resize record.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn open(path: &Path, size: Size) -> Result<Playback, AhrError> {
        Ok(Playback {
            path: path.into(),
            reader: Reader::open(path)?,
            size,
            replay: TerminalReplay::new(size),
            open: OpenSequence::default(),
            block: None,
            applied: 0,
            within: 0,
            lost: Vec::new(),
        })
    }

    /// Opens a recording near its end, at a block followed by about `output` bytes of output, or at its start if there
    /// is none. Earlier lines and terminal modes are unknown then, and lines are numbered from there.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn open_near_end(path: &Path, size: Size, output: u64) -> Result<Playback, AhrError> {
        let mut play = Playback::open(path, size)?;
        if let Some(place) = play.reader.near_end(output)? {
            play.reader.seek_to(place)?;
        }
        Ok(play)
    }

    /// Returns the terminal at the current position.
    pub fn replay(&self) -> &TerminalReplay {
        &self.replay
    }

    /// Returns the terminal mutably, to let time pass.
    pub fn replay_mut(&mut self) -> &mut TerminalReplay {
        &mut self.replay
    }

    /// Returns bytes that recreate the terminal at the current position: its [dump](nerve_vt::terminal::TerminalState::dump), and
    /// the escape sequence or character that the output ends within.
    pub fn dump(&self) -> Vec<u8> {
        let mut dump = self.replay.terminal.dump();
        dump.extend_from_slice(self.open.bytes());
        dump
    }

    /// Returns the terminal and drops the rest.
    pub fn into_replay(self) -> TerminalReplay {
        self.replay
    }

    /// Returns the lost stretches so far, each once, at most 1000.
    pub fn lost(&self) -> &[DamagedRange] {
        &self.lost
    }

    /// Returns the contradictions so far, at most 1000.
    pub fn contradictions(&self) -> impl Iterator<Item = &Contradiction> {
        self.reader.contradictions()
    }

    /// Returns the time of the next record, which never decreases; `None` at the end. A recording that is still written
    /// may continue later.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn next_at(&mut self) -> Result<Option<TsNs>, AhrError> {
        loop {
            if !self.load()? {
                return Ok(None);
            }
            let next = self.block.as_ref().and_then(|block| block.records().nth(self.applied as usize));
            match next {
                Some(record) => return Ok(Some(record.at.max(self.replay.clock()))),
                None => self.block = None,
            }
        }
    }

    /// Applies records while `should_apply` returns true, and passes each to `on_applied` afterwards. Returns true if
    /// records remain.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn play(
        &mut self,
        mut should_apply: impl FnMut(&Record<'_>) -> bool,
        mut on_applied: impl FnMut(&Record<'_>),
    ) -> Result<bool, AhrError> {
        while self.load()? {
            let Playback { replay, open, block: Some(block), applied, within, .. } = self else { break };
            for record in block.records().skip(*applied as usize) {
                let record = skip_applied(record, *within);
                if !should_apply(&record) {
                    return Ok(true);
                }
                apply(replay, open, &record);
                replay.check_work()?;
                on_applied(&record);
                (*applied, *within) = (*applied + 1, 0);
            }
            self.block = None;
        }
        self.replay.finish();
        Ok(false)
    }

    /// Moves to a position, using the index if that is shorter. A position after the end means the end.
    ///
    /// After a jump, lines and snapshots before the keyframe are not in the terminal; line numbers are unaffected.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn seek(&mut self, to: Position) -> Result<(), AhrError> {
        let index = Index::ensure(&self.path)?;
        self.seek_with(index.as_ref(), to)
    }

    /// Moves to a position like [`Playback::seek`], with an index that may cover only a part of the recording.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn seek_with(&mut self, index: Option<&Index>, to: Position) -> Result<(), AhrError> {
        let ahead = match to {
            Position::Offset(offset) => self.replay.terminal.offset() <= offset,
            Position::Time(at) => self.replay.clock() < at,
        };
        let keyframe = index.and_then(|index| index.keyframe_before(to));
        match keyframe {
            Some((keyframe, _)) if ahead && keyframe.offset <= self.replay.terminal.offset() => {}
            Some((keyframe, place)) => self.jump(TerminalReplay::from_keyframe(&keyframe), place)?,
            None if ahead => {}
            None => self.jump(TerminalReplay::new(self.size), Place { block: 0, records: 0 })?,
        }
        self.approach(to)
    }

    /// Reads the output from the current position on, at most `limit` bytes. The terminal stays behind, so the playback ends.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn into_page(self, limit: usize) -> Result<OutputPage, AhrError> {
        let page = OutputPage::new(self.replay.terminal.offset(), self.replay.clock());
        self.fill(page, limit)
    }

    /// Reads the output from `offset` on without replaying what precedes it, at most `limit` bytes.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn page_at(
        mut self,
        index: Option<&Index>,
        offset: u64,
        limit: usize,
    ) -> Result<OutputPage, AhrError> {
        // The last block before the offset: blocks at the offset can begin with a resize.
        let before = offset.checked_sub(1).map(Position::Offset);
        let block = before.and_then(|before| index?.block_before(before));
        let clock = match block {
            Some(block) => {
                self.reader.seek_to(block.file_off)?;
                block.at
            }
            None => TsNs::default(),
        };
        self.fill(OutputPage::new(offset, clock), limit)
    }

    fn fill(mut self, mut page: OutputPage, limit: usize) -> Result<OutputPage, AhrError> {
        let start = page.next_offset;
        page.is_end = self.fill_records(&mut page, limit)?;
        self.lost.retain(|lost| lost.after.is_none_or(|after| after >= start));
        page.lost = self.lost;
        Ok(page)
    }

    /// Returns true at the end of the recording.
    fn fill_records(&mut self, page: &mut OutputPage, limit: usize) -> Result<bool, AhrError> {
        while self.load()? {
            let Playback { block: Some(block), applied, within, .. } = self else { break };
            for record in block.records().skip(std::mem::take(applied) as usize) {
                let record = skip_applied(record, std::mem::take(within));
                if !page.push(&record, limit) {
                    return Ok(false);
                }
            }
            self.block = None;
        }
        Ok(true)
    }

    fn jump(&mut self, replay: TerminalReplay, place: Place) -> Result<(), AhrError> {
        self.reader.seek_to(place.block)?;
        self.replay = replay;
        self.open = OpenSequence::default();
        self.block = None;
        // The next loaded block is the target's.
        (self.applied, self.within) = (0, 0);
        if place.records > 0 && self.load()? {
            self.applied = place.records;
        }
        Ok(())
    }

    /// Plays forward to the position.
    fn approach(&mut self, to: Position) -> Result<(), AhrError> {
        let left = self.play(
            |record| match (to, record.body) {
                (Position::Time(at), _) => record.at <= at,
                (Position::Offset(offset), Body::Data { off, bytes }) => {
                    off.saturating_add(bytes.len() as u64) <= offset
                }
                (Position::Offset(_), _) => true,
            },
            |_| {},
        )?;
        match to {
            Position::Offset(offset) if left => self.enter(offset),
            _ => {}
        }
        self.replay.check_work()
    }

    /// Applies the part of the next record before output offset `offset`.
    fn enter(&mut self, offset: u64) {
        let next = self.block.as_ref().and_then(|block| block.records().nth(self.applied as usize));
        let Some(Record { at, body: Body::Data { off, bytes } }) = next else { return };
        let len = usize::try_from(offset.saturating_sub(off)).unwrap_or(usize::MAX).min(bytes.len());
        if len > self.within {
            let part = Body::Data { off: off + self.within as u64, bytes: &bytes[self.within..len] };
            apply(&mut self.replay, &mut self.open, &Record { at, body: part });
            self.within = len;
        }
    }

    /// Loads a block if there is none; false at the end.
    fn load(&mut self) -> Result<bool, AhrError> {
        while self.block.is_none() {
            match self.reader.next()? {
                None => return Ok(false),
                Some(Part::Lost(lost)) => self.remember(lost),
                Some(Part::Block(block)) => {
                    block.damage().cloned().into_iter().for_each(|lost| self.remember(lost));
                    self.replay.begin_block(&block);
                    (self.block, self.applied, self.within) = (Some(block), 0, 0);
                }
            }
        }
        Ok(true)
    }

    fn remember(&mut self, lost: DamagedRange) {
        let known = self.lost.iter().any(|other| other.file.start == lost.file.start);
        if !known && self.lost.len() < MAX_LOST {
            self.lost.push(lost);
        }
    }
}

/// Applies a record, and notes the unfinished end of its output.
fn apply(replay: &mut TerminalReplay, open: &mut OpenSequence, record: &Record<'_>) {
    if let Body::Data { off, bytes } = record.body {
        if off > replay.terminal.offset() {
            // A gap cancels sequences.
            *open = OpenSequence::default();
        }
        open.feed(bytes);
    }
    replay.apply(record);
}

/// Returns the record without its applied bytes.
fn skip_applied(record: Record<'_>, within: usize) -> Record<'_> {
    match record.body {
        Body::Data { off, bytes } if within > 0 => {
            let body =
                Body::Data { off: off + within as u64, bytes: bytes.get(within..).unwrap_or_default() };
            Record { body, ..record }
        }
        _ => record,
    }
}
