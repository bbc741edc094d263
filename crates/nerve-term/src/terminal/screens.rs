//! Other screens than the one before: the alternate one, one made anew, one of another size.

use alacritty_terminal::grid::{Dimensions, Grid};
use alacritty_terminal::index::{Column, Line as GridLine};
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::vte::ansi::Handler;

use super::cells;
use super::keyboard::Keyboard;
use super::model::{Dims, Model, default_tabs, shrink_spare};
use super::notice::{Changes, Notice};
use super::reflow::Layout;
use super::replies::Replies;
use super::row_extents::Extents;
use super::snapshot_index::Anchors;
use crate::event::{Size, TsNs};
use crate::store::Store;

/// Rows a change of width may push off the top of the screen and still have stored.
const REFLOW_ROWS: usize = 100_000;

impl Model {
    /// Shows the alternate screen, blank, with the main one's cursor.
    pub(super) fn enter_alternate(&mut self) {
        if self.alternate() {
            return;
        }
        let mut fresh = Grid::new(usize::from(self.size.rows), self.cols(), 0);
        fresh.cursor = self.grid().cursor.clone();
        self.parked = Some(std::mem::replace(self.term.grid_mut(), fresh));
        self.changes.notice(Notice::Alternate(true));
    }

    /// Shows the main screen; the alternate one is forgotten, unless somebody wants to look back at it. `restore`: the cursor goes back to where it was saved, else
    /// it stays where it is.
    pub(super) fn leave_alternate(&mut self, restore: bool) {
        let Some(main) = self.parked.take() else { return };
        let alternate = std::mem::replace(self.term.grid_mut(), main);
        match restore {
            true => self.restore_cursor(),
            false => self.term.grid_mut().cursor = alternate.cursor.clone(),
        }
        self.left.keep(alternate);
        self.keyboards[1] = Keyboard::default();
        self.changes.notice(Notice::Alternate(false));
    }

    /// RIS: everything but the numbering of rows starts anew.
    pub(super) fn reset(&mut self) {
        self.leave_alternate(false);
        let used = self.used_rows();
        self.evict(used as usize);
        self.store.clear();
        self.changes.notice(Notice::ScrollbackErased);
        if self.frames.is_open() {
            self.changes.notice(Notice::FrameDone);
        }
        if !self.title.is_empty() {
            self.changes.notice(Notice::Title(String::new()));
        }
        let mut old = std::mem::replace(self, Model::new(Size::new(2, 1), Store::new(1, 0)));
        old.term.reset_state();
        *self = Model::with_term(old.term, old.size, old.store);
        self.left = old.left;
        self.go_on((old.offset, old.now), old.changes, old.replies, old.string_broken);
    }

    /// Blank screens and default modes after a failure; stored rows, the place in the stream and what is to be reported
    /// are kept.
    pub(super) fn start_anew(&mut self, size: Size) {
        let old = std::mem::replace(self, Model::new(size, Store::new(1, 0)));
        (self.store, self.left) = (old.store, old.left);
        self.go_on((old.offset, old.now), old.changes, old.replies, old.string_broken);
    }

    fn go_on(&mut self, place: (u64, TsNs), changes: Changes, replies: Replies, string_broken: bool) {
        (self.offset, self.now) = place;
        (self.changes, self.replies, self.string_broken) = (changes, replies, string_broken);
    }

    /// Gives both screens a new size. The main one reflows wrapped lines; what no longer fits above is stored. Snapshots stay with their
    /// text.
    pub(super) fn resize(&mut self, size: Size, anchors: &mut Anchors) {
        let size = Size::new(size.cols, size.rows);
        if size == self.size {
            return;
        }
        let (old, rows, cols) = (self.size, usize::from(size.rows), usize::from(size.cols));
        let alternate = self.parked.take().map(|main| std::mem::replace(self.term.grid_mut(), main));
        self.term.grid_mut().update_history(REFLOW_ROWS);
        let (top, before) = (self.store.end(), Layout::of(self.term.grid()));
        self.term.resize(Dims(size));
        let after = Layout::of(self.term.grid());
        anchors.carry(top, |row, col| after.carried(&before, row, col));
        self.size = size;
        self.region = 0..self.rows();
        self.extents = Extents::full(size);
        self.store_history();
        self.end_line(self.rows() - 1);
        mark_written(self.term.grid_mut());
        if let Some(mut alternate) = alternate {
            alternate.resize(false, rows, cols);
            alternate.truncate();
            mark_written(&mut alternate);
            self.parked = Some(std::mem::replace(self.term.grid_mut(), alternate));
            self.mend_cut_rows();
        }
        shrink_spare(&mut self.term);
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

    /// A narrower alternate screen may have lost the second half of a wide character.
    fn mend_cut_rows(&mut self) {
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

/// The engine clears only the part of a row it knows to be written, and grows rows without telling it that a coloured one is
/// not of one colour any more: takes all columns for written.
fn mark_written(grid: &mut Grid<Cell>) {
    for row in 0..grid.screen_lines() as i32 {
        let _ = &mut grid[GridLine(row)][..];
    }
}
