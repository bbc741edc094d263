//! Patterns in a window while they are typed, and what comes of them.

use crate::document::Document;
use crate::keys::Key;
use crate::pager::Pager;
use crate::search::Direction;
use crate::search::session::{FURTHER, nowhere};
use crate::search_prompt::{Asking, Did, Prompt};

impl Pager {
    /// A pattern is to be typed; of a search, which of its matches is wanted.
    pub(crate) fn type_pattern(&mut self, what: Asking, times: i64) {
        self.going();
        let last = if what == Asking::Filter { None } else { self.search.take() };
        self.prompt = Some(Prompt::new(what, times.clamp(1, FURTHER), self.viewport.place(), last));
    }

    /// Takes a key for the pattern; true if it asks for help: an empty text looked for upwards, with nothing looked for before.
    pub(crate) fn typed(&mut self, key: Key, document: &Document<'_>) -> bool {
        let Some(prompt) = &mut self.prompt else { return false };
        match prompt.key(key, &self.history) {
            Did::Edited => self.look_from_origin(document),
            Did::Entered => return self.enter(document),
            Did::GaveUp => self.give_up(),
            Did::Nothing => {}
        }
        false
    }

    /// Takes more of the text: its first line.
    pub(crate) fn typed_text(&mut self, more: &str, document: &Document<'_>) {
        let Some(prompt) = &mut self.prompt else { return };
        prompt.line.insert(more);
        self.look_from_origin(document);
    }

    /// Always from where it began: what is typed wrong and taken back leads back.
    fn look_from_origin(&mut self, document: &Document<'_>) {
        let Some(Prompt { what: Asking::Search(direction), origin, .. }) = &self.prompt else { return };
        let (direction, origin) = (*direction, *origin);
        self.viewport.go_back(origin);
        self.viewport.set_lines(document.lines());
        self.look_for(direction, document);
    }

    fn give_up(&mut self) {
        let Some(prompt) = self.prompt.take() else { return };
        if let Asking::Search(_) = prompt.what {
            self.search = None;
            self.viewport.go_back(prompt.origin);
        }
    }

    fn enter(&mut self, document: &Document<'_>) -> bool {
        let Some(prompt) = self.prompt.take() else { return false };
        let text = prompt.line.text();
        if !text.is_empty() {
            self.history.add(text);
        }
        let pattern = prompt.pattern();
        let fault = pattern.as_ref().and_then(|pattern| pattern.fault());
        self.message = fault.map(|fault| format!("no regular expression ({fault}): looked for as it stands"));
        let direction = match prompt.what {
            Asking::Search(direction) => direction,
            Asking::Filter => {
                match pattern {
                    Some(pattern) => self.filter_by(pattern, prompt.shown(), document),
                    None => self.unfilter(),
                }
                return false;
            }
        };
        if text.is_empty() {
            // As in less: the last one once more, this way now.
            let Some(search) = prompt.last else { return direction == Direction::Up };
            self.search = Some(search.towards(direction));
            self.again(false, prompt.times, document);
        } else if let Some(search) = self.search.as_ref().filter(|search| search.is_nowhere()) {
            self.message = Some(nowhere(&search.pattern));
        }
        false
    }
}
