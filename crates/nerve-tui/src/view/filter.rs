//! The line filter (`&` in `less`), computed a bounded number of lines per step.

use std::ops::Range;

use crate::view::document::Document;
use crate::view::pager::Pager;
use crate::view::search::Pattern;
use crate::view::search::session::{LINES_PER_STEP, shorten};
use crate::view::search_prompt::PromptView;
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
enum FilterProgress {
    /// Lines are left to scan.
    Pending,
    /// All lines were scanned for the first time.
    Completed,
    /// Nothing is left to do.
    Idle,
}

impl LineFilter {
    /// Creates a filter for these lines.
    fn new(pattern: Pattern, text: String, lines: &Range<u64>, anchor: Option<u64>) -> LineFilter {
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
    fn update_filter(&mut self, document: &Document<'_>, filtered: &mut FilteredLines) -> FilterProgress {
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
        let mut look = |lines: Range<u64>| {
            for line in lines {
                if document.text(line).is_some_and(|text| self.pattern.is_in(&text)) {
                    filtered.push(line);
                }
            }
        };
        look(self.settled..until);
        self.settled = until;
        if until < end {
            return FilterProgress::Pending;
        }
        look(until..lines.end);
        if std::mem::replace(&mut self.is_complete, true) {
            FilterProgress::Idle
        } else {
            FilterProgress::Completed
        }
    }
}

impl Pager {
    /// Returns the filter as typed.
    pub fn filter(&self) -> Option<&str> {
        self.filter.as_ref().map(|filter| filter.text.as_str())
    }

    pub(crate) fn set_filter(&mut self, pattern: Pattern, typed: PromptView, document: &Document<'_>) {
        // A window that follows keeps following.
        let top = (!self.viewport.follows()).then(|| self.viewport.top_line());
        let text = format!("{}{}", typed.sign, typed.text);
        if let Some(search) = &mut self.search {
            // A hidden line cannot be the current match.
            let lets = |line: &u64| document.text(*line).is_some_and(|text| pattern.is_in(&text));
            search.found = search.found.filter(lets);
            search.recount();
        }
        self.filter = Some(LineFilter::new(pattern, text, &document.lines(), top));
        self.viewport.set_filter(Some(FilteredLines::default()));
        self.update_filter(document);
    }

    /// Shows all lines again.
    pub(crate) fn clear_filter(&mut self) {
        if self.filter.take().is_some() {
            self.viewport.set_filter(None);
            self.search.iter_mut().for_each(|search| search.recount());
        }
    }

    /// Advances the filter by one step. Returns true if lines are left.
    pub(crate) fn update_filter(&mut self, document: &Document<'_>) -> bool {
        let Some(filter) = &mut self.filter else { return false };
        let progress = self
            .viewport
            .update_filtered(|filtered| (filter.update_filter(document, filtered), filtered.is_empty()));
        let Some((progress, is_empty)) = progress else { return false };
        if let Some(line) = filter.anchor {
            self.viewport.go_to_line(line);
        }
        match progress {
            FilterProgress::Pending => return true,
            FilterProgress::Completed if is_empty => {
                let text = std::mem::take(&mut filter.text);
                self.clear_filter();
                self.message = Some(format!("no line matches {}: showing all", shorten(&text)));
            }
            FilterProgress::Completed => filter.anchor = None,
            FilterProgress::Idle => {}
        }
        false
    }
}
