//! Dispatches keys and pastes by context.

use crate::view::document::Document;
use crate::view::keys::{Code, Context, Input, Key, Operation};
use crate::view::prompt_keys::PromptResult;
use crate::view::regions::FrameContext;
use crate::view::viewer::{Effect, Focus, PendingKey, Viewer};

impl Viewer {
    pub(crate) fn handle_key(&mut self, key: Key, frame: &FrameContext<'_>) -> Option<Effect> {
        let pending = self.take_transient_state();
        match pending {
            PendingKey::ConfirmEnd => return self.handle_confirm_key(key),
            PendingKey::Prefix => return self.handle_prefix_key(key, frame),
            PendingKey::Colon if key == Key::char('q') || key == Key::char('Q') => return self.quit(),
            PendingKey::Colon if key == Key::char('f') => {
                if let Some(document) = self.front_document(frame) {
                    self.front_pager_mut().run(Operation::Position, document);
                }
                return None;
            }
            PendingKey::Colon => {
                if key != Key::plain(Code::Esc) {
                    self.show_message("unknown command: use :q or :f");
                }
                return None;
            }
            PendingKey::None | PendingKey::Leave | PendingKey::LeaveOrAlt => {}
        }
        if self.help.is_open() {
            self.handle_help_key(key);
            return None;
        }
        if self.front_pager_mut().prompt.is_some() {
            self.handle_prompt_key(key, frame);
            return None;
        }
        if let Some(notice) = self.tools.discard_key(key) {
            self.show_message(notice);
            return None;
        }
        let context = self.context();
        let operation = self.bindings.operation(context, key);
        // As in `less`, Esc followed by a key is that key with Alt, if it is bound.
        let with_alt = Key { alt: true, ..key };
        let with_esc = (pending == PendingKey::LeaveOrAlt && context == Context::Scroll && !key.alt)
            .then(|| self.bindings.operation(context, with_alt));
        let operation = with_esc.flatten().or(operation);
        match operation {
            Some(Operation::Prefix) => self.pending = PendingKey::Prefix,
            Some(Operation::Tools) => self.toggle_tools(),
            Some(Operation::Snapshot) => return self.snapshot(),
            _ => match context {
                Context::Live | Context::Prefix => return self.handle_live_key(key, operation, frame),
                Context::Modal => return self.handle_tool_key(key, operation, frame),
                Context::List => return self.handle_list_key(operation),
                Context::Entry => return self.handle_entry_key(key, operation, frame),
                Context::Scroll => return self.handle_scroll_key(key, operation, pending, frame),
            },
        }
        None
    }

    /// Clears messages, and takes the pending use of the key that is being handled.
    pub(crate) fn take_transient_state(&mut self) -> PendingKey {
        self.message = None;
        self.front_pager_mut().message = None;
        std::mem::take(&mut self.pending)
    }

    /// Handles a paste.
    pub(crate) fn handle_paste(&mut self, text: String, frame: &FrameContext<'_>) -> Option<Effect> {
        self.take_transient_state();
        if self.help.is_open() {
            return None;
        }
        if self.front_pager_mut().prompt.is_some() {
            if let Some(document) = self.front_document(frame) {
                self.front_pager_mut().insert_prompt_text(&text, document);
            }
            return None;
        }
        match self.context() {
            Context::Live => return Some(Effect::Input(Input::Paste(text))),
            Context::Modal => {
                self.front_pager_mut().viewport.go_to_end();
                return Some(Effect::ToolInput(Input::Paste(text)));
            }
            Context::Entry => self.paste_into_entry(&text),
            Context::Scroll | Context::List | Context::Prefix => {
                self.show_message("nothing to paste into here")
            }
        }
        None
    }

    /// Requests a snapshot if one can be taken.
    pub(crate) fn snapshot(&mut self) -> Option<Effect> {
        match self.subject.no_snapshot_reason() {
            Some(reason) => self.show_message(reason),
            None => return Some(Effect::TakeSnapshot),
        }
        None
    }

    // ---- Keys of the program or a tool ----

    fn handle_live_key(
        &mut self,
        key: Key,
        operation: Option<Operation>,
        frame: &FrameContext<'_>,
    ) -> Option<Effect> {
        let to_program = Some(Effect::Input(Input::Key(key)));
        match operation {
            Some(Operation::ScrollInline) if frame.document.modes().alternate => return to_program,
            Some(Operation::Scroll | Operation::ScrollInline) => {
                self.focus = Focus::Lines;
                self.pager.run(Operation::PageUp, frame.document);
            }
            Some(Operation::EntryUp) => self.entry_up(frame),
            Some(Operation::Detach) => return Some(Effect::Detach),
            Some(Operation::EndSession) => self.confirm_end(),
            _ => return to_program,
        }
        None
    }

    fn handle_tool_key(
        &mut self,
        key: Key,
        operation: Option<Operation>,
        frame: &FrameContext<'_>,
    ) -> Option<Effect> {
        let is_full = frame.tool.is_some_and(|tool| tool.modes().alternate);
        match operation {
            Some(Operation::Scroll) => self.scroll_tool(true, frame),
            Some(Operation::ScrollInline) if !is_full => self.scroll_tool(true, frame),
            _ => {
                self.front_pager_mut().viewport.go_to_end();
                return Some(Effect::ToolInput(Input::Key(key)));
            }
        }
        None
    }

    // ---- Search prompt and help ----

    fn handle_prompt_key(&mut self, key: Key, frame: &FrameContext<'_>) {
        let Some(document) = self.front_document(frame) else {
            self.front_pager_mut().prompt = None;
            return;
        };
        if self.front_pager_mut().handle_prompt_key(key, document) == PromptResult::HelpRequested {
            self.help.open();
        }
    }

    /// Returns the document of the focused window; `None` while a tool's terminal is unknown.
    pub(crate) fn front_document<'a>(&self, frame: &FrameContext<'a>) -> Option<&'a Document<'a>> {
        if self.shown_tool().is_some() { frame.tool } else { Some(frame.document) }
    }

    /// Handles a key while the help sheet is open.
    pub(crate) fn handle_help_key(&mut self, key: Key) {
        let operation = self.bindings.operation(Context::Scroll, key);
        self.help.scroll(operation, self.pager.viewport.height());
    }
}
