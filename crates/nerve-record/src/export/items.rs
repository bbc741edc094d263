//! The final lines of a session, interleaved with its snapshots.

use nerve_vt::terminal::{LineIndex, Snapshot, TerminalState};

/// A line, or a snapshot taken on the preceding line.
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

/// Iterates over all lines up to the last non-blank one, each followed by its snapshots in the order they were taken.
/// Snapshots of dropped lines come first, those of trailing blank lines last.
///
/// The alternate screen is not included.
pub fn interleaved(terminal: &TerminalState) -> impl Iterator<Item = Item<'_>> {
    let mut lines = terminal.first_kept_line().0..end_of_text(terminal);
    let mut snapshots = terminal.snapshots_by_line().peekable();
    std::iter::from_fn(move || {
        // Snapshots of earlier lines come before the next line.
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

/// Returns the number of the line after the last non-blank one.
fn end_of_text(terminal: &TerminalState) -> u64 {
    let kept = terminal.first_kept_line().0..terminal.line_count();
    let blank = |line: u64| terminal.line_text(LineIndex(line)).is_none_or(|text| text.is_empty());
    kept.clone().rev().find(|line| !blank(*line)).map_or(kept.start, |line| line + 1)
}
