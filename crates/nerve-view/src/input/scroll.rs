//! What keys do while one looks through lines.

use crate::keys::{Key, Operation};
use crate::regions::FrameContext;
use crate::viewer::{Effect, Pending, Source, Viewer};

impl Viewer {
    pub(crate) fn looked(
        &mut self,
        key: Key,
        operation: Option<Operation>,
        leaving: bool,
        frame: &FrameContext<'_>,
    ) -> Option<Effect> {
        if self.front().takes(key) {
            return None;
        }
        let Some(operation) = operation else {
            self.front().number = None;
            return None;
        };
        match operation {
            Operation::Help => self.help = Some(0),
            Operation::GoToBranch => return Some(Effect::SwitchToBranch),
            Operation::Copy => return self.copied(frame),
            Operation::Redraw => return Some(Effect::Redraw),
            Operation::Colon => self.pending = Pending::Colon,
            Operation::Leave => return self.leave(leaving),
            Operation::Quit if key == Key::ctrl('c') && self.front().stay() => {}
            Operation::Quit => return self.quit(),
            // Not of a tool: its window has no snapshots and no time.
            _ if self.modal.is_some() => {
                if let Some(document) = self.in_front(frame) {
                    self.front().operate(operation, document);
                }
            }
            Operation::Insert => self.insert_here(frame),
            Operation::EntryUp => self.entry_up(frame),
            Operation::NextSnapshot | Operation::PreviousSnapshot => self.go_to_snapshot(operation, frame),
            Operation::End if self.visited.is_some() && self.pager.number.is_none() => self.end_visit(),
            Operation::Play | Operation::Back | Operation::On | Operation::Faster | Operation::Slower => {
                return self.in_time(operation);
            }
            _ => {
                self.pager.operate(operation, frame.document);
            }
        }
        None
    }

    fn in_time(&mut self, operation: Operation) -> Option<Effect> {
        let times = self.pager.number.take().unwrap_or(1);
        if self.source == Source::Live {
            self.tell("what runs cannot be gone through in time: a recording can");
            return None;
        }
        let seconds = i64::try_from(times).unwrap_or(i64::MAX).saturating_mul(5);
        let asked = match operation {
            Operation::Faster => return Some(Effect::Speed { faster: true }),
            Operation::Slower => return Some(Effect::Speed { faster: false }),
            Operation::Back => Effect::Skip(seconds.saturating_neg()),
            Operation::On => Effect::Skip(seconds),
            _ => Effect::TogglePlay,
        };
        self.forget_visit();
        // Who goes through time wants to see what was written then: the end.
        self.pager.viewport.go_to_end();
        Some(asked)
    }

    /// Esc: twice leaves a recording; where a program runs, and from a tool, once leads back.
    fn leave(&mut self, leaving: bool) -> Option<Effect> {
        if leaving || self.modal.is_some() || self.source == Source::Live {
            return self.quit();
        }
        self.front().number = None;
        self.pager.toggle_highlight(false);
        self.end_visit();
        self.is_escaped = true;
        self.arm();
        None
    }

    /// Esc was pressed once.
    pub(crate) fn arm(&mut self) {
        self.is_leaving = true;
        self.tell(match self.source {
            Source::Live => "Esc once more: back to the program",
            Source::Recording => "Esc once more to leave",
        });
    }

    pub(crate) fn quit(&mut self) -> Option<Effect> {
        if self.modal.is_some() {
            self.leave_scrolled_tool();
            return None;
        }
        if self.source == Source::Recording {
            return Some(Effect::Quit);
        }
        self.go_live();
        None
    }

    /// Back to the program that runs, and to its screen.
    pub(crate) fn go_live(&mut self) {
        self.is_live = true;
        self.pager.search = None;
        self.pager.clear_filter();
        self.pager.number = None;
        self.pager.left = 0;
        self.pager.viewport.go_to_end();
    }

    pub(crate) fn copied(&mut self, frame: &FrameContext<'_>) -> Option<Effect> {
        let document = self.in_front(frame);
        let text = document.map(|document| self.front().visible_text(document)).unwrap_or_default();
        if text.is_empty() {
            self.tell("there is no text to be seen");
            return None;
        }
        let lines = text.lines().count();
        self.tell(&format!("copied: {lines} {}", if lines == 1 { "line" } else { "lines" }));
        Some(Effect::Copy(text))
    }
}
