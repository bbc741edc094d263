//! The task entry's rows between the lines of a viewport.

use super::{InlinePanel, Viewport};

impl Viewport {
    /// Returns the entry's first window row, which may be outside the window, and its height; `None` while it is
    /// closed.
    pub fn entry(&self) -> Option<(i64, u16)> {
        let panel = self.panel()?;
        let row = i128::from(panel.before) - i128::from(self.top);
        Some((i64::try_from(row).unwrap_or(i64::MAX), panel.height))
    }

    /// Returns the line above the entry; `None` while it is closed or at the top.
    pub fn entry_line(&self) -> Option<u64> {
        self.panel()?.before.checked_sub(1).filter(|line| *line >= self.lines.start)
    }

    /// Puts the entry below a line. If the line is visible and there is room below it, nothing scrolls; otherwise
    /// the entry is centred.
    pub fn place_entry(&mut self, line: u64, height: u16) {
        self.put(line, line.saturating_add(1), height);
    }

    /// Moves the entry to another line number of its snapshot, keeping its window row.
    pub(crate) fn move_entry(&mut self, line: u64) {
        let Some(entry) = &mut self.entry else { return };
        let before = line.saturating_add(1);
        self.top = (self.top + before).saturating_sub(entry.before);
        entry.before = before;
    }

    /// Puts the entry below all lines.
    pub fn place_entry_at_end(&mut self, height: u16) {
        self.put(self.lines.end.saturating_sub(1), u64::MAX, height);
    }

    fn put(&mut self, line: u64, before: u64, height: u16) {
        // The entry is never higher than the window: its end has the cursor.
        let height = height.clamp(1, self.rows);
        let row = self.row_of(line);
        self.entry = Some(InlinePanel { before, height });
        let before = before.clamp(self.lines.start, self.lines.end);
        self.top = match row {
            Some(row) if row.saturating_add(1).saturating_add(height) <= self.rows => {
                line.saturating_sub(row.into())
            }
            _ => before.saturating_sub(u64::from((self.rows - height) / 2)),
        };
        self.clamp();
    }

    /// Sets the entry's height. It moves up if there is no room below.
    pub fn set_entry_height(&mut self, height: u16) {
        let Some(entry) = &mut self.entry else { return };
        entry.height = height.clamp(1, self.rows);
        let Some(panel) = self.panel() else { return };
        let end = panel.before + u64::from(panel.height);
        self.top = self.top.max(end.saturating_sub(self.rows.into()));
        self.clamp();
    }

    /// Removes the entry. The visible lines stay as far as possible.
    pub fn close_entry(&mut self) {
        let top = self.top_line();
        if self.entry.take().is_some() {
            self.top = top;
            self.clamp();
            self.follows = self.is_at_end();
        }
    }

    /// Returns the entry's position, clamped to the document.
    pub(super) fn panel(&self) -> Option<InlinePanel> {
        let InlinePanel { before, height } = self.entry?;
        Some(InlinePanel { before: before.clamp(self.lines.start, self.lines.end), height })
    }
}
