//! The field at the bottom of the screen in which the user writes a prompt.

use std::ops::Range;

use nerve_vt::screen::Screen;

use super::rows::{is_rule, join_draft};

/// The composer and the status rows of the program around it.
pub(super) struct Composer {
    /// First row below the conversation: a status row, or the upper edge.
    pub(super) start: usize,
    /// Rows of the draft.
    pub(super) input: Range<usize>,
    /// Text that was typed but not submitted.
    pub(super) draft: String,
    /// True if the status rows signal work.
    pub(super) is_busy: bool,
}

impl Composer {
    /// Finds a composer between two horizontal lines, whose first row begins with one of `markers`.
    pub(super) fn find_between_lines(rows: &[&str], markers: &[char]) -> Option<Composer> {
        let bottom = rows.iter().rposition(|row| is_rule(row, '─'))?;
        let top = rows[..bottom].iter().rposition(|row| is_rule(row, '─'))?;
        let first = rows[top + 1].strip_prefix(markers)?.trim_end_matches(['\u{200b}', ' ']);
        let draft = join_draft(first, &rows[top + 2..bottom]);
        Some(Composer { start: top, input: top + 1..bottom, draft, is_busy: false })
    }

    /// Returns true if the composer holds the cursor, and the status rows signal no work.
    pub(super) fn is_ready(&self, screen: &Screen) -> bool {
        self.input.contains(&usize::from(screen.cursor.row)) && !self.is_busy
    }
}
