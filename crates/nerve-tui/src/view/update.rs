//! Updates of the viewer's state: window size, document and tools.

use crate::view::document::Document;
use crate::view::keys::Context;
use crate::view::regions::Regions;
use crate::view::task_entry::Target;
use crate::view::tools::{Tool, ToolUpdates, Tools};
use crate::view::viewer::{Focus, Viewer};

impl Viewer {
    /// Sets the regions of the window.
    pub fn set_regions(&mut self, regions: &Regions) {
        self.resize(regions.lines.width, regions.lines.height);
        if self.help.set_max_row(regions.help) {
            self.update_mode();
        }
        if let Some(shown) = self.tools.shown_mut() {
            shown.pager.resize(regions.tool.width, regions.tool.height);
        }
    }

    /// Sets the size of the area for lines.
    fn resize(&mut self, cols: u16, rows: u16) {
        let (is_other, was_seen) = (rows != self.pager.viewport.height(), self.is_entry_visible());
        self.pager.resize(cols, rows);
        self.fit_entry();
        if is_other && was_seen {
            self.scroll_to_entry();
        }
    }

    /// Updates the viewer to a changed document. The first document of a recording opens the task entry.
    pub fn update_document(&mut self, document: &Document<'_>) {
        if let Some(Target::Snapshot { id, line }) = self.entry.target
            && let Some(now) = document.line_of_snapshot(id).filter(|now| *now != line)
        {
            // After a reflow the snapshot is on another line.
            self.entry.target = Some(Target::Snapshot { id, line: now });
            self.pager.viewport.move_entry(now);
        }
        // If the entry was at the end of one moment, keep it at the end of the next.
        let is_below = matches!(self.entry.target, Some(Target::End | Target::Moment { .. }));
        let sticks = is_below && self.pager.viewport.is_at_end();
        self.pager.update_document(document);
        if self.context() == Context::Live && self.pager.prompt.is_none() {
            self.pager.follow_cursor(document);
        }
        if sticks {
            self.pager.viewport.go_to_end();
        }
        if self.entry.opens_initially && !document.lines().is_empty() {
            self.entry.opens_initially = false;
            self.open_initial_entry(document);
            self.update_mode();
        }
    }

    /// Shifts line numbers by `by` before the next document is set. The visible lines keep their place.
    pub fn renumber(&mut self, by: i64) {
        self.pager.renumber(by);
        if let Some(Target::Snapshot { line, .. }) = &mut self.entry.target {
            *line = line.saturating_add_signed(by);
        }
    }

    /// Updates the viewer to a changed terminal of the shown tool.
    pub fn update_tool_document(&mut self, tool: &Document<'_>) {
        if let Some(shown) = self.tools.shown_mut() {
            shown.pager.update_document(tool);
            if !shown.scrolls {
                shown.pager.follow_cursor(tool);
            }
        }
    }

    /// Renumbers the shown tool, as [`Viewer::renumber`] does the program.
    pub(crate) fn renumber_tool(&mut self, by: i64) {
        if let Some(shown) = self.tools.shown_mut() {
            shown.pager.renumber(by);
        }
    }

    /// Replaces the list of tools, oldest first. Finished tools stay listed until dismissed.
    pub fn set_tools(&mut self, tools: Vec<Tool>) {
        self.change_tools_with(|list| list.set(tools));
    }

    /// Applies changes to the list of tools. Finished tools stay listed until dismissed.
    pub fn update_tools(&mut self, changes: ToolUpdates) {
        self.change_tools_with(|list| list.change(changes));
    }

    fn change_tools_with(&mut self, change: impl FnOnce(&mut Tools)) {
        if let Some(notice) = self.tools.change(change) {
            self.show_message(notice);
        }
        self.update_mode();
    }

    /// Sets the explanation shown when the list of tools is empty.
    pub fn explain_no_tools(&mut self, reason: String) {
        self.tools.list.empty_reason = Some(reason);
    }

    /// Enters scroll mode because the program has ended.
    pub(crate) fn program_ended(&mut self) {
        self.focus = Focus::Lines;
        self.update_mode();
    }

    /// Shows a message until the next key.
    pub fn show_message(&mut self, message: &str) {
        self.message = Some(message.to_string());
    }

    /// Advances search and filter by one step. Returns true if work is left.
    pub fn advance_search(&mut self, document: &Document<'_>) -> bool {
        self.pager.advance_search(document)
    }

    /// Advances the search in the shown tool, as [`Viewer::advance_search`] does in the program.
    pub fn advance_tool_search(&mut self, tool: &Document<'_>) -> bool {
        self.tools.shown_mut().is_some_and(|shown| shown.pager.advance_search(tool))
    }
}
