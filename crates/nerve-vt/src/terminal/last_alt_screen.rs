//! The alternate screen as it was when a program left it: the only visible trace of a full-screen program that has
//! exited.

use alacritty_terminal::grid::{Dimensions, Grid};
use alacritty_terminal::index::Line as GridLine;
use alacritty_terminal::term::cell::Cell;

use super::line::Line;
use super::{TerminalState, cells};
use crate::screen::Row;

/// The last alternate screen.
#[derive(Default)]
pub(super) struct LastAltScreen {
    is_enabled: bool,
    grid: Option<Grid<Cell>>,
}

impl LastAltScreen {
    /// Stores the screen if this is enabled. Returns a grid that is no longer needed.
    pub(super) fn store(&mut self, alternate: Grid<Cell>) -> Option<Grid<Cell>> {
        if self.is_enabled { self.grid.replace(alternate) } else { Some(alternate) }
    }
}

impl TerminalState {
    /// Keeps the alternate screen when a program leaves it. Costs the memory of one screen.
    #[must_use]
    pub fn keeping_last_alt_screen(mut self) -> TerminalState {
        self.model.last_alt_screen.is_enabled = true;
        self
    }

    /// Returns the number of rows of the last alternate screen without trailing blank ones; 0 if there is none.
    pub fn last_alt_screen_rows(&self) -> u16 {
        let Some(grid) = &self.model.last_alt_screen.grid else { return 0 };
        let is_blank = |row: &u16| grid[GridLine(i32::from(*row))].into_iter().all(|cell| cell.c == ' ');
        let rows = u16::try_from(grid.screen_lines()).unwrap_or(u16::MAX);
        (0..rows).rev().find(|row| !is_blank(row)).map_or(0, |last| last + 1)
    }

    /// Returns a row of the last alternate screen, 0-based; `None` below it.
    pub fn last_alt_screen_row(&self, row: u16) -> Option<Row> {
        let grid = self.model.last_alt_screen.grid.as_ref()?;
        let row = (usize::from(row) < grid.screen_lines()).then_some(GridLine(row.into()))?;
        let mut line = Line::default();
        cells::read(&grid[row], grid.columns(), &mut line);
        Some(line.into_row())
    }
}
