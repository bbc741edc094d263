//! The modal of the tools: its list, and the tool that is shown.

use crate::bindings::is_text;
use crate::keys::{Code, Context, Input, Key, Operation, Wheel};
use crate::regions::FrameContext;
use crate::tools::{Modal, ShownTool, Tool};
use crate::viewer::{Effect, Viewer};

/// Told of a tool that has ended while somebody typed into it.
const INPUT_DISCARDED: &str =
    "it has ended: text goes nowhere until Enter or an arrow; Esc goes back to the list";

/// It is part of a text that somebody types.
fn is_typed(key: Key) -> bool {
    is_text(key) || matches!(key.code, Code::Enter | Code::Tab | Code::Backspace)
}

impl Viewer {
    /// Shows the list; from a tool, goes back to it; from the list, closes it.
    pub(crate) fn toggle_tools(&mut self) {
        match &mut self.modal {
            Some(modal) if modal.shown.is_some() => modal.shown = None,
            Some(_) => self.modal = None,
            None if self.tools.is_empty() => {
                let why = self.tools.empty_reason.clone();
                self.show_message(why.as_deref().unwrap_or("the agent runs nothing that can be looked at"));
            }
            None => {
                self.modal = Some(Modal::default());
                self.report_unlisted();
            }
        }
    }

    /// Why the list may have nothing in it, in words: told who wants to see it then.
    pub fn explain_no_tools(&mut self, why: String) {
        self.tools.empty_reason = Some(why);
    }

    /// Not all are listed: where the others are.
    fn report_unlisted(&mut self) {
        let older = self.tools.older();
        if older > 0 {
            self.show_message(&format!(
                "{older} older ones are not listed: nerve show-sandbox-execution --id shows them"
            ));
        }
    }

    pub(crate) fn back_to_list(&mut self) {
        if let Some(modal) = &mut self.modal {
            modal.shown = None;
        }
    }

    /// The tool that is shown, else the one that is chosen from the list.
    pub(crate) fn selected_tool(&self) -> Option<&Tool> {
        let modal = self.modal.as_ref()?;
        match &modal.shown {
            Some(shown) => self.tools.get(&shown.id),
            None => self.tools.listed().nth(modal.row),
        }
    }

    /// The list has changed: the same tool stays chosen. A tool that is shown and gone gives way to the list, an empty list to what is below.
    pub(crate) fn revalidate_modal(&mut self, chosen: Option<&str>) {
        let Some(modal) = &mut self.modal else { return };
        if let Some(row) = chosen.and_then(|id| self.tools.row(id)) {
            modal.row = row;
        }
        modal.row = modal.row.min(self.tools.len().saturating_sub(1));
        if modal.shown.as_ref().is_some_and(|shown| self.tools.get(&shown.id).is_none()) {
            modal.shown = None;
        }
        if self.tools.is_empty() {
            self.modal = None;
        }
    }

    /// What goes to the tool that is shown may be part of a text: a key that is none does not make one.
    pub(crate) fn track_tool_typing(&mut self, asked: Option<&Effect>) {
        let is_typed = match asked {
            Some(Effect::ToolInput(Input::Key(key))) => is_typed(*key),
            Some(Effect::ToolInput(Input::Paste(_))) => true,
            _ => false,
        };
        if let Some(Modal { shown: Some(shown), .. }) = &mut self.modal {
            shown.is_typed_into |= is_typed;
        }
    }

    /// The tool that is shown and had the keys may have ended.
    pub(crate) fn handle_tool_end(&mut self, had_keys: bool) {
        if had_keys
            && self.context() == Context::Scroll
            && let Some(Modal { shown: Some(shown), .. }) = &mut self.modal
        {
            let swallows = shown.is_typed_into && !shown.scrolls;
            shown.swallows = swallows;
            self.show_message(if swallows {
                INPUT_DISCARDED
            } else {
                "it has ended; Esc goes back to the list"
            });
        }
    }

    /// Whether a key is text for the tool that has ended while somebody typed into it. Enter ends the text, and so does the first key that is none.
    pub(crate) fn discards_key(&mut self, key: Key) -> bool {
        let Some(Modal { shown: Some(shown), .. }) = &mut self.modal else { return false };
        let swallowed = shown.swallows && is_typed(key);
        shown.swallows = swallowed && key.code != Code::Enter;
        swallowed
    }

    /// Says that a key has gone nowhere.
    pub(crate) fn report_discarded_key(&mut self) {
        let goes_on = self.modal.as_ref().and_then(|modal| modal.shown()).is_some_and(|shown| shown.swallows);
        self.show_message(if goes_on {
            INPUT_DISCARDED
        } else {
            "it has ended: from here on keys go through what it wrote"
        });
    }

    pub(crate) fn handle_list_key(&mut self, operation: Option<Operation>) -> Option<Effect> {
        let last = self.tools.len().saturating_sub(1);
        let modal = self.modal.as_mut()?;
        match operation {
            Some(Operation::ListUp) => modal.row = modal.row.saturating_sub(1),
            Some(Operation::ListDown) => modal.row = (modal.row + 1).min(last),
            Some(Operation::ListOpen) => return self.open_selected_tool(),
            Some(Operation::Dismiss) => return self.dismiss_tool(),
            Some(Operation::Help) => self.help = Some(0),
            Some(Operation::ListClose) => self.modal = None,
            _ => {}
        }
        None
    }

    pub(crate) fn open_selected_tool(&mut self) -> Option<Effect> {
        let id = self.selected_tool()?.id.clone();
        let modal = self.modal.as_mut()?;
        modal.shown = Some(ShownTool::new(&id));
        let runs = self.tools.get(&id).is_some_and(Tool::is_running);
        if let Some(hint) = self.tools.reader(&id).hint().filter(|_| runs) {
            self.show_message(hint);
        }
        Some(Effect::ShowTool(id))
    }

    pub(crate) fn dismiss_tool(&mut self) -> Option<Effect> {
        let Some(id) = self.selected_tool().map(|tool| tool.id.clone()) else {
            self.show_message("no tool is shown");
            return None;
        };
        if !self.tools.dismiss(&id) {
            self.show_message("it runs: only what has ended can be dismissed");
            return None;
        }
        self.revalidate_modal(None);
        Some(Effect::DismissTool(id))
    }

    /// Keys go through what the tool wrote, from a window further up if `by_page`.
    pub(crate) fn scroll_tool(&mut self, by_page: bool, frame: &FrameContext<'_>) {
        let document = self.front_document(frame);
        let Some(Modal { shown: Some(shown), .. }) = &mut self.modal else {
            self.show_message("no tool is shown");
            return;
        };
        shown.scrolls = true;
        if let Some(document) = document.filter(|_| by_page) {
            shown.pager.run(Operation::PageUp, document);
        }
    }

    /// Keys are the tool's again if it runs, else back to the list.
    pub(crate) fn leave_scrolled_tool(&mut self) {
        let runs = self.selected_tool().is_some_and(Tool::is_running);
        let Some(modal) = &mut self.modal else { return };
        match &mut modal.shown {
            Some(shown) if runs && shown.scrolls => {
                shown.scrolls = false;
                shown.pager.search = None;
                shown.pager.clear_filter();
                shown.pager.viewport.go_to_end();
            }
            _ => modal.shown = None,
        }
    }

    /// The wheel over the list moves the choice, over a tool what is shown of it.
    pub(crate) fn wheel_in_modal(&mut self, wheel: Wheel, lines: i64) {
        let last = self.tools.len().saturating_sub(1);
        let Some(modal) = &mut self.modal else { return };
        match (&mut modal.shown, wheel) {
            (Some(shown), _) => shown.pager.viewport.scroll(lines),
            (None, Wheel::Up) => modal.row = modal.row.saturating_sub(1),
            (None, Wheel::Down) => modal.row = (modal.row + 1).min(last),
            (None, _) => {}
        }
    }
}
