//! What a viewer makes of changes: of the window, of what is looked at, of the tools.

use crate::document::Document;
use crate::keys::Context;
use crate::regions::Regions;
use crate::task_entry::Target;
use crate::tools::{Tool, ToolUpdates, Tools};
use crate::viewer::{Source, Viewer};

impl Viewer {
    /// The window, or what is where in it, has changed.
    pub fn set_regions(&mut self, regions: &Regions) {
        self.resize(regions.lines.width, regions.lines.height);
        self.max_help_row = regions.help;
        if self.help.is_some_and(|row| row > regions.help) {
            self.help = Some(regions.help);
            self.update_mode();
        }
        if let Some(shown) = self.modal.as_mut().and_then(|modal| modal.shown.as_mut()) {
            shown.pager.resize(regions.tool.width, regions.tool.height);
        }
    }

    /// The window's size, in what is left for lines.
    fn resize(&mut self, cols: u16, rows: u16) {
        let (is_other, was_seen) = (rows != self.pager.viewport.height(), self.is_entry_visible());
        self.pager.resize(cols, rows);
        self.fit_entry();
        if is_other && was_seen {
            self.scroll_to_entry();
        }
    }

    /// The document has changed. The task entry of a recording is shown at once.
    pub fn update_document(&mut self, document: &Document<'_>) {
        if let Some(Target::Snapshot { id, line }) = self.entry.target
            && let Some(now) = document.line_of_snapshot(id).filter(|now| *now != line)
        {
            // Wrapped anew, its text is in another line.
            self.entry.target = Some(Target::Snapshot { id, line: now });
            self.pager.viewport.move_entry(now);
        }
        // Another moment of a recording: who was at its end is at the end of that.
        let is_below = matches!(self.entry.target, Some(Target::End | Target::Moment { .. }));
        let sticks = is_below && self.pager.viewport.is_at_end();
        self.pager.update_document(document);
        if self.context() == Context::Live && self.pager.prompt.is_none() {
            self.pager.follow_cursor(document);
        }
        if sticks {
            self.pager.viewport.go_to_end();
        }
        if self.source == Source::Recording && !self.has_begun && !document.lines().is_empty() {
            self.has_begun = true;
            self.open_initial_entry(document);
            self.update_mode();
        }
    }

    /// Lines that are in the window have other numbers in the document that is seen next: larger by so many. They stay where they are.
    pub fn renumber(&mut self, by: i64) {
        self.pager.renumber(by);
        if let Some(Target::Snapshot { line, .. }) = &mut self.entry.target {
            *line = line.saturating_add_signed(by);
        }
    }

    /// What the tool that is shown has written has changed.
    pub fn update_tool_document(&mut self, tool: &Document<'_>) {
        if let Some(shown) = self.modal.as_mut().and_then(|modal| modal.shown.as_mut()) {
            shown.pager.update_document(tool);
            if !shown.scrolls {
                shown.pager.follow_cursor(tool);
            }
        }
    }

    /// As [`Viewer::renumber`], in the tool that is shown.
    pub fn renumber_tool(&mut self, by: i64) {
        if let Some(shown) = self.modal.as_mut().and_then(|modal| modal.shown.as_mut()) {
            shown.pager.renumber(by);
        }
    }

    /// The tools there are now, oldest first. One that has ended is to stay among them until it is dismissed.
    pub fn set_tools(&mut self, tools: Vec<Tool>) {
        self.change_tools_with(|known| known.set(tools));
    }

    /// What is new of the tools. Those that have ended stay until they are dismissed.
    pub fn update_tools(&mut self, changes: ToolUpdates) {
        self.change_tools_with(|known| known.change(changes));
    }

    fn change_tools_with(&mut self, change: impl FnOnce(&mut Tools)) {
        let chosen = self.selected_tool().map(|tool| tool.id.clone());
        let had_keys = self.context() == Context::Modal;
        change(&mut self.tools);
        self.revalidate_modal(chosen.as_deref());
        self.handle_tool_end(had_keys);
        self.update_mode();
    }

    /// The program that ran is no more: keys go through what it wrote.
    pub fn program_ended(&mut self) {
        self.is_live = false;
        self.update_mode();
    }

    /// Something to be told, until the next key.
    pub fn show_message(&mut self, message: &str) {
        self.message = Some(message.to_string());
    }

    /// Goes on with what takes long, a bounded piece of it; true while there is more to do.
    pub fn advance_search(&mut self, document: &Document<'_>) -> bool {
        self.pager.advance_search(document)
    }

    /// The same in what the tool that is shown has written.
    pub fn advance_tool_search(&mut self, tool: &Document<'_>) -> bool {
        let shown = self.modal.as_mut().and_then(|modal| modal.shown.as_mut());
        shown.is_some_and(|shown| shown.pager.advance_search(tool))
    }
}
