//! What keys and pastes do, by where they are pressed.

use crate::document::Document;
use crate::keys::{Code, Context, Input, Key, Operation};
use crate::places::Scene;
use crate::viewer::{Asked, Kind, Pending, Viewer};

impl Viewer {
    pub(crate) fn pressed(&mut self, key: Key, scene: &Scene<'_>) -> Option<Asked> {
        let (leaving, escaped) = self.disarm();
        match std::mem::take(&mut self.pending) {
            Pending::Confirm => return self.confirmed(key),
            Pending::Prefix => return self.prefixed(key, scene),
            Pending::Colon if key == Key::char('q') || key == Key::char('Q') => return self.quit(),
            Pending::Colon => {
                if key != Key::plain(Code::Esc) {
                    self.tell("only :q is known");
                }
                return None;
            }
            Pending::Nothing => {}
        }
        if self.help.is_some() {
            self.leafed(key);
            return None;
        }
        if self.front().prompt.is_some() {
            self.typed(key, scene);
            return None;
        }
        if self.swallows(key) {
            self.tell("it has ended: Esc goes back to the list");
            return None;
        }
        let context = self.context();
        let operation = self.bindings.operation(context, key);
        // Esc and then a key is that key with Alt, as in less, where that means something.
        let with_alt = Key { alt: true, ..key };
        let with_esc = (escaped && context == Context::Scroll && !key.alt)
            .then(|| self.bindings.operation(context, with_alt));
        let operation = with_esc.flatten().or(operation);
        match operation {
            Some(Operation::Prefix) => self.pending = Pending::Prefix,
            Some(Operation::Tools) => self.turn_tools(),
            _ => match context {
                Context::Live | Context::Prefix => return self.live(key, operation, scene),
                Context::Modal => return self.at_tool(key, operation, scene),
                Context::List => return self.listed(operation),
                Context::Entry => return self.entered(key, operation, scene),
                Context::Scroll => return self.looked(key, operation, leaving, scene),
            },
        }
        None
    }

    /// What was told is read, and nothing is armed any more; says whether Esc once more leaves, and whether it gives the next key Alt.
    pub(crate) fn disarm(&mut self) -> (bool, bool) {
        self.message = None;
        self.front().message = None;
        (std::mem::take(&mut self.is_leaving), std::mem::take(&mut self.is_escaped))
    }

    /// Takes a paste.
    pub(crate) fn pasted(&mut self, text: String, scene: &Scene<'_>) -> Option<Asked> {
        self.disarm();
        self.pending = Pending::Nothing;
        if self.help.is_some() {
            return None;
        }
        if self.front().prompt.is_some() {
            if let Some(document) = self.in_front(scene) {
                self.front().typed_text(&text, document);
            }
            return None;
        }
        match self.context() {
            Context::Live => return Some(Asked::Input(Input::Paste(text))),
            Context::Modal => {
                self.front().viewport.go_to_end();
                return Some(Asked::ToTool(Input::Paste(text)));
            }
            Context::Entry => self.paste_into_entry(&text),
            Context::Scroll | Context::List | Context::Prefix => {
                self.tell("a text is pasted where one types")
            }
        }
        None
    }

    // ---- Keys of a program, and of a tool ----

    fn live(&mut self, key: Key, operation: Option<Operation>, scene: &Scene<'_>) -> Option<Asked> {
        let to_program = Some(Asked::Input(Input::Key(key)));
        match operation {
            Some(Operation::ScrollInline) if scene.document.modes().alternate => return to_program,
            Some(Operation::Scroll | Operation::ScrollInline) => {
                self.is_live = false;
                self.pager.operate(Operation::PageUp, scene.document);
            }
            Some(Operation::EntryUp) => self.entry_up(scene.document),
            Some(Operation::Detach) => return Some(Asked::Detach),
            Some(Operation::EndSession) => self.pending = Pending::Confirm,
            _ => return to_program,
        }
        None
    }

    fn at_tool(&mut self, key: Key, operation: Option<Operation>, scene: &Scene<'_>) -> Option<Asked> {
        let is_full = scene.tool.is_some_and(|tool| tool.modes().alternate);
        match operation {
            Some(Operation::Scroll) => self.scroll_tool(true, scene),
            Some(Operation::ScrollInline) if !is_full => self.scroll_tool(true, scene),
            _ => {
                self.front().viewport.go_to_end();
                return Some(Asked::ToTool(Input::Key(key)));
            }
        }
        None
    }

    // ---- After the prefix ----

    fn prefixed(&mut self, key: Key, scene: &Scene<'_>) -> Option<Asked> {
        let context = self.context();
        if self.bindings.operation(context, key) == Some(Operation::Prefix) {
            // Twice is the key itself.
            return match context {
                Context::Live => Some(Asked::Input(Input::Key(key))),
                Context::Modal => Some(Asked::ToTool(Input::Key(key))),
                _ => None,
            };
        }
        let is_live = self.kind == Kind::Live;
        match self.bindings.operation(Context::Prefix, key) {
            Some(Operation::Detach) => return Some(if is_live { Asked::Detach } else { Asked::Quit }),
            Some(Operation::EndSession) if is_live => self.pending = Pending::Confirm,
            Some(Operation::EndSession) => return Some(Asked::Quit),
            Some(Operation::Scroll) if self.modal.is_some() => {
                self.scroll_tool(key.code == Code::PageUp, scene);
            }
            Some(Operation::Scroll) => {
                self.close_entry();
                self.is_live = false;
                if key.code == Code::PageUp {
                    self.pager.operate(Operation::PageUp, scene.document);
                }
            }
            Some(Operation::EntryUp) => {
                self.modal = None;
                self.entry_up(scene.document);
            }
            Some(Operation::EntryDown) => {
                self.modal = None;
                self.entry_down(scene.document);
            }
            Some(Operation::Tools) => self.turn_tools(),
            Some(Operation::Copy) => return self.copied(scene),
            Some(Operation::Dismiss) => return self.dismissed(),
            Some(Operation::Help) => self.help = Some(0),
            _ if key == Key::plain(Code::Esc) => self.back_to_list(),
            _ => {
                let name = |key: Option<&String>| key.cloned().unwrap_or_default();
                let prefix = name(self.bindings.keys_in(context, Operation::Prefix).first());
                let help = name(self.bindings.keys_in(Context::Prefix, Operation::Help).first());
                self.tell(&format!("'{key}' means nothing after {prefix}; '{help}' shows what does"));
            }
        }
        None
    }

    fn confirmed(&mut self, key: Key) -> Option<Asked> {
        if matches!(key.code, Code::Char('y' | 'Y')) && !key.ctrl && !key.alt {
            return Some(Asked::End);
        }
        self.tell("it goes on");
        None
    }

    // ---- Looking through lines ----

    fn looked(
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
            Operation::Copy => return self.copied(scene),
            Operation::Redraw => return Some(Asked::Redraw),
            Operation::Colon => self.pending = Pending::Colon,
            Operation::Leave => return self.leave(leaving),
            Operation::Quit => return self.quit(),
            // Not of a tool: its window has no snapshots and no time.
            _ if self.modal.is_some() => {
                if let Some(document) = self.in_front(scene) {
                    self.front().operate(operation, document);
                }
            }
            Operation::Insert => self.insert_here(scene.document),
            Operation::EntryUp => self.entry_up(scene.document),
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
        self.pager.search = None;
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

    fn quit(&mut self) -> Option<Asked> {
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
        self.pager.number = None;
        self.pager.left = 0;
        self.pager.viewport.go_to_end();
    }

    fn copied(&mut self, scene: &Scene<'_>) -> Option<Asked> {
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

    // ---- Text to look for, and help ----

    fn typed(&mut self, key: Key, scene: &Scene<'_>) {
        match self.in_front(scene) {
            Some(document) if self.front().typed(key, document) => self.help = Some(0),
            Some(_) => {}
            None => self.front().prompt = None,
        }
    }

    /// What the window that keys go through is on; `None` for a tool of which nothing is known yet.
    pub(crate) fn in_front<'a>(&self, scene: &Scene<'a>) -> Option<&'a Document<'a>> {
        if self.shown_tool().is_some() { scene.tool } else { Some(scene.document) }
    }

    fn leafed(&mut self, key: Key) {
        let (Some(row), rows) = (self.help, self.pager.viewport.height()) else { return };
        let last = self.furthest_help;
        let row = row.min(last);
        self.help = match self.bindings.operation(Context::Scroll, key) {
            Some(Operation::LineDown) => Some(row.saturating_add(1).min(last)),
            Some(Operation::LineUp) => Some(row.saturating_sub(1)),
            Some(Operation::PageDown | Operation::HalfDown) => Some(row.saturating_add(rows).min(last)),
            Some(Operation::PageUp | Operation::HalfUp) => Some(row.saturating_sub(rows)),
            Some(Operation::Start) => Some(0),
            Some(Operation::End) => Some(last),
            _ => None,
        };
    }
}
