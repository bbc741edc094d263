//! Patterns in a window while they are typed, and what comes of them.

use crate::document::Document;
use crate::keys::Key;
use crate::pager::Pager;
use crate::search::Direction;
use crate::search::session::{MAX_REPEAT, not_found_message};
use crate::search_prompt::{PromptKind, PromptOutcome, SearchPrompt};

impl Pager {
    /// A pattern is to be typed; of a search, which of its matches is wanted.
    pub(crate) fn open_prompt(&mut self, kind: PromptKind, times: i64) {
        self.remember_position();
        let last = if kind == PromptKind::Filter { None } else { self.search.take() };
        self.prompt =
            Some(SearchPrompt::new(kind, times.clamp(1, MAX_REPEAT), self.viewport.scroll_position(), last));
    }

    /// Takes a key for the pattern; true if it asks for help: an empty text looked for upwards, with nothing looked for before.
    pub(crate) fn handle_prompt_key(&mut self, key: Key, document: &Document<'_>) -> bool {
        let Some(prompt) = &mut self.prompt else { return false };
        match prompt.key(key, &self.history) {
            PromptOutcome::Edited => self.search_from_origin(document),
            PromptOutcome::Submitted => return self.submit_prompt(document),
            PromptOutcome::Cancelled => self.cancel_prompt(),
            PromptOutcome::Ignored => {}
        }
        false
    }

    /// Takes more of the text: its first line.
    pub(crate) fn insert_prompt_text(&mut self, more: &str, document: &Document<'_>) {
        let Some(prompt) = &mut self.prompt else { return };
        prompt.line.insert(more);
        self.search_from_origin(document);
    }

    /// Always from where it began: what is typed wrong and taken back leads back.
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

    fn submit_prompt(&mut self, document: &Document<'_>) -> bool {
        let Some(prompt) = self.prompt.take() else { return false };
        let text = prompt.line.text();
        if !text.is_empty() {
            self.history.add(text);
        }
        let pattern = prompt.pattern();
        let fault = pattern.as_ref().and_then(|pattern| pattern.fault());
        self.message = fault.map(|fault| format!("no regular expression ({fault}): looked for as it stands"));
        let direction = match prompt.kind {
            PromptKind::Search(direction) => direction,
            PromptKind::Filter => {
                match pattern {
                    Some(pattern) => self.set_filter(pattern, prompt.shown(), document),
                    None => self.clear_filter(),
                }
                return false;
            }
        };
        if text.is_empty() {
            // As in less: the last one once more, this way now.
            let Some(search) = prompt.last else { return direction == Direction::Up };
            self.search = Some(search.with_direction(direction));
            self.repeat_search(false, prompt.times, document);
        } else if let Some(search) = self.search.as_ref().filter(|search| search.is_not_found()) {
            self.message = Some(not_found_message(&search.pattern));
        }
        false
    }
}
