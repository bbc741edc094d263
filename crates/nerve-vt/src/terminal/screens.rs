//! Changes of the whole screen: alternate screen, reset, rebuild and resize.

use alacritty_terminal::grid::{Dimensions, Grid, Row};
use alacritty_terminal::index::{Column, Line as GridLine};
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::vte::ansi::Handler;
use nerve_types::Size;

use super::alert::Alert;
use super::cells;
use super::keyboard::Keyboard;
use super::model::{Dims, Model, default_tabs, shrink_spare};
use super::overprint::Overprint;
use super::reflow::Layout;
use super::row_extents::Extents;
use super::snapshot_index::SnapshotIndex;
use crate::terminal::store::Store;

/// Cost of a resize per cell, relative to writing it.
const RESIZE_WORK: usize = 16;

/// Maximum rows that a change of width may push into the store.
const REFLOW_ROWS: usize = 100_000;

impl Model {
    /// Shows a blank alternate screen with the main screen's cursor.
    pub(super) fn enter_alternate(&mut self) {
        if self.is_alternate() {
            return;
        }
        let mut fresh = self.blank_alternate();
        fresh.cursor = self.grid().cursor.clone();
        self.inactive_main = Some(std::mem::replace(self.term.grid_mut(), fresh));
        self.stream.changes.push_alert(Alert::Alternate(true));
    }

    /// Returns a blank grid: an alternate screen that was left in this feed, or a new one.
    fn blank_alternate(&mut self) -> Grid<Cell> {
        let (rows, cols) = (usize::from(self.size.rows), self.cols());
        let spare = self.spare_alternate.take();
        let Some(mut grid) = spare.filter(|grid| (grid.screen_lines(), grid.columns()) == (rows, cols))
        else {
            self.charge_screen();
            return Grid::new(rows, cols, 0);
        };
        // Only cells that were written since are cleared: they have been counted then.
        self.charge(rows);
        (grid.cursor, grid.saved_cursor) = Default::default();
        grid.reset_region(..);
        grid
    }

    /// Shows the main screen. `restore`: the cursor returns to its saved position, otherwise it stays.
    pub(super) fn leave_alternate(&mut self, restore: bool) {
        let Some(main) = self.inactive_main.take() else { return };
        let alternate = std::mem::replace(self.term.grid_mut(), main);
        match restore {
            true => self.restore_cursor(),
            false => {
                let before = self.cursor().0;
                self.term.grid_mut().cursor = alternate.cursor.clone();
                self.record_rise(before);
            }
        }
        self.spare_alternate = self.last_alt_screen.store(alternate);
        self.keyboards[1] = Keyboard::default();
        self.stream.changes.push_alert(Alert::Alternate(false));
    }

    /// Resets everything except the line numbering (RIS).
    pub(super) fn reset(&mut self) {
        self.charge_screen();
        self.leave_alternate(false);
        let used = self.used_rows();
        self.evict(used as usize);
        self.store.clear();
        self.stream.changes.push_alert(Alert::ScrollbackErased);
        if self.frames.is_open() {
            self.stream.changes.push_alert(Alert::FrameDone);
        }
        if !self.titles.current.is_empty() {
            self.stream.changes.push_alert(Alert::Title(String::new()));
        }
        let mut old = std::mem::replace(self, Model::new(Size::new(2, 1), Store::new(1, 0)));
        old.term.reset_state();
        *self = Model::with_term(old.term, old.size, old.store);
        (self.last_alt_screen, self.stream) = (old.last_alt_screen, old.stream);
    }

    /// Creates blank screens and default modes after a failure. Keeps stored rows, the stream position and pending
    /// results.
    pub(super) fn rebuild(&mut self, size: Size) {
        let old = std::mem::replace(self, Model::new(size, Store::new(1, 0)));
        (self.store, self.last_alt_screen, self.stream) = (old.store, old.last_alt_screen, old.stream);
    }

    /// Resizes both screens. The main one reflows wrapped lines and stores rows that no longer fit. Snapshots stay with
    /// their text.
    pub(super) fn resize(&mut self, size: Size, snapshots: &mut SnapshotIndex) {
        let size = Size::new(size.cols, size.rows);
        if size == self.size {
            return;
        }
        let (old, rows, cols) = (self.size, usize::from(size.rows), usize::from(size.cols));
        self.charge(RESIZE_WORK * (old.cells() + size.cells()));
        let alternate = self.inactive_main.take().map(|main| std::mem::replace(self.term.grid_mut(), main));
        self.term.grid_mut().update_history(REFLOW_ROWS);
        let (top, before) = (self.store.end(), Layout::from_grid(self.term.grid()));
        self.term.resize(Dims(size));
        let after = Layout::from_grid(self.term.grid());
        snapshots.remap_lines(top, |row, col| after.map_position(&before, row, col));
        self.size = size;
        self.region = 0..self.rows();
        self.extents = Extents::full(size);
        self.store_history();
        self.end_line(self.rows() - 1);
        tidy_rows(self.term.grid_mut());
        if let Some(mut alternate) = alternate {
            alternate.resize(false, rows, cols);
            alternate.truncate();
            tidy_rows(&mut alternate);
            self.inactive_main = Some(std::mem::replace(self.term.grid_mut(), alternate));
            self.repair_cut_rows();
        }
        shrink_spare(&mut self.term);
        // The lines have new numbers.
        self.printing.raised_from = None;
        self.printing.overprint = Overprint::default();
        self.tabs.truncate(cols);
        self.tabs.extend(default_tabs(usize::from(old.cols), cols));
    }

    fn store_history(&mut self) {
        let grid = self.term.grid();
        for row in grid.topmost_line().0..0 {
            cells::read(&grid[GridLine(row)], self.cols(), &mut self.line);
            self.store.push(&self.line);
        }
        self.term.grid_mut().update_history(0);
        self.term.grid_mut().truncate();
    }

    /// Removes wide characters that a narrower alternate screen has cut in half.
    fn repair_cut_rows(&mut self) {
        let last = Column(self.cols() - 1);
        for row in 0..self.rows() {
            let cell = &mut self.term.grid_mut()[GridLine(row)][last];
            cell.flags.remove(Flags::WRAPLINE);
            if cell.flags.contains(Flags::WIDE_CHAR) {
                cell.clear_wide();
            }
        }
    }
}

/// Marks all columns as written, and frees the memory of the columns that a narrower screen has lost. The engine clears
/// only the written part of a row, does not update that part when it grows a coloured row, and keeps the memory.
fn tidy_rows(grid: &mut Grid<Cell>) {
    for row in 0..grid.screen_lines() as i32 {
        let row = &mut grid[GridLine(row)];
        let cells = row[..].to_vec();
        *row = Row::from_vec(cells, row.len());
    }
}
