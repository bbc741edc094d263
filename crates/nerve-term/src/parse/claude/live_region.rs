//! Claude's live region: the composer between its two rules, and the status rows around it.

use super::row_kind::{self, Mark};
use crate::parse::rows::{dedent, indent, is_blank, is_right_aligned};

/// The window title starts with one of these while a turn runs (not inside tmux).
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
    /// The composer: a rule, directly below it a prompt marker, the draft's other rows, a rule, and nothing that starts
    /// something below. A dialog takes the composer's place; one left behind in the scrollback is not it either.
    pub(super) fn find(rows: &[&str]) -> Option<Composer> {
        let mut bottom = None;
        let mut is_below_marker = false;
        for (at, row) in rows.iter().enumerate().rev() {
            let mark = Mark::of(row);
            match (mark, bottom) {
                (Mark::Rule, Some(bottom)) if is_below_marker => return Some(Composer { top: at, bottom }),
                (Mark::Rule, None) => bottom = Some(at),
                (Mark::Prompt, Some(_)) if !is_below_marker => is_below_marker = true,
                (Mark::Blank | Mark::Result(_), Some(_)) if !is_below_marker => {}
                (Mark::Indented, Some(_)) if !is_below_marker && indent(row) >= 2 => {}
                (Mark::Blank | Mark::Result(_) | Mark::Indented | Mark::Unknown, None) => {}
                _ => return None,
            }
        }
        None
    }

    /// The cursor's row lies in it.
    pub(super) fn holds(&self, row: u16) -> bool {
        (self.top + 1..self.bottom).contains(&usize::from(row))
    }

    /// What is typed and not submitted.
    pub(super) fn draft(&self, rows: &[&str]) -> String {
        let typed = rows[self.top + 1..self.bottom].iter().enumerate();
        let typed: Vec<&str> = typed
            .map(|(i, row)| if i == 0 { row_kind::prompt(row).unwrap_or(row) } else { dedent(row, 2) })
            .collect();
        typed.join("\n")
    }

    /// The status rows say that a turn runs: the footer offers the interrupt, or the row nearest above is a spinner (it vanishes
    /// while text streams, the footer's offer is cut off in a narrow terminal).
    pub(super) fn is_busy(&self, rows: &[&str]) -> bool {
        let footer = &rows[self.bottom + 1..];
        let nearest = rows[..self.top].iter().rev().map(|row| Mark::of(row)).find(Mark::starts_something);
        footer.iter().any(|row| row.contains("esc to interrupt")) || matches!(nearest, Some(Mark::Spinner))
    }

    /// There is a footer and it does not say busy: the answer above is all there is.
    pub(super) fn is_idle(&self, rows: &[&str]) -> bool {
        rows[self.bottom + 1..].iter().any(|row| !is_blank(row)) && !self.is_busy(rows)
    }

    /// The first row above the composer that is its own status (`◐ medium · /effort` in the full-screen renderer).
    pub(super) fn first_status_row(&self, rows: &[&str]) -> usize {
        if self.top > 0 && is_right_aligned(rows[self.top - 1]) { self.top - 1 } else { self.top }
    }
}
