//! The alternate screen as it was when it was left: all that is there to be seen of a program that had the whole screen and has ended.

use alacritty_terminal::grid::{Dimensions, Grid};
use alacritty_terminal::index::Line as GridLine;
use alacritty_terminal::term::cell::Cell;

use super::line::Line;
use super::{TerminalState, cells};
use crate::screen::Row;

/// The alternate screen that was left last.
#[derive(Default)]
pub(super) struct Left {
    is_wanted: bool,
    grid: Option<Grid<Cell>>,
}

impl Left {
    /// Keeps it, if that is wanted.
    pub(super) fn keep(&mut self, alternate: Grid<Cell>) {
        if self.is_wanted {
            self.grid = Some(alternate);
        }
    }
}

impl TerminalState {
    /// Keeps the alternate screen when it is left; without this it is forgotten. Costs the memory of one screen.
    #[must_use]
    pub fn keeping_left_screen(mut self) -> TerminalState {
        self.model.left.is_wanted = true;
        self
    }

    /// Rows of the alternate screen that was left last, without the blank ones at its end: 0 if there is none.
    pub fn left_screen_rows(&self) -> u16 {
        let Some(grid) = &self.model.left.grid else { return 0 };
        let is_blank = |row: &u16| grid[GridLine(i32::from(*row))].into_iter().all(|cell| cell.c == ' ');
        let rows = u16::try_from(grid.screen_lines()).unwrap_or(u16::MAX);
        (0..rows).rev().find(|row| !is_blank(row)).map_or(0, |last| last + 1)
    }

    /// A row of it, 0-based, as it was; `None` below it.
    pub fn left_screen_row(&self, row: u16) -> Option<Row> {
        let grid = self.model.left.grid.as_ref()?;
        let row = (usize::from(row) < grid.screen_lines()).then_some(GridLine(row.into()))?;
        let mut line = Line::default();
        cells::read(&grid[row], grid.columns(), &mut line);
        Some(line.into_row())
    }
}
