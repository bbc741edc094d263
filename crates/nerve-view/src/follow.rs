//! Going along with what is written, as `F` of `less` has it; or until what is looked for is written.

use crate::document::Document;
use crate::keys::Operation;
use crate::pager::Pager;

/// Lines that are looked through at once: more than that at a time nobody reads.
const MAX_LINES: u64 = 5000;

/// Going along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FollowMode {
    /// Until somebody does something else.
    Always,
    /// Until a line from this one on has what is looked for.
    Until(u64),
}

impl FollowMode {
    /// Lines have other numbers.
    pub(crate) fn renumber(&mut self, by: i64) {
        if let FollowMode::Until(line) = self {
            *line = line.saturating_add_signed(by);
        }
    }
}

impl Pager {
    /// To the end, and along with it until a line has what is looked for.
    pub(crate) fn follow_until(&mut self, document: &Document<'_>) {
        if self.search.is_none() {
            return self.show_message("nothing was looked for yet");
        }
        self.jump(Operation::Follow, None);
        // What a program writes next is where its cursor is.
        let next = document.cursor().map_or(document.lines().end, |(line, ..)| line);
        self.follow_mode = Some(FollowMode::Until(next));
    }

    /// Stops going along; false if nobody had asked for that.
    pub(crate) fn stop_following(&mut self) -> bool {
        let went = self.follow_mode.take().is_some();
        if went {
            self.viewport.stop_following();
            self.show_message("stays here");
        }
        went
    }

    /// Something was written: is it what is looked for?
    pub(crate) fn check_follow_pattern(&mut self, document: &Document<'_>) {
        let (Some(FollowMode::Until(from)), Some(search)) = (self.follow_mode, &mut self.search) else {
            return;
        };
        let lines = document.lines();
        let from = from.clamp(lines.start, lines.end).max(lines.end.saturating_sub(MAX_LINES));
        let is_in = |line: &u64| document.text(*line).is_some_and(|text| search.pattern.is_in(&text));
        match (from..lines.end).find(is_in) {
            Some(line) => {
                search.go_to(line);
                self.follow_mode = None;
                self.viewport.show(line);
                self.viewport.stop_following();
                self.show_message("this was waited for");
            }
            // Lines of the screen can still become others.
            None => {
                self.follow_mode = Some(FollowMode::Until(from.max(document.settled_end().min(lines.end))))
            }
        }
    }
}
