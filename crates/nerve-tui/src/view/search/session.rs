//! The state of a window's search: current match, match count and highlighting.

use std::ops::Range;

use crate::view::document::Document;
use crate::view::search::line_filter::LineFilter;
use crate::view::search::{Direction, LINES_PER_STEP, MatchCounter, Pattern, Scanner};

/// Direction of a repeated search, relative to that of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    SameDirection,
    OtherDirection,
}

/// A search in progress, or its result.
#[derive(Debug, Clone)]
pub(crate) struct SearchSession {
    pub(crate) pattern: Pattern,
    /// Matches are highlighted.
    pub(crate) is_highlighted: bool,
    pub(crate) direction: Direction,
    pub(crate) scanner: Option<Scanner>,
    /// Matches left to skip.
    pub(crate) remaining: i64,
    /// Line of the current match.
    pub(crate) found: Option<u64>,
    /// `None` until counting begins.
    pub(crate) count: Option<MatchCount>,
}

/// The number of matches in a document that can grow.
#[derive(Debug, Clone)]
pub(crate) struct MatchCount {
    /// Matches in lines that can no longer change.
    settled: MatchCounter,
    /// Matches in all lines counted so far.
    all: MatchCounter,
    is_complete: bool,
}

impl MatchCount {
    /// Creates a complete count of 0; the lines from `start` to `settled_end` can no longer change.
    pub(crate) fn none(start: u64, settled_end: u64) -> MatchCount {
        let counter = MatchCounter::none(start, settled_end);
        MatchCount { settled: counter.clone(), all: counter, is_complete: true }
    }

    /// Returns the 1-based position of the current match, if known.
    pub(crate) fn position(&self) -> Option<u64> {
        self.all.position()
    }

    /// Returns the number of matches; `None` while lines are left to count.
    pub(crate) fn total(&self) -> Option<u64> {
        self.is_complete.then(|| self.all.total())
    }
}

impl SearchSession {
    /// Shifts the line numbers and restarts the scan.
    pub(crate) fn renumber(&mut self, by: i64) {
        self.found = self.found.map(|line| line.saturating_add_signed(by));
        self.recount();
    }

    /// Restarts the count, because the lines to search have changed.
    pub(crate) fn recount(&mut self) {
        (self.scanner, self.count) = (None, None);
    }

    /// Continues the search in another direction.
    pub(crate) fn with_direction(self, direction: Direction) -> SearchSession {
        SearchSession { direction, ..self }
    }

    /// Makes a line the current match.
    pub(crate) fn go_to(&mut self, line: u64) {
        (self.is_highlighted, self.found) = (true, Some(line));
        self.recount();
    }

    /// Returns true if the whole document was searched without a match.
    pub(crate) fn is_not_found(&self) -> bool {
        self.scanner.is_none() && self.count.as_ref().and_then(MatchCount::total) == Some(0)
    }

    /// Counts matches within the step's budget; returns true if lines are left. Lines that can still change are
    /// counted on each call. The count restarts if the first lines were dropped, or at an earlier moment of a
    /// recording.
    pub(crate) fn count_step(&mut self, document: &Document<'_>, filter: Option<&LineFilter>) -> bool {
        let (lines, text) = (document.lines(), |line| text(document, filter, line));
        let changeless = lines.start..document.settled_end().clamp(lines.start, lines.end);
        let begun = self.count.take().map(|count| count.settled);
        let mut settled = begun
            .filter(|settled| settled.start() == lines.start && settled.next() <= changeless.end)
            .unwrap_or_else(|| MatchCounter::new(&lines, self.found));
        let has_more = settled.step(&self.pattern, &changeless, LINES_PER_STEP, text);
        let mut all = settled.clone();
        if !has_more {
            all.step(&self.pattern, &lines, u64::MAX, text);
        }
        self.count = Some(MatchCount { settled, all, is_complete: !has_more });
        has_more
    }

    /// Starts a scan at a line, or after it if it is the current match.
    pub(crate) fn scan_from(&mut self, from: u64, direction: Direction, lines: &Range<u64>) {
        let next = match (self.found, direction) {
            (None, _) => from,
            (Some(_), Direction::Down) if from + 1 < lines.end => from + 1,
            (Some(_), Direction::Up) if from > lines.start => from - 1,
            (Some(_), Direction::Down) => lines.start,
            (Some(_), Direction::Up) => lines.end.saturating_sub(1),
        };
        self.scanner = Some(Scanner::new(direction, next, lines));
    }
}

/// Returns the text of a line that the filter does not hide.
pub(crate) fn text(document: &Document<'_>, filter: Option<&LineFilter>, line: u64) -> Option<String> {
    document.text(line).filter(|text| filter.is_none_or(|filter| filter.matches(text)))
}
