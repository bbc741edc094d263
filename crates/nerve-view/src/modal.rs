//! The modal of the tools: its list, and the tool that is shown.

use crate::bindings::is_text;
use crate::keys::{Code, Context, Key, Operation, Wheel};
use crate::places::Scene;
use crate::tools::{Modal, Shown, Tool};
use crate::viewer::{Asked, Viewer};

impl Viewer {
    /// Shows the list; from a tool, goes back to it; from the list, closes it.
    pub(crate) fn turn_tools(&mut self) {
        match &mut self.modal {
            Some(modal) if modal.shown.is_some() => modal.shown = None,
            Some(_) => self.modal = None,
            None if self.tools.listed().is_empty() => {
                self.tell("the agent runs nothing that can be looked at")
            }
            None => {
                self.modal = Some(Modal::default());
                self.tell_of_older();
            }
        }
    }

    /// Not all are listed: where the others are.
    fn tell_of_older(&mut self) {
        let older = self.tools.older();
        if older > 0 {
            self.tell(&format!(
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
    pub(crate) fn chosen_tool(&self) -> Option<&Tool> {
        let modal = self.modal.as_ref()?;
        match &modal.shown {
            Some(shown) => self.tools.get(&shown.id),
            None => self.tools.listed().get(modal.row),
        }
    }

    /// The list has changed: the same tool stays chosen. A tool that is shown and gone gives way to the list, an empty list to what is below.
    pub(crate) fn settle_modal(&mut self, chosen: Option<&str>) {
        let Some(modal) = &mut self.modal else { return };
        let listed = self.tools.listed();
        if let Some(row) = chosen.and_then(|id| self.tools.row(id)) {
            modal.row = row;
        }
        modal.row = modal.row.min(listed.len().saturating_sub(1));
        if modal.shown.as_ref().is_some_and(|shown| self.tools.get(&shown.id).is_none()) {
            modal.shown = None;
        }
        if listed.is_empty() {
            self.modal = None;
        }
    }

    /// The tool that was typed into may have ended.
    pub(crate) fn end_typing(&mut self, was_typed_into: bool) {
        if was_typed_into
            && self.context() == Context::Scroll
            && let Some(Modal { shown: Some(shown), .. }) = &mut self.modal
        {
            shown.swallows = !shown.scrolls;
            self.tell("it has ended: what is typed is for nobody; Esc goes back to the list");
        }
    }

    /// Whether a key is text for the tool that has ended while somebody typed into it. The first key that is none ends that.
    pub(crate) fn swallows(&mut self, key: Key) -> bool {
        let Some(Modal { shown: Some(shown), .. }) = &mut self.modal else { return false };
        let is_text = is_text(key) || matches!(key.code, Code::Enter | Code::Tab | Code::Backspace);
        shown.swallows &= is_text;
        shown.swallows
    }

    pub(crate) fn listed(&mut self, operation: Option<Operation>) -> Option<Asked> {
        let last = self.tools.listed().len().saturating_sub(1);
        let modal = self.modal.as_mut()?;
        match operation {
            Some(Operation::ListUp) => modal.row = modal.row.saturating_sub(1),
            Some(Operation::ListDown) => modal.row = (modal.row + 1).min(last),
            Some(Operation::ListOpen) => return self.open_chosen(),
            Some(Operation::Dismiss) => return self.dismissed(),
            Some(Operation::Help) => self.help = Some(0),
            Some(Operation::ListClose) => self.modal = None,
            _ => {}
        }
        None
    }

    pub(crate) fn open_chosen(&mut self) -> Option<Asked> {
        let id = self.chosen_tool()?.id.clone();
        let modal = self.modal.as_mut()?;
        modal.shown = Some(Shown::new(&id));
        let runs = self.tools.get(&id).is_some_and(Tool::is_running);
        if let Some(hint) = self.tools.reader(&id).hint().filter(|_| runs) {
            self.tell(hint);
        }
        Some(Asked::Tool(id))
    }

    pub(crate) fn dismissed(&mut self) -> Option<Asked> {
        let Some(id) = self.chosen_tool().map(|tool| tool.id.clone()) else {
            self.tell("no tool is shown");
            return None;
        };
        if !self.tools.dismiss(&id) {
            self.tell("it runs: only what has ended can be dismissed");
            return None;
        }
        self.settle_modal(None);
        Some(Asked::Dismiss(id))
    }

    /// Keys go through what the tool wrote, from a window further up if `by_page`.
    pub(crate) fn scroll_tool(&mut self, by_page: bool, scene: &Scene<'_>) {
        let document = self.in_front(scene);
        let Some(Modal { shown: Some(shown), .. }) = &mut self.modal else {
            self.tell("no tool is shown");
            return;
        };
        shown.scrolls = true;
        if let Some(document) = document.filter(|_| by_page) {
            shown.pager.operate(Operation::PageUp, document);
        }
    }

    /// Keys are the tool's again if it runs, else back to the list.
    pub(crate) fn leave_scrolled_tool(&mut self) {
        let runs = self.chosen_tool().is_some_and(Tool::is_running);
        let Some(modal) = &mut self.modal else { return };
        match &mut modal.shown {
            Some(shown) if runs && shown.scrolls => {
                shown.scrolls = false;
                shown.pager.search = None;
                shown.pager.unfilter();
                shown.pager.viewport.go_to_end();
            }
            _ => modal.shown = None,
        }
    }

    /// The wheel over the list moves the choice, over a tool what is shown of it.
    pub(crate) fn wheel_in_modal(&mut self, wheel: Wheel, lines: i64) {
        let last = self.tools.listed().len().saturating_sub(1);
        let Some(modal) = &mut self.modal else { return };
        match (&mut modal.shown, wheel) {
            (Some(shown), _) => shown.pager.viewport.scroll(lines),
            (None, Wheel::Up) => modal.row = modal.row.saturating_sub(1),
            (None, Wheel::Down) => modal.row = (modal.row + 1).min(last),
            (None, _) => {}
        }
    }
}
