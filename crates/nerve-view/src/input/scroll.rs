//! What keys do while one looks through lines.

use crate::keys::{Key, Operation};
use crate::regions::Scene;
use crate::viewer::{Asked, Kind, Pending, Viewer};

impl Viewer {
    pub(crate) fn looked(
        &mut self,
        key: Key,
        operation: Option<Operation>,
        leaving: bool,
        scene: &Scene<'_>,
    ) -> Option<Asked> {
        if self.front().takes(key) {
            return None;
        }
        let Some(operation) = operation else {
            self.front().number = None;
            return None;
        };
        match operation {
            Operation::Help => self.help = Some(0),
            Operation::GoToBranch => return Some(Asked::GoToBranch),
            Operation::Copy => return self.copied(scene),
            Operation::Redraw => return Some(Asked::Redraw),
            Operation::Colon => self.pending = Pending::Colon,
            Operation::Leave => return self.leave(leaving),
            Operation::Quit if key == Key::ctrl('c') && self.front().stay() => {}
            Operation::Quit => return self.quit(),
            // Not of a tool: its window has no snapshots and no time.
            _ if self.modal.is_some() => {
                if let Some(document) = self.in_front(scene) {
                    self.front().operate(operation, document);
                }
            }
            Operation::Insert => self.insert_here(scene),
            Operation::EntryUp => self.entry_up(scene),
            Operation::NextSnapshot | Operation::PreviousSnapshot => self.go_to_snapshot(operation, scene),
            Operation::End if self.visited.is_some() && self.pager.number.is_none() => self.end_visit(),
            Operation::Play | Operation::Back | Operation::On | Operation::Faster | Operation::Slower => {
                return self.in_time(operation);
            }
            _ => {
                self.pager.operate(operation, scene.document);
            }
        }
        None
    }

    fn in_time(&mut self, operation: Operation) -> Option<Asked> {
        let times = self.pager.number.take().unwrap_or(1);
        if self.kind == Kind::Live {
            self.tell("what runs cannot be gone through in time: a recording can");
            return None;
        }
        let seconds = i64::try_from(times).unwrap_or(i64::MAX).saturating_mul(5);
        let asked = match operation {
            Operation::Faster => return Some(Asked::Speed { faster: true }),
            Operation::Slower => return Some(Asked::Speed { faster: false }),
            Operation::Back => Asked::Skip(seconds.saturating_neg()),
            Operation::On => Asked::Skip(seconds),
            _ => Asked::Play,
        };
        self.forget_visit();
        // Who goes through time wants to see what was written then: the end.
        self.pager.viewport.go_to_end();
        Some(asked)
    }

    /// Esc: twice leaves a recording; where a program runs, and from a tool, once leads back.
    fn leave(&mut self, leaving: bool) -> Option<Asked> {
        if leaving || self.modal.is_some() || self.kind == Kind::Live {
            return self.quit();
        }
        self.front().number = None;
        self.pager.unlight(false);
        self.end_visit();
        self.is_escaped = true;
        self.arm();
        None
    }

    /// Esc was pressed once.
    pub(crate) fn arm(&mut self) {
        self.is_leaving = true;
        self.tell(match self.kind {
            Kind::Live => "Esc once more: back to the program",
            Kind::After => "Esc once more to leave",
        });
    }

    pub(crate) fn quit(&mut self) -> Option<Asked> {
        if self.modal.is_some() {
            self.leave_scrolled_tool();
            return None;
        }
        if self.kind == Kind::After {
            return Some(Asked::Quit);
        }
        self.go_live();
        None
    }

    /// Back to the program that runs, and to its screen.
    pub(crate) fn go_live(&mut self) {
        self.is_live = true;
        self.pager.search = None;
        self.pager.unfilter();
        self.pager.number = None;
        self.pager.left = 0;
        self.pager.viewport.go_to_end();
    }

    pub(crate) fn copied(&mut self, scene: &Scene<'_>) -> Option<Asked> {
        let document = self.in_front(scene);
        let text = document.map(|document| self.front().visible_text(document)).unwrap_or_default();
        if text.is_empty() {
            self.tell("there is no text to be seen");
            return None;
        }
        let lines = text.lines().count();
        self.tell(&format!("copied: {lines} {}", if lines == 1 { "line" } else { "lines" }));
        Some(Asked::Copy(text))
    }
}
