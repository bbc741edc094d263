//! FeedResult of the whole screen: alternate screen, reset, rebuild and resize.

use alacritty_terminal::grid::{Dimensions, Grid};
use alacritty_terminal::index::{Column, Line as GridLine};
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::vte::ansi::Handler;

use super::cells;
use super::keyboard::Keyboard;
use super::model::{Dims, Model, default_tabs, shrink_spare};
use super::notice::{FeedResult, Notice};
use super::reflow::Layout;
use super::replies::Replies;
use super::row_extents::Extents;
use super::snapshot_index::SnapshotIndex;
use crate::store::Store;
use nerve_types::{Size, TsNs};

/// Maximum rows that a change of width may push into the store.
const REFLOW_ROWS: usize = 100_000;

impl Model {
    /// Shows a blank alternate screen with the main screen's cursor.
    pub(super) fn enter_alternate(&mut self) {
        if self.alternate() {
            return;
        }
        let mut fresh = Grid::new(usize::from(self.size.rows), self.cols(), 0);
        fresh.cursor = self.grid().cursor.clone();
        self.inactive_main = Some(std::mem::replace(self.term.grid_mut(), fresh));
        self.changes.notice(Notice::Alternate(true));
    }

    /// Shows the main screen. `restore`: the cursor returns to its saved position, otherwise it stays.
    pub(super) fn leave_alternate(&mut self, restore: bool) {
        let Some(main) = self.inactive_main.take() else { return };
        let alternate = std::mem::replace(self.term.grid_mut(), main);
        match restore {
            true => self.restore_cursor(),
            false => self.term.grid_mut().cursor = alternate.cursor.clone(),
        }
        self.last_alt_screen.store(alternate);
        self.keyboards[1] = Keyboard::default();
        self.changes.notice(Notice::Alternate(false));
    }

    /// Resets everything except the line numbering (RIS).
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
        self.last_alt_screen = old.last_alt_screen;
        self.restore_stream_state((old.offset, old.now), old.changes, old.replies, old.string_broken);
    }

    /// Creates blank screens and default modes after a failure. Keeps stored rows, the stream position and pending
    /// results.
    pub(super) fn rebuild(&mut self, size: Size) {
        let old = std::mem::replace(self, Model::new(size, Store::new(1, 0)));
        (self.store, self.last_alt_screen) = (old.store, old.last_alt_screen);
        self.restore_stream_state((old.offset, old.now), old.changes, old.replies, old.string_broken);
    }

    fn restore_stream_state(
        &mut self,
        place: (u64, TsNs),
        changes: FeedResult,
        replies: Replies,
        string_broken: bool,
    ) {
        (self.offset, self.now) = place;
        (self.changes, self.replies, self.string_broken) = (changes, replies, string_broken);
    }

    /// Resizes both screens. The main one reflows wrapped lines and stores rows that no longer fit. Snapshots stay with
    /// their text.
    pub(super) fn resize(&mut self, size: Size, snapshots: &mut SnapshotIndex) {
        let size = Size::new(size.cols, size.rows);
        if size == self.size {
            return;
        }
        let (old, rows, cols) = (self.size, usize::from(size.rows), usize::from(size.cols));
        let alternate = self.inactive_main.take().map(|main| std::mem::replace(self.term.grid_mut(), main));
        self.term.grid_mut().update_history(REFLOW_ROWS);
        let (top, before) = (self.store.end(), Layout::of(self.term.grid()));
        self.term.resize(Dims(size));
        let after = Layout::of(self.term.grid());
        snapshots.remap_lines(top, |row, col| after.map_position(&before, row, col));
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
            self.inactive_main = Some(std::mem::replace(self.term.grid_mut(), alternate));
            self.repair_cut_rows();
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

/// Marks all columns as written. The engine clears only the written part of a row, and does not update that part when
/// it grows a coloured row.
fn mark_written(grid: &mut Grid<Cell>) {
    for row in 0..grid.screen_lines() as i32 {
        let _ = &mut grid[GridLine(row)][..];
    }
}
