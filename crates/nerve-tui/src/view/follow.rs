//! Follow mode: scrolls with new output (`F` in `less`), optionally until a line matches the search.

use crate::view::document::Document;
use crate::view::keys::Operation;
use crate::view::pager::{FollowMode, Pager};

/// Maximum number of new lines searched at once.
const MAX_LINES: u64 = 5000;

impl Pager {
    /// Follows new output until a line matches the search.
    pub(crate) fn follow_until(&mut self, document: &Document<'_>) {
        if self.search.is_none() {
            return self.show_message("no search yet");
        }
        self.jump(Operation::Follow, None);
        // New output begins at the cursor.
        let next = document.cursor().map_or(document.lines().end, |cursor| cursor.line);
        self.follow_mode = Some(FollowMode::Until(next));
    }

    /// Leaves follow mode. Returns false if it was not active.
    pub(crate) fn stop_following(&mut self) -> bool {
        let was_active = self.follow_mode.take().is_some();
        if was_active {
            self.viewport.stop_following();
            self.show_message("stopped following");
        }
        was_active
    }

    /// Looks for the pattern in new lines.
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
                self.show_message("match found");
            }
            // Lines of the screen can still change.
            None => {
                self.follow_mode = Some(FollowMode::Until(from.max(document.settled_end().min(lines.end))))
            }
        }
    }
}
