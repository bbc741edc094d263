//! Snapshots of a recording that were taken on the alternate screen. Their lines do not say their places, since a program that has all of the
//! screen writes it anew: who goes to one is shown the screen of its moment, and who goes on from there is back at the end.

use crate::document::Document;
use crate::keys::Operation;
use crate::regions::FrameContext;
use crate::task_entry::Target;
use crate::viewer::{Effect, Source, Viewer};

/// A place on the way from snapshot to snapshot: the moment of one, or a line with some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stop {
    /// The snapshot, of those on a line the last one.
    id: u64,
    line: u64,
    offset: u64,
    is_alt_screen: bool,
}

/// From top to bottom; on one line in the order they were taken. A program's screen at the end is the end's own, whatever the line of a
/// snapshot that was taken there.
fn stops(document: &Document<'_>) -> Vec<Stop> {
    let mut stops: Vec<Stop> = Vec::new();
    let end = document.screen_start().and_then(|_| document.end_snapshot()).map(|snapshot| snapshot.id);
    for (line, snapshot) in document.kept_snapshots() {
        if end == Some(snapshot.id) {
            continue;
        }
        let is_alt_screen = document.is_alt_screen(snapshot);
        let stop = Stop { id: snapshot.id, line, offset: snapshot.offset, is_alt_screen };
        match stops.last_mut() {
            Some(last) if last.line == line && !last.is_alt_screen && !is_alt_screen => *last = stop,
            _ => stops.push(stop),
        }
    }
    stops
}

impl Viewer {
    /// What knows the snapshots that there are to be gone to: the recording's end, where a moment with a full-screen program is shown. Any
    /// other moment knows its own.
    pub(crate) fn snapshot_source<'a>(&self, frame: &FrameContext<'a>) -> &'a Document<'a> {
        let is_known_there = self.shown_snapshot.is_some() || frame.document.screen_start().is_some();
        frame.end.filter(|_| is_known_there).unwrap_or(frame.document)
    }

    /// Why no snapshot is above, in words. A moment that was jumped to has not all lines that were written before it.
    pub(crate) fn explain_none_above(&self, frame: &FrameContext<'_>) -> &'static str {
        let known = self.snapshot_source(frame);
        match self.has_hidden_snapshots(frame) && !known.is_loading_earlier() {
            true => "earlier snapshots are on lines that only the recording's end shows",
            false => known.explain_none_above(self.source == Source::Recording),
        }
    }

    /// There are snapshots before what is known here.
    pub(crate) fn has_hidden_snapshots(&self, frame: &FrameContext<'_>) -> bool {
        let known = self.snapshot_source(frame);
        let before = |document: &Document<'_>| document.snapshots_before(known.offset());
        known.is_loading_earlier() || frame.end.is_some_and(|end| before(end) > before(known))
    }

    /// The snapshot that one is at: that of the task entry, or the one whose moment is shown.
    pub(crate) fn current_snapshot(&self) -> Option<u64> {
        match self.entry.target {
            Some(Target::Snapshot { id, .. } | Target::Moment { id }) => Some(id),
            Some(Target::End) => None,
            None => self.shown_snapshot,
        }
    }

    /// What is shown is a full-screen program at a moment.
    pub(crate) fn shows_alt_screen_moment(&self, frame: &FrameContext<'_>) -> bool {
        (self.shown_snapshot.is_some() || frame.end.is_some()) && frame.document.screen_start().is_some()
    }

    /// To the moment of a snapshot: its screen is at the end of what is shown then.
    pub(crate) fn show_snapshot(&mut self, id: u64) {
        self.pager.clear_filter();
        self.pager.remember_position();
        self.pager.clear_found();
        self.pager.viewport.go_to_end();
        if self.shown_snapshot.replace(id) != Some(id) {
            self.pending_effect = Some(Effect::SeekSnapshot(Some(id)));
        }
    }

    /// From the moment of a snapshot back to the recording's end.
    pub(crate) fn leave_snapshot(&mut self) {
        if self.shown_snapshot.take().is_some() {
            self.pending_effect = Some(Effect::SeekSnapshot(None));
            self.pager.clear_found();
            self.pager.viewport.go_to_end();
        }
    }

    /// Another moment is asked for: what stood at that of a snapshot, or at the end, does not stand there any more. A task entry's text is kept.
    pub(crate) fn forget_snapshot(&mut self) {
        self.shown_snapshot = None;
        self.pager.clear_found();
        if let Some(Target::Moment { .. } | Target::End) = self.entry.target {
            self.entry.target = None;
            self.pager.viewport.close_entry();
        }
    }

    /// To the lines of what knows the snapshots.
    pub(crate) fn show_source_lines(&mut self, frame: &FrameContext<'_>) {
        let is_elsewhere = frame.end.is_some_and(|end| std::ptr::eq(end, self.snapshot_source(frame)));
        if is_elsewhere || self.shown_snapshot.is_some() {
            self.shown_snapshot = None;
            self.pending_effect = Some(Effect::SeekSnapshot(None));
            self.pager.clear_found();
            self.pager.update_document(frame.end.unwrap_or(frame.document));
        }
    }

    /// The snapshot of a line: its own, else the last one before it; of a full-screen program's line the one that was taken last till then.
    pub(crate) fn snapshot_of(&self, line: u64, frame: &FrameContext<'_>) -> Option<(u64, u64)> {
        let document = frame.document;
        let is_on_screen = document.screen_start().is_some_and(|start| line >= start);
        let found = match (self.shown_snapshot, frame.end) {
            (Some(id), _) if is_on_screen => return Some((line, id)),
            (None, Some(end)) if is_on_screen => end.latest_snapshot_until(document.offset()),
            _ => document.snapshot_at(line),
        };
        found.map(|(line, snapshot)| (line, snapshot.id))
    }

    /// To the next snapshot or the one before.
    pub(crate) fn go_to_snapshot(&mut self, operation: Operation, frame: &FrameContext<'_>) {
        let known = self.snapshot_source(frame);
        let stops = stops(known);
        if !stops.iter().any(|stop| stop.is_alt_screen) {
            self.pager.run(operation, frame.document);
            if operation == Operation::PreviousSnapshot
                && self.pager.message.is_some()
                && self.has_hidden_snapshots(frame)
            {
                self.pager.show_message(self.explain_none_above(frame));
            }
            return;
        }
        let is_down = operation == Operation::NextSnapshot;
        let more = usize::try_from(self.pager.number.take().unwrap_or(1).max(1) - 1).unwrap_or(usize::MAX);
        self.pager.follow_mode = None;
        let (above, below) = self.neighbours(&stops, frame);
        let to = match is_down {
            true => below.map(|at| at.saturating_add(more).min(stops.len() - 1)),
            false => above.map(|at| at.saturating_sub(more)),
        };
        match to.and_then(|at| stops.get(at)) {
            Some(stop) if stop.is_alt_screen => self.show_snapshot(stop.id),
            Some(stop) => {
                self.show_source_lines(frame);
                self.pager.go_to(stop.line);
                self.last_stop = Some((stop.id, self.pager.viewport.top_line()));
            }
            None if is_down && self.shown_snapshot.is_some() => self.leave_snapshot(),
            None if is_down => self.show_message("no snapshot below"),
            None => self.show_message(self.explain_none_above(frame)),
        }
    }

    /// The nearest stops above where one is and below.
    fn neighbours(&self, stops: &[Stop], frame: &FrameContext<'_>) -> (Option<usize>, Option<usize>) {
        let viewport = &self.pager.viewport;
        let last_stop = self.last_stop.filter(|(_, top)| *top == viewport.top_line()).map(|(id, _)| id);
        let at = self.shown_snapshot.or(last_stop);
        if let Some(at) = at.and_then(|id| stops.iter().position(|stop| stop.id == id)) {
            return (at.checked_sub(1), (at + 1 < stops.len()).then_some(at + 1));
        }
        let (line, offset) = (self.pager.anchor_line(), frame.document.offset());
        // With the program's screen in sight, one is in time where that is; else on a line: what was taken on the screen of a program that began
        // there comes after it.
        let is_on_screen = frame.document.screen_start().is_some() && viewport.is_at_end();
        let is_above = |stop: &Stop| match stop.is_alt_screen && is_on_screen {
            true => stop.offset <= offset,
            false => stop.line < line,
        };
        let is_below = |stop: &Stop| match (stop.is_alt_screen, is_on_screen) {
            (true, true) => stop.offset > offset,
            (true, false) => stop.line >= line,
            (false, _) => stop.line > line,
        };
        (stops.iter().rposition(is_above), stops.iter().position(is_below))
    }
}
