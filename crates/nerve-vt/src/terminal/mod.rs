//! The terminal model, shared by live sessions and replay: [`TerminalState`].
//!
//! Bytes go in, a [`FeedResult`] comes out: replies to write to the child process, and alerts. Readers take a [`Screen`],
//! lines by absolute number, or a dump.
//!
//! # Line numbers
//!
//! [`LineIndex`] counts the rows of the main screen from the first one ever. The number of the top row equals the count
//! of rows that have left the screen, which never decreases:
//!
//! * Rows leave the main screen at its top by scrolling (LF, IND, NEL, wrapping, SU with the region at the top), by ED
//!   2 (which stores the rows before it clears them), by RIS, and by a resize. Rows deleted by DL or scrolled within a
//!   region that does not start at the top are discarded, as in xterm.
//! * ED 3, RIS and [`TerminalState::clear_scrollback`] remove stored rows; the numbering continues.
//! * The alternate screen stores nothing. While it is shown, cursor lines count from the main screen's top.
//! * A new width reflows the rows on the screen, so their numbers may shift. Rows that no longer fit are stored. Stored
//!   rows keep number and text, and snapshots stay with their text. A taller screen gets blank rows at the bottom: no
//!   rows are taken back from the store.
//!
//! # Frames
//!
//! While a synchronized update (`?2026`) is open, [`TerminalState::screen`] and [`TerminalState::tail`] show the last
//! complete frame; everything else is live. The caller calls [`TerminalState::expire_frame`] at
//! [`TerminalState::frame_deadline`].

mod alert;
mod ansi;
mod cells;
mod control_sequence;
mod csi;
mod dispatch;
mod dump;
mod frame;
mod keyboard;
mod keyframe;
mod last_alt_screen;
pub mod line;
mod model;
mod modes;
mod osc;
mod osc_guard;
mod overprint;
mod palette;
mod partial_char;
mod print;
mod reflow;
mod replies;
mod row_extents;
mod screens;
mod scroll;
mod sequence_state;
mod sgr;
mod snapshot_index;
pub mod store;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use alacritty_terminal::vte::Parser;
use nerve_types::{Size, TsNs};

use crate::screen::{Cursor, Modes, Row, Screen, Style};
use crate::terminal::store::Store;

pub use alert::{Alert, Clipboard, FeedResult, Mark, MarkKind, Notification, Selections};
pub use keyframe::{HiddenFlags, HiddenState, Keyframe};
pub use line::{Cell, LineIndex};
pub use palette::{CellColors, Rgb};
pub use sequence_state::SequenceState;
pub use snapshot_index::Snapshot;

use ansi::AnsiWriter;
use line::Line;
use model::Model;
use osc_guard::OscGuard;
use partial_char::PartialChar;
use snapshot_index::SnapshotIndex;

/// Maximum number of cells that a slice of output touches: see [`TerminalState::slice_len`].
const SLICE_WORK: usize = 64 << 20;
/// Maximum bytes of a slice of output.
const MAX_SLICE_LEN: usize = 64 << 10;
/// Maximum number of cells that one byte of output touches, as a multiple of the screen.
const SCREENS_PER_BYTE: usize = 2;

/// The state of a terminal, computed from its output bytes.
pub struct TerminalState {
    parser: Parser,
    partial_char: PartialChar,
    strings: OscGuard,
    model: Model,
    snapshots: SnapshotIndex,
}

impl std::fmt::Debug for TerminalState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (size, offset) = (self.model.size, self.model.stream.offset);
        f.debug_struct("TerminalState").field("size", &size).field("offset", &offset).finish_non_exhaustive()
    }
}

impl TerminalState {
    /// Creates a blank terminal that keeps up to 1,000,000 scrolled-off rows or about 256 MiB.
    pub fn new(size: Size) -> TerminalState {
        TerminalState {
            parser: Parser::new(),
            partial_char: PartialChar::default(),
            strings: OscGuard::default(),
            model: Model::new(size, Store::default()),
            snapshots: SnapshotIndex::default(),
        }
    }

    /// Sets the scrollback limits: `rows` at least 1, `bytes` at least 128 KiB.
    #[must_use]
    pub fn with_limits(mut self, rows: u64, bytes: usize) -> TerminalState {
        self.set_limits(rows, bytes);
        self
    }

    /// Changes the scrollback limits, as [`Self::with_limits`], and drops the oldest rows beyond them.
    pub fn set_limits(&mut self, rows: u64, bytes: usize) {
        self.model.store.set_limits(rows, bytes);
    }

    /// Processes output of the child process that arrived at `now`.
    ///
    /// The result does not depend on how the bytes are split into calls. If the engine panics, the screen is rebuilt
    /// and [`Alert::Rebuilt`] reports it; stored rows are kept.
    pub fn process_data(&mut self, now: TsNs, bytes: &[u8]) -> FeedResult {
        let end = self.model.stream.offset + bytes.len() as u64;
        self.catch_panics(self.model.size, |state| state.feed(now, bytes));
        self.model.stream.offset = end;
        self.model.spare_alternate = None;
        let mut changes = std::mem::take(&mut self.model.stream.changes);
        changes.replies = self.model.stream.replies.take();
        changes
    }

    /// Returns how many bytes of output can be processed in one call within a bounded time, whatever they contain. A
    /// caller that serves others splits longer output and yields in between.
    pub fn slice_len(&self) -> usize {
        (SLICE_WORK / SCREENS_PER_BYTE / self.model.size.cells()).clamp(1, MAX_SLICE_LEN)
    }

    /// Returns the number of cells that output and resizes have touched so far, as a measure of their cost.
    pub fn work(&self) -> u64 {
        self.model.stream.work
    }

    fn feed(&mut self, now: TsNs, bytes: &[u8]) {
        self.model.stream.now = now;
        let base = self.model.stream.offset - self.partial_char.len() as u64;
        let completed = self.partial_char.complete(bytes);
        if self.partial_char.is_complete() || completed < bytes.len() {
            let (character, len) = self.partial_char.take();
            self.advance(base, &character[..len]);
        }
        let rest = &bytes[completed..];
        let len = rest.len() - self.partial_char.hold(rest);
        self.advance(self.model.stream.offset + completed as u64, &rest[..len]);
    }

    /// Processes bytes; `base` is the number of output bytes before them.
    fn advance(&mut self, base: u64, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() {
            if !self.strings.is_inside() {
                at += self.advance_text(&bytes[at..]);
            }
            // The rest continues a sequence or begins with an ESC, unless a sequence in the text requested a
            // stop.
            if !self.model.sequence.stop {
                at += self.advance_parser(&bytes[at..]);
            }
            if self.model.sequence.stop {
                self.on_parser_stop(base + at as u64, bytes[at - 1], &bytes[at..]);
            }
        }
    }

    /// Processes text and complete control sequences up to another sequence. Returns the number of bytes processed.
    fn advance_text(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while !self.model.sequence.stop {
            at += self.model.print_text(&bytes[at..]);
            let len = self.model.execute_csi(&bytes[at..]);
            if len == 0 {
                break;
            }
            at += len;
        }
        at
    }

    /// Feeds bytes of a sequence to the parser. Returns the number of bytes processed.
    fn advance_parser(&mut self, bytes: &[u8]) -> usize {
        let segment = self.strings.next(bytes);
        self.model.stream.string_broken = self.strings.cut || self.strings.cancelled;
        if segment.feed {
            self.parser.advance(&mut self.model, &bytes[..segment.len]);
        }
        segment.len
    }

    /// Handles the end of a sequence that requested a stop, at its exact stream position. `last` is its last
    /// byte, `rest` the bytes after it.
    fn on_parser_stop(&mut self, offset: u64, last: u8, rest: &[u8]) {
        let model = &mut self.model;
        model.sequence.stop = false;
        if let Some(Alert::Mark(mark)) = model.stream.changes.alerts.last_mut()
            && mark.offset == u64::MAX
        {
            // A string terminated by ESC \ is dispatched at the ESC.
            mark.offset = offset + u64::from(last == 0x1b);
        }
        if model.frames.wants_view(rest) {
            let view = model.frame_view(offset);
            model.frames.keep(view);
            model.charge_screen();
        }
    }

    /// Runs `work`. A panic in it costs the screen but not the process: the model is rebuilt with the given size.
    fn catch_panics(&mut self, size: Size, work: impl FnOnce(&mut TerminalState)) {
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(self))) else { return };
        self.parser = Parser::new();
        self.partial_char = PartialChar::default();
        self.strings = OscGuard::default();
        self.model.rebuild(size);
        self.model.stream.changes.push_alert(Alert::Rebuilt { reason: reason(panic.as_ref()) });
    }

    /// Resizes the terminal. An open synchronized update is shown.
    pub fn resize(&mut self, size: Size) {
        self.model.frames.close();
        self.catch_panics(size, |state| state.model.resize(size, &mut state.snapshots));
    }

    /// Returns the size in cells.
    pub fn size(&self) -> Size {
        self.model.size
    }

    /// Returns the number of output bytes processed.
    pub fn offset(&self) -> u64 {
        self.model.stream.offset
    }

    /// Returns the visible screen: the last complete frame while a synchronized update is open.
    pub fn screen(&self) -> Screen {
        match self.model.frames.view() {
            Some(view) => view.clone(),
            None => self.model.live_screen(self.model.stream.offset),
        }
    }

    /// Returns the last complete frame while a synchronized update is open.
    pub fn frame(&self) -> Option<&Screen> {
        self.model.frames.view()
    }

    /// Returns a row of the live active screen, 0-based; `None` below it.
    pub fn screen_row(&self, row: u16) -> Option<Row> {
        if row >= self.size().rows {
            return None;
        }
        let mut line = Line::default();
        self.model.read_row(true, i32::from(row), &mut line);
        Some(line.into_row())
    }

    /// Returns the line number of the live main screen's first row.
    pub fn screen_start(&self) -> LineIndex {
        LineIndex(self.model.store.end())
    }

    /// Returns the live cursor.
    pub fn cursor(&self) -> Cursor {
        let (row, col) = self.model.cursor();
        Cursor { row: row as u16, col: col as u16, visible: self.model.modes.cursor_visible }
    }

    /// Returns the line of the live cursor.
    pub fn cursor_line(&self) -> LineIndex {
        LineIndex(self.model.store.end() + self.model.cursor().0 as u64)
    }

    /// Returns the last line of the main screen in which text was written over other text, unless the line was written again since.
    pub fn covered_line(&self) -> Option<LineIndex> {
        self.model.printing.overprint.covered_line().map(LineIndex)
    }

    /// Returns the column of the live cursor, 0-based.
    pub fn cursor_col(&self) -> u16 {
        self.model.cursor().1 as u16
    }

    /// Returns the window title; empty if none was set.
    pub fn title(&self) -> &str {
        &self.model.titles.current
    }

    /// Returns the cursor style set by DECSCUSR, 0–6; 0 is the terminal's default.
    pub fn cursor_style(&self) -> u16 {
        self.model.cursor_style
    }

    /// Returns the modes that affect the encoding of input.
    pub fn modes(&self) -> Modes {
        self.model.public_modes()
    }

    /// Returns the colours of a cell with this style: those of a dark theme, with the program's changes (OSC 4, 10, 11).
    pub fn cell_colors(&self, style: Style) -> CellColors {
        self.model.palette.cell_colors(style)
    }

    /// Returns when an open synchronized update is shown anyway: 150 ms after it was opened.
    pub fn frame_deadline(&self) -> Option<TsNs> {
        self.model.frames.deadline()
    }

    /// Shows an open synchronized update whose deadline has passed. Returns true if there was one.
    pub fn expire_frame(&mut self, now: TsNs) -> bool {
        self.frame_deadline().is_some_and(|deadline| deadline <= now) && self.model.frames.close()
    }

    // ---- Lines ----

    /// Returns the number of lines, up to the last line of the main screen that shows something or has the cursor.
    pub fn line_count(&self) -> u64 {
        let cursor = self.model.main_grid().cursor.point.line.0 + 1;
        self.model.store.end() + self.model.used_rows().max(cursor) as u64
    }

    /// Returns the oldest line that is still stored.
    pub fn first_kept_line(&self) -> LineIndex {
        LineIndex(self.model.store.first())
    }

    /// Returns the line's text without trailing blanks; `None` for a line that is not available.
    pub fn line_text(&self, line: LineIndex) -> Option<String> {
        self.line(line).map(|line| line.trimmed().to_string())
    }

    /// Returns the line's text left of column `col` (0-based; a wide character takes two), including trailing blanks;
    /// `None` for a line that is not available.
    pub fn line_text_to(&self, line: LineIndex, col: u16) -> Option<String> {
        let mut line = self.line(line)?;
        line.text.truncate(line.text_to(col).len());
        Some(line.text)
    }

    /// Returns the line as a screen row; `None` for a line that is not available.
    pub fn line_row(&self, line: LineIndex) -> Option<Row> {
        self.line(line).map(Line::into_row)
    }

    /// Returns the line as ANSI text (SGR and OSC 8) that ends with the default rendition; `None` for a line that is
    /// not available.
    pub fn line_content(&self, line: LineIndex) -> Option<String> {
        let line = self.line(line)?;
        let mut writer = AnsiWriter::default();
        writer.line(&line);
        writer.reset();
        String::from_utf8(writer.out).ok()
    }

    /// Returns true if the terminal wrapped the line, so that it continues in the next one.
    pub fn is_line_wrapped(&self, line: LineIndex) -> bool {
        match self.main_row(line) {
            Some(_) => self.line(line).is_some_and(|line| line.wrapped),
            None => self.model.store.is_wrapped(line.0),
        }
    }

    /// Returns the text of these lines, with wrapped lines joined and trailing blanks cut. Unavailable lines are left
    /// out; the last line ends where the range ends.
    pub fn text(&self, lines: Range<LineIndex>) -> Vec<String> {
        let first = lines.start.max(self.first_kept_line()).0;
        let end = lines.end.0.min(self.line_count());
        let mut texts = Vec::new();
        let (mut line, mut text) = (Line::default(), String::new());
        for number in first..end {
            if !self.read(LineIndex(number), &mut line) {
                continue;
            }
            text.push_str(if line.wrapped { &line.text } else { line.trimmed() });
            if !line.wrapped || number + 1 == end {
                text.truncate(text.trim_end_matches(' ').len());
                texts.push(std::mem::take(&mut text));
            }
        }
        texts
    }

    /// Returns the last `lines` rows as text without trailing blank rows. On the alternate screen, returns visible rows
    /// only. While a synchronized update is open, the last complete frame counts.
    pub fn tail(&self, lines: usize) -> Vec<String> {
        let screen = self.screen();
        let used = screen.rows.iter().rposition(|row| !row.text.is_empty()).map_or(0, |last| last + 1);
        let screen_texts = screen.rows.into_iter().take(used).map(|row| row.text);
        if screen.modes.alternate {
            return screen_texts.skip(used.saturating_sub(lines)).collect();
        }
        let missing = lines.saturating_sub(used) as u64;
        let mut first = screen.first_line.saturating_sub(missing).max(self.model.store.first());
        let mut line = Line::default();
        let mut texts = Vec::new();
        while first < screen.first_line {
            if self.model.store.read(first, &mut line) {
                texts.push(line.trimmed().to_string());
            }
            first += 1;
        }
        texts.extend(screen_texts);
        let end = texts.iter().rposition(|text| !text.is_empty()).map_or(0, |last| last + 1);
        texts.truncate(end);
        texts.split_off(texts.len().saturating_sub(lines))
    }

    /// Removes stored lines; the numbering continues.
    pub fn clear_scrollback(&mut self) {
        self.model.store.clear();
    }

    /// Returns the approximate memory of the stored lines in bytes.
    pub fn memory(&self) -> usize {
        self.model.store.memory()
    }

    /// Returns ANSI bytes that recreate screens, cursor, modes, title, scroll region, tab stops and colours in a new
    /// terminal of this size. Stored lines are not included. An open synchronized update is left open.
    pub fn dump(&self) -> Vec<u8> {
        dump::dump(&self.model)
    }

    /// Returns [`TerminalState::dump`] preceded by the last stored lines, for a terminal that keeps its own scrollback: at
    /// most `max_rows` lines and about `max_bytes` bytes of them.
    pub fn dump_with_scrollback(&self, max_rows: usize, max_bytes: usize) -> Vec<u8> {
        dump::dump_with_scrollback(&self.model, max_rows, max_bytes)
    }

    fn line(&self, number: LineIndex) -> Option<Line> {
        let mut line = Line::default();
        self.read(number, &mut line).then_some(line)
    }

    fn read(&self, number: LineIndex, line: &mut Line) -> bool {
        match self.main_row(number) {
            Some(row) => {
                self.model.read_row(false, row, line);
                true
            }
            None => self.model.store.read(number.0, line),
        }
    }

    /// Returns the row of the main screen that is line `number`.
    fn main_row(&self, number: LineIndex) -> Option<i32> {
        let row = number.0.checked_sub(self.model.store.end())?;
        i32::try_from(row).ok().filter(|row| *row < self.model.rows())
    }

    // ---- Snapshots ----

    /// Attaches a snapshot to the line and column of the cursor. On the alternate screen, to the position at which the
    /// main screen was left.
    pub fn record_snapshot(&mut self, snapshot: Snapshot) {
        let point = self.model.main_grid().cursor.point;
        let line = LineIndex(self.model.store.end() + point.line.0 as u64);
        let (col, alternate) = (point.column.0 as u16, self.model.is_alternate());
        self.snapshots.record(line, Snapshot { col, alternate, ..snapshot });
    }

    /// Returns true if a snapshot is attached to that line.
    pub fn has_snapshot_at_line(&self, line: LineIndex) -> bool {
        self.snapshots.at_line(line).len() > 0
    }

    /// Returns the latest snapshot attached to that line.
    pub fn get_snapshot_for_line(&self, line: LineIndex) -> Option<&Snapshot> {
        self.snapshots.at_line(line).next_back()
    }

    /// Returns all snapshots attached to that line, oldest first.
    pub fn snapshots_at_line(&self, line: LineIndex) -> impl Iterator<Item = &Snapshot> {
        self.snapshots.at_line(line)
    }

    /// Returns all snapshots ordered by line, then by time. Includes lines that are no longer stored.
    pub fn snapshots_by_line(&self) -> impl Iterator<Item = (LineIndex, &Snapshot)> {
        self.snapshots.by_line()
    }

    /// Returns the line to which the snapshot with that id is attached.
    pub fn line_of_snapshot(&self, id: u64) -> Option<LineIndex> {
        self.snapshots.by_line().find(|(_, snapshot)| snapshot.id == id).map(|(line, _)| line)
    }

    /// Returns all snapshots, oldest first. Their lines need not increase, because cursors move up.
    pub fn snapshots_by_time(&self) -> Vec<(LineIndex, &Snapshot)> {
        self.snapshots.by_time()
    }

    /// Returns the last snapshot on an earlier line.
    pub fn last_snapshot_before_line(&self, line: LineIndex) -> Option<(LineIndex, &Snapshot)> {
        self.snapshots.before(line)
    }

    /// Returns the first snapshot on a later line.
    pub fn next_snapshot_after_line(&self, line: LineIndex) -> Option<(LineIndex, &Snapshot)> {
        self.snapshots.after(line)
    }
}

fn reason(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panic".to_string())
}
