//! Where places of the main screen are after it got another size: with their text, which a change of width wraps anew.

use alacritty_terminal::grid::{Dimensions, Grid};
use alacritty_terminal::index::Line as GridLine;
use alacritty_terminal::term::cell::{Cell, Flags};

/// Where each row of a grid begins, from its topmost row on: in which text that ends with a line, and how many cells into it. Wrapping anew
/// changes neither a text's place among the texts nor a cell's in its text.
pub(super) struct Layout {
    starts: Vec<(usize, usize)>,
    cols: usize,
}

impl Layout {
    pub(super) fn of(grid: &Grid<Cell>) -> Layout {
        let (mut starts, mut at) = (Vec::with_capacity(grid.total_lines()), (0, 0));
        let last = grid.last_column();
        for row in grid.topmost_line().0..=grid.bottommost_line().0 {
            starts.push(at);
            let flags = grid[GridLine(row)][last].flags;
            at = match flags.contains(Flags::WRAPLINE) {
                // A cell that is left blank before a wide character is none of the text.
                true => (at.0, at.1 + last.0 + usize::from(!flags.contains(Flags::LEADING_WIDE_CHAR_SPACER))),
                false => (at.0 + 1, 0),
            };
        }
        Layout { starts, cols: grid.columns() }
    }

    /// The row (0 is the topmost one) and the column here of what is in that row and column of `before`; the end of its text if that is
    /// shorter, the last row if it was cut off.
    pub(super) fn carried(&self, before: &Layout, row: usize, col: u16) -> (usize, u16) {
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
