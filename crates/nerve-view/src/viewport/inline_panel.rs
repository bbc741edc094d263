//! The task entry's place between the lines of a window (seed agent-record §6).

use super::Viewport;

/// The task entry's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InlinePanel {
    /// It stands above this line; the one before is the snapshot's. A document that is shorter for a while has it at its end.
    pub(super) before: u64,
    /// Rows, at least 1.
    pub(super) height: u16,
}

impl Viewport {
    /// The row of the window at which the task entry begins, which may be above it or below, and its height; `None` if it is not shown.
    pub fn entry(&self) -> Option<(i64, u16)> {
        let panel = self.panel()?;
        let row = i128::from(panel.before) - i128::from(self.top);
        Some((i64::try_from(row).unwrap_or(i64::MAX), panel.height))
    }

    /// The line above the task entry; `None` if it is not shown or nothing is above it.
    pub fn entry_line(&self) -> Option<u64> {
        self.panel()?.before.checked_sub(1).filter(|line| *line >= self.lines.start)
    }

    /// Puts the task entry, `height` rows high, below a snapshot's line. If that line is in the window and there is room for all of the
    /// entry below it, nothing scrolls: the line stays in its row. Else the window is centred: as many rows above the entry as below it, or one
    /// less.
    pub fn place_entry(&mut self, line: u64, height: u16) {
        self.put(line, line.saturating_add(1), height);
    }

    /// The snapshot's line has another number: the entry stands below that one now, and in the row of the window in which it stood.
    pub(crate) fn move_entry(&mut self, line: u64) {
        let Some(entry) = &mut self.entry else { return };
        let before = line.saturating_add(1);
        self.top = (self.top + before).saturating_sub(entry.before);
        entry.before = before;
    }

    /// Puts the task entry below all lines, wherever the document ends.
    pub fn place_entry_at_end(&mut self, height: u16) {
        self.put(self.lines.end.saturating_sub(1), u64::MAX, height);
    }

    fn put(&mut self, line: u64, before: u64, height: u16) {
        // Never higher than the window: its end is where one types.
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

    /// The task entry is that high now. It stays where it begins if there is room for it, else it moves up.
    pub fn set_entry_height(&mut self, height: u16) {
        let Some(entry) = &mut self.entry else { return };
        entry.height = height.clamp(1, self.rows);
        let Some(panel) = self.panel() else { return };
        let end = panel.before + u64::from(panel.height);
        self.top = self.top.max(end.saturating_sub(self.rows.into()));
        self.clamp();
    }

    /// Takes the task entry away. What is in the window stays, as far as it can.
    pub fn close_entry(&mut self) {
        let top = self.top_line();
        if self.entry.take().is_some() {
            self.top = top;
            self.clamp();
            self.follows = self.is_at_end();
        }
    }

    /// The task entry's place as the document is now.
    pub(super) fn panel(&self) -> Option<InlinePanel> {
        let InlinePanel { before, height } = self.entry?;
        Some(InlinePanel { before: before.clamp(self.lines.start, self.lines.end), height })
    }
}
