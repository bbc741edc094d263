//! Scrolling into the store, wrapping and erasing.

use std::ops::Range;

use alacritty_terminal::index::{Column, Line as GridLine};
use alacritty_terminal::term::cell::Flags;

use super::cells;
use super::line::Line;
use super::model::Model;

impl Model {
    /// Moves the cursor down, or scrolls when it is at the bottom margin (ECMA-48 IND).
    pub(super) fn linefeed(&mut self) {
        let (row, col) = self.cursor();
        if row + 1 == self.region.end {
            self.scroll_up(self.region.start, 1, true);
            self.place(row, col);
        } else {
            self.place(row + 1, col);
        }
    }

    /// Scrolls the rows from `top` to the bottom margin up by `count`. With `is_stored`, rows that leave the top of the
    /// main screen are stored.
    pub(super) fn scroll_up(&mut self, top: i32, count: usize, is_stored: bool) {
        let bottom = self.region.end;
        let count = count.min((bottom - top).max(0) as usize);
        if count == 0 {
            return;
        }
        if bottom < self.rows() {
            self.end_line(bottom - 1);
        }
        self.rotate_up(top, count, is_stored);
    }

    fn rotate_up(&mut self, top: i32, count: usize, is_stored: bool) {
        let bottom = self.region.end;
        // Scrolling a part of the screen moves the other rows.
        let moved = if top == 0 && bottom == self.rows() { 0 } else { usize::from(self.size.rows) };
        let cleared: usize = match top {
            0 => (0..count as i32).map(|row| self.used_cols(row)).sum(),
            _ => count * self.cols(),
        };
        self.charge(moved + cleared);
        if top > 0 {
            self.end_line(top - 1);
        } else if is_stored {
            self.evict(count);
        }
        self.term.grid_mut().scroll_up(&(GridLine(top)..GridLine(bottom)), count);
        if self.is_alternate() {
            return;
        }
        if top == 0 && bottom == self.rows() && self.has_plain_background() {
            self.extents.scroll_up(count);
        } else {
            self.extents.fill();
        }
    }

    /// Scrolls the rows from `top` to the bottom margin down by `count`.
    pub(super) fn scroll_down(&mut self, top: i32, count: usize) {
        let bottom = self.region.end;
        let count = count.min((bottom - top).max(0) as usize);
        if count == 0 {
            return;
        }
        self.charge(usize::from(self.size.rows) + count * self.cols());
        self.term.grid_mut().scroll_down(&(GridLine(top)..GridLine(bottom)), count);
        if top > 0 {
            self.end_line(top - 1);
        }
        self.end_line(bottom - 1);
        self.touch_all();
    }

    /// Stores the first `count` rows of the main screen before they leave it.
    pub(super) fn evict(&mut self, count: usize) {
        if self.is_alternate() {
            return;
        }
        for row in 0..count as i32 {
            let used = self.extents.get(row);
            self.charge(used);
            cells::read(&self.term.grid()[GridLine(row)], used, &mut self.line);
            self.store.push(&self.line);
        }
    }

    /// Wraps from a full row into the next one.
    pub(super) fn wrap(&mut self) {
        let (row, _) = self.cursor();
        self.term.grid_mut().cursor_cell().flags.insert(Flags::WRAPLINE);
        self.touch(row, self.cols());
        if row + 1 == self.region.end {
            self.rotate_up(self.region.start, 1, true);
            self.place(row, 0);
        } else if row + 1 < self.rows() {
            self.place(row + 1, 0);
        } else {
            // Below the scroll region the last row wraps onto itself and continues nowhere.
            self.end_line(row);
            self.place(row, 0);
        }
    }

    /// Ends the row's line: it no longer continues in the next row.
    pub(super) fn end_line(&mut self, row: i32) {
        let last = Column(self.cols() - 1);
        let wrapped = self.grid()[GridLine(row)][last].flags.contains(Flags::WRAPLINE);
        if wrapped {
            self.term.grid_mut()[GridLine(row)][last].flags.remove(Flags::WRAPLINE);
        }
    }

    /// Returns how many columns of a row may have to be cleared.
    fn used_cols(&self, row: i32) -> usize {
        if self.is_alternate() { self.cols() } else { self.extents.get(row) }
    }

    /// Records that columns before `end` may have been written.
    pub(super) fn touch(&mut self, row: i32, end: usize) {
        if self.inactive_main.is_none() {
            self.extents.touch(row, end);
        }
    }

    /// Records that the columns from `end` on are blank.
    fn shrink_used(&mut self, row: i32, end: usize) {
        if self.inactive_main.is_none() && end < self.extents.get(row) {
            self.extents.set(row, end);
        }
    }

    /// Records that any cell may have been written.
    pub(super) fn touch_all(&mut self) {
        if self.inactive_main.is_none() {
            self.extents.fill();
        }
    }

    pub(super) fn has_plain_background(&self) -> bool {
        self.grid().cursor.template.bg == cells::NO_BG
    }

    /// Blanks columns of a row in the current background colour.
    pub(super) fn erase(&mut self, row: i32, cols: Range<usize>) {
        let cols = cols.start.min(self.cols())..cols.end.min(self.cols());
        if cols.is_empty() {
            return;
        }
        self.charge(cols.len());
        self.split_wide(row, cols.start);
        self.split_wide(row, cols.end);
        let bg = self.grid().cursor.template.bg;
        let mut end = cols.end;
        if !self.has_plain_background() {
            self.touch(row, end);
        } else if end >= self.used_cols(row) {
            // The columns from there on are blank already.
            end = self.used_cols(row).max(cols.start);
            self.shrink_used(row, cols.start);
        }
        let row = &mut self.term.grid_mut()[GridLine(row)];
        row[Column(cols.start)..Column(end)].iter_mut().for_each(|cell| *cell = bg.into());
    }

    /// Blanks whole rows in the current background colour.
    pub(super) fn erase_rows(&mut self, rows: Range<i32>) {
        if rows.is_empty() {
            return;
        }
        let is_plain = self.has_plain_background();
        let cleared: usize = match is_plain {
            true => rows.clone().map(|row| self.used_cols(row)).sum(),
            false => rows.len() * self.cols(),
        };
        self.charge(rows.len() + cleared);
        for row in rows.clone() {
            if self.inactive_main.is_none() {
                self.extents.set(row, if is_plain { 0 } else { self.cols() });
            }
        }
        self.term.grid_mut().reset_region(GridLine(rows.start)..GridLine(rows.end));
    }

    /// Clears the screen; the main screen's used rows are stored first. The cursor stays.
    pub(super) fn clear_screen(&mut self) {
        if !self.is_alternate() {
            let used = self.used_rows();
            self.evict(used as usize);
        }
        self.erase_rows(0..self.rows());
    }

    /// Returns the number of main screen rows up to the last visible text.
    pub(super) fn used_rows(&self) -> i32 {
        let mut line = Line::default();
        let shows = |row: &i32| {
            self.read_row(false, *row, &mut line);
            !line.text.is_empty()
        };
        (0..self.rows()).rev().find(shows).map_or(0, |row| row + 1)
    }

    /// Blanks both halves of a wide character that crosses the boundary before `col`.
    pub(super) fn split_wide(&mut self, row: i32, col: usize) {
        if !self.printing.wide_seen || col == 0 || col >= self.cols() {
            return;
        }
        let row = &mut self.term.grid_mut()[GridLine(row)];
        if row[Column(col)].flags.contains(Flags::WIDE_CHAR_SPACER) {
            for cell in &mut row[Column(col - 1)..Column(col + 1)] {
                cell.c = ' ';
                cell.extra = None;
                cell.flags.remove(Flags::WIDE_CHAR | Flags::WIDE_CHAR_SPACER);
            }
        }
    }
}
