//! What a viewer makes of changes: of the window, of what is looked at, of the tools.

use crate::document::Document;
use crate::keys::Context;
use crate::regions::Regions;
use crate::task_entry::Target;
use crate::tools::{Changes, Tool, Tools};
use crate::viewer::{Source, Viewer};

impl Viewer {
    /// The window, or what is where in it, has changed.
    pub fn arrange(&mut self, regions: &Regions) {
        self.resize(regions.lines.width, regions.lines.height);
        self.furthest_help = regions.help;
        if self.help.is_some_and(|row| row > regions.help) {
            self.help = Some(regions.help);
            self.note_mode();
        }
        if let Some(shown) = self.modal.as_mut().and_then(|modal| modal.shown.as_mut()) {
            shown.pager.resize(regions.tool.width, regions.tool.height);
        }
    }

    /// The window's size, in what is left for lines.
    fn resize(&mut self, cols: u16, rows: u16) {
        let (is_other, was_seen) = (rows != self.pager.viewport.height(), self.sees_entry());
        self.pager.resize(cols, rows);
        self.fit_entry();
        if is_other && was_seen {
            self.show_entry();
        }
    }

    /// The document has changed. The task entry of a recording is shown at once.
    pub fn sees(&mut self, document: &Document<'_>) {
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
        self.pager.sees(document);
        if self.context() == Context::Live && self.pager.prompt.is_none() {
            self.pager.follow_cursor(document);
        }
        if sticks {
            self.pager.viewport.go_to_end();
        }
        if self.source == Source::Recording && !self.has_begun && !document.lines().is_empty() {
            self.has_begun = true;
            self.begin_entry(document);
            self.note_mode();
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
    pub fn sees_tool(&mut self, tool: &Document<'_>) {
        if let Some(shown) = self.modal.as_mut().and_then(|modal| modal.shown.as_mut()) {
            shown.pager.sees(tool);
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
        self.tools_become(|known| known.set(tools));
    }

    /// What is new of the tools. Those that have ended stay until they are dismissed.
    pub fn change_tools(&mut self, changes: Changes) {
        self.tools_become(|known| known.change(changes));
    }

    fn tools_become(&mut self, become_others: impl FnOnce(&mut Tools)) {
        let chosen = self.chosen_tool().map(|tool| tool.id.clone());
        let had_keys = self.context() == Context::Modal;
        become_others(&mut self.tools);
        self.settle_modal(chosen.as_deref());
        self.end_typing(had_keys);
        self.note_mode();
    }

    /// The program that ran is no more: keys go through what it wrote.
    pub fn look_on(&mut self) {
        self.is_live = false;
        self.note_mode();
    }

    /// Something to be told, until the next key.
    pub fn tell(&mut self, message: &str) {
        self.message = Some(message.to_string());
    }

    /// Goes on with what takes long, a bounded piece of it; true while there is more to do.
    pub fn work(&mut self, document: &Document<'_>) -> bool {
        self.pager.work(document)
    }

    /// The same in what the tool that is shown has written.
    pub fn work_tool(&mut self, tool: &Document<'_>) -> bool {
        let shown = self.modal.as_mut().and_then(|modal| modal.shown.as_mut());
        shown.is_some_and(|shown| shown.pager.work(tool))
    }
}
