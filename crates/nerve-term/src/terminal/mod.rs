//! [`TerminalState`]: the one model of a terminal, live and in replay (seed agent-record §7).
//!
//! Bytes go in, [`Changes`] come out: replies to write to the child and notices of what happened. Readers take a
//! [`Screen`], lines by absolute number, or a dump.
//!
//! # Line numbers
//!
//! [`LineIndex`] counts the rows of the main screen from the first one ever. The row at the top of the screen has the
//! number of rows that have left it so far, which never goes down:
//!
//! * Rows leave the main screen at its top by scrolling (LF, IND, NEL, wrapping, SU with the region at the top), by ED 2
//!   (what was shown is stored, then cleared), by RIS, and by a resize. Rows deleted by DL or scrolled within a region that
//!   does not start at the top are gone, as in xterm.
//! * ED 3, RIS and [`TerminalState::clear_scrollback`] forget stored rows; numbering goes on.
//! * The alternate screen stores nothing. While it is shown, cursor lines count from the main screen's top.
//! * A new width reflows the rows on the screen, so their numbers may shift; rows already stored keep number and text. Snapshots
//!   stay with their text.
//!   Rows that no longer fit are stored. A taller screen gets blank rows at the bottom: none are taken back.
//!
//! # Frames
//!
//! While a synchronized update (`?2026`) is open, [`TerminalState::screen`] and [`TerminalState::tail`] show the last
//! finished frame; everything else is live. The caller calls [`TerminalState::expire_frame`] at
//! [`TerminalState::frame_deadline`].

mod ansi;
mod cells;
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
mod notice;
mod notifications;
mod osc;
mod osc_guard;
mod palette;
mod partial_char;
mod print;
mod reflow;
mod replies;
mod row_extents;
mod screens;
mod scroll;
mod sgr;
mod snapshot_index;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use alacritty_terminal::vte::Parser;

use crate::event::{Size, TsNs};
use crate::screen::{Cursor, Modes, Row, Screen};
use crate::store::Store;

pub use keyframe::{Between, Hidden, Keyframe};
pub use line::Cell;
pub use notice::{Changes, Clipboard, Mark, MarkKind, Notice, Notification, Selections};
pub use snapshot_index::Snapshot;

use ansi::AnsiWriter;
use line::Line;
use model::Model;
use osc_guard::StringGuard;
use partial_char::Partial;
use snapshot_index::Anchors;

/// Absolute line number: 0 is the first line the terminal ever had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LineIndex(pub u64);

/// A terminal: what its output bytes have made of it.
pub struct TerminalState {
    parser: Parser,
    partial: Partial,
    strings: StringGuard,
    model: Model,
    anchors: Anchors,
}

impl std::fmt::Debug for TerminalState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (size, offset) = (self.model.size, self.model.offset);
        f.debug_struct("TerminalState").field("size", &size).field("offset", &offset).finish_non_exhaustive()
    }
}

impl TerminalState {
    /// A blank terminal that keeps up to 1,000,000 rows or about 256 MiB of what scrolled off.
    pub fn new(size: Size) -> TerminalState {
        TerminalState {
            parser: Parser::new(),
            partial: Partial::default(),
            strings: StringGuard::default(),
            model: Model::new(size, Store::default()),
            anchors: Anchors::default(),
        }
    }

    /// The same with other limits: `rows` at least 1, `bytes` at least 128 KiB.
    #[must_use]
    pub fn with_limits(mut self, rows: u64, bytes: usize) -> TerminalState {
        self.model.store.set_limits(rows, bytes);
        self
    }

    /// Takes output of the child that arrived at `now`.
    ///
    /// How the bytes are cut into calls makes no difference to what the terminal shows. Should the engine panic, the
    /// screen is made anew and [`Notice::Rebuilt`] says so; stored rows are kept.
    pub fn process_data(&mut self, now: TsNs, bytes: &[u8]) -> Changes {
        let end = self.model.offset + bytes.len() as u64;
        self.guarded(self.model.size, |state| state.feed(now, bytes));
        self.model.offset = end;
        let mut changes = std::mem::take(&mut self.model.changes);
        changes.replies = self.model.replies.take();
        changes
    }

    fn feed(&mut self, now: TsNs, bytes: &[u8]) {
        self.model.now = now;
        let base = self.model.offset - self.partial.len() as u64;
        let more = self.partial.complete(bytes);
        if self.partial.is_complete() || more < bytes.len() {
            let (character, len) = self.partial.take();
            self.advance(base, &character[..len]);
        }
        let rest = &bytes[more..];
        let whole = rest.len() - self.partial.hold(rest);
        self.advance(self.model.offset + more as u64, &rest[..whole]);
    }

    /// Hands bytes to the parser; `base` output bytes came before them.
    fn advance(&mut self, base: u64, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() {
            let segment = self.strings.next(&bytes[at..]);
            let end = at + segment.len;
            self.model.string_broken = self.strings.cut || self.strings.cancelled;
            while segment.feed && at < end {
                at += self.parser.advance_until_terminated(&mut self.model, &bytes[at..end]);
                self.model.flush();
                if self.model.stop {
                    self.stopped(base + at as u64, bytes[at - 1], &bytes[at..]);
                }
            }
            at = end;
        }
    }

    /// The parser has stopped where the place in the stream matters. `last` is the byte it took last, `rest` what follows.
    fn stopped(&mut self, offset: u64, last: u8, rest: &[u8]) {
        let model = &mut self.model;
        model.stop = false;
        if let Some(Notice::Mark(mark)) = model.changes.notices.last_mut()
            && mark.offset == u64::MAX
        {
            // A string ended by ESC \ is dispatched at its ESC.
            mark.offset = offset + u64::from(last == 0x1b);
        }
        if model.frames.wants_view(rest) {
            let view = model.live_screen(offset);
            model.frames.keep(view);
        }
    }

    /// Runs `work`; a panic in it costs the screen, not the process: the model is made anew with this size.
    fn guarded(&mut self, size: Size, work: impl FnOnce(&mut TerminalState)) {
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(self))) else { return };
        self.parser = Parser::new();
        self.partial = Partial::default();
        self.strings = StringGuard::default();
        self.model.start_anew(size);
        self.model.changes.notice(Notice::Rebuilt { reason: reason(panic.as_ref()) });
    }

    /// Gives the terminal a new size. An open synchronized update is shown.
    pub fn resize(&mut self, size: Size) {
        self.model.frames.close();
        self.guarded(size, |state| state.model.resize(size, &mut state.anchors));
    }

    /// Its size in cells.
    pub fn size(&self) -> Size {
        self.model.size
    }

    /// Output bytes taken so far.
    pub fn offset(&self) -> u64 {
        self.model.offset
    }

    /// What is shown: the last finished frame while a synchronized update is open.
    pub fn screen(&self) -> Screen {
        match self.model.frames.view() {
            Some(view) => view.clone(),
            None => self.model.live_screen(self.model.offset),
        }
    }

    /// The last finished frame, while a synchronized update is open.
    pub fn frame(&self) -> Option<&Screen> {
        self.model.frames.view()
    }

    /// A row of the screen that is in use, 0-based, live; `None` below it.
    pub fn screen_row(&self, row: u16) -> Option<Row> {
        if row >= self.size().rows {
            return None;
        }
        let mut line = Line::default();
        self.model.read_row(true, i32::from(row), &mut line);
        Some(line.into_row())
    }

    /// Rows that have left the main screen at its top: the number of the line that is its first row, live.
    pub fn screen_start(&self) -> LineIndex {
        LineIndex(self.model.store.end())
    }

    /// The cursor, live.
    pub fn cursor(&self) -> Cursor {
        let (row, col) = self.model.cursor();
        Cursor { row: row as u16, col: col as u16, visible: self.model.modes.cursor_visible }
    }

    /// Line of the cursor, live.
    pub fn cursor_line(&self) -> LineIndex {
        LineIndex(self.model.store.end() + self.model.cursor().0 as u64)
    }

    /// Column of the cursor, live, 0-based.
    pub fn cursor_col(&self) -> u16 {
        self.model.cursor().1 as u16
    }

    /// The window title, empty if none was set.
    pub fn title(&self) -> &str {
        &self.model.title
    }

    /// The cursor's style as set by DECSCUSR, 0–6; 0 is the terminal's own.
    pub fn cursor_style(&self) -> u16 {
        self.model.cursor_style
    }

    /// Modes that decide how input has to look.
    pub fn modes(&self) -> Modes {
        self.model.public_modes()
    }

    /// When an open synchronized update will be shown anyway: 150 ms after it was opened.
    pub fn frame_deadline(&self) -> Option<TsNs> {
        self.model.frames.deadline()
    }

    /// Shows an open synchronized update whose deadline has passed; true if there was one.
    pub fn expire_frame(&mut self, now: TsNs) -> bool {
        self.frame_deadline().is_some_and(|deadline| deadline <= now) && self.model.frames.close()
    }

    // ---- Lines ----

    /// Number of lines: one more than the last line of the main screen that shows something or has the cursor.
    pub fn line_count(&self) -> u64 {
        let cursor = self.model.main_grid().cursor.point.line.0 + 1;
        self.model.store.end() + self.model.used_rows().max(cursor) as u64
    }

    /// The oldest line that can still be read.
    pub fn first_kept_line(&self) -> LineIndex {
        LineIndex(self.model.store.first())
    }

    /// The line's text with trailing blanks cut; `None` if it is not kept or not there yet.
    pub fn line_text(&self, line: LineIndex) -> Option<String> {
        self.line(line).map(|line| line.trimmed().to_string())
    }

    /// The line's text left of column `col` (0-based; a wide character takes two), trailing blanks kept; `None` if it is not
    /// kept or not there yet.
    pub fn line_text_to(&self, line: LineIndex, col: u16) -> Option<String> {
        let mut line = self.line(line)?;
        line.text.truncate(line.text_to(col).len());
        Some(line.text)
    }

    /// The line as a screen shows it; `None` if it is not kept or not there yet.
    pub fn line_row(&self, line: LineIndex) -> Option<Row> {
        self.line(line).map(Line::into_row)
    }

    /// The line as ANSI text (SGR and OSC 8), which ends with the default look; `None` if it is not kept or not there yet.
    pub fn line_content(&self, line: LineIndex) -> Option<String> {
        let line = self.line(line)?;
        let mut writer = AnsiWriter::default();
        writer.line(&line);
        writer.reset();
        String::from_utf8(writer.out).ok()
    }

    /// The terminal wrapped the line: it goes on in the next one.
    pub fn line_wrapped(&self, line: LineIndex) -> bool {
        match self.main_row(line) {
            Some(_) => self.line(line).is_some_and(|line| line.wrapped),
            None => self.model.store.is_wrapped(line.0),
        }
    }

    /// The text of these lines, wrapped ones joined, trailing blanks cut. Lines not kept are left out; the last one is cut
    /// where the range ends.
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

    /// The last `lines` rows as text, blank ones at the end left out: what a person would see. On the alternate screen the
    /// visible rows. While a synchronized update is open, as of the last finished frame.
    pub fn tail(&self, lines: usize) -> Vec<String> {
        let screen = self.screen();
        let used = screen.rows.iter().rposition(|row| !row.text.is_empty()).map_or(0, |last| last + 1);
        let shown = screen.rows.into_iter().take(used).map(|row| row.text);
        if screen.modes.alternate {
            return shown.skip(used.saturating_sub(lines)).collect();
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
        texts.extend(shown);
        let end = texts.iter().rposition(|text| !text.is_empty()).map_or(0, |last| last + 1);
        texts.truncate(end);
        texts.split_off(texts.len().saturating_sub(lines))
    }

    /// Forgets stored lines; numbering goes on.
    pub fn clear_scrollback(&mut self) {
        self.model.store.clear();
    }

    /// Approximate bytes held by stored lines.
    pub fn memory(&self) -> usize {
        self.model.store.memory()
    }

    /// ANSI bytes that give a fresh terminal of this size the same screens, cursor, modes, title, scroll region, tab stops and
    /// colours. Stored lines are not in it. An open synchronized update is dumped as it is and left open.
    pub fn dump(&self) -> Vec<u8> {
        dump::dump(&self.model)
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

    /// The row of the main screen that is line `number`.
    fn main_row(&self, number: LineIndex) -> Option<i32> {
        let row = number.0.checked_sub(self.model.store.end())?;
        i32::try_from(row).ok().filter(|row| *row < self.model.rows())
    }

    // ---- Snapshots (seed agent-record §7.3) ----

    /// Ties a snapshot to the active line, the cursor's, and its column; on the alternate screen to those at which the main
    /// screen was left.
    pub fn record_snapshot(&mut self, snapshot: Snapshot) {
        let point = self.model.main_grid().cursor.point;
        let line = LineIndex(self.model.store.end() + point.line.0 as u64);
        let (col, alternate) = (point.column.0 as u16, self.model.alternate());
        self.anchors.record(line, Snapshot { col, alternate, ..snapshot });
    }

    /// Whether a snapshot was taken on that line.
    pub fn has_snapshot_at_line(&self, line: LineIndex) -> bool {
        self.anchors.on(line).len() > 0
    }

    /// The snapshot taken on that line, the latest if there are several.
    pub fn get_snapshot_for_line(&self, line: LineIndex) -> Option<&Snapshot> {
        self.anchors.on(line).next_back()
    }

    /// All snapshots taken on that line, in the order they were taken.
    pub fn snapshots_at_line(&self, line: LineIndex) -> impl Iterator<Item = &Snapshot> {
        self.anchors.on(line)
    }

    /// All snapshots, in the order of their lines; on one line in the order they were taken. Lines that are not kept any more
    /// are among them.
    pub fn snapshots_by_line(&self) -> impl Iterator<Item = (LineIndex, &Snapshot)> {
        self.anchors.by_line()
    }

    /// The line that the snapshot with that id is on.
    pub fn line_of_snapshot(&self, id: u64) -> Option<LineIndex> {
        self.anchors.by_line().find(|(_, snapshot)| snapshot.id == id).map(|(line, _)| line)
    }

    /// All snapshots, in the order they were taken. Their lines need not rise: cursors go up.
    pub fn snapshots_by_time(&self) -> Vec<(LineIndex, &Snapshot)> {
        self.anchors.by_time()
    }

    /// The last snapshot on a line before that one.
    pub fn last_snapshot_before_line(&self, line: LineIndex) -> Option<(LineIndex, &Snapshot)> {
        self.anchors.before(line)
    }

    /// The first snapshot on a line after that one.
    pub fn next_snapshot_after_line(&self, line: LineIndex) -> Option<(LineIndex, &Snapshot)> {
        self.anchors.after(line)
    }
}

fn reason(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panic".to_string())
}
