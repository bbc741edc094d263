//! Handles keys for the list of tools and the shown tool.

use crate::view::effect::Effect;
use crate::view::keys::Operation;
use crate::view::regions::FrameContext;
use crate::view::viewer::Viewer;

impl Viewer {
    /// Opens the list, returns from a tool to the list, or closes the list.
    pub(crate) fn toggle_tools(&mut self) {
        if let Some(message) = self.tools.toggle() {
            self.show_message(&message);
        }
    }

    pub(crate) fn handle_list_key(&mut self, operation: Option<Operation>) -> Option<Effect> {
        match operation {
            Some(Operation::ListUp) => self.tools.move_selection(-1),
            Some(Operation::ListDown) => self.tools.move_selection(1),
            Some(Operation::ListOpen) => return self.open_selected_tool(),
            Some(Operation::Dismiss) => return self.dismiss_tool(),
            Some(Operation::Help) => self.help.open(),
            Some(Operation::ListClose) => self.tools.modal = None,
            _ => {}
        }
        None
    }

    pub(crate) fn open_selected_tool(&mut self) -> Option<Effect> {
        let (id, hint) = self.tools.open_selected()?;
        if let Some(hint) = hint {
            self.show_message(hint);
        }
        Some(Effect::ShowTool(id))
    }

    pub(crate) fn dismiss_tool(&mut self) -> Option<Effect> {
        match self.tools.dismiss_selected() {
            Ok(id) => return Some(Effect::DismissTool(id)),
            Err(reason) => self.show_message(reason),
        }
        None
    }

    /// Scrolls the tool's output; with `by_page`, a page up.
    pub(crate) fn scroll_tool(&mut self, by_page: bool, frame: &FrameContext<'_>) {
        let document = self.front_document(frame);
        if let Err(reason) = self.tools.scroll_shown(by_page, document) {
            self.show_message(reason);
        }
    }
}
