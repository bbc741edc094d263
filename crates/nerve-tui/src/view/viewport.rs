//! The rows of a document that are visible in a window, and how they move when the user scrolls, output arrives, or
//! the task entry moves.
//!
//! Lines have absolute numbers, as in the terminal. The task entry is a block of rows between two lines. *Visual*
//! rows count both: the entry's height is added to the visual rows of the lines below it.

mod filtered;
mod inline_panel;

use std::ops::Range;

pub(crate) use self::filtered::FilteredLines;

/// A row of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Row {
    /// A line of the document.
    Line {
        /// Absolute line number.
        number: u64,
        /// The line is below the task entry and not part of the branch.
        dimmed: bool,
    },
    /// A row of the task entry, 0-based.
    Entry(u16),
    /// A row after the document's end.
    Blank,
}

/// The visible part of a document. A viewport is at least one row high.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Viewport {
    lines: Range<u64>,
    rows: u16,
    /// Visual row at the top.
    top: u64,
    follows: bool,
    /// The screen's first line, and the line that must stay visible while following.
    pinned: Option<(u64, u64)>,
    entry: Option<InlinePanel>,
    /// The lines that the filter selects. While set there is no task entry, and visual rows are positions in this
    /// list.
    filtered: Option<FilteredLines>,
}

/// Position and height of the task entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct InlinePanel {
    /// First line below the entry. In a shorter document the entry is at the end.
    before: u64,
    /// Height in rows, at least 1.
    height: u16,
}

/// A scroll position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScrollPosition {
    line: u64,
    follows: bool,
}

impl ScrollPosition {
    /// Shifts the line number.
    pub(crate) fn renumber(&mut self, by: i64) {
        self.line = self.line.saturating_add_signed(by);
    }
}

impl Viewport {
    /// Creates an empty viewport that follows new output.
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

    /// Sets the document's lines. A following viewport moves to the end; any other keeps its position as far as its
    /// lines exist.
    pub fn set_lines(&mut self, lines: Range<u64>) {
        self.lines = lines.start..lines.end.max(lines.start);
        if let Some(filtered) = &mut self.filtered {
            filtered.drop_before(self.lines.start);
            filtered.drop_from(self.lines.end);
        }
        self.relayout();
    }

    /// Shifts all line numbers before the next [`Viewport::set_lines`]. The visible lines keep their place.
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

    /// Sets the screen's first line and the cursor's line. If the screen is higher than the window, a following
    /// viewport shows the screen's top, scrolled down only as far as the cursor requires.
    pub fn pin(&mut self, lines: Option<(u64, u64)>) {
        self.pinned = lines;
        self.relayout();
    }

    /// Sets the height.
    pub fn set_rows(&mut self, rows: u16) {
        self.rows = rows.max(1);
        self.relayout();
    }

    /// Returns the height in rows.
    pub fn height(&self) -> u16 {
        self.rows
    }

    /// Returns the document's lines.
    pub fn lines(&self) -> Range<u64> {
        self.lines.clone()
    }

    /// Returns true if the viewport follows new output. It never does while the task entry is open.
    pub fn is_following(&self) -> bool {
        self.follows && self.entry.is_none()
    }

    /// Returns the visible rows from top to bottom. Blank rows occur only after the document's end.
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        let end = self.end();
        (self.top..self.top + u64::from(self.rows))
            .map(move |row| if row < end { self.row(row) } else { Row::Blank })
    }

    /// Returns the window row of a line.
    pub fn row_of(&self, line: u64) -> Option<u16> {
        let is_selected = self.filtered.as_ref().is_none_or(|filtered| filtered.has(line));
        let exists = is_selected && self.lines.contains(&line);
        let row = exists.then(|| self.visual_row(line))?.checked_sub(self.top)?;
        u16::try_from(row).ok().filter(|row| *row < self.rows)
    }

    /// Returns the line in a window row.
    pub fn line_at(&self, row: u16) -> Option<u64> {
        match self.rows().nth(row.into())? {
            Row::Line { number, .. } => Some(number),
            Row::Entry(_) | Row::Blank => None,
        }
    }

    /// Returns the line at the top, or the first one below it.
    pub fn top_line(&self) -> u64 {
        let top = match self.panel() {
            Some(entry) if self.top >= entry.before => {
                entry.before.max(self.top.saturating_sub(entry.height.into()))
            }
            _ => self.line_at_position(self.top).unwrap_or(self.lines.end),
        };
        top.min(self.lines.end)
    }

    /// Returns true if nothing is below the window.
    pub fn is_at_end(&self) -> bool {
        self.top >= self.max_top()
    }

    // ---- Scrolling ----

    /// Scrolls down by this many rows, up if negative. At the end it follows again.
    pub fn scroll(&mut self, rows: i64) {
        self.top = self.top.saturating_add_signed(rows);
        self.clamp();
        self.follows = self.is_at_end();
    }

    /// Scrolls to the first kept line.
    pub fn go_to_start(&mut self) {
        self.scroll(i64::MIN);
    }

    /// Scrolls to the end and follows.
    pub fn go_to_end(&mut self) {
        self.scroll(i64::MAX);
        self.relayout();
    }

    /// Puts a line at the top, as far as the end permits.
    pub fn go_to_line(&mut self, line: u64) {
        self.top = self.visual_row(line);
        self.clamp();
        self.follows = self.is_at_end();
    }

    /// Makes a line visible. If it is not, it is centred.
    pub fn show(&mut self, line: u64) {
        if self.row_of(line).is_none() {
            self.top = self.visual_row(line).saturating_sub(u64::from(self.rows / 2));
            self.clamp();
            self.follows = self.is_at_end();
        }
    }

    /// Puts a line at the bottom, as far as the start permits.
    pub(crate) fn go_to_bottom(&mut self, line: u64) {
        self.top = (self.visual_row(line) + 1).saturating_sub(self.rows.into());
        self.clamp();
        self.follows = self.is_at_end();
    }

    /// Stops following until the next scroll.
    pub(crate) fn stop_following(&mut self) {
        self.follows = false;
    }

    /// Returns the scroll position.
    pub(crate) fn scroll_position(&self) -> ScrollPosition {
        ScrollPosition { line: self.top_line(), follows: self.follows }
    }

    /// Restores a scroll position, as far as its lines exist.
    pub(crate) fn restore_position(&mut self, to: ScrollPosition) {
        (self.top, self.follows) = (self.visual_row(to.line), to.follows);
        self.relayout();
    }

    // ---- Visual rows ----

    /// Returns the visual rows without the task entry.
    fn positions(&self) -> Range<u64> {
        self.filtered.as_ref().map_or(self.lines.clone(), FilteredLines::positions)
    }

    /// Returns the line in a visual row above the task entry.
    fn line_at_position(&self, row: u64) -> Option<u64> {
        match &self.filtered {
            Some(filtered) => filtered.line(row),
            None => Some(row),
        }
    }

    /// Returns the visual row of a line, or of the first one below it.
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

    /// Returns the end of the visual rows.
    fn end(&self) -> u64 {
        self.positions().end + self.entry.map_or(0, |entry| entry.height.into())
    }

    /// Returns the top row of a window at the end.
    fn max_top(&self) -> u64 {
        self.end().saturating_sub(self.rows.into()).max(self.positions().start)
    }

    fn clamp(&mut self) {
        self.top = self.top.clamp(self.positions().start, self.max_top());
    }

    /// Adjusts the position after the document or the window has changed.
    fn relayout(&mut self) {
        if let Some(entry) = &mut self.entry {
            entry.height = entry.height.min(self.rows);
        }
        if self.is_following() {
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
