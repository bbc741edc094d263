//! The line filter, computed a bounded number of lines per step.

use std::ops::Range;

use crate::view::document::Document;
use crate::view::search::{LINES_PER_STEP, Pattern};
use crate::view::viewport::FilteredLines;

/// A filter and its progress.
#[derive(Debug, Clone)]
pub(crate) struct LineFilter {
    pattern: Pattern,
    /// The pattern as typed, with its sign.
    pub(crate) text: String,
    /// First line of the document at the last step.
    from: u64,
    /// End of the lines whose result is final.
    settled: u64,
    /// Line to keep at the top until the filter is complete.
    pub(crate) anchor: Option<u64>,
    /// All lines were scanned once.
    is_complete: bool,
}

/// Result of a filter step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilterProgress {
    /// Lines are left to scan.
    Pending,
    /// All lines were scanned for the first time.
    Completed,
    /// Nothing is left to do.
    Idle,
}

impl LineFilter {
    /// Creates a filter for these lines.
    pub(crate) fn new(pattern: Pattern, text: String, lines: &Range<u64>, anchor: Option<u64>) -> LineFilter {
        let (from, settled) = (lines.start, lines.start);
        LineFilter { pattern, text, from, settled, anchor, is_complete: false }
    }

    /// Shifts all line numbers.
    pub(crate) fn renumber(&mut self, by: i64) {
        let number = |line: u64| line.saturating_add_signed(by);
        (self.from, self.settled) = (number(self.from), number(self.settled));
        self.anchor = self.anchor.map(number);
    }

    /// Returns true if a line with this text is shown.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.pattern.is_in(text)
    }

    /// Scans some lines. Lines that can still change are scanned in every step.
    pub(crate) fn update_filter(
        &mut self,
        document: &Document<'_>,
        filtered: &mut FilteredLines,
    ) -> FilterProgress {
        let lines = document.lines();
        if lines.start < self.from {
            // Earlier lines appear when another moment of a recording is shown.
            filtered.clear();
            self.settled = lines.start;
        }
        self.from = lines.start;
        filtered.drop_before(lines.start);
        let end = document.settled_end().clamp(lines.start, lines.end);
        self.settled = self.settled.clamp(lines.start, end);
        filtered.drop_from(self.settled);
        let until = end.min(self.settled.saturating_add(LINES_PER_STEP));
        let mut scan = |lines: Range<u64>| {
            for line in lines {
                if document.text(line).is_some_and(|text| self.pattern.is_in(&text)) {
                    filtered.push(line);
                }
            }
        };
        scan(self.settled..until);
        self.settled = until;
        if until < end {
            return FilterProgress::Pending;
        }
        scan(until..lines.end);
        if std::mem::replace(&mut self.is_complete, true) {
            FilterProgress::Idle
        } else {
            FilterProgress::Completed
        }
    }
}
