//! The rows of a document that a window shows, and where it goes when somebody scrolls, something is written, or the task entry moves (seed
//! agent-record §6).
//!
//! Lines have absolute numbers, as in the terminal. The task entry is a block of rows between two lines; *visual* rows count both: a line
//! below the entry stands as many rows further down as the entry is high.

mod filtered;
mod inline_panel;

use std::ops::Range;

pub(crate) use self::filtered::FilteredLines;
use self::inline_panel::InlinePanel;

/// A row of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Row {
    /// A line of the document. `dimmed`: it stands below the task entry, so a branch from there does not have it.
    Line {
        /// Its absolute number.
        number: u64,
        /// Not part of what is branched from.
        dimmed: bool,
    },
    /// A row of the task entry, 0-based.
    Entry(u16),
    /// Below the end of a document that is shorter than the window.
    Blank,
}

/// What a window shows of a document. The window is at least one row high.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Viewport {
    lines: Range<u64>,
    rows: u16,
    /// The visual row at the window's top.
    top: u64,
    follows: bool,
    /// The screen's first line, and the line of it that stays in a window that follows.
    pinned: Option<(u64, u64)>,
    entry: Option<InlinePanel>,
    /// The lines that there are to be gone through, where those are not all. There is no task entry then, and visual rows are positions in these.
    filtered: Option<FilteredLines>,
}

/// Where a window stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScrollPosition {
    line: u64,
    follows: bool,
}

impl ScrollPosition {
    /// Lines have other numbers.
    pub(crate) fn renumber(&mut self, by: i64) {
        self.line = self.line.saturating_add_signed(by);
    }
}

impl Viewport {
    /// A window of so many rows on nothing yet, which follows what is written.
    pub fn new(rows: u16) -> Viewport {
        Viewport {
            lines: 0..0,
            rows: rows.max(1),
            top: 0,
            follows: true,
            pinned: None,
            entry: None,
            filtered: None,
        }
    }

    /// The document has these lines now: `first kept..end`. A window that follows shows its end; any other stays where it is, as far as
    /// those lines are kept.
    pub fn set_lines(&mut self, lines: Range<u64>) {
        self.lines = lines.start..lines.end.max(lines.start);
        if let Some(filtered) = &mut self.filtered {
            filtered.drop_before(self.lines.start);
            filtered.drop_from(self.lines.end);
        }
        self.relayout();
    }

    /// Lines have other numbers from now on: larger by so many. Called before [`Viewport::set_lines`]; what is in the window stays.
    pub fn renumber(&mut self, by: i64) {
        let number = |line: u64| line.saturating_add_signed(by);
        self.lines = number(self.lines.start)..number(self.lines.end);
        match &mut self.filtered {
            Some(filtered) => filtered.renumber(by),
            None => self.top = number(self.top),
        }
        self.pinned = self.pinned.map(|(start, line)| (number(start), number(line)));
        if let Some(entry) = &mut self.entry
            && entry.before < u64::MAX
        {
            entry.before = number(entry.before);
        }
    }

    /// Of a screen higher than the window, a window that follows shows the top, and what is further down as far as it must to show a line:
    /// the one with the cursor. Given are the screen's first line and that one.
    pub fn pin(&mut self, lines: Option<(u64, u64)>) {
        self.pinned = lines;
        self.relayout();
    }

    /// The window has another height.
    pub fn set_rows(&mut self, rows: u16) {
        self.rows = rows.max(1);
        self.relayout();
    }

    /// Its height in rows.
    pub fn height(&self) -> u16 {
        self.rows
    }

    /// The document's lines.
    pub fn lines(&self) -> Range<u64> {
        self.lines.clone()
    }

    /// The window shows what is written as it comes. Never while the task entry is shown.
    pub fn follows(&self) -> bool {
        self.follows && self.entry.is_none()
    }

    /// What is in the window, top to bottom: as many rows as it is high, without gaps; blank ones only below the document's end.
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        let end = self.end();
        (self.top..self.top + u64::from(self.rows))
            .map(move |row| if row < end { self.row(row) } else { Row::Blank })
    }

    /// The row of the window in which a line stands.
    pub fn row_of(&self, line: u64) -> Option<u16> {
        let is_there = self.filtered.as_ref().is_none_or(|filtered| filtered.has(line));
        let is_there = is_there && self.lines.contains(&line);
        let row = is_there.then(|| self.visual_row(line))?.checked_sub(self.top)?;
        u16::try_from(row).ok().filter(|row| *row < self.rows)
    }

    /// The line in a row of the window.
    pub fn line_at(&self, row: u16) -> Option<u64> {
        match self.rows().nth(row.into())? {
            Row::Line { number, .. } => Some(number),
            Row::Entry(_) | Row::Blank => None,
        }
    }

    /// The line at the window's top, or the first one below it.
    pub fn top_line(&self) -> u64 {
        let top = match self.panel() {
            Some(entry) if self.top >= entry.before => {
                entry.before.max(self.top.saturating_sub(entry.height.into()))
            }
            _ => self.line_at_position(self.top).unwrap_or(self.lines.end),
        };
        top.min(self.lines.end)
    }

    /// Nothing is below the window.
    pub fn is_at_end(&self) -> bool {
        self.top >= self.max_top()
    }

    // ---- Scrolling ----

    /// Moves the window down by so many rows (up, if negative), task entry and all, as far as there is something. At the end it follows again.
    pub fn scroll(&mut self, rows: i64) {
        self.top = self.top.saturating_add_signed(rows);
        self.clamp();
        self.follows = self.is_at_end();
    }

    /// To the first line that is kept.
    pub fn go_to_start(&mut self) {
        self.scroll(i64::MIN);
    }

    /// To the end; it follows from now on.
    pub fn go_to_end(&mut self) {
        self.scroll(i64::MAX);
        self.relayout();
    }

    /// Puts a line at the window's top, as far as what follows fills it.
    pub fn go_to_line(&mut self, line: u64) {
        self.top = self.visual_row(line);
        self.clamp();
        self.follows = self.is_at_end();
    }

    /// Makes sure that a line is in the window: stays if it is, else puts it into the middle.
    pub fn show(&mut self, line: u64) {
        if self.row_of(line).is_none() {
            self.top = self.visual_row(line).saturating_sub(u64::from(self.rows / 2));
            self.clamp();
            self.follows = self.is_at_end();
        }
    }

    /// Puts a line at the window's bottom, as far as what is above it fills it.
    pub(crate) fn go_to_bottom(&mut self, line: u64) {
        self.top = (self.visual_row(line) + 1).saturating_sub(self.rows.into());
        self.clamp();
        self.follows = self.is_at_end();
    }

    /// Does not go along with what is written, until somebody scrolls.
    pub(crate) fn stop_following(&mut self) {
        self.follows = false;
    }

    /// Where it stands.
    pub(crate) fn scroll_position(&self) -> ScrollPosition {
        ScrollPosition { line: self.top_line(), follows: self.follows }
    }

    /// Stands again where it stood once, as far as those lines are there.
    pub(crate) fn restore_position(&mut self, to: ScrollPosition) {
        (self.top, self.follows) = (self.visual_row(to.line), to.follows);
        self.relayout();
    }

    // ---- Visual rows ----

    /// The visual rows without the task entry.
    fn positions(&self) -> Range<u64> {
        self.filtered.as_ref().map_or(self.lines.clone(), FilteredLines::positions)
    }

    /// The line in a visual row, where there is no task entry above it.
    fn line_at_position(&self, row: u64) -> Option<u64> {
        match &self.filtered {
            Some(filtered) => filtered.line(row),
            None => Some(row),
        }
    }

    /// The visual row of a line, or of the first one below it.
    fn visual_row(&self, line: u64) -> u64 {
        if let Some(filtered) = &self.filtered {
            return filtered.position(line);
        }
        match self.panel() {
            Some(entry) if line >= entry.before => line + u64::from(entry.height),
            _ => line,
        }
    }

    fn row(&self, row: u64) -> Row {
        let Some(InlinePanel { before, height }) = self.panel() else {
            return self
                .line_at_position(row)
                .map_or(Row::Blank, |number| Row::Line { number, dimmed: false });
        };
        match row.checked_sub(before) {
            None => Row::Line { number: row, dimmed: false },
            Some(inside) if inside < u64::from(height) => {
                Row::Entry(u16::try_from(inside).unwrap_or(u16::MAX))
            }
            Some(_) => Row::Line { number: row - u64::from(height), dimmed: true },
        }
    }

    /// One past the last visual row.
    fn end(&self) -> u64 {
        self.positions().end + self.entry.map_or(0, |entry| entry.height.into())
    }

    /// The top of a window on the document's end.
    fn max_top(&self) -> u64 {
        self.end().saturating_sub(self.rows.into()).max(self.positions().start)
    }

    fn clamp(&mut self) {
        self.top = self.top.clamp(self.positions().start, self.max_top());
    }

    /// After the document or the window has changed.
    fn relayout(&mut self) {
        if let Some(entry) = &mut self.entry {
            entry.height = entry.height.min(self.rows);
        }
        if self.follows() {
            let pinned = self.pinned.filter(|_| self.filtered.is_none());
            let pinned = pinned.filter(|(start, line)| start <= line && self.lines.contains(line));
            let top = pinned.map_or(u64::MAX, |(start, line)| {
                self.visual_row(start).max((self.visual_row(line) + 1).saturating_sub(self.rows.into()))
            });
            self.top = top.min(self.max_top());
        }
        self.clamp();
    }
}
