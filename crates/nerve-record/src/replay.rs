//! Replays a recording into a terminal, exactly like live output.

use std::io::{Read, Seek};

use nerve_types::{Size, TsNs};
use nerve_vt::terminal::{FeedResult, Keyframe, Snapshot, TerminalState};

use crate::ahr::{AhrError, Block, Body, DamagedRange, Part, Reader, Record};

/// Default limit of the scrollback in rows.
pub const ROWS: u64 = 1_000_000;
/// Default limit of the scrollback in bytes, approximate.
pub const BYTES: usize = 512 << 20;

/// Work allowed for any recording, in cells ([`TerminalState::work`]): a second at most.
const WORK_ALLOWANCE: u64 = 256 << 20;
/// Additional work allowed per byte of the file. A recording that repeats one line needs a third of it.
const WORK_PER_BYTE: u64 = 16 << 10;
/// Work of a record in addition to that of the terminal.
const RECORD_WORK: u64 = 16;

/// A terminal in the state of a recording at the last applied record.
#[derive(Debug)]
pub struct TerminalReplay {
    /// The terminal.
    pub terminal: TerminalState,
    /// The latest time of any record: clocks can step back, this one does not.
    clock: TsNs,
    /// Snapshots of output that has not arrived yet, by offset.
    pending: Vec<Snapshot>,
    /// Work of records in addition to that of the terminal.
    work: u64,
    budget: Option<WorkBudget>,
}

/// The work that the blocks read so far may demand.
#[derive(Debug, Clone, Copy)]
struct WorkBudget {
    limit: u64,
    /// File offset of the block being replayed.
    block: u64,
}

impl TerminalReplay {
    /// Creates a blank terminal. `size` applies until the first resize record.
    pub fn new(size: Size) -> TerminalReplay {
        TerminalReplay::from_terminal(TerminalState::new(size))
    }

    /// Resumes at a keyframe. Earlier lines and snapshots are missing; line numbers are preserved.
    pub fn from_keyframe(keyframe: &Keyframe) -> TerminalReplay {
        TerminalReplay {
            clock: keyframe.at,
            ..TerminalReplay::from_terminal(TerminalState::from_keyframe(keyframe))
        }
    }

    fn from_terminal(terminal: TerminalState) -> TerminalReplay {
        let terminal = terminal.with_limits(ROWS, BYTES).keeping_last_alt_screen();
        TerminalReplay { terminal, clock: TsNs::default(), pending: Vec::new(), work: 0, budget: None }
    }

    /// Sets the limits of the scrollback: rows and approximate bytes.
    #[must_use]
    pub fn with_limits(mut self, rows: u64, bytes: usize) -> TerminalReplay {
        self.terminal = self.terminal.with_limits(rows, bytes);
        self
    }

    /// Replays the rest of `reader` into a new terminal. Reports damage to `on_lost` and continues after it.
    ///
    /// # Errors
    /// The file cannot be read, or demands too much work.
    pub fn read_all<R: Read + Seek + Send>(
        reader: &mut Reader<R>,
        on_lost: impl FnMut(&DamagedRange),
    ) -> Result<TerminalReplay, AhrError> {
        let mut replay = TerminalReplay::new(Size::default());
        replay.read_rest(reader, on_lost)?;
        Ok(replay)
    }

    /// Replays the rest of `reader`.
    ///
    /// # Errors
    /// The file cannot be read, or demands too much work.
    pub fn read_rest<R: Read + Seek + Send>(
        &mut self,
        reader: &mut Reader<R>,
        mut on_lost: impl FnMut(&DamagedRange),
    ) -> Result<(), AhrError> {
        reader.read_ahead(|part| {
            match part {
                Part::Block(block) => {
                    self.begin_block(&block);
                    for record in block.records() {
                        self.apply(&record);
                        self.check_work()?;
                    }
                    block.damage().into_iter().for_each(&mut on_lost);
                }
                Part::Lost(lost) => on_lost(&lost),
            }
            Ok(true)
        })?;
        self.finish();
        Ok(())
    }

    /// Limits the work of the following records to what a block of this size may demand.
    pub fn begin_block(&mut self, block: &Block) {
        let file = block.file();
        let limit = self.budget.map_or_else(|| self.total_work() + WORK_ALLOWANCE, |budget| budget.limit);
        let more = (file.end - file.start).saturating_mul(WORK_PER_BYTE);
        self.budget = Some(WorkBudget { limit: limit.saturating_add(more), block: file.start });
    }

    /// Checks that the records demanded no more work than allowed. Once they have, further records are ignored.
    ///
    /// # Errors
    /// [`AhrError::Work`].
    pub fn check_work(&self) -> Result<(), AhrError> {
        match self.budget {
            Some(WorkBudget { limit, block }) if self.total_work() > limit => {
                Err(AhrError::Work { at: block })
            }
            _ => Ok(()),
        }
    }

    fn total_work(&self) -> u64 {
        self.terminal.work().saturating_add(self.work)
    }

    /// Applies the next record.
    ///
    /// A jump in the output offset is treated as a gap, which cancels an open escape sequence. A snapshot is bound to
    /// the cursor position at its offset, or to the current one if that offset has passed.
    pub fn apply(&mut self, record: &Record<'_>) -> FeedResult {
        if self.check_work().is_err() {
            return FeedResult::default();
        }
        self.work = self.work.saturating_add(RECORD_WORK);
        self.clock = self.clock.max(record.at);
        self.terminal.expire_frame(self.clock);
        match record.body {
            Body::Data { off, bytes } => return self.output(off, bytes),
            Body::Resize { cols, rows } => self.terminal.resize(Size::new(cols, rows)),
            Body::Snapshot { id, anchor, label } => {
                let label = (!label.is_empty()).then(|| String::from_utf8_lossy(label).into_owned());
                self.snapshot(Snapshot { id, label, at: record.at, offset: anchor, ..Snapshot::default() });
            }
            Body::Input { .. } | Body::Mark(_) => {}
        }
        FeedResult::default()
    }

    /// Returns a keyframe of the current state; `None` if the state cannot be represented. The output so far must not
    /// end within an escape sequence: see [`TerminalState::keyframe`].
    pub fn keyframe(&self) -> Option<Keyframe> {
        if self.pending.is_empty() { self.terminal.keyframe(self.clock) } else { None }
    }

    /// Lets time pass without a record, which ends an overdue synchronized update.
    pub fn wait_until(&mut self, now: TsNs) {
        self.clock = self.clock.max(now);
        self.terminal.expire_frame(self.clock);
    }

    /// Ends the replay: binds snapshots whose output never arrived to the cursor position.
    pub fn finish(&mut self) {
        for snapshot in std::mem::take(&mut self.pending) {
            self.terminal.record_snapshot(snapshot);
        }
    }

    /// Returns the latest time of any applied record.
    pub fn clock(&self) -> TsNs {
        self.clock
    }

    fn snapshot(&mut self, snapshot: Snapshot) {
        if snapshot.offset <= self.terminal.offset() {
            return self.terminal.record_snapshot(snapshot);
        }
        let at = self.pending.partition_point(|other| other.offset <= snapshot.offset);
        self.work = self.work.saturating_add(RECORD_WORK * (self.pending.len() - at) as u64);
        self.pending.insert(at, snapshot);
    }

    fn output(&mut self, off: u64, mut bytes: &[u8]) -> FeedResult {
        if off > self.terminal.offset() {
            self.bind(off);
            self.terminal.skip_to(off);
        }
        let mut all = FeedResult::default();
        while !bytes.is_empty() {
            let until = self.pending.first().map_or(u64::MAX, |snapshot| snapshot.offset);
            let room = usize::try_from(until.saturating_sub(self.terminal.offset())).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(room.min(bytes.len()).min(self.terminal.slice_len()));
            let changes = self.terminal.process_data(self.clock, now);
            all.replies.extend(changes.replies);
            all.alerts.extend(changes.alerts);
            self.bind(self.terminal.offset());
            bytes = if self.check_work().is_ok() { later } else { &[] };
        }
        all
    }

    /// Binds the pending snapshots up to `offset`.
    fn bind(&mut self, offset: u64) {
        let due = self.pending.partition_point(|snapshot| snapshot.offset <= offset);
        for snapshot in self.pending.drain(..due) {
            self.terminal.record_snapshot(snapshot);
        }
    }
}
