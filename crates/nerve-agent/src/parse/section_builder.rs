//! Builds the sections of an answer from its rows.

use super::rows::{dedent, join};
use super::{ParsedTurn, Section, SectionKind};

/// A cursor over the rows of an answer, with the sections above it.
pub(super) struct SectionBuilder<'a> {
    /// The rows of the answer, from above the echo of its prompt to the live region.
    pub(super) rows: &'a [&'a str],
    /// Index of the row to read next.
    pub(super) next_row: usize,
    /// The sections so far.
    pub(super) sections: Vec<Section>,
    /// True if the last item ends the turn.
    pub(super) has_ended: bool,
    /// True if a dialog is open.
    pub(super) has_dialog: bool,
}

impl<'a> SectionBuilder<'a> {
    /// Creates a builder that begins at row `start`.
    pub(super) fn new(rows: &'a [&'a str], start: usize) -> SectionBuilder<'a> {
        let next_row = start.min(rows.len());
        SectionBuilder { rows, next_row, sections: Vec::new(), has_ended: false, has_dialog: false }
    }

    /// Returns the row to read next.
    pub(super) fn row(&self) -> Option<&'a str> {
        self.rows.get(self.next_row).copied()
    }

    /// Moves past the rows up to the first one that is no part of the item, and returns them.
    pub(super) fn take_rows(&mut self, is_part: impl Fn(&str) -> bool) -> &'a [&'a str] {
        let rows = &self.rows[self.next_row..];
        let count = rows.iter().take_while(|row| is_part(row)).count();
        self.next_row += count;
        &rows[..count]
    }

    /// Moves past an item and returns its text. `first`: the text of its first row. Its further rows have an indentation of
    /// `indent` columns.
    pub(super) fn take_text(&mut self, first: &str, indent: usize, is_part: impl Fn(&str) -> bool) -> String {
        self.next_row += 1;
        let below = self.take_rows(is_part).iter().map(|row| dedent(row, indent));
        join(&std::iter::once(first).chain(below).collect::<Vec<_>>())
    }

    /// Adds a section unless it is empty. The turn continues with it.
    pub(super) fn push(&mut self, kind: SectionKind, content: String) {
        if !content.is_empty() {
            self.add(Section::new(kind, content));
        }
    }

    /// Adds a section. The turn continues with it.
    pub(super) fn add(&mut self, section: Section) {
        self.sections.push(section);
        self.has_ended = false;
    }

    /// Returns the turn. `is_idle`: the agent waits for input. `is_truncated`: the beginning of the answer has scrolled away.
    pub(super) fn finish(self, is_idle: bool, is_truncated: bool) -> ParsedTurn {
        let is_over = self.sections.last().is_some_and(|last| {
            is_idle || matches!(last.kind, SectionKind::Interrupted | SectionKind::Error)
        });
        ParsedTurn {
            is_complete: !self.has_dialog && (self.has_ended || is_over),
            is_truncated: is_truncated && !self.sections.is_empty(),
            sections: self.sections,
            tokens: None,
        }
    }
}
