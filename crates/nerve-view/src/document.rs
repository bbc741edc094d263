//! What a terminal has to show, as lines: those that scrolled off, those of the screen, and the alternate screen below them while it is shown.

use std::ops::Range;

use nerve_term::screen::{Modes, Row, Screen};
use nerve_term::terminal::{LineIndex, Snapshot, TerminalState};

/// The lines of a terminal at one moment.
#[derive(Debug)]
pub struct Document<'a> {
    terminal: &'a TerminalState,
    /// One past the last line of the main screen.
    end: u64,
    /// The screen as it is shown, from this line on.
    screen: Option<(u64, Screen)>,
}

impl<'a> Document<'a> {
    /// Of a terminal as it is now, without the empty end of its screen.
    pub fn of(terminal: &'a TerminalState) -> Document<'a> {
        let end = terminal.line_count();
        let screen = terminal.modes().alternate.then(|| (end, terminal.screen()));
        Document { terminal, end, screen }
    }

    /// Of a terminal that somebody works at: its last lines are its screen, all of it, as of the last finished frame.
    pub fn live(terminal: &'a TerminalState) -> Document<'a> {
        let screen = terminal.screen();
        let start = if screen.modes.alternate { terminal.line_count() } else { screen.first_line };
        Document { terminal, end: terminal.line_count(), screen: Some((start, screen)) }
    }

    /// Its lines by number. The numbers of the main screen's lines stay; those of the alternate screen follow them.
    pub fn lines(&self) -> Range<u64> {
        let first = self.terminal.first_kept_line().0;
        match &self.screen {
            // Lines that a frame shows are there even when they were forgotten since.
            Some((start, screen)) => first.min(*start)..start + screen.rows.len() as u64,
            None => first..self.end,
        }
    }

    /// A line with its colours; `None` if it is not there.
    pub fn row(&self, line: u64) -> Option<Row> {
        match self.on_screen(line) {
            Some(row) => row.cloned(),
            None => self.terminal.line_row(LineIndex(line)),
        }
    }

    /// A line's text with trailing blanks cut; `None` if it is not there.
    pub fn text(&self, line: u64) -> Option<String> {
        match self.on_screen(line) {
            Some(row) => row.map(|row| row.text.clone()),
            None => self.terminal.line_text(LineIndex(line)),
        }
    }

    /// The line of the screen's first row; `None` where the screen is not told from other lines.
    pub fn screen_start(&self) -> Option<u64> {
        self.screen.as_ref().map(|(start, _)| *start)
    }

    /// The line and the column of the cursor, and whether it is shown, where the screen is told from other lines.
    pub fn cursor(&self) -> Option<(u64, u16, bool)> {
        let (start, screen) = self.screen.as_ref()?;
        Some((start + u64::from(screen.cursor.row), screen.cursor.col, screen.cursor.visible))
    }

    /// What the program wants of keys and mouse.
    pub fn modes(&self) -> Modes {
        self.terminal.modes()
    }

    /// The column one past the widest row it can have.
    pub fn width(&self) -> u16 {
        self.terminal.size().cols
    }

    // ---- Snapshots ----

    /// Was a snapshot taken on that line?
    pub fn has_snapshot(&self, line: u64) -> bool {
        line < self.end && self.terminal.has_snapshot_at_line(LineIndex(line))
    }

    /// The nearest line with a snapshot after this one.
    pub fn snapshot_after(&self, line: u64) -> Option<u64> {
        self.terminal.next_snapshot_after_line(LineIndex(line)).map(|(line, _)| line.0)
    }

    /// The nearest line with a snapshot before this one that is still kept.
    pub fn snapshot_before(&self, line: u64) -> Option<u64> {
        let found = self.terminal.last_snapshot_before_line(LineIndex(line)).map(|(line, _)| line.0);
        found.filter(|line| self.lines().contains(line))
    }

    /// Snapshots there are.
    pub fn snapshots(&self) -> usize {
        self.terminal.snapshots_by_line().count()
    }

    /// The snapshots whose lines are kept, with those lines, from top to bottom; on one line in the order they were taken.
    pub fn kept_snapshots(&self) -> Vec<(u64, &'a Snapshot)> {
        let first = self.terminal.first_kept_line();
        let kept = self.terminal.snapshots_by_line().filter(|(line, _)| *line >= first);
        kept.map(|(line, snapshot)| (line.0, snapshot)).collect()
    }

    /// The snapshot of a line: the last one that was taken on it, else the last one on a line before it.
    pub fn snapshot_at(&self, line: u64) -> Option<(u64, &'a Snapshot)> {
        let own = self.terminal.get_snapshot_for_line(LineIndex(line)).map(|own| (LineIndex(line), own));
        let found = own.or_else(|| self.terminal.last_snapshot_before_line(LineIndex(line)));
        let found = found.map(|(line, snapshot)| (line.0, snapshot));
        found.filter(|(line, _)| *line >= self.terminal.first_kept_line().0)
    }

    /// The one that was taken last, if its line is kept.
    pub fn latest_snapshot(&self) -> Option<(u64, &'a Snapshot)> {
        let (line, snapshot) = self.terminal.snapshots_by_time().pop()?;
        (line >= self.terminal.first_kept_line()).then_some((line.0, snapshot))
    }

    /// The snapshot after which nothing was written.
    pub fn end_snapshot(&self) -> Option<&'a Snapshot> {
        let (_, latest) = self.terminal.snapshots_by_time().pop()?;
        (latest.offset >= self.terminal.offset()).then_some(latest)
    }

    /// The snapshot with that id.
    pub fn snapshot(&self, id: u64) -> Option<&'a Snapshot> {
        self.terminal.snapshots_by_line().map(|(_, snapshot)| snapshot).find(|snapshot| snapshot.id == id)
    }

    /// The row of the screen, if the line is one of it and the screen is told from other lines.
    fn on_screen(&self, line: u64) -> Option<Option<&Row>> {
        let (start, screen) = self.screen.as_ref()?;
        let row = line.checked_sub(*start)?;
        Some(screen.rows.get(usize::try_from(row).ok()?))
    }
}
