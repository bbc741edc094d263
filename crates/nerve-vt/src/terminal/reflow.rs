//! Maps positions of the main screen to their new places after a resize has rewrapped the text.

use alacritty_terminal::grid::{Dimensions, Grid};
use alacritty_terminal::index::Line as GridLine;
use alacritty_terminal::term::cell::{Cell, Flags};

/// Start of each row of a grid, from the topmost row on: the index of its unwrapped line and the offset in it, in
/// cells. Rewrapping changes neither.
pub(super) struct Layout {
    starts: Vec<(usize, usize)>,
    cols: usize,
}

impl Layout {
    pub(super) fn from_grid(grid: &Grid<Cell>) -> Layout {
        let (mut starts, mut at) = (Vec::with_capacity(grid.total_lines()), (0, 0));
        let last = grid.last_column();
        for row in grid.topmost_line().0..=grid.bottommost_line().0 {
            starts.push(at);
            let flags = grid[GridLine(row)][last].flags;
            at = match flags.contains(Flags::WRAPLINE) {
                // A cell left blank before a wide character is not part of the text.
                true => (at.0, at.1 + last.0 + usize::from(!flags.contains(Flags::LEADING_WIDE_CHAR_SPACER))),
                false => (at.0 + 1, 0),
            };
        }
        Layout { starts, cols: grid.columns() }
    }

    /// Returns the row (0 is the topmost one) and column to which a position of `before` has moved. The result is at most
    /// the end of its text, or the last row if the position was cut off.
    pub(super) fn map_position(&self, before: &Layout, row: usize, col: u16) -> (usize, u16) {
        let Some((text, cell)) = before.starts.get(row).map(|(text, cell)| (*text, cell + usize::from(col)))
        else {
            return (row, col);
        };
        let row = self.starts.partition_point(|start| *start <= (text, cell)).saturating_sub(1);
        let start = self.starts.get(row).map_or(0, |(_, start)| *start);
        let col = cell.saturating_sub(start).min(self.cols.saturating_sub(1));
        (row, u16::try_from(col).unwrap_or(u16::MAX))
    }
}
