//! Navigation between snapshots that were taken on the alternate screen of a recording.
//!
//! A full-screen program rewrites its screen, so line numbers do not identify such a snapshot. The viewer shows the
//! screen as of the snapshot instead, and returns to the recording's end afterwards.

use crate::view::document::Document;
use crate::view::keys::Operation;
use crate::view::regions::FrameContext;
use crate::view::task_entry::Target;
use crate::view::viewer::Viewer;

/// A step of the snapshot navigation: one alternate-screen snapshot, or a line with snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stop {
    /// Snapshot id; the last one taken if the line has several.
    id: u64,
    line: u64,
    offset: u64,
    is_alt_screen: bool,
}

/// Returns the stops from top to bottom, in the order taken within a line. A snapshot of the alternate screen at
/// the recording's end is omitted: the end shows that screen already.
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
    /// Returns the document whose snapshots can be reached: the recording's end while a moment with a full-screen
    /// program is shown, otherwise the shown document.
    pub(crate) fn snapshot_source<'a>(&self, frame: &FrameContext<'a>) -> &'a Document<'a> {
        let uses_end = self.snapshot_view.shown.is_some() || frame.document.screen_start().is_some();
        frame.end.filter(|_| uses_end).unwrap_or(frame.document)
    }

    /// Explains why no snapshot is above. A moment in the middle may lack lines that were written before it.
    pub(crate) fn explain_none_above(&self, frame: &FrameContext<'_>) -> &'static str {
        let source = self.snapshot_source(frame);
        match self.has_hidden_snapshots(frame) && !source.is_loading_earlier() {
            true => "earlier snapshots are on lines that only the recording's end shows",
            false => source.explain_none_above(),
        }
    }

    /// Returns true if there are snapshots before those of [`Viewer::snapshot_source`].
    pub(crate) fn has_hidden_snapshots(&self, frame: &FrameContext<'_>) -> bool {
        let source = self.snapshot_source(frame);
        let earlier = |document: &Document<'_>| document.snapshots_before(source.offset());
        source.is_loading_earlier() || frame.end.is_some_and(|end| earlier(end) > earlier(source))
    }

    /// Returns the snapshot of the task entry, or the one whose screen is shown.
    pub(crate) fn current_snapshot(&self) -> Option<u64> {
        match self.entry.target {
            Some(Target::Snapshot { id, .. } | Target::Moment { id }) => Some(id),
            Some(Target::End) => None,
            None => self.snapshot_view.shown,
        }
    }

    /// Returns true if the document is a full-screen program at an earlier moment.
    pub(crate) fn shows_alt_screen_moment(&self, frame: &FrameContext<'_>) -> bool {
        (self.snapshot_view.shown.is_some() || frame.end.is_some()) && frame.document.screen_start().is_some()
    }

    /// Shows the screen as of a snapshot.
    pub(crate) fn show_snapshot(&mut self, id: u64) {
        self.pager.clear_filter();
        self.pager.remember_position();
        self.pager.clear_found();
        self.pager.viewport.go_to_end();
        self.snapshot_view.show(id);
    }

    /// Returns from a snapshot's screen to the recording's end.
    pub(crate) fn leave_snapshot(&mut self) {
        if self.snapshot_view.shown.is_some() {
            self.snapshot_view.show_end();
            self.pager.clear_found();
            self.pager.viewport.go_to_end();
        }
    }

    /// Leaves the shown snapshot before another moment is shown. A task entry at that snapshot or at the end is
    /// closed and keeps its text.
    pub(crate) fn forget_snapshot(&mut self) {
        self.snapshot_view.shown = None;
        self.pager.clear_found();
        if let Some(Target::Moment { .. } | Target::End) = self.entry.target {
            self.entry.target = None;
            self.pager.viewport.close_entry();
        }
    }

    /// Switches to the lines of [`Viewer::snapshot_source`].
    pub(crate) fn show_source_lines(&mut self, frame: &FrameContext<'_>) {
        let is_elsewhere = frame.end.is_some_and(|end| std::ptr::eq(end, self.snapshot_source(frame)));
        if is_elsewhere || self.snapshot_view.shown.is_some() {
            self.snapshot_view.show_end();
            self.pager.clear_found();
            self.pager.update_document(frame.end.unwrap_or(frame.document));
        }
    }

    /// Returns the line and id of a line's snapshot: its own, otherwise the last one before it. On a full-screen
    /// program's screen this is the last snapshot taken so far.
    pub(crate) fn snapshot_of(&self, line: u64, frame: &FrameContext<'_>) -> Option<(u64, u64)> {
        let document = frame.document;
        let is_on_screen = document.screen_start().is_some_and(|start| line >= start);
        let nearest = match (self.snapshot_view.shown, frame.end) {
            (Some(id), _) if is_on_screen => return Some((line, id)),
            (None, Some(end)) if is_on_screen => end.latest_snapshot_until(document.offset()),
            _ => document.snapshot_at(line),
        };
        nearest.map(|(line, snapshot)| (line, snapshot.id))
    }

    /// Goes to the next or the previous snapshot.
    pub(crate) fn go_to_snapshot(&mut self, operation: Operation, frame: &FrameContext<'_>) {
        let source = self.snapshot_source(frame);
        let stops = stops(source);
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
        let steps = usize::try_from(self.pager.number.take().unwrap_or(1).max(1) - 1).unwrap_or(usize::MAX);
        self.pager.follow_mode = None;
        let (above, below) = self.neighbours(&stops, frame);
        let to = match is_down {
            true => below.map(|at| at.saturating_add(steps).min(stops.len() - 1)),
            false => above.map(|at| at.saturating_sub(steps)),
        };
        match to.and_then(|at| stops.get(at)) {
            Some(stop) if stop.is_alt_screen => self.show_snapshot(stop.id),
            Some(stop) => {
                self.show_source_lines(frame);
                self.pager.go_to(stop.line);
                self.snapshot_view.last_stop = Some((stop.id, self.pager.viewport.top_line()));
            }
            None if is_down && self.snapshot_view.shown.is_some() => self.leave_snapshot(),
            None if is_down => self.show_message("no snapshot below"),
            None => self.show_message(self.explain_none_above(frame)),
        }
    }

    /// Returns the nearest stops above and below the current position.
    fn neighbours(&self, stops: &[Stop], frame: &FrameContext<'_>) -> (Option<usize>, Option<usize>) {
        let viewport = &self.pager.viewport;
        let at = self.snapshot_view.position(viewport.top_line());
        if let Some(at) = at.and_then(|id| stops.iter().position(|stop| stop.id == id)) {
            return (at.checked_sub(1), (at + 1 < stops.len()).then_some(at + 1));
        }
        let (line, offset) = (self.pager.anchor_line(), frame.document.offset());
        // With the program's screen in view the position is a time, otherwise a line. Snapshots taken on the
        // screen of a program that began at a line come after that line.
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
