//! Navigation between the snapshots of a document.

use crate::view::document::Document;
use crate::view::pager::Pager;
use crate::view::search::Direction;

impl Pager {
    /// Goes to the next or the previous snapshot, `times` times.
    pub(crate) fn go_to_snapshot(&mut self, direction: Direction, times: i64, document: &Document<'_>) {
        let step = |line| match direction {
            Direction::Down => document.snapshot_after(line),
            Direction::Up => document.snapshot_before(line),
        };
        let mut at = None;
        for _ in 0..times.clamp(1, i64::try_from(document.snapshots()).unwrap_or(i64::MAX).max(1)) {
            let Some(line) = step(at.unwrap_or_else(|| self.anchor_line())) else { break };
            at = Some(line);
        }
        match at {
            Some(line) => self.go_to(line),
            None if document.snapshots() == 0 && !document.is_loading_earlier() => {
                self.show_message("there are no snapshots")
            }
            None => self.show_message(match direction {
                Direction::Down => "no snapshot below",
                Direction::Up => document.explain_none_above(),
            }),
        }
    }
}
