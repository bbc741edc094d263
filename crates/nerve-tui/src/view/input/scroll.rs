//! Handles keys in scroll mode.

use crate::view::keys::{Key, Operation};
use crate::view::regions::FrameContext;
use crate::view::viewer::{Effect, Focus, PendingKey, Source, Viewer};

impl Viewer {
    pub(crate) fn handle_scroll_key(
        &mut self,
        key: Key,
        operation: Option<Operation>,
        pending: PendingKey,
        frame: &FrameContext<'_>,
    ) -> Option<Effect> {
        if self.front_pager_mut().take_prefix_key(key) {
            return None;
        }
        let Some(operation) = operation else {
            self.front_pager_mut().number = None;
            return None;
        };
        match operation {
            Operation::Help => self.help.open(),
            Operation::SwitchToBranch => return Some(Effect::SwitchToBranch),
            Operation::Copy => return self.copy_visible_text(frame),
            Operation::Redraw => return Some(Effect::Redraw),
            Operation::Colon => self.pending = PendingKey::Colon,
            Operation::Leave => return self.leave(pending),
            Operation::Quit if key == Key::ctrl('c') && self.front_pager_mut().stop_following() => {}
            Operation::Quit => return self.quit(),
            // A tool's window has no snapshots and no timeline.
            _ if self.modal().is_some() => {
                if let Some(document) = self.front_document(frame) {
                    self.front_pager_mut().run(operation, document);
                }
            }
            Operation::InsertEntry => self.insert_here(frame),
            Operation::EntryUp => self.entry_up(frame),
            Operation::NextSnapshot | Operation::PreviousSnapshot => self.go_to_snapshot(operation, frame),
            Operation::End if self.snapshot_view.shown().is_some() && self.pager.number.is_none() => {
                self.leave_snapshot()
            }
            Operation::TogglePlay
            | Operation::Rewind
            | Operation::Forward
            | Operation::Faster
            | Operation::Slower => {
                return self.seek_effect(operation);
            }
            _ => {
                self.pager.run(operation, frame.document);
            }
        }
        None
    }

    fn seek_effect(&mut self, operation: Operation) -> Option<Effect> {
        let times = self.pager.number.take().unwrap_or(1);
        if self.source() == Source::Live {
            self.show_message("seeking works only in recordings");
            return None;
        }
        let seconds = i64::try_from(times).unwrap_or(i64::MAX).saturating_mul(5);
        let effect = match operation {
            Operation::Faster => return Some(Effect::Speed { faster: true }),
            Operation::Slower => return Some(Effect::Speed { faster: false }),
            Operation::Rewind => Effect::Skip(seconds.saturating_neg()),
            Operation::Forward => Effect::Skip(seconds),
            _ => Effect::TogglePlay,
        };
        self.forget_snapshot();
        // Time travel shows the output at that moment: the end.
        self.pager.viewport.go_to_end();
        Some(effect)
    }

    /// Handles Esc: pressed twice it leaves a recording; in front of a program, and in a tool, once is enough.
    fn leave(&mut self, pending: PendingKey) -> Option<Effect> {
        let is_armed = matches!(pending, PendingKey::Leave | PendingKey::LeaveOrAlt);
        if is_armed || self.modal().is_some() || self.source() == Source::Live {
            return self.quit();
        }
        self.front_pager_mut().number = None;
        self.pager.remove_highlight();
        self.leave_snapshot();
        self.arm_leave(PendingKey::LeaveOrAlt);
        None
    }

    /// Records that Esc was pressed once.
    pub(crate) fn arm_leave(&mut self, pending: PendingKey) {
        self.pending = pending;
        self.show_message(match self.source() {
            Source::Live => "press Esc again to return to the program",
            Source::Recording => "press Esc again to leave",
        });
    }

    pub(crate) fn quit(&mut self) -> Option<Effect> {
        if self.modal().is_some() {
            self.tools.leave_shown();
            return None;
        }
        if self.source() == Source::Recording {
            return Some(Effect::Quit);
        }
        self.go_live();
        None
    }

    /// Returns the keys to the program and shows its screen.
    pub(crate) fn go_live(&mut self) {
        self.focus = Focus::Program;
        self.pager.search = None;
        self.pager.clear_filter();
        self.pager.number = None;
        self.pager.columns.left = 0;
        self.pager.viewport.go_to_end();
    }

    pub(crate) fn copy_visible_text(&mut self, frame: &FrameContext<'_>) -> Option<Effect> {
        let document = self.front_document(frame);
        let text = document.map(|document| self.front_pager_mut().visible_text(document)).unwrap_or_default();
        if text.is_empty() {
            self.show_message("no visible text to copy");
            return None;
        }
        let lines = text.lines().count();
        self.show_message(&format!("copied: {lines} {}", if lines == 1 { "line" } else { "lines" }));
        Some(Effect::Copy(text))
    }
}
