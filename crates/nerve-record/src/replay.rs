//! A recording folded into a terminal: the same replay as live (design section 1).

use std::io::{Read, Seek};

use nerve_term::event::{Size, TsNs};
use nerve_term::terminal::{Changes, Keyframe, Snapshot, TerminalState};

use crate::ahr::{AhrError, Body, Lost, Part, Reader, Record};

/// Rows of scrollback a replay keeps (seed agent-record §10.1).
pub const ROWS: u64 = 1_000_000;
/// Bytes the scrollback may take, about.
pub const BYTES: usize = 512 << 20;

/// A recording, as far as it has been read, as the terminal it was.
#[derive(Debug)]
pub struct TerminalReplay {
    /// The terminal.
    pub terminal: TerminalState,
    /// The latest time of any record: clocks step back, this one does not.
    clock: TsNs,
    /// Snapshots whose byte has not come yet, in the order of their bytes.
    pending: Vec<Snapshot>,
}

impl TerminalReplay {
    /// A blank terminal. The size holds until the recording tells its own, which is before its first byte.
    pub fn new(size: Size) -> TerminalReplay {
        TerminalReplay::of(TerminalState::new(size))
    }

    /// Goes on from a keyframe. Lines and snapshots before it are not there; line numbers are as they were.
    pub fn from_keyframe(keyframe: &Keyframe) -> TerminalReplay {
        TerminalReplay { clock: keyframe.at, ..TerminalReplay::of(TerminalState::from_keyframe(keyframe)) }
    }

    fn of(terminal: TerminalState) -> TerminalReplay {
        let terminal = terminal.with_limits(ROWS, BYTES).keeping_last_alt_screen();
        TerminalReplay { terminal, clock: TsNs::default(), pending: Vec::new() }
    }

    /// The same with another limit for the scrollback: rows, and bytes it may take.
    #[must_use]
    pub fn with_limits(mut self, rows: u64, bytes: usize) -> TerminalReplay {
        self.terminal = self.terminal.with_limits(rows, bytes);
        self
    }

    /// Folds all that `reader` still has. Damaged stretches are told to `on_lost`; everything intact counts.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read_all<R: Read + Seek>(
        reader: &mut Reader<R>,
        on_lost: impl FnMut(&Lost),
    ) -> Result<TerminalReplay, AhrError> {
        let mut replay = TerminalReplay::new(Size::default());
        replay.read_rest(reader, on_lost)?;
        Ok(replay)
    }

    /// The same for a replay that exists.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read_rest<R: Read + Seek>(
        &mut self,
        reader: &mut Reader<R>,
        mut on_lost: impl FnMut(&Lost),
    ) -> Result<(), AhrError> {
        while let Some(part) = reader.next()? {
            match part {
                Part::Block(block) => {
                    for record in block.records() {
                        self.apply(&record);
                    }
                    block.damage().into_iter().for_each(&mut on_lost);
                }
                Part::Lost(lost) => on_lost(&lost),
            }
        }
        self.finish();
        Ok(())
    }

    /// Applies the next record.
    ///
    /// Output that does not follow what was there before is preceded by a gap: its offset counts, and whatever sequence was
    /// open is given up. A snapshot is bound where the cursor is at its byte; if that byte has passed, where it is now.
    pub fn apply(&mut self, record: &Record<'_>) -> Changes {
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
        Changes::default()
    }

    /// This moment to go on from; `None` while something is unfinished that a keyframe cannot hold. The output so far must not
    /// end within an escape sequence: see [`TerminalState::keyframe`].
    pub fn keyframe(&self) -> Option<Keyframe> {
        if self.pending.is_empty() { self.terminal.keyframe(self.clock) } else { None }
    }

    /// Lets time pass without a record: a synchronized update that has been open for too long is shown.
    pub fn wait_until(&mut self, now: TsNs) {
        self.clock = self.clock.max(now);
        self.terminal.expire_frame(self.clock);
    }

    /// No record will follow: snapshots of bytes that never came are bound where the cursor is.
    pub fn finish(&mut self) {
        for snapshot in std::mem::take(&mut self.pending) {
            self.terminal.record_snapshot(snapshot);
        }
    }

    /// The latest time of any record applied.
    pub fn clock(&self) -> TsNs {
        self.clock
    }

    fn snapshot(&mut self, snapshot: Snapshot) {
        if snapshot.offset <= self.terminal.offset() {
            return self.terminal.record_snapshot(snapshot);
        }
        let at = self.pending.partition_point(|other| other.offset <= snapshot.offset);
        self.pending.insert(at, snapshot);
    }

    fn output(&mut self, off: u64, mut bytes: &[u8]) -> Changes {
        if off > self.terminal.offset() {
            self.bind(off);
            self.terminal.skip_to(off);
        }
        if self.pending.is_empty() {
            return self.terminal.process_data(self.clock, bytes);
        }
        let mut all = Changes::default();
        while !bytes.is_empty() {
            let until = self.pending.first().map_or(u64::MAX, |snapshot| snapshot.offset);
            let room = usize::try_from(until.saturating_sub(self.terminal.offset())).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            let changes = self.terminal.process_data(self.clock, now);
            all.replies.extend(changes.replies);
            all.notices.extend(changes.notices);
            self.bind(self.terminal.offset());
            bytes = later;
        }
        all
    }

    /// Binds the snapshots whose byte is `offset` or before it.
    fn bind(&mut self, offset: u64) {
        let due = self.pending.partition_point(|snapshot| snapshot.offset <= offset);
        for snapshot in self.pending.drain(..due) {
            self.terminal.record_snapshot(snapshot);
        }
    }
}
