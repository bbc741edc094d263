//! What a terminal has to show, as lines: those that scrolled off, those of the screen, and the alternate screen below them while it is shown.

use std::borrow::Cow;
use std::ops::Range;

use nerve_term::screen::{Cursor, Modes, Row, Screen};
use nerve_term::terminal::{LineIndex, Snapshot, TerminalState};

/// The lines of a terminal at one moment. Its rows are read when they are asked for: a document costs nothing.
#[derive(Debug)]
pub struct Document<'a> {
    terminal: &'a TerminalState,
    /// One past the last line of the main screen.
    end: u64,
    /// The screen as it is shown, from this line on.
    screen: Option<(u64, Shown<'a>)>,
}

/// A screen as it is shown.
#[derive(Debug)]
enum Shown<'a> {
    /// The last finished frame, while another is being drawn.
    Frame(&'a Screen),
    /// As the terminal has it.
    Live(&'a TerminalState),
}

impl<'a> Shown<'a> {
    fn of(terminal: &'a TerminalState) -> Shown<'a> {
        terminal.frame().map_or(Shown::Live(terminal), Shown::Frame)
    }

    fn rows(&self) -> u64 {
        match self {
            Shown::Frame(screen) => screen.rows.len() as u64,
            Shown::Live(terminal) => terminal.size().rows.into(),
        }
    }

    fn row(&self, row: u64) -> Option<Cow<'a, Row>> {
        match self {
            Shown::Frame(screen) => screen.rows.get(usize::try_from(row).ok()?).map(Cow::Borrowed),
            Shown::Live(terminal) => terminal.screen_row(u16::try_from(row).ok()?).map(Cow::Owned),
        }
    }

    fn cursor(&self) -> Cursor {
        match self {
            Shown::Frame(screen) => screen.cursor,
            Shown::Live(terminal) => terminal.cursor(),
        }
    }
}

impl<'a> Document<'a> {
    /// Of a terminal as it is now, without the empty end of its screen.
    pub fn of(terminal: &'a TerminalState) -> Document<'a> {
        let end = terminal.line_count();
        let screen = terminal.modes().alternate.then(|| (end, Shown::of(terminal)));
        Document { terminal, end, screen }
    }

    /// Of a terminal that somebody works at: its last lines are its screen, all of it, as of the last finished frame.
    pub fn live(terminal: &'a TerminalState) -> Document<'a> {
        let (alternate, first) = match terminal.frame() {
            Some(frame) => (frame.modes.alternate, frame.first_line),
            None => (terminal.modes().alternate, terminal.screen_start().0),
        };
        let end = terminal.line_count();
        Document { terminal, end, screen: Some((if alternate { end } else { first }, Shown::of(terminal))) }
    }

    /// Its lines by number. The numbers of the main screen's lines stay; those of the alternate screen follow them.
    pub fn lines(&self) -> Range<u64> {
        let first = self.terminal.first_kept_line().0;
        match &self.screen {
            // Lines that a frame shows are there even when they were forgotten since.
            Some((start, screen)) => first.min(*start)..start + screen.rows(),
            None => first..self.end,
        }
    }

    /// One past the last line that nothing can change any more: those of the screen are written anew.
    pub fn settled_end(&self) -> u64 {
        let start = self.terminal.screen_start().0;
        self.screen.as_ref().map_or(start, |(shown, _)| start.min(*shown))
    }

    /// A line with its colours; `None` if it is not there.
    pub fn row(&self, line: u64) -> Option<Cow<'a, Row>> {
        match self.on_screen(line) {
            Some(row) => row,
            None => self.terminal.line_row(LineIndex(line)).map(Cow::Owned),
        }
    }

    /// A line's text with trailing blanks cut; `None` if it is not there.
    pub fn text(&self, line: u64) -> Option<String> {
        match self.on_screen(line) {
            Some(row) => row.map(|row| row.into_owned().text),
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
        let Cursor { row, col, visible } = screen.cursor();
        Some((start + u64::from(row), col, visible))
    }

    /// What the program wants of keys and mouse.
    pub fn modes(&self) -> Modes {
        self.terminal.modes()
    }

    /// The column one past the widest row it can have.
    pub fn width(&self) -> u16 {
        self.terminal.size().cols
    }

    /// Rows of its screen.
    pub fn height(&self) -> u16 {
        self.terminal.size().rows
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

    /// Why no snapshot is above, in words; what to do where other moments can be gone to.
    pub(crate) fn none_above(&self, has_moments: bool) -> &'static str {
        match (self.kept_snapshots().len() < self.snapshots(), has_moments) {
            (false, _) => "no snapshot above",
            (true, true) => "the snapshot's lines were erased: go back in time (, or the timeline)",
            (true, false) => "the snapshot's lines were erased",
        }
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

    /// The line that the snapshot with that id is on.
    pub fn line_of_snapshot(&self, id: u64) -> Option<u64> {
        self.terminal.line_of_snapshot(id).map(|line| line.0)
    }

    /// The row of the screen, if the line is one of it and the screen is told from other lines.
    fn on_screen(&self, line: u64) -> Option<Option<Cow<'a, Row>>> {
        let (start, screen) = self.screen.as_ref()?;
        Some(screen.row(line.checked_sub(*start)?))
    }
}
