//! A recording being played: a place in it, and the terminal as it was there.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use nerve_term::event::{Size, TsNs};

use crate::ahr::{AhrError, Block, Body, Lost, Part, Reader, Record};
use crate::index::{Index, Place, Position};
use crate::replay::TerminalReplay;

/// Lost stretches that are remembered.
const MAX_LOST: usize = 1000;

/// Plays a recording: forward record by record, and to any place by seeking.
#[derive(Debug)]
pub struct Playback {
    path: PathBuf,
    reader: Reader<BufReader<File>>,
    /// Size until the recording tells its own.
    size: Size,
    replay: TerminalReplay,
    block: Option<Block>,
    /// Records of `block` that have been applied, and bytes of the next one.
    applied: u32,
    within: usize,
    lost: Vec<Lost>,
}

impl Playback {
    /// Opens a recording at its start. `size` holds until the recording tells its own.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn open(path: &Path, size: Size) -> Result<Playback, AhrError> {
        Ok(Playback {
            path: path.into(),
            reader: Reader::open(path)?,
            size,
            replay: TerminalReplay::new(size),
            block: None,
            applied: 0,
            within: 0,
            lost: Vec::new(),
        })
    }

    /// Opens a recording near its end: at a block after which about `output` bytes of output come. What was before them is not in the
    /// terminal: lines are numbered from there, and what was set before (modes, another size) is not known. The start, if no such
    /// place is found.
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

    /// The terminal at this place.
    pub fn replay(&self) -> &TerminalReplay {
        &self.replay
    }

    /// The same, to let time pass in it.
    pub fn replay_mut(&mut self) -> &mut TerminalReplay {
        &mut self.replay
    }

    /// The terminal, played to this place.
    pub fn into_replay(self) -> TerminalReplay {
        self.replay
    }

    /// Damaged stretches met so far, at most 1000, each once.
    pub fn lost(&self) -> &[Lost] {
        &self.lost
    }

    /// Time of the next record, never before that of the ones before it; `None` at the end. A recording that is being written
    /// may go on later.
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

    /// Applies records as long as there are some and `wanted` says so, and shows each to `seen` when it has been applied. True
    /// if there is a record left.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn play(
        &mut self,
        mut should_apply: impl FnMut(&Record<'_>) -> bool,
        mut on_applied: impl FnMut(&Record<'_>),
    ) -> Result<bool, AhrError> {
        while self.load()? {
            let Playback { replay, block: Some(block), applied, within, .. } = self else { break };
            for record in block.records().skip(*applied as usize) {
                let record = rest_of(record, *within);
                if !should_apply(&record) {
                    return Ok(true);
                }
                replay.apply(&record);
                on_applied(&record);
                (*applied, *within) = (*applied + 1, 0);
            }
            self.block = None;
        }
        self.replay.finish();
        Ok(false)
    }

    /// Goes to a place, by the index where that is shorter. A place behind the end is the end.
    ///
    /// After a jump the lines and snapshots before the keyframe are not in the terminal; line numbers are as ever.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn seek(&mut self, to: Position) -> Result<(), AhrError> {
        let ahead = match to {
            Position::Offset(offset) => self.replay.terminal.offset() <= offset,
            Position::Time(at) => self.replay.clock() < at,
        };
        let keyframe = Index::ensure(&self.path)?.and_then(|index| index.keyframe_before(to));
        match keyframe {
            Some((keyframe, _)) if ahead && keyframe.offset <= self.replay.terminal.offset() => {}
            Some((keyframe, place)) => self.jump(TerminalReplay::from_keyframe(&keyframe), place)?,
            None if ahead => {}
            None => self.jump(TerminalReplay::new(self.size), Place { block: 0, records: 0 })?,
        }
        self.approach(to)
    }

    fn jump(&mut self, replay: TerminalReplay, place: Place) -> Result<(), AhrError> {
        self.reader.seek_to(place.block)?;
        self.replay = replay;
        self.block = None;
        // The next block that is loaded is the place's.
        (self.applied, self.within) = (0, 0);
        if place.records > 0 && self.load()? {
            self.applied = place.records;
        }
        Ok(())
    }

    /// Plays up to the place, which is not behind.
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
        Ok(())
    }

    /// Applies what of the next record is before output byte `offset`.
    fn enter(&mut self, offset: u64) {
        let next = self.block.as_ref().and_then(|block| block.records().nth(self.applied as usize));
        let Some(Record { at, body: Body::Data { off, bytes } }) = next else { return };
        let len = usize::try_from(offset.saturating_sub(off)).unwrap_or(usize::MAX).min(bytes.len());
        if len > self.within {
            let part = Body::Data { off: off + self.within as u64, bytes: &bytes[self.within..len] };
            self.replay.apply(&Record { at, body: part });
            self.within = len;
        }
    }

    /// Makes sure that there is a block; false at the end.
    fn load(&mut self) -> Result<bool, AhrError> {
        while self.block.is_none() {
            match self.reader.next()? {
                None => return Ok(false),
                Some(Part::Lost(lost)) => self.remember(lost),
                Some(Part::Block(block)) => {
                    block.damage().cloned().into_iter().for_each(|lost| self.remember(lost));
                    (self.block, self.applied, self.within) = (Some(block), 0, 0);
                }
            }
        }
        Ok(true)
    }

    fn remember(&mut self, lost: Lost) {
        let known = self.lost.iter().any(|other| other.file.start == lost.file.start);
        if !known && self.lost.len() < MAX_LOST {
            self.lost.push(lost);
        }
    }
}

/// The record without the bytes of it that have been applied.
fn rest_of(record: Record<'_>, within: usize) -> Record<'_> {
    match record.body {
        Body::Data { off, bytes } if within > 0 => {
            let body =
                Body::Data { off: off + within as u64, bytes: bytes.get(within..).unwrap_or_default() };
            Record { body, ..record }
        }
        _ => record,
    }
}
