//! Handles the key after the prefix.

use crate::view::keys::{Code, Context, Input, Key, Operation};
use crate::view::regions::FrameContext;
use crate::view::viewer::{Effect, Focus, PendingKey, Source, Viewer};

impl Viewer {
    pub(crate) fn handle_prefix_key(&mut self, key: Key, frame: &FrameContext<'_>) -> Option<Effect> {
        let context = self.context();
        if self.bindings.operation(context, key) == Some(Operation::Prefix) {
            // The prefix typed twice is sent as a key.
            return match context {
                Context::Live => Some(Effect::Input(Input::Key(key))),
                Context::Modal => Some(Effect::ToolInput(Input::Key(key))),
                _ => None,
            };
        }
        let is_live = self.source() == Source::Live;
        match self.bindings.operation(Context::Prefix, key) {
            Some(Operation::Detach) => return Some(if is_live { Effect::Detach } else { Effect::Quit }),
            Some(Operation::EndSession) if is_live => self.confirm_end(),
            Some(Operation::EndSession) => return Some(Effect::Quit),
            Some(Operation::Scroll) if self.modal().is_some() => {
                self.scroll_tool(key.code == Code::PageUp, frame);
            }
            Some(Operation::Scroll) => {
                self.close_entry();
                self.focus = Focus::Lines;
                if key.code == Code::PageUp {
                    self.pager.run(Operation::PageUp, frame.document);
                }
            }
            Some(Operation::EntryUp) => {
                self.tools.modal = None;
                self.entry_up(frame);
            }
            Some(Operation::EntryDown) => {
                self.tools.modal = None;
                self.entry_down(frame);
            }
            Some(Operation::Snapshot) => return self.snapshot(),
            Some(Operation::Tools) => self.toggle_tools(),
            Some(Operation::SwitchToBranch) => return Some(Effect::SwitchToBranch),
            Some(Operation::Copy) => return self.copy_visible_text(frame),
            Some(Operation::Dismiss) => return self.dismiss_tool(),
            Some(Operation::Help) => self.help.open(),
            _ if key == Key::plain(Code::Esc) => self.tools.back_to_list(),
            _ => {
                let name = |key: Option<&String>| key.cloned().unwrap_or_default();
                let prefix = name(self.bindings.keys_in(context, Operation::Prefix).first());
                let help = name(self.bindings.keys_in(Context::Prefix, Operation::Help).first());
                self.show_message(&format!("'{key}' is not bound after {prefix}; '{help}' lists the keys"));
            }
        }
        None
    }

    /// Asks for confirmation before ending the program.
    pub(crate) fn confirm_end(&mut self) {
        match self.subject.is_read_only() {
            true => self.show_message(&self.read_only_message()),
            false => self.pending = PendingKey::ConfirmEnd,
        }
    }

    pub(crate) fn handle_confirm_key(&mut self, key: Key) -> Option<Effect> {
        if matches!(key.code, Code::Char('y' | 'Y')) && !key.ctrl && !key.alt {
            return Some(Effect::EndProgram);
        }
        self.show_message("not ended");
        None
    }
}
