//! The final lines of a session, interleaved with its snapshots.

use nerve_vt::terminal::{LineIndex, Snapshot, TerminalState};

/// A line, or a snapshot between lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item<'a> {
    /// A row of the main screen or the scrollback.
    Line {
        /// Absolute line number.
        line: LineIndex,
        /// Text without trailing blanks.
        text: String,
        /// The terminal wrapped the line; it continues in the next one.
        wrapped: bool,
    },
    /// A snapshot.
    Snapshot {
        /// The line of the snapshot.
        line: LineIndex,
        /// The snapshot.
        snapshot: &'a Snapshot,
    },
}

/// Iterates over all lines up to the last non-blank one, and their snapshots in the order they were taken. A snapshot
/// follows its line, or precedes it if the line continues after the snapshot. For example, a command typed after a
/// shell's prompt is later than a snapshot taken at the prompt. Snapshots of dropped lines come first, those of trailing blank lines last.
///
/// The alternate screen is not included.
pub fn interleaved(terminal: &TerminalState) -> impl Iterator<Item = Item<'_>> {
    let mut lines = terminal.first_kept_line().0..end_of_text(terminal);
    let mut snapshots = terminal.snapshots_by_line().peekable();
    std::iter::from_fn(move || {
        let is_due = |(line, snapshot): &(LineIndex, &Snapshot)| {
            let precedes = || line.0 == lines.start && continues_after(terminal, *line, snapshot.col);
            line.0 < lines.start || lines.is_empty() || precedes()
        };
        if let Some((line, snapshot)) = snapshots.next_if(is_due) {
            return Some(Item::Snapshot { line, snapshot });
        }
        let line = LineIndex(lines.next()?);
        let text = terminal.line_text(line).unwrap_or_default();
        Some(Item::Line { line, text, wrapped: terminal.is_line_wrapped(line) })
    })
}

/// Returns true if a line has text from a column on.
fn continues_after(terminal: &TerminalState, line: LineIndex, col: u16) -> bool {
    let len_to_col = terminal.line_text_to(line, col).map_or(0, |text| text.len());
    terminal.line_text(line).is_some_and(|text| text.len() > len_to_col)
}

/// Returns the number of the line after the last non-blank one.
fn end_of_text(terminal: &TerminalState) -> u64 {
    let lines = terminal.first_kept_line().0..terminal.line_count();
    let is_blank = |line: u64| terminal.line_text(LineIndex(line)).is_none_or(|text| text.is_empty());
    lines.clone().rev().find(|line| !is_blank(*line)).map_or(lines.start, |line| line + 1)
}
