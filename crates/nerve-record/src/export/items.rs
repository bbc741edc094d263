//! The final lines of a session, interleaved with its snapshots (seed agent-record §10.2 and §10.3).

use nerve_term::terminal::{LineIndex, Snapshot, TerminalState};

/// A line, or a snapshot that was taken on the line before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item<'a> {
    /// A row of the main screen or of what has scrolled off it.
    Line {
        /// Its absolute number.
        line: LineIndex,
        /// Its text, trailing blanks cut.
        text: String,
        /// The terminal wrapped it: it goes on in the next one.
        wrapped: bool,
    },
    /// A snapshot.
    Snapshot {
        /// The line it is bound to.
        line: LineIndex,
        /// It.
        snapshot: &'a Snapshot,
    },
}

/// All lines from the oldest kept to the last that shows something, each followed by its snapshots in the order they were
/// taken. Snapshots of lines that are gone come first, those of the blank lines at the end last: none is left out.
///
/// Lines of the alternate screen are none of the session's.
pub fn interleaved(terminal: &TerminalState) -> impl Iterator<Item = Item<'_>> {
    let mut lines = terminal.first_kept_line().0..end_of_text(terminal);
    let mut snapshots = terminal.snapshots_by_line().peekable();
    std::iter::from_fn(move || {
        // What is bound to a line before the next one is due.
        if let Some((line, snapshot)) =
            snapshots.next_if(|(line, _)| line.0 < lines.start || lines.is_empty())
        {
            return Some(Item::Snapshot { line, snapshot });
        }
        let line = LineIndex(lines.next()?);
        let text = terminal.line_text(line).unwrap_or_default();
        Some(Item::Line { line, text, wrapped: terminal.line_wrapped(line) })
    })
}

/// Number of the line behind the last one that shows something.
fn end_of_text(terminal: &TerminalState) -> u64 {
    let kept = terminal.first_kept_line().0..terminal.line_count();
    let blank = |line: u64| terminal.line_text(LineIndex(line)).is_none_or(|text| text.is_empty());
    kept.clone().rev().find(|line| !blank(*line)).map_or(kept.start, |line| line + 1)
}
