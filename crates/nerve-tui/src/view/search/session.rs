//! The search of a window: current match, match count and highlighting.

use std::ops::Range;

use crate::view::document::Document;
use crate::view::filter::LineFilter;
use crate::view::pager::{Columns, Pager};
use crate::view::search::{Direction, MatchCounter, Pattern, ScanStep, Scanner};

/// Lines scanned per step.
pub const LINES_PER_STEP: u64 = 20_000;
/// Largest count for repeating a search.
pub(crate) const MAX_REPEAT: i64 = 1000;

/// A search in progress, or its result.
#[derive(Debug, Clone)]
pub(crate) struct SearchSession {
    pub(crate) pattern: Pattern,
    /// Matches are highlighted.
    is_highlighted: bool,
    direction: Direction,
    scanner: Option<Scanner>,
    /// Matches left to skip, and the direction.
    remaining: (i64, Direction),
    /// Line of the current match.
    pub(crate) found: Option<u64>,
    /// Matches in lines that can no longer change, and in all lines.
    settled: Option<MatchCounter>,
    count: Option<MatchCounter>,
    counted: bool,
}

impl SearchSession {
    /// Shifts the line numbers and restarts the scan.
    pub(crate) fn renumber(&mut self, by: i64) {
        self.found = self.found.map(|line| line.saturating_add_signed(by));
        self.recount();
    }

    /// Restarts the count, because the lines to search have changed.
    pub(crate) fn recount(&mut self) {
        (self.scanner, self.settled, self.count, self.counted) = (None, None, None, false);
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
        self.scanner.is_none() && self.counted && self.count.as_ref().is_none_or(|count| count.total() == 0)
    }

    /// Starts a count.
    fn start_count(&mut self, count: MatchCounter) {
        (self.settled, self.count, self.counted) = (Some(count.clone()), Some(count), false);
    }

    /// Counts matches within the step's budget; returns true if lines are left. Lines that can still change are
    /// counted on each call. The count restarts if the first lines were dropped, or at an earlier moment of a
    /// recording.
    fn count_step(&mut self, document: &Document<'_>, filter: Option<&LineFilter>) -> bool {
        let (lines, text) = (document.lines(), |line| text(document, filter, line));
        let changeless = lines.start..document.settled_end().clamp(lines.start, lines.end);
        let settled = self.settled.get_or_insert_with(|| MatchCounter::new(&lines, self.found));
        if settled.start() != lines.start || settled.next() > changeless.end {
            *settled = MatchCounter::new(&lines, self.found);
            self.counted = false;
        }
        let has_more = settled.step(&self.pattern, &changeless, LINES_PER_STEP, text);
        let mut count = settled.clone();
        if !has_more {
            count.step(&self.pattern, &lines, u64::MAX, text);
        }
        self.count = Some(count);
        self.counted = !has_more;
        has_more
    }
}

impl Pager {
    /// Returns the highlighted pattern.
    pub fn pattern(&self) -> Option<&Pattern> {
        self.highlighted().map(|search| &search.pattern)
    }

    /// Returns the search if its matches are highlighted.
    fn highlighted(&self) -> Option<&SearchSession> {
        self.search.as_ref().filter(|search| search.is_highlighted)
    }

    /// Returns the line of the current match.
    pub fn found(&self) -> Option<u64> {
        self.highlighted()?.found
    }

    /// Returns the 1-based position of the current match, if known, and the number of matches, if counted.
    pub fn matches(&self) -> Option<(Option<u64>, Option<u64>)> {
        let search = self.highlighted()?;
        let count = search.count.as_ref()?;
        Some((count.position(), search.counted.then(|| count.total())))
    }

    /// Turns highlighting off; with `toggles`, on again if it was off.
    pub(crate) fn toggle_highlight(&mut self, toggles: bool) {
        if let Some(search) = &mut self.search {
            search.is_highlighted = toggles && !search.is_highlighted;
            search.found = None;
        }
    }

    /// Clears the current match and restarts the count, because another moment is shown.
    pub(crate) fn clear_found(&mut self) {
        if let Some(search) = &mut self.search {
            search.found = None;
            search.recount();
        }
    }

    pub(crate) fn start_search(&mut self, direction: Direction, document: &Document<'_>) {
        let Some(prompt) = &self.prompt else { return };
        let Some(pattern) = prompt.pattern() else {
            self.search = None;
            return;
        };
        let lines = document.lines();
        // Starts at the window, so that visible matches are found in both directions.
        let from = match (direction, prompt.from_end) {
            (Direction::Down, true) => lines.start,
            (Direction::Up, true) => lines.end,
            (Direction::Down, false) => self.viewport.top_line(),
            (Direction::Up, false) => self.last_line().unwrap_or_else(|| self.viewport.top_line()),
        };
        let scanner = (!prompt.stays).then(|| Scanner::new(direction, from, &lines));
        let remaining = (prompt.times - 1, direction);
        let mut search = SearchSession {
            pattern,
            is_highlighted: true,
            direction,
            scanner,
            remaining,
            found: None,
            settled: None,
            count: None,
            counted: false,
        };
        if prompt.stays {
            search.start_count(MatchCounter::new(&lines, None));
        }
        self.search = Some(search);
        self.advance_search(document);
    }

    /// Goes to the next match, or with `other_way` to the previous one, `times` times.
    pub(crate) fn repeat_search(&mut self, other_way: bool, times: i64, document: &Document<'_>) {
        self.remember_position();
        let from = self.anchor_line();
        let Some(search) = &mut self.search else {
            self.show_message("no search yet");
            return;
        };
        let direction = if other_way { search.direction.reversed() } else { search.direction };
        search.is_highlighted = true;
        search.remaining = (times.clamp(1, MAX_REPEAT) - 1, direction);
        search.scan_from(from, direction, &document.lines());
        self.advance_search(document);
    }

    /// Advances the filter and the search by one step. Returns true if work is left.
    pub(crate) fn advance_search(&mut self, document: &Document<'_>) -> bool {
        if self.update_filter(document) {
            return true;
        }
        let lines = document.lines();
        let filter = self.filter.as_ref();
        let Some(search) = &mut self.search else { return false };
        let Some(scanner) = &mut search.scanner else {
            return search.count_step(document, filter);
        };
        match scanner.step(&search.pattern, &lines, LINES_PER_STEP, |line| text(document, filter, line)) {
            ScanStep::Pending => {}
            ScanStep::Found { line, wrapped } => {
                search.scanner = None;
                search.found = Some(line);
                let (remaining, direction) = search.remaining;
                if remaining > 0 {
                    search.remaining.0 -= 1;
                    search.scan_from(line, direction, &lines);
                } else {
                    search.start_count(MatchCounter::new(&lines, Some(line)));
                    self.viewport.show(line);
                    // New output must not scroll the match away. Cancelling the prompt restores the position and
                    // following.
                    self.viewport.stop_following();
                    self.scroll_to_match(line, document);
                }
                if wrapped {
                    self.show_message("search wrapped around");
                }
            }
            ScanStep::NotFound => {
                let message = not_found_message(&search.pattern);
                (search.scanner, search.found) = (None, None);
                let end = document.settled_end().clamp(lines.start, lines.end);
                search.start_count(MatchCounter::none(lines.start, end));
                search.counted = true;
                self.message = Some(message);
                return false;
            }
        }
        true
    }

    /// Scrolls horizontally if the line's first match is not visible.
    fn scroll_to_match(&mut self, line: u64, document: &Document<'_>) {
        let Some(pattern) = self.pattern() else { return };
        let Some(text) = document.text(line) else { return };
        let Some(Range { start, end }) = pattern.columns(&text).into_iter().next() else { return };
        let Columns { left, width, .. } = self.columns;
        if start < left || end > left.saturating_add(width) {
            self.columns.left = start.saturating_sub(width / 4).min(self.max_left(document));
        }
    }
}

impl SearchSession {
    /// Starts a scan at a line, or after it if it is the current match.
    fn scan_from(&mut self, from: u64, direction: Direction, lines: &Range<u64>) {
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
fn text(document: &Document<'_>, filter: Option<&LineFilter>, line: u64) -> Option<String> {
    document.text(line).filter(|text| filter.is_none_or(|filter| filter.matches(text)))
}

pub(crate) fn not_found_message(pattern: &Pattern) -> String {
    let text = shorten(pattern.text());
    match pattern.fault() {
        None => format!("no match for '{text}'"),
        Some(fault) => format!("no match for the text '{text}', and not a regular expression: {fault}"),
    }
}

/// The begin of a text, for a sentence.
pub(crate) fn shorten(text: &str) -> String {
    let shown: String = text.chars().take(40).collect();
    let more = if shown.len() < text.len() { "…" } else { "" };
    format!("{shown}{more}")
}
