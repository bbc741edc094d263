//! The lines that a viewer shows: scrollback, screen, and below them the alternate screen while it is active. If a
//! session has few other lines, the last alternate screen is kept after the program left it.

use std::borrow::Cow;
use std::ops::Range;

use nerve_vt::screen::{Cursor, Modes, Row, Screen};
use nerve_vt::terminal::{LineIndex, Snapshot, TerminalState};

/// The lines of a terminal at one moment. Rows are read on demand; creating a document is cheap.
#[derive(Debug)]
pub struct Document<'a> {
    terminal: &'a TerminalState,
    /// True if there is no time travel: snapshots whose lines were erased are then shown at the first kept line.
    is_live: bool,
    /// Older output is still being loaded.
    is_loading_earlier: bool,
    /// One past the last line of the main screen.
    end: u64,
    /// The visible screen, with the number of its first line.
    screen: Option<(u64, VisibleScreen<'a>)>,
}

/// Position of the program's cursor in a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocumentCursor {
    /// Line of the document.
    pub line: u64,
    /// Column, from 0.
    pub col: u16,
    /// The program shows its cursor.
    pub is_visible: bool,
}

/// The screen to show.
#[derive(Debug)]
enum VisibleScreen<'a> {
    /// The last complete frame, while the next one is being drawn.
    Frame(&'a Screen),
    /// The terminal's current screen.
    Live(&'a TerminalState),
    /// The first rows of the alternate screen that was left.
    LastAltScreen(&'a TerminalState, u16),
}

impl<'a> VisibleScreen<'a> {
    fn of(terminal: &'a TerminalState) -> VisibleScreen<'a> {
        terminal.frame().map_or(VisibleScreen::Live(terminal), VisibleScreen::Frame)
    }

    fn rows(&self) -> u64 {
        match self {
            VisibleScreen::Frame(screen) => screen.rows.len() as u64,
            VisibleScreen::Live(terminal) => terminal.size().rows.into(),
            VisibleScreen::LastAltScreen(_, rows) => (*rows).into(),
        }
    }

    fn row(&self, row: u64) -> Option<Cow<'a, Row>> {
        match self {
            VisibleScreen::Frame(screen) => screen.rows.get(usize::try_from(row).ok()?).map(Cow::Borrowed),
            VisibleScreen::Live(terminal) => terminal.screen_row(u16::try_from(row).ok()?).map(Cow::Owned),
            VisibleScreen::LastAltScreen(terminal, rows) => {
                let row = u16::try_from(row).ok().filter(|row| row < rows)?;
                terminal.last_alt_screen_row(row).map(Cow::Owned)
            }
        }
    }

    fn cursor(&self) -> Option<Cursor> {
        match self {
            VisibleScreen::Frame(screen) => Some(screen.cursor),
            VisibleScreen::Live(terminal) => Some(terminal.cursor()),
            VisibleScreen::LastAltScreen(..) => None,
        }
    }
}

impl<'a> Document<'a> {
    /// Creates the document of a recorded terminal, without the empty end of its screen.
    pub fn recorded(terminal: &'a TerminalState) -> Document<'a> {
        let end = terminal.line_count();
        let screen = match terminal.modes().alternate {
            true => Some(VisibleScreen::of(terminal)),
            false => last_alt_screen(terminal),
        };
        let screen = screen.map(|screen| (end, screen));
        Document { terminal, is_live: false, is_loading_earlier: false, end, screen }
    }

    /// Creates the document of a running terminal. It ends with the whole screen as of the last complete frame.
    pub fn live(terminal: &'a TerminalState) -> Document<'a> {
        let (alternate, first) = match terminal.frame() {
            Some(frame) => (frame.modes.alternate, frame.first_line),
            None => (terminal.modes().alternate, terminal.screen_start().0),
        };
        let end = terminal.line_count();
        let start = if alternate { end } else { first };
        Document {
            terminal,
            is_live: true,
            is_loading_earlier: false,
            end,
            screen: Some((start, VisibleScreen::of(terminal))),
        }
    }

    /// Marks the document as incomplete: older output is still being loaded, so not all snapshots are known.
    #[must_use]
    pub fn loading_earlier(self) -> Document<'a> {
        Document { is_loading_earlier: true, ..self }
    }

    /// Returns true while older output is being loaded.
    pub(crate) fn is_loading_earlier(&self) -> bool {
        self.is_loading_earlier
    }

    /// Returns the line numbers. Main-screen numbers are stable; the alternate screen's lines follow them.
    pub fn lines(&self) -> Range<u64> {
        let first = self.terminal.first_kept_line().0;
        match &self.screen {
            // A frame may show lines that were dropped since.
            Some((start, screen)) => first.min(*start)..start + screen.rows(),
            None => first..self.end,
        }
    }

    /// Returns the end of the lines that can no longer change. Screen lines can.
    pub(crate) fn settled_end(&self) -> u64 {
        let start = self.terminal.screen_start().0;
        self.screen.as_ref().map_or(start, |(shown, _)| start.min(*shown))
    }

    /// Returns a line with its styles.
    pub fn row(&self, line: u64) -> Option<Cow<'a, Row>> {
        match self.on_screen(line) {
            Some(row) => row,
            None => self.terminal.line_row(LineIndex(line)).map(Cow::Owned),
        }
    }

    /// Returns a line's text without trailing blanks.
    pub fn text(&self, line: u64) -> Option<String> {
        match self.on_screen(line) {
            Some(row) => row.map(|row| row.into_owned().text),
            None => self.terminal.line_text(LineIndex(line)),
        }
    }

    /// Returns the first line of the screen; `None` if the document has no separate screen.
    pub(crate) fn screen_start(&self) -> Option<u64> {
        self.screen.as_ref().map(|(start, _)| *start)
    }

    /// Returns the cursor; `None` if the document has no separate screen.
    pub fn cursor(&self) -> Option<DocumentCursor> {
        let (start, screen) = self.screen.as_ref()?;
        let Cursor { row, col, visible } = screen.cursor()?;
        Some(DocumentCursor { line: start + u64::from(row), col, is_visible: visible })
    }

    /// Returns the modes that the program has set.
    pub fn modes(&self) -> Modes {
        self.terminal.modes()
    }

    /// Returns the terminal's width in columns.
    pub fn width(&self) -> u16 {
        self.terminal.size().cols
    }

    /// Returns the screen's height in rows.
    pub fn height(&self) -> u16 {
        self.terminal.size().rows
    }

    // ---- Snapshots ----

    /// Returns true if a snapshot is shown at the line.
    pub fn has_snapshot(&self, line: u64) -> bool {
        let own = line < self.end && self.terminal.has_snapshot_at_line(LineIndex(line));
        own || (self.is_live && line == self.first_kept() && self.snapshot_on_earlier_line(line).is_some())
    }

    /// Returns the next line with a snapshot.
    pub(crate) fn snapshot_after(&self, line: u64) -> Option<u64> {
        let (line, snapshot) = self.terminal.next_snapshot_after_line(LineIndex(line))?;
        self.snapshot_line(line, snapshot)
    }

    /// Returns the previous kept line with a snapshot.
    pub(crate) fn snapshot_before(&self, line: u64) -> Option<u64> {
        let (taken_at, snapshot) = self.snapshot_on_earlier_line(line)?;
        self.snapshot_line(taken_at, snapshot).filter(|shown_at| *shown_at < line)
    }

    /// Returns the last snapshot on an earlier line, kept or not.
    fn snapshot_on_earlier_line(&self, line: u64) -> Option<(LineIndex, &'a Snapshot)> {
        self.terminal.last_snapshot_before_line(LineIndex(line))
    }

    fn first_kept(&self) -> u64 {
        self.terminal.first_kept_line().0
    }

    /// Returns the line at which a snapshot taken on `line` is shown; `None` if the line was dropped and no
    /// screen can be shown instead.
    fn snapshot_line(&self, line: LineIndex, snapshot: &Snapshot) -> Option<u64> {
        let first = self.first_kept();
        (self.is_live || self.is_alt_screen(snapshot) || line.0 >= first).then_some(line.0.max(first))
    }

    /// Returns true if the snapshot was taken on the alternate screen, and that screen can be shown.
    pub(crate) fn is_alt_screen(&self, snapshot: &Snapshot) -> bool {
        !self.is_live && snapshot.alternate
    }

    /// Returns true if the snapshot's lines were erased or dropped.
    pub(crate) fn is_erased(&self, snapshot: u64) -> bool {
        self.terminal.line_of_snapshot(snapshot).is_some_and(|line| line.0 < self.first_kept())
    }

    /// Returns the number of snapshots.
    pub fn snapshots(&self) -> usize {
        self.terminal.snapshots_by_line().count()
    }

    /// Returns the number of snapshots before this output offset.
    pub(crate) fn snapshots_before(&self, offset: u64) -> usize {
        self.terminal.snapshots_by_line().filter(|(_, snapshot)| snapshot.offset < offset).count()
    }

    /// Returns the snapshots that can be shown, with their lines, from top to bottom; in the order taken within a
    /// line.
    pub(crate) fn kept_snapshots(&self) -> Vec<(u64, &'a Snapshot)> {
        let all = self.terminal.snapshots_by_line();
        all.filter_map(|(line, snapshot)| Some((self.snapshot_line(line, snapshot)?, snapshot))).collect()
    }

    /// Explains why no snapshot is above, with a hint if other moments can be shown.
    pub(crate) fn explain_none_above(&self) -> &'static str {
        if self.is_loading_earlier {
            return "earlier snapshots are still being read: try again when all lines are there";
        }
        match (self.kept_snapshots().len() < self.snapshots(), self.is_live) {
            (false, _) => "no snapshot above",
            (true, false) => "the snapshot's lines were erased: go back in time (, or the timeline)",
            (true, true) => "the snapshot's lines were erased",
        }
    }

    /// Returns the snapshot of a line: the last one taken on it, otherwise on an earlier line.
    pub fn snapshot_at(&self, line: u64) -> Option<(u64, &'a Snapshot)> {
        let own = self.terminal.get_snapshot_for_line(LineIndex(line)).map(|own| (LineIndex(line), own));
        let (taken_at, snapshot) = own.or_else(|| self.snapshot_on_earlier_line(line))?;
        Some((self.snapshot_line(taken_at, snapshot)?, snapshot))
    }

    /// Returns the snapshot taken last, if it can be shown.
    pub(crate) fn latest_snapshot(&self) -> Option<(u64, &'a Snapshot)> {
        self.latest_snapshot_until(u64::MAX)
    }

    /// Returns the last snapshot up to this output offset, if it can be shown.
    pub(crate) fn latest_snapshot_until(&self, offset: u64) -> Option<(u64, &'a Snapshot)> {
        let all = self.terminal.snapshots_by_time().into_iter();
        let (line, snapshot) = all.rev().find(|(_, snapshot)| snapshot.offset <= offset)?;
        Some((self.snapshot_line(line, snapshot)?, snapshot))
    }

    /// Returns the output offset in bytes.
    pub(crate) fn offset(&self) -> u64 {
        self.terminal.offset()
    }

    /// Returns the 1-based position of a snapshot among all, from top to bottom; `None` while older output is
    /// loading.
    pub(crate) fn place_of_snapshot(&self, id: u64) -> Option<usize> {
        if self.is_loading_earlier {
            return None;
        }
        self.terminal.snapshots_by_line().position(|(_, snapshot)| snapshot.id == id).map(|at| at + 1)
    }

    /// Returns the snapshot after which nothing was written.
    pub(crate) fn end_snapshot(&self) -> Option<&'a Snapshot> {
        let (_, latest) = self.terminal.snapshots_by_time().pop()?;
        (latest.offset >= self.terminal.offset()).then_some(latest)
    }

    /// Returns the snapshot with this id.
    pub fn snapshot(&self, id: u64) -> Option<&'a Snapshot> {
        self.terminal.snapshots_by_line().map(|(_, snapshot)| snapshot).find(|snapshot| snapshot.id == id)
    }

    /// Returns the line at which a snapshot is shown.
    pub fn line_of_snapshot(&self, id: u64) -> Option<u64> {
        self.snapshot_line(self.terminal.line_of_snapshot(id)?, self.snapshot(id)?)
    }

    /// Returns the screen row of a line; the outer `None` means that the line is not on a separate screen.
    fn on_screen(&self, line: u64) -> Option<Option<Cow<'a, Row>>> {
        let (start, screen) = self.screen.as_ref()?;
        Some(screen.row(line.checked_sub(*start)?))
    }
}

/// Returns the alternate screen that a full-screen program left, if the main screen has no more lines than fit on
/// it.
fn last_alt_screen(terminal: &TerminalState) -> Option<VisibleScreen<'_>> {
    if terminal.line_count() > u64::from(terminal.size().rows) {
        return None;
    }
    let rows = terminal.last_alt_screen_rows();
    (rows > 0).then_some(VisibleScreen::LastAltScreen(terminal, rows))
}
