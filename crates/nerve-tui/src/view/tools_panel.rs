//! The tools panel: the list of tools, and the modal that shows it or one tool.

use crate::view::bindings::is_text;
use crate::view::document::Document;
use crate::view::effect::Effect;
use crate::view::keys::{Code, Context, Input, Key, Operation, Wheel};
use crate::view::tools::{Modal, ShownTool, Tool, Tools};

/// Shown when a tool ends while the user is typing into it.
const INPUT_DISCARDED: &str =
    "tool ended: text is discarded until Enter or an arrow; Esc returns to the list";

/// Shown when an operation needs a tool.
const NOTHING_SHOWN: &str = "no tool is shown";

/// Returns true for a key that belongs to typed text.
fn is_typed(key: Key) -> bool {
    is_text(key) || matches!(key.code, Code::Enter | Code::Tab | Code::Backspace)
}

/// The list of tools and the modal that shows it.
#[derive(Debug, Clone, Default)]
pub(crate) struct ToolsPanel {
    pub(crate) list: Tools,
    pub(crate) modal: Option<Modal>,
}

impl ToolsPanel {
    /// Returns the shown tool.
    pub(crate) fn shown(&self) -> Option<&ShownTool> {
        self.modal.as_ref()?.shown.as_ref()
    }

    pub(crate) fn shown_mut(&mut self) -> Option<&mut ShownTool> {
        self.modal.as_mut()?.shown.as_mut()
    }

    /// Returns the context that keys are looked up in; `None` while the modal is closed.
    pub(crate) fn context(&self) -> Option<Context> {
        let modal = self.modal.as_ref()?;
        Some(match &modal.shown {
            Some(shown) if self.is_running(shown) && !shown.scrolls => Context::Modal,
            Some(_) => Context::Scroll,
            None => Context::List,
        })
    }

    fn is_running(&self, shown: &ShownTool) -> bool {
        self.list.get(&shown.id).is_some_and(Tool::is_running)
    }

    /// Opens the list, returns from a tool to the list, or closes the list. Returns a message to show.
    pub(crate) fn toggle(&mut self) -> Option<String> {
        match &mut self.modal {
            Some(modal) if modal.shown.is_some() => modal.shown = None,
            Some(_) => self.modal = None,
            None if self.list.is_empty() => {
                let reason = self.list.empty_reason.clone();
                return Some(reason.unwrap_or_else(|| "the agent is running no tools".to_string()));
            }
            None => {
                self.modal = Some(Modal::default());
                let older = self.list.older();
                return (older > 0)
                    .then(|| format!("{older} older tools are not listed: nerve tools --id shows them"));
            }
        }
        None
    }

    pub(crate) fn back_to_list(&mut self) {
        if let Some(modal) = &mut self.modal {
            modal.shown = None;
        }
    }

    /// Returns the shown tool, or the selected one of the list.
    fn selected(&self) -> Option<&Tool> {
        let modal = self.modal.as_ref()?;
        match &modal.shown {
            Some(shown) => self.list.get(&shown.id),
            None => self.list.iter().nth(modal.row),
        }
    }

    /// Changes the list and keeps the selection. Returns a message if the tool that had the keys has ended.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Tools)) -> Option<&'static str> {
        let selected = self.selected().map(|tool| tool.id.clone());
        let had_keys = self.context() == Some(Context::Modal);
        change(&mut self.list);
        self.revalidate(selected.as_deref());
        let has_ended = had_keys && self.context() == Some(Context::Scroll);
        let shown = self.shown_mut().filter(|_| has_ended)?;
        shown.swallows = shown.is_typed_into && !shown.scrolls;
        Some(if shown.swallows { INPUT_DISCARDED } else { "tool ended; Esc returns to the list" })
    }

    /// Restores a valid selection after the list has changed. A removed tool gives way to the list, an empty list
    /// closes the modal.
    fn revalidate(&mut self, selected: Option<&str>) {
        let Some(modal) = &mut self.modal else { return };
        if let Some(row) = selected.and_then(|id| self.list.row(id)) {
            modal.row = row;
        }
        modal.row = modal.row.min(self.list.len().saturating_sub(1));
        if modal.shown.as_ref().is_some_and(|shown| self.list.get(&shown.id).is_none()) {
            modal.shown = None;
        }
        if self.list.is_empty() {
            self.modal = None;
        }
    }

    /// Records whether the user is typing text into the shown tool.
    pub(crate) fn track_typing(&mut self, effect: Option<&Effect>) {
        let is_typed = match effect {
            Some(Effect::ToolInput(Input::Key(key))) => is_typed(*key),
            Some(Effect::ToolInput(Input::Paste(_))) => true,
            _ => false,
        };
        if let Some(shown) = self.shown_mut() {
            shown.is_typed_into |= is_typed;
        }
    }

    /// Discards a key that is text meant for the tool that has ended, and returns the message for it. Enter, or any
    /// key that is not text, ends the text.
    pub(crate) fn discard_key(&mut self, key: Key) -> Option<&'static str> {
        let shown = self.shown_mut()?;
        let is_swallowed = shown.swallows && is_typed(key);
        shown.swallows = is_swallowed && key.code != Code::Enter;
        let notice = if shown.swallows { INPUT_DISCARDED } else { "tool ended: keys scroll its output" };
        is_swallowed.then_some(notice)
    }

    /// Opens the selected tool. Returns its id, and a hint for typing into it.
    pub(crate) fn open_selected(&mut self) -> Option<(String, Option<&'static str>)> {
        let id = self.selected()?.id.clone();
        let shown = self.modal.as_mut()?.shown.insert(ShownTool::new(&id));
        let is_running = self.list.get(&shown.id).is_some_and(Tool::is_running);
        let hint = self.list.reader(&id).hint().filter(|_| is_running);
        Some((id, hint))
    }

    /// Removes the selected tool from the list and returns its id.
    ///
    /// # Errors
    /// Returns why it cannot be removed.
    pub(crate) fn dismiss_selected(&mut self) -> Result<String, &'static str> {
        let id = self.selected().map(|tool| tool.id.clone()).ok_or(NOTHING_SHOWN)?;
        if !self.list.dismiss(&id) {
            return Err("the tool is running: only finished tools can be dismissed");
        }
        self.revalidate(None);
        Ok(id)
    }

    /// Scrolls the tool's output; with `by_page`, a page up.
    ///
    /// # Errors
    /// No tool is shown.
    pub(crate) fn scroll_shown(
        &mut self,
        by_page: bool,
        document: Option<&Document<'_>>,
    ) -> Result<(), &'static str> {
        let shown = self.shown_mut().ok_or(NOTHING_SHOWN)?;
        shown.scrolls = true;
        if let Some(document) = document.filter(|_| by_page) {
            shown.pager.run(Operation::PageUp, document);
        }
        Ok(())
    }

    /// Returns the keys to a running tool, or goes back to the list.
    pub(crate) fn leave_shown(&mut self) {
        let is_running = self.selected().is_some_and(Tool::is_running);
        let Some(modal) = &mut self.modal else { return };
        match &mut modal.shown {
            Some(shown) if is_running && shown.scrolls => {
                shown.scrolls = false;
                shown.pager.search = None;
                shown.pager.clear_filter();
                shown.pager.viewport.go_to_end();
            }
            _ => modal.shown = None,
        }
    }

    /// Moves the selection down by this many rows; up if negative.
    pub(crate) fn move_selection(&mut self, rows: isize) {
        let last = self.list.len().saturating_sub(1);
        if let Some(modal) = &mut self.modal {
            modal.row = modal.row.saturating_add_signed(rows).min(last);
        }
    }

    /// Selects the tool in a row of the list's window of this height. Returns false if there is none.
    pub(crate) fn select(&mut self, row: usize, height: u16) -> bool {
        let Some(modal) = &mut self.modal else { return false };
        let row = modal.first_row(height) + row;
        let is_listed = row < self.list.len();
        if is_listed {
            modal.row = row;
        }
        is_listed
    }

    /// Moves the selection of the list, or scrolls the tool's output.
    pub(crate) fn wheel(&mut self, wheel: Wheel, lines: i64) {
        match (self.shown_mut(), wheel) {
            (Some(shown), _) => shown.pager.viewport.scroll(lines),
            (None, Wheel::Up) => self.move_selection(-1),
            (None, Wheel::Down) => self.move_selection(1),
            (None, _) => {}
        }
    }
}
