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
    state: PlaybackState,
}

/// The position, and the terminal there.
#[derive(Debug)]
struct PlaybackState {
    replay: TerminalReplay,
    /// The incomplete escape sequence or character at the end of the applied output.
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
            state: PlaybackState::new(TerminalReplay::new(size)),
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
        &self.state.replay
    }

    /// Returns the terminal mutably, to let time pass.
    pub fn replay_mut(&mut self) -> &mut TerminalReplay {
        &mut self.state.replay
    }

    /// Returns bytes that recreate the terminal at the current position: its [dump](nerve_vt::terminal::TerminalState::dump), and
    /// the escape sequence or character that the output ends within.
    pub fn dump(&self) -> Vec<u8> {
        let mut dump = self.state.replay.terminal.dump();
        dump.extend_from_slice(self.state.open.bytes());
        dump
    }

    /// Returns the terminal and drops the rest.
    pub fn into_replay(self) -> TerminalReplay {
        self.state.replay
    }

    /// Returns the lost stretches so far, each once, at most 1000.
    pub fn lost(&self) -> &[DamagedRange] {
        &self.state.lost
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
            let next =
                self.state.block.as_ref().and_then(|block| block.records().nth(self.state.applied as usize));
            match next {
                Some(record) => return Ok(Some(record.at.max(self.state.replay.clock()))),
                None => self.state.block = None,
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
        let state = &mut self.state;
        let mut is_done = state.play_block(&mut should_apply, &mut on_applied)?;
        if is_done {
            self.reader.read_ahead(|part| {
                state.accept(part);
                is_done = state.play_block(&mut should_apply, &mut on_applied)?;
                Ok(is_done)
            })?;
        }
        if is_done {
            state.replay.finish();
        }
        Ok(!is_done)
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
            Position::Offset(offset) => self.state.replay.terminal.offset() <= offset,
            Position::Time(at) => self.state.replay.clock() < at,
        };
        let keyframe = index.and_then(|index| index.keyframe_before(to));
        match keyframe {
            Some((keyframe, _)) if ahead && keyframe.offset <= self.state.replay.terminal.offset() => {}
            Some((keyframe, place)) => self.jump(TerminalReplay::from_keyframe(&keyframe), place)?,
            None if ahead => {}
            None => self.jump(TerminalReplay::new(self.size), Place { block: 0, records: 0 })?,
        }
        self.approach(to)
    }

    /// Reads the output from the current position on, at most `limit` bytes. Consumes the playback, because the terminal
    /// does not receive that output.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn into_page(self, limit: usize) -> Result<OutputPage, AhrError> {
        let page = OutputPage::new(self.state.replay.terminal.offset(), self.state.replay.clock());
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
        self.state.lost.retain(|lost| lost.after.is_none_or(|after| after >= start));
        page.lost = self.state.lost;
        Ok(page)
    }

    /// Appends the following records to the page. Returns true at the end of the recording.
    fn fill_records(&mut self, page: &mut OutputPage, limit: usize) -> Result<bool, AhrError> {
        while self.load()? {
            let PlaybackState { block: Some(block), applied, within, .. } = &mut self.state else { break };
            for record in block.records().skip(std::mem::take(applied) as usize) {
                let record = skip_applied(record, std::mem::take(within));
                if !page.push(&record, limit) {
                    return Ok(false);
                }
            }
            self.state.block = None;
        }
        Ok(true)
    }

    fn jump(&mut self, replay: TerminalReplay, place: Place) -> Result<(), AhrError> {
        self.reader.seek_to(place.block)?;
        let lost = std::mem::take(&mut self.state.lost);
        // The next loaded block is the target's.
        self.state = PlaybackState { lost, ..PlaybackState::new(replay) };
        if place.records > 0 && self.load()? {
            self.state.applied = place.records;
        }
        Ok(())
    }

    /// Plays forward to the position.
    fn approach(&mut self, to: Position) -> Result<(), AhrError> {
        let records_remain = self.play(
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
            Position::Offset(offset) if records_remain => self.state.enter(offset),
            _ => {}
        }
        self.state.replay.check_work()
    }

    /// Loads a block if there is none; false at the end.
    fn load(&mut self) -> Result<bool, AhrError> {
        while self.state.block.is_none() {
            let Some(part) = self.reader.next()? else { return Ok(false) };
            self.state.accept(part);
        }
        Ok(true)
    }
}

impl PlaybackState {
    fn new(replay: TerminalReplay) -> PlaybackState {
        let open = OpenSequence::default();
        PlaybackState { replay, open, block: None, applied: 0, within: 0, lost: Vec::new() }
    }

    /// Continues with the next part of the recording.
    fn accept(&mut self, part: Part) {
        match part {
            Part::Lost(lost) => self.remember(lost),
            Part::Block(block) => {
                block.damage().cloned().into_iter().for_each(|lost| self.remember(lost));
                self.replay.begin_block(&block);
                (self.block, self.applied, self.within) = (Some(block), 0, 0);
            }
        }
    }

    /// Applies the records left in the block while `should_apply` returns true. Returns true if none is left.
    fn play_block(
        &mut self,
        should_apply: &mut impl FnMut(&Record<'_>) -> bool,
        on_applied: &mut impl FnMut(&Record<'_>),
    ) -> Result<bool, AhrError> {
        let PlaybackState { replay, open, block: Some(block), applied, within, .. } = self else {
            return Ok(true);
        };
        for record in block.records().skip(*applied as usize) {
            let record = skip_applied(record, *within);
            if !should_apply(&record) {
                return Ok(false);
            }
            apply(replay, open, &record);
            replay.check_work()?;
            on_applied(&record);
            (*applied, *within) = (*applied + 1, 0);
        }
        self.block = None;
        Ok(true)
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

    fn remember(&mut self, lost: DamagedRange) {
        let is_known = self.lost.iter().any(|other| other.file.start == lost.file.start);
        if !is_known && self.lost.len() < MAX_LOST {
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
