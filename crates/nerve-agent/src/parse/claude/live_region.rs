//! Claude's live region: the composer between two rules, and the status rows around it.

use super::row_kind::{self, RowKind};
use crate::parse::rows::{dedent, indent, is_blank, is_right_aligned};

/// First characters of the window title while a turn runs (not inside tmux).
pub(super) const BUSY_TITLES: [char; 4] = ['◐', '◓', '◑', '◒'];

/// Rows of the composer, 0-based.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Composer {
    /// The rule above it.
    pub(super) top: usize,
    /// The rule below it.
    pub(super) bottom: usize,
}

impl Composer {
    /// Finds the composer: a rule, a prompt marker directly below, further draft rows, a rule, and no item below. A
    /// dialog replaces the composer; a dialog left in the scrollback is not a composer either.
    pub(super) fn find(rows: &[&str]) -> Option<Composer> {
        let mut bottom = None;
        let mut is_below_marker = false;
        for (at, row) in rows.iter().enumerate().rev() {
            let mark = RowKind::classify(row);
            match (mark, bottom) {
                (RowKind::Rule, Some(bottom)) if is_below_marker => {
                    return Some(Composer { top: at, bottom });
                }
                (RowKind::Rule, None) => bottom = Some(at),
                (RowKind::Prompt, Some(_)) if !is_below_marker => is_below_marker = true,
                (RowKind::Blank | RowKind::Result(_), Some(_)) if !is_below_marker => {}
                (RowKind::Indented, Some(_)) if !is_below_marker && indent(row) >= 2 => {}
                (RowKind::Blank | RowKind::Result(_) | RowKind::Indented | RowKind::Unknown, None) => {}
                _ => return None,
            }
        }
        None
    }

    /// Returns true if the row is inside the composer.
    pub(super) fn contains_row(&self, row: u16) -> bool {
        (self.top + 1..self.bottom).contains(&usize::from(row))
    }

    /// Returns the text that was typed but not submitted.
    pub(super) fn draft(&self, rows: &[&str]) -> String {
        let draft_rows = rows[self.top + 1..self.bottom].iter().enumerate();
        let draft_rows: Vec<&str> = draft_rows
            .map(|(i, row)| if i == 0 { row_kind::prompt(row).unwrap_or(row) } else { dedent(row, 2) })
            .collect();
        draft_rows.join("\n")
    }

    /// Returns true if the status rows signal work: the footer offers the interrupt, or the nearest item above is a
    /// spinner. The spinner vanishes while text streams, and a narrow terminal truncates the footer.
    pub(super) fn is_busy(&self, rows: &[&str]) -> bool {
        let footer = &rows[self.bottom + 1..];
        let nearest =
            rows[..self.top].iter().rev().map(|row| RowKind::classify(row)).find(RowKind::starts_item);
        footer.iter().any(|row| row.contains("esc to interrupt"))
            || matches!(nearest, Some(RowKind::Spinner))
            || self.permission_row(rows).is_some()
    }

    /// Returns true if the footer is drawn and does not signal work: the answer above is complete.
    pub(super) fn is_idle(&self, rows: &[&str]) -> bool {
        rows[self.bottom + 1..].iter().any(|row| !is_blank(row)) && !self.is_busy(rows)
    }

    /// Returns the row `Waiting for permission…`, drawn until the dialog replaces the composer.
    fn permission_row(&self, rows: &[&str]) -> Option<usize> {
        let status = |row: &&str| !is_blank(row) && !is_right_aligned(row);
        let at = rows[..self.top].iter().rposition(status)?;
        (rows[at].trim_end() == "  Waiting for permission…").then_some(at)
    }

    /// Returns the first row of the status above the composer (`◐ medium · /effort` in the full-screen renderer).
    pub(super) fn first_status_row(&self, rows: &[&str]) -> usize {
        if let Some(at) = self.permission_row(rows) {
            return at;
        }
        if self.top > 0 && is_right_aligned(rows[self.top - 1]) { self.top - 1 } else { self.top }
    }
}
