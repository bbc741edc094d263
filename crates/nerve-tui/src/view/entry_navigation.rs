//! Navigation and keys of the task entry.

use crate::view::document::Document;
use crate::view::keys::{Code, Context, Key, Operation};
use crate::view::regions::{FrameContext, Regions};
use crate::view::task_entry::{MAX_TEXT, Target, TaskEntry};
use crate::view::viewer::{Effect, Focus, PendingKey, Source, Submission, Viewer};

impl Viewer {
    // ---- Position ----

    /// Opens the entry at a position and scrolls to it.
    pub(crate) fn place_entry(&mut self, target: Target) {
        // The lines below the entry must be visible, so the filter is removed.
        self.pager.clear_filter();
        let height = self.entry_height();
        let viewport = &mut self.pager.viewport;
        match target {
            Target::Snapshot { line, .. } => viewport.place_entry(line, height),
            Target::Moment { .. } | Target::End => viewport.place_entry_at_end(height),
        }
        self.entry.target = Some(target);
    }

    /// Returns true if the end of `document` is the recording's end.
    fn ends_at_recording_end(&self, document: &Document<'_>, frame: &FrameContext<'_>) -> bool {
        self.subject.has_end() && frame.end.is_none_or(|end| std::ptr::eq(end, document))
    }

    /// Opens the entry of a recording at its end, or at the latest snapshot while it is still being written.
    pub(crate) fn open_initial_entry(&mut self, document: &Document<'_>) {
        let latest = document.latest_snapshot().map(|(line, snapshot)| (line, snapshot.id));
        let target =
            if self.subject.has_end() { Some(Target::End) } else { target_of(document, latest, false) };
        if let Some(target) = target {
            self.move_entry_to(target, &FrameContext::new(document, Regions::default()));
        }
    }

    /// Returns true if the snapshot was taken on the alternate screen before the recording's end.
    pub(crate) fn is_before_end(&self, id: u64, document: &Document<'_>) -> bool {
        matches!(target_of(document, Some((0, id)), self.subject.has_end()), Some(Target::Moment { .. }))
    }

    /// Shows a snapshot's screen with the entry below it.
    pub(crate) fn show_snapshot_with_entry(&mut self, id: u64) {
        self.show_snapshot(id);
        self.place_entry(Target::Moment { id });
    }

    /// Moves the entry. A snapshot of the alternate screen changes the moment that is shown.
    fn move_entry_to(&mut self, target: Target, frame: &FrameContext<'_>) {
        if let Target::Moment { id } = target {
            return self.show_snapshot_with_entry(id);
        }
        self.show_source_lines(frame);
        self.place_entry(target);
    }

    fn entry_height(&mut self) -> u16 {
        self.entry.fit(self.pager.columns.width, self.pager.viewport.height())
    }

    /// Adjusts the entry's height to its text and the window.
    pub(crate) fn fit_entry(&mut self) {
        if self.entry.target.is_some() {
            let height = self.entry_height();
            if self.pager.viewport.entry().is_none_or(|(_, shown)| shown != height) {
                self.pager.viewport.set_entry_height(height);
            }
        }
    }

    /// Closes the entry and keeps its text. The screen of its snapshot is left.
    pub(crate) fn close_entry(&mut self) {
        if self.entry.target.take().is_some() {
            self.pager.viewport.close_entry();
            self.leave_snapshot();
            self.focus = Focus::Lines;
        }
    }

    /// Returns all positions from top to bottom: each snapshot, and a recording's end. The end replaces a snapshot
    /// after which nothing was written.
    fn targets(&self, document: &Document<'_>, frame: &FrameContext<'_>) -> Vec<Target> {
        let end = self
            .ends_at_recording_end(document, frame)
            .then(|| document.end_snapshot().map(|snapshot| snapshot.id));
        let snapshots = document.kept_snapshots().into_iter();
        let mut targets: Vec<Target> = snapshots
            .filter(|(_, snapshot)| end.flatten() != Some(snapshot.id))
            .map(|(line, snapshot)| match document.is_alt_screen(snapshot) {
                true => Target::Moment { id: snapshot.id },
                false => Target::Snapshot { id: snapshot.id, line },
            })
            .collect();
        if end.is_some() {
            targets.push(Target::End);
        }
        targets
    }

    /// Returns true if branches are possible; otherwise shows the reason.
    fn check_entry_allowed(&mut self) -> bool {
        self.branches.forbidden_reason().map(|reason| self.show_message(reason)).is_none()
    }

    /// Opens the entry at the latest snapshot, or moves it to the previous one.
    pub(crate) fn entry_up(&mut self, frame: &FrameContext<'_>) {
        let Some(current) = self.entry.target else {
            return self.open_at_latest(frame);
        };
        match self.adjacent_targets(current, frame).0 {
            Some(target) => self.move_entry_to(target, frame),
            None => self.show_message(self.explain_none_above(frame)),
        }
    }

    /// Opens the entry at the latest snapshot, or moves it to the next one.
    pub(crate) fn entry_down(&mut self, frame: &FrameContext<'_>) {
        let Some(current) = self.entry.target else {
            return self.open_at_latest(frame);
        };
        match self.adjacent_targets(current, frame).1 {
            Some(target) => self.move_entry_to(target, frame),
            None => self.show_message("no snapshot below"),
        }
    }

    /// Returns the positions directly above and below one.
    fn adjacent_targets(
        &self,
        current: Target,
        frame: &FrameContext<'_>,
    ) -> (Option<Target>, Option<Target>) {
        let source = self.snapshot_source(frame);
        let targets = self.targets(source, frame);
        let (above, below) = match targets.iter().position(|target| *target == current) {
            Some(at) => (&targets[..at], &targets[at + 1..]),
            None if is_later(current, source, frame) => targets.split_at(targets.len()),
            // The snapshot's line was dropped.
            None => targets.split_at(0),
        };
        (above.last().copied(), below.first().copied())
    }

    fn open_at_latest(&mut self, frame: &FrameContext<'_>) {
        if !self.check_entry_allowed() {
            return;
        }
        let latest = match self.shows_alt_screen_moment(frame) {
            true => self.snapshot_of(u64::MAX, frame),
            false => frame.document.latest_snapshot().map(|(line, snapshot)| (line, snapshot.id)),
        };
        let source = self.snapshot_source(frame);
        match target_of(source, latest, self.ends_at_recording_end(source, frame)) {
            Some(target) => self.move_entry_to(target, frame),
            None if self.ends_at_recording_end(frame.document, frame) => {
                self.move_entry_to(Target::End, frame)
            }
            None if self.has_hidden_snapshots(frame) => self.show_message(self.explain_none_above(frame)),
            None => self.show_message("no snapshot to branch from yet"),
        }
    }

    /// Opens the entry at the current position's snapshot. The position is the visible current match, otherwise the
    /// last visible line; at the end of a recording it is the end.
    pub(crate) fn insert_here(&mut self, frame: &FrameContext<'_>) {
        if !self.check_entry_allowed() {
            return;
        }
        let viewport = &self.pager.viewport;
        let current_match = self.pager.found().filter(|line| viewport.row_of(*line).is_some());
        let is_end = current_match.is_none()
            && viewport.is_at_end()
            && self.ends_at_recording_end(frame.document, frame);
        if is_end && !self.shows_alt_screen_moment(frame) {
            return self.move_entry_to(Target::End, frame);
        }
        if let Some(line) = current_match.or_else(|| self.pager.last_line()) {
            self.insert_at(line, frame);
        }
    }

    /// Opens the entry at a line's snapshot.
    pub(crate) fn insert_at(&mut self, line: u64, frame: &FrameContext<'_>) {
        if !self.check_entry_allowed() {
            return;
        }
        let source = self.snapshot_source(frame);
        match target_of(source, self.snapshot_of(line, frame), self.ends_at_recording_end(source, frame)) {
            Some(target) => self.move_entry_to(target, frame),
            None if self.has_hidden_snapshots(frame) => self.show_message(self.explain_none_above(frame)),
            None if source.snapshots() == 0 => self.show_message("there are no snapshots"),
            None => self.show_message("no snapshot at this line or above it"),
        }
    }

    // ---- Keys ----

    pub(crate) fn handle_entry_key(
        &mut self,
        key: Key,
        operation: Option<Operation>,
        frame: &FrameContext<'_>,
    ) -> Option<Effect> {
        let document = frame.document;
        match operation {
            Some(Operation::Submit) => return self.submit(document),
            Some(Operation::CloseEntry) => {
                self.close_entry();
                self.arm_leave(PendingKey::Leave);
            }
            Some(Operation::EntryUp) => self.entry_up(frame),
            Some(Operation::EntryDown) => self.entry_down(frame),
            Some(Operation::Help) => self.help.open(),
            Some(Operation::NewLine) => self.edit(|entry| entry.new_line()),
            Some(operation) => {
                self.pager.run(operation, document);
            }
            None if key == Key::plain(Code::Up) && self.entry.is_at_top() => self.entry_up(frame),
            None if key == Key::plain(Code::Down) && self.entry.is_at_bottom() => {
                self.entry_down(frame);
            }
            None => self.edit(|entry| entry.key(key)),
        }
        None
    }

    pub(crate) fn paste_into_entry(&mut self, text: &str) {
        self.edit(|entry| entry.paste(text));
    }

    /// Edits the text unless it was submitted. `change` returns false if the text would become too long.
    fn edit(&mut self, change: impl FnOnce(&mut TaskEntry) -> bool) {
        if self.entry.is_sent {
            self.show_message("the task is being delivered: wait for it");
            return;
        }
        if !change(&mut self.entry) {
            let most = MAX_TEXT / 1024;
            self.show_message(&format!(
                "task longer than {most} KiB: put it into a file that the agent can read"
            ));
        }
        self.fit_entry();
        self.scroll_to_entry();
    }

    /// Returns true if part of the entry is visible.
    pub(crate) fn is_entry_visible(&self) -> bool {
        let rows = i64::from(self.pager.viewport.height());
        let is_visible = |(row, height): (i64, u16)| row < rows && row + i64::from(height) > 0;
        self.pager.viewport.entry().is_some_and(is_visible)
    }

    /// Scrolls until the whole entry is visible.
    pub(crate) fn scroll_to_entry(&mut self) {
        let Some((row, height)) = self.pager.viewport.entry() else { return };
        let below = row + i64::from(height) - i64::from(self.pager.viewport.height());
        if row < 0 {
            self.pager.viewport.scroll(row);
        } else if below > 0 {
            self.pager.viewport.scroll(below);
        }
    }

    fn submit(&mut self, document: &Document<'_>) -> Option<Effect> {
        let text = self.entry.text();
        if self.entry.is_sent {
            self.show_message("the task is being delivered: wait for it");
            return None;
        }
        if text.trim().is_empty() {
            let key = self.bindings.keys_in(Context::Entry, Operation::CloseEntry);
            let key = key.first().cloned().unwrap_or_default();
            self.show_message(&format!("the task is empty; '{key}' closes it"));
            return None;
        }
        let end = document.lines().end.saturating_sub(1);
        let (snapshot, line) = match self.entry.target? {
            Target::Snapshot { id, line } => (Some(id), line),
            Target::Moment { id } => (Some(id), end),
            Target::End => (document.end_snapshot().map(|snapshot| snapshot.id), end),
        };
        self.entry.is_sent = true;
        self.show_message("sending the task …");
        Some(Effect::Branch(Submission { snapshot, line, text }))
    }

    /// Handles a created branch: clears and closes the entry, and returns the keys to the program.
    pub fn branch_created(&mut self) {
        self.branches.record_created();
        self.entry.is_sent = false;
        self.entry.clear();
        if self.entry.target.is_some() {
            self.close_entry();
            if self.source() == Source::Live {
                self.go_live();
            }
        }
        self.update_mode();
    }

    /// Handles a failed branch: shows the reason and keeps the text.
    pub fn branch_failed(&mut self, message: &str) {
        self.entry.is_sent = false;
        self.show_message(message);
        self.update_mode();
    }
}

/// Returns the position of a snapshot. A snapshot at the recording's end is the end itself, if a branch is possible
/// there.
fn target_of(document: &Document<'_>, found: Option<(u64, u64)>, has_end: bool) -> Option<Target> {
    let (line, id) = found?;
    let is_end = document.end_snapshot().is_some_and(|snapshot| snapshot.id == id);
    let is_alt_screen = || document.snapshot(id).is_some_and(|snapshot| document.is_alt_screen(snapshot));
    Some(match is_end && has_end {
        true => Target::End,
        false if is_alt_screen() => Target::Moment { id },
        false => Target::Snapshot { id, line },
    })
}

/// Returns true if the snapshot was taken after the moment that `document` shows.
fn is_later(target: Target, document: &Document<'_>, frame: &FrameContext<'_>) -> bool {
    let (Target::Snapshot { id, .. } | Target::Moment { id }) = target else { return false };
    let snapshot = frame.end.and_then(|end| end.snapshot(id));
    snapshot.is_some_and(|snapshot| snapshot.offset > document.offset())
}
