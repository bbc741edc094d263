//! Goes to the matches of a window's search.

use std::ops::Range;

use crate::view::document::Document;
use crate::view::pager::{Columns, Pager};
use crate::view::search::session::{MatchCount, Repeat, SearchSession, text};
use crate::view::search::{Direction, LINES_PER_STEP, Pattern, ScanStep, Scanner};

/// Largest count for repeating a search.
pub(crate) const MAX_REPEAT: i64 = 1000;

impl Pager {
    /// Returns the highlighted pattern.
    pub(crate) fn pattern(&self) -> Option<&Pattern> {
        self.highlighted().map(|search| &search.pattern)
    }

    /// Returns the search if its matches are highlighted.
    fn highlighted(&self) -> Option<&SearchSession> {
        self.search.as_ref().filter(|search| search.is_highlighted)
    }

    /// Returns the line of the current match.
    pub(crate) fn found(&self) -> Option<u64> {
        self.highlighted()?.found
    }

    /// Returns the 1-based position of the current match, if known, and the number of matches, if counted.
    pub(crate) fn matches(&self) -> Option<(Option<u64>, Option<u64>)> {
        let count = self.highlighted()?.count.as_ref()?;
        Some((count.position(), count.total()))
    }

    /// Turns highlighting on or off.
    pub(crate) fn toggle_highlight(&mut self) {
        if let Some(search) = &mut self.search {
            search.is_highlighted ^= true;
            search.found = None;
        }
    }

    /// Turns highlighting off.
    pub(crate) fn remove_highlight(&mut self) {
        if let Some(search) = &mut self.search {
            search.is_highlighted = false;
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
        let from = match (direction, prompt.options.from_end) {
            (Direction::Down, true) => lines.start,
            (Direction::Up, true) => lines.end,
            (Direction::Down, false) => self.viewport.top_line(),
            (Direction::Up, false) => self.last_line().unwrap_or_else(|| self.viewport.top_line()),
        };
        let scanner = (!prompt.options.stays).then(|| Scanner::new(direction, from, &lines));
        let remaining = prompt.times - 1;
        self.search = Some(SearchSession {
            pattern,
            is_highlighted: true,
            direction,
            scanner,
            remaining,
            found: None,
            count: None,
        });
        self.advance_search(document);
    }

    /// Goes to the next match in a direction, `times` times.
    pub(crate) fn repeat_search(&mut self, repeat: Repeat, times: i64, document: &Document<'_>) {
        self.remember_position();
        let from = self.anchor_line();
        let Some(search) = &mut self.search else {
            self.show_message("no search yet");
            return;
        };
        let direction = match repeat {
            Repeat::SameDirection => search.direction,
            Repeat::OtherDirection => search.direction.reversed(),
        };
        search.is_highlighted = true;
        search.remaining = times.clamp(1, MAX_REPEAT) - 1;
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
        let direction = scanner.direction();
        match scanner.step(&search.pattern, &lines, LINES_PER_STEP, |line| text(document, filter, line)) {
            ScanStep::Pending => {}
            ScanStep::Found { line, wrapped } => {
                search.scanner = None;
                search.found = Some(line);
                if search.remaining > 0 {
                    search.remaining -= 1;
                    search.scan_from(line, direction, &lines);
                } else {
                    search.count = None;
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
                search.count = Some(MatchCount::none(lines.start, end));
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

pub(crate) fn not_found_message(pattern: &Pattern) -> String {
    let text = shorten(pattern.text());
    match pattern.fault() {
        None => format!("no match for '{text}'"),
        Some(fault) => format!("no match for the text '{text}', and not a regular expression: {fault}"),
    }
}

/// Returns the beginning of a text, for a sentence.
pub(crate) fn shorten(text: &str) -> String {
    let shown: String = text.chars().take(40).collect();
    let more = if shown.len() < text.len() { "…" } else { "" };
    format!("{shown}{more}")
}
