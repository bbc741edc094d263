//! Applies the line filter (`&` in `less`) to a window.

use crate::view::document::Document;
use crate::view::match_navigation::shorten;
use crate::view::pager::Pager;
use crate::view::search::Pattern;
use crate::view::search::line_filter::{FilterProgress, LineFilter};
use crate::view::search_prompt::PromptView;
use crate::view::viewport::FilteredLines;

impl Pager {
    /// Returns the filter as typed.
    pub fn filter(&self) -> Option<&str> {
        self.filter.as_ref().map(|filter| filter.text.as_str())
    }

    pub(crate) fn set_filter(&mut self, pattern: Pattern, prompt: PromptView, document: &Document<'_>) {
        // A window that follows keeps following.
        let top = (!self.viewport.is_following()).then(|| self.viewport.top_line());
        let text = format!("{}{}", prompt.sign, prompt.text);
        if let Some(search) = &mut self.search {
            // A hidden line cannot be the current match.
            let is_selected = |line: &u64| document.text(*line).is_some_and(|text| pattern.is_in(&text));
            search.found = search.found.filter(is_selected);
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
