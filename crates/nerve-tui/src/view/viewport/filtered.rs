//! The lines that a filter selects.

use std::collections::VecDeque;

use super::Viewport;

/// Selected lines in ascending order. Each has a consecutive position, which it keeps when earlier lines are
/// dropped.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FilteredLines {
    /// Position of the first line.
    first: u64,
    lines: VecDeque<u64>,
}

impl FilteredLines {
    /// Appends a line.
    pub(crate) fn push(&mut self, line: u64) {
        self.lines.push_back(line);
    }

    /// Drops the lines before this one.
    pub(crate) fn drop_before(&mut self, line: u64) {
        while self.lines.front().is_some_and(|first| *first < line) {
            self.lines.pop_front();
            self.first += 1;
        }
    }

    /// Drops this line and all that follow.
    pub(crate) fn drop_from(&mut self, line: u64) {
        self.lines.truncate(self.index(line));
    }

    pub(crate) fn clear(&mut self) {
        self.drop_before(u64::MAX);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Shifts all line numbers.
    pub(super) fn renumber(&mut self, by: i64) {
        self.lines.iter_mut().for_each(|line| *line = line.saturating_add_signed(by));
    }

    /// Returns the range of positions.
    pub(super) fn positions(&self) -> std::ops::Range<u64> {
        self.first..self.first + self.lines.len() as u64
    }

    /// Returns the position of a line, or of the first one below it.
    pub(super) fn position(&self, line: u64) -> u64 {
        self.first + self.index(line) as u64
    }

    /// Returns the line at a position.
    pub(super) fn line(&self, position: u64) -> Option<u64> {
        let index = usize::try_from(position.checked_sub(self.first)?).ok()?;
        self.lines.get(index).copied()
    }

    pub(super) fn has(&self, line: u64) -> bool {
        self.lines.get(self.index(line)) == Some(&line)
    }

    fn index(&self, line: u64) -> usize {
        self.lines.partition_point(|filtered| *filtered < line)
    }
}

impl Viewport {
    /// Sets or removes the selection. The top line stays, or the one after it.
    pub(crate) fn set_filter(&mut self, filtered: Option<FilteredLines>) {
        if self.filtered.is_none() && filtered.is_none() {
            return;
        }
        let position = self.scroll_position();
        self.filtered = filtered;
        self.restore_position(position);
    }

    /// Changes the selection in place, keeping the top line.
    pub(crate) fn update_filtered<T>(&mut self, change: impl FnOnce(&mut FilteredLines) -> T) -> Option<T> {
        let position = self.scroll_position();
        let done = change(self.filtered.as_mut()?);
        self.restore_position(position);
        Some(done)
    }

    /// Returns true if a filter hides lines.
    pub fn is_filtered(&self) -> bool {
        self.filtered.is_some()
    }

    /// Returns the line numbers that can be scrolled to, from top to bottom.
    pub fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.positions().filter_map(|position| self.line_at_position(position))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_survive_dropped_lines() {
        let mut filtered = FilteredLines::default();
        [2, 5, 9].into_iter().for_each(|line| filtered.push(line));
        assert_eq!((filtered.positions(), filtered.position(5), filtered.position(6)), (0..3, 1, 2));
        filtered.drop_before(5);
        assert_eq!((filtered.positions(), filtered.position(5), filtered.line(1)), (1..3, 1, Some(5)));
        filtered.drop_from(9);
        assert_eq!((filtered.positions(), filtered.line(2), filtered.has(9)), (1..2, None, false));
        filtered.renumber(10);
        assert!(filtered.has(15) && !filtered.has(5));
        filtered.clear();
        assert!(filtered.is_empty());
        filtered.push(3);
        assert_eq!(filtered.positions(), 2..3);
    }
}
