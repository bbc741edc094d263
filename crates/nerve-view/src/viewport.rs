//! The rows of a document that a window shows, and where it goes when somebody scrolls, something is written, or the task entry moves (seed
//! agent-record §6).
//!
//! Lines have absolute numbers, as in the terminal. The task entry is a block of rows between two lines; *visual* rows count both: a line
//! below the entry stands as many rows further down as the entry is high.

use std::ops::Range;

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

/// The task entry's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slot {
    /// It stands above this line; the one before is the snapshot's. A document that is shorter for a while has it at its end.
    before: u64,
    /// Rows, at least 1.
    height: u16,
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
    kept: Option<(u64, u64)>,
    entry: Option<Slot>,
}

impl Viewport {
    /// A window of so many rows on nothing yet, which follows what is written.
    pub fn new(rows: u16) -> Viewport {
        Viewport { lines: 0..0, rows: rows.max(1), top: 0, follows: true, kept: None, entry: None }
    }

    /// The document has these lines now: `first kept..end`. A window that follows shows its end; any other stays where it is, as far as
    /// those lines are kept.
    pub fn set_lines(&mut self, lines: Range<u64>) {
        self.lines = lines.start..lines.end.max(lines.start);
        self.settle();
    }

    /// Lines have other numbers from now on: larger by so many. Called before [`Viewport::set_lines`]; what is in the window stays.
    pub fn renumber(&mut self, by: i64) {
        let number = |line: u64| line.saturating_add_signed(by);
        self.lines = number(self.lines.start)..number(self.lines.end);
        self.top = number(self.top);
        self.kept = self.kept.map(|(start, line)| (number(start), number(line)));
        if let Some(entry) = &mut self.entry
            && entry.before < u64::MAX
        {
            entry.before = number(entry.before);
        }
    }

    /// Of a screen higher than the window, a window that follows shows the top, and what is further down as far as it must to show a line:
    /// the one with the cursor. Given are the screen's first line and that one.
    pub fn keep(&mut self, lines: Option<(u64, u64)>) {
        self.kept = lines;
        self.settle();
    }

    /// The window has another height.
    pub fn set_rows(&mut self, rows: u16) {
        self.rows = rows.max(1);
        self.settle();
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
        let row = self.lines.contains(&line).then(|| self.visual(line))?.checked_sub(self.top)?;
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
        let top = match self.slot() {
            Some(entry) if self.top >= entry.before => {
                entry.before.max(self.top.saturating_sub(entry.height.into()))
            }
            _ => self.top,
        };
        top.min(self.lines.end)
    }

    /// Nothing is below the window.
    pub fn is_at_end(&self) -> bool {
        self.top >= self.last_top()
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
        self.settle();
    }

    /// Puts a line at the window's top, as far as what follows fills it.
    pub fn go_to_line(&mut self, line: u64) {
        self.top = self.visual(line);
        self.clamp();
        self.follows = self.is_at_end();
    }

    /// Makes sure that a line is in the window: stays if it is, else puts it into the middle.
    pub fn show(&mut self, line: u64) {
        if self.row_of(line).is_none() {
            self.top = self.visual(line).saturating_sub(u64::from(self.rows / 2));
            self.clamp();
            self.follows = self.is_at_end();
        }
    }

    /// Stands again where it stood once, as far as those lines are there.
    pub fn go_back(&mut self, to: &Viewport) {
        (self.top, self.follows) = (to.top, to.follows);
        self.settle();
    }

    // ---- The task entry ----

    /// The row of the window at which the task entry begins, which may be above it or below, and its height; `None` if it is not shown.
    pub fn entry(&self) -> Option<(i64, u16)> {
        let slot = self.slot()?;
        let row = i128::from(slot.before) - i128::from(self.top);
        Some((i64::try_from(row).unwrap_or(i64::MAX), slot.height))
    }

    /// The line above the task entry; `None` if it is not shown or nothing is above it.
    pub fn entry_line(&self) -> Option<u64> {
        self.slot()?.before.checked_sub(1).filter(|line| *line >= self.lines.start)
    }

    /// Puts the task entry, `height` rows high, below a snapshot's line. If that line is in the window and there is room for all of the
    /// entry below it, nothing scrolls: the line stays in its row. Else the window is centred: as many rows above the entry as below it, or one
    /// less.
    pub fn put_entry(&mut self, line: u64, height: u16) {
        self.put(line, line.saturating_add(1), height);
    }

    /// The snapshot's line has another number: the entry stands below that one now, and in the row of the window in which it stood.
    pub(crate) fn move_entry(&mut self, line: u64) {
        let Some(entry) = &mut self.entry else { return };
        let before = line.saturating_add(1);
        self.top = (self.top + before).saturating_sub(entry.before);
        entry.before = before;
    }

    /// Puts the task entry below all lines, wherever the document ends.
    pub fn put_entry_at_end(&mut self, height: u16) {
        self.put(self.lines.end.saturating_sub(1), u64::MAX, height);
    }

    fn put(&mut self, line: u64, before: u64, height: u16) {
        // Never higher than the window: its end is where one types.
        let height = height.clamp(1, self.rows);
        let row = self.row_of(line);
        self.entry = Some(Slot { before, height });
        let before = before.clamp(self.lines.start, self.lines.end);
        self.top = match row {
            Some(row) if row.saturating_add(1).saturating_add(height) <= self.rows => {
                line.saturating_sub(row.into())
            }
            _ => before.saturating_sub(u64::from((self.rows - height) / 2)),
        };
        self.clamp();
    }

    /// The task entry is that high now. It stays where it begins if there is room for it, else it moves up.
    pub fn set_entry_height(&mut self, height: u16) {
        let Some(entry) = &mut self.entry else { return };
        entry.height = height.clamp(1, self.rows);
        let Some(slot) = self.slot() else { return };
        let end = slot.before + u64::from(slot.height);
        self.top = self.top.max(end.saturating_sub(self.rows.into()));
        self.clamp();
    }

    /// Takes the task entry away. What is in the window stays, as far as it can.
    pub fn close_entry(&mut self) {
        let top = self.top_line();
        if self.entry.take().is_some() {
            self.top = top;
            self.clamp();
            self.follows = self.is_at_end();
        }
    }

    // ---- Visual rows ----

    /// The task entry's place as the document is now.
    fn slot(&self) -> Option<Slot> {
        let Slot { before, height } = self.entry?;
        Some(Slot { before: before.clamp(self.lines.start, self.lines.end), height })
    }

    fn visual(&self, line: u64) -> u64 {
        match self.slot() {
            Some(entry) if line >= entry.before => line + u64::from(entry.height),
            _ => line,
        }
    }

    fn row(&self, row: u64) -> Row {
        let Some(Slot { before, height }) = self.slot() else {
            return Row::Line { number: row, dimmed: false };
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
        self.lines.end + self.entry.map_or(0, |entry| entry.height.into())
    }

    /// The top of a window on the document's end.
    fn last_top(&self) -> u64 {
        self.end().saturating_sub(self.rows.into()).max(self.lines.start)
    }

    fn clamp(&mut self) {
        self.top = self.top.clamp(self.lines.start, self.last_top());
    }

    /// After the document or the window has changed.
    fn settle(&mut self) {
        if let Some(entry) = &mut self.entry {
            entry.height = entry.height.min(self.rows);
        }
        if self.follows() {
            let kept = self.kept.filter(|(start, line)| start <= line && self.lines.contains(line));
            let top = kept.map_or(u64::MAX, |(start, line)| {
                self.visual(start).max((self.visual(line) + 1).saturating_sub(self.rows.into()))
            });
            self.top = top.min(self.last_top());
        }
        self.clamp();
    }
}
