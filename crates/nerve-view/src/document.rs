//! What a terminal has to show, as lines: those that scrolled off, those of the screen, and the alternate screen below them while it is shown.

use std::ops::Range;

use nerve_term::screen::{Row, Screen};
use nerve_term::terminal::{LineIndex, TerminalState};

/// The lines of a terminal at one moment.
#[derive(Debug)]
pub struct Document<'a> {
    terminal: &'a TerminalState,
    end: u64,
    alternate: Option<Screen>,
}

impl<'a> Document<'a> {
    /// Of a terminal as it is now.
    pub fn of(terminal: &'a TerminalState) -> Document<'a> {
        let alternate = terminal.modes().alternate.then(|| terminal.screen());
        Document { terminal, end: terminal.line_count(), alternate }
    }

    /// Its lines by number. The numbers of the main screen's lines stay; those of the alternate screen follow them.
    pub fn lines(&self) -> Range<u64> {
        let more = self.alternate.as_ref().map_or(0, |screen| screen.rows.len() as u64);
        self.terminal.first_kept_line().0..self.end + more
    }

    /// A line with its colours; `None` if it is not there.
    pub fn row(&self, line: u64) -> Option<Row> {
        match self.on_alternate(line) {
            Some(row) => row.cloned(),
            None => self.terminal.line_row(LineIndex(line)),
        }
    }

    /// A line's text with trailing blanks cut; `None` if it is not there.
    pub fn text(&self, line: u64) -> Option<String> {
        match self.on_alternate(line) {
            Some(row) => row.map(|row| row.text.clone()),
            None => self.terminal.line_text(LineIndex(line)),
        }
    }

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

    /// The column one past the widest row it can have.
    pub fn width(&self) -> u16 {
        self.terminal.size().cols
    }

    fn on_alternate(&self, line: u64) -> Option<Option<&Row>> {
        let row = line.checked_sub(self.end)?;
        Some(self.alternate.as_ref().and_then(|screen| screen.rows.get(usize::try_from(row).ok()?)))
    }
}
