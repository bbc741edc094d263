//! Input handling of the tools modal: the list, and the shown tool.

use crate::bindings::is_text;
use crate::keys::{Code, Context, Input, Key, Operation, Wheel};
use crate::regions::FrameContext;
use crate::tools::{Modal, ShownTool, Tool};
use crate::viewer::{Effect, Viewer};

/// Shown when a tool ends while the user is typing into it.
const INPUT_DISCARDED: &str =
    "tool ended: text is discarded until Enter or an arrow; Esc returns to the list";

/// Returns true for a key that belongs to typed text.
fn is_typed(key: Key) -> bool {
    is_text(key) || matches!(key.code, Code::Enter | Code::Tab | Code::Backspace)
}

impl Viewer {
    /// Opens the list, returns from a tool to the list, or closes the list.
    pub(crate) fn toggle_tools(&mut self) {
        match &mut self.modal {
            Some(modal) if modal.shown.is_some() => modal.shown = None,
            Some(_) => self.modal = None,
            None if self.tools.is_empty() => {
                let why = self.tools.empty_reason.clone();
                self.show_message(why.as_deref().unwrap_or("the agent is running no tools"));
            }
            None => {
                self.modal = Some(Modal::default());
                self.report_unlisted();
            }
        }
    }

    /// Sets the explanation shown when the list is empty.
    pub fn explain_no_tools(&mut self, why: String) {
        self.tools.empty_reason = Some(why);
    }

    /// Says where to find tools that are not listed.
    fn report_unlisted(&mut self) {
        let older = self.tools.older();
        if older > 0 {
            self.show_message(&format!(
                "{older} older tools are not listed: nerve show-sandbox-execution --id shows them"
            ));
        }
    }

    pub(crate) fn back_to_list(&mut self) {
        if let Some(modal) = &mut self.modal {
            modal.shown = None;
        }
    }

    /// Returns the shown tool, or the selected one of the list.
    pub(crate) fn selected_tool(&self) -> Option<&Tool> {
        let modal = self.modal.as_ref()?;
        match &modal.shown {
            Some(shown) => self.tools.get(&shown.id),
            None => self.tools.listed().nth(modal.row),
        }
    }

    /// Restores a valid selection after the list has changed. A removed tool gives way to the list, an empty list
    /// closes the modal.
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

    /// Records whether the user is typing text into the shown tool.
    pub(crate) fn track_tool_typing(&mut self, effect: Option<&Effect>) {
        let is_typed = match effect {
            Some(Effect::ToolInput(Input::Key(key))) => is_typed(*key),
            Some(Effect::ToolInput(Input::Paste(_))) => true,
            _ => false,
        };
        if let Some(Modal { shown: Some(shown), .. }) = &mut self.modal {
            shown.is_typed_into |= is_typed;
        }
    }

    /// Handles the end of the focused tool.
    pub(crate) fn handle_tool_end(&mut self, had_keys: bool) {
        if had_keys
            && self.context() == Context::Scroll
            && let Some(Modal { shown: Some(shown), .. }) = &mut self.modal
        {
            let swallows = shown.is_typed_into && !shown.scrolls;
            shown.swallows = swallows;
            self.show_message(if swallows { INPUT_DISCARDED } else { "tool ended; Esc returns to the list" });
        }
    }

    /// Returns true if a key is text meant for the tool that has ended. Enter, or any key that is not text, ends
    /// the text.
    pub(crate) fn discards_key(&mut self, key: Key) -> bool {
        let Some(Modal { shown: Some(shown), .. }) = &mut self.modal else { return false };
        let swallowed = shown.swallows && is_typed(key);
        shown.swallows = swallowed && key.code != Code::Enter;
        swallowed
    }

    /// Reports that a key was discarded.
    pub(crate) fn report_discarded_key(&mut self) {
        let goes_on = self.modal.as_ref().and_then(|modal| modal.shown()).is_some_and(|shown| shown.swallows);
        self.show_message(if goes_on { INPUT_DISCARDED } else { "tool ended: keys scroll its output" });
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
            self.show_message("the tool is running: only finished tools can be dismissed");
            return None;
        }
        self.revalidate_modal(None);
        Some(Effect::DismissTool(id))
    }

    /// Scrolls the tool's output; with `by_page`, a page up.
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

    /// Returns the keys to a running tool, or goes back to the list.
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

    /// Moves the selection of the list, or scrolls the tool's output.
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
