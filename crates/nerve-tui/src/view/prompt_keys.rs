//! Prompt handling of a window: incremental search while typing, and submission.

use crate::view::document::Document;
use crate::view::keys::Key;
use crate::view::match_navigation::{MAX_REPEAT, not_found_message};
use crate::view::pager::Pager;
use crate::view::search::Direction;
use crate::view::search::session::Repeat;
use crate::view::search_prompt::{PromptKind, PromptOutcome, SearchPrompt};

/// Effect of a prompt's key outside of its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PromptResult {
    /// There is none.
    Handled,
    /// Help is requested: an empty upward search without a previous one.
    HelpRequested,
}

impl Pager {
    /// Opens a prompt. `times` selects which match a search goes to.
    pub(crate) fn open_prompt(&mut self, kind: PromptKind, times: i64) {
        self.remember_position();
        let last = if kind == PromptKind::Filter { None } else { self.search.take() };
        self.prompt =
            Some(SearchPrompt::new(kind, times.clamp(1, MAX_REPEAT), self.viewport.scroll_position(), last));
    }

    /// Handles a key.
    pub(crate) fn handle_prompt_key(&mut self, key: Key, document: &Document<'_>) -> PromptResult {
        let Some(prompt) = &mut self.prompt else { return PromptResult::Handled };
        match prompt.key(key, &self.history) {
            PromptOutcome::Edited => self.search_from_origin(document),
            PromptOutcome::Submitted => return self.submit_prompt(document),
            PromptOutcome::Cancelled => self.cancel_prompt(),
            PromptOutcome::Ignored => {}
        }
        PromptResult::Handled
    }

    /// Inserts the first line of a pasted text.
    pub(crate) fn insert_prompt_text(&mut self, more: &str, document: &Document<'_>) {
        let Some(prompt) = &mut self.prompt else { return };
        prompt.line.insert(more);
        self.search_from_origin(document);
    }

    /// Searches from the original position, so that deleting text moves back.
    fn search_from_origin(&mut self, document: &Document<'_>) {
        let Some(SearchPrompt { kind: PromptKind::Search(direction), origin, .. }) = &self.prompt else {
            return;
        };
        let (direction, origin) = (*direction, *origin);
        self.viewport.restore_position(origin);
        self.viewport.set_lines(document.lines());
        self.start_search(direction, document);
    }

    fn cancel_prompt(&mut self) {
        let Some(prompt) = self.prompt.take() else { return };
        if let PromptKind::Search(_) = prompt.kind {
            self.search = None;
            self.viewport.restore_position(prompt.origin);
        }
    }

    fn submit_prompt(&mut self, document: &Document<'_>) -> PromptResult {
        let Some(prompt) = self.prompt.take() else { return PromptResult::Handled };
        let text = prompt.line.text();
        if !text.is_empty() {
            self.history.add(text);
        }
        let pattern = prompt.pattern();
        let fault = pattern.as_ref().and_then(|pattern| pattern.fault());
        self.message =
            fault.map(|fault| format!("not a regular expression ({fault}): searching for the text"));
        let direction = match prompt.kind {
            PromptKind::Search(direction) => direction,
            PromptKind::Filter => {
                match pattern {
                    Some(pattern) => self.set_filter(pattern, prompt.shown(), document),
                    None => self.clear_filter(),
                }
                return PromptResult::Handled;
            }
        };
        if text.is_empty() {
            // As in `less`, an empty pattern repeats the last search in this direction.
            let Some(search) = prompt.last else {
                let is_up = direction == Direction::Up;
                return if is_up { PromptResult::HelpRequested } else { PromptResult::Handled };
            };
            self.search = Some(search.with_direction(direction));
            self.repeat_search(Repeat::SameDirection, prompt.times, document);
        } else if let Some(search) = self.search.as_ref().filter(|search| search.is_not_found()) {
            self.message = Some(not_found_message(&search.pattern));
        }
        PromptResult::Handled
    }
}
