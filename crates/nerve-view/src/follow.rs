//! Going along with what is written, as `F` of `less` has it; or until what is looked for is written.

use crate::document::Document;
use crate::keys::Operation;
use crate::pager::Pager;

/// Lines that are looked through at once: more than that at a time nobody reads.
const LINES: u64 = 5000;

/// Going along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Along {
    /// Until somebody does something else.
    Always,
    /// Until a line from this one on has what is looked for.
    Until(u64),
}

impl Along {
    /// Lines have other numbers.
    pub(crate) fn renumber(&mut self, by: i64) {
        if let Along::Until(line) = self {
            *line = line.saturating_add_signed(by);
        }
    }
}

impl Pager {
    /// To the end, and along with it until a line has what is looked for.
    pub(crate) fn follow_until(&mut self, document: &Document<'_>) {
        if self.search.is_none() {
            return self.tell("nothing was looked for yet");
        }
        self.go_far(Operation::Follow, None);
        // What a program writes next is where its cursor is.
        let next = document.cursor().map_or(document.lines().end, |(line, ..)| line);
        self.along = Some(Along::Until(next));
    }

    /// Stops going along; false if nobody had asked for that.
    pub(crate) fn stay(&mut self) -> bool {
        let went = self.along.take().is_some();
        if went {
            self.viewport.stay();
            self.tell("stays here");
        }
        went
    }

    /// Something was written: is it what is looked for?
    pub(crate) fn go_along(&mut self, document: &Document<'_>) {
        let (Some(Along::Until(from)), Some(search)) = (self.along, &mut self.search) else { return };
        let lines = document.lines();
        let from = from.clamp(lines.start, lines.end).max(lines.end.saturating_sub(LINES));
        let is_in = |line: &u64| document.text(*line).is_some_and(|text| search.pattern.is_in(&text));
        match (from..lines.end).find(is_in) {
            Some(line) => {
                search.go_to(line);
                self.along = None;
                self.viewport.show(line);
                self.viewport.stay();
                self.tell("this was waited for");
            }
            // Lines of the screen can still become others.
            None => self.along = Some(Along::Until(from.max(document.settled_end().min(lines.end)))),
        }
    }
}
