//! Control sequences (ECMA-48, DEC and xterm's).

use alacritty_terminal::index::{Column, Line as GridLine};
use alacritty_terminal::vte::ansi::Handler;

use super::alert::Alert;
use super::control_sequence::{ControlSequence, Params};
use super::line::LineIndex;
use super::model::{Model, default_tabs};
use super::modes::{ModeSet, decrpm};
use super::overprint::Overprint;
use super::sgr;

/// Maximum depth of the title stack (`CSI 22 t`).
const MAX_TITLES: usize = 16;

/// Returns the first number of every parameter.
fn numbers(params: &Params) -> impl Iterator<Item = u16> {
    params.iter().map(|param| param[0])
}

impl Model {
    /// Executes the complete control sequence at the beginning of `bytes` and returns its length; 0 if there is none.
    pub(super) fn execute_csi(&mut self, bytes: &[u8]) -> usize {
        let Some(ControlSequence { marker, params, action, len }) = ControlSequence::parse(bytes) else {
            return 0;
        };
        self.printing.can_join &= action == 'm';
        self.csi(&params, marker.as_slice(), action);
        len
    }

    pub(super) fn csi(&mut self, params: &Params, intermediates: &[u8], action: char) {
        match intermediates {
            [] => self.csi_plain(params, action),
            [b'?'] => self.csi_private(params, action),
            [b'>'] => self.csi_greater(params, action),
            [b'='] if action == 'u' => {
                self.keyboard().set(params.get(0, 0), params.get(1, 1));
            }
            [b'<'] if action == 'u' => self.keyboard().pop(params.get(0, 1)),
            [b'!'] if action == 'p' => self.soft_reset(),
            [b' '] if action == 'q' => self.cursor_style = params.get(0, 0).min(6),
            [b'$'] if action == 'p' => self.report_mode(params.get(0, 0)),
            [b'?', b'$'] if action == 'p' => self.report_private_mode(params.get(0, 0)),
            _ => {}
        }
    }

    fn csi_plain(&mut self, params: &Params, action: char) {
        let first = params.get(0, 1);
        let (row, col) = self.cursor();
        match action {
            'm' => sgr::apply(&mut self.term.grid_mut().cursor.template, params),
            'A' => self.up(first),
            'B' | 'e' => self.down(first),
            'C' | 'a' => self.place(row, col + usize::from(first)),
            'D' => self.place(row, col.saturating_sub(first.into())),
            'E' | 'F' => {
                if action == 'E' {
                    self.down(first)
                } else {
                    self.up(first)
                }
                self.carriage_return();
            }
            'G' | '`' => self.place(row, usize::from(first) - 1),
            'H' | 'f' => {
                self.position(first, Some(params.get(1, 1)));
                self.sequence.is_homed = self.cursor() == (0, 0);
            }
            'd' => self.position(first, None),
            'I' => self.tab(first),
            'Z' => self.back_tab(first),
            'J' => self.erase_display(params.get(0, 0)),
            'K' => self.erase_line(params.get(0, 0)),
            'X' => self.erase(row, col..col + usize::from(first)),
            '@' => self.insert_blanks(first.into()),
            'P' => self.delete_chars(first.into()),
            'L' | 'M' => self.insert_or_delete_rows(action == 'L', first.into()),
            'S' => self.scroll_up(self.region.start, first.into(), true),
            // With more parameters this is xterm's mouse highlighting.
            'T' if params.len() <= 1 => self.scroll_down(self.region.start, first.into()),
            'b' => self.repeat(first),
            'c' if params.get(0, 0) == 0 => self.stream.replies.primary_attributes(),
            'g' => match params.get(0, 0) {
                0 => self.set_tab(false),
                3 => self.tabs.fill(false),
                _ => {}
            },
            'h' | 'l' => numbers(params).for_each(|mode| self.set_mode(mode, action == 'h')),
            'n' => self.report_status(params.get(0, 0)),
            'r' => self.set_region(first, params.get(1, 0)),
            's' => self.save_cursor(),
            'u' => self.restore_cursor(),
            't' => self.window(params.get(0, 0)),
            _ => {}
        }
    }

    fn csi_private(&mut self, params: &Params, action: char) {
        let first = params.get(0, 0);
        match action {
            'h' | 'l' => numbers(params).for_each(|mode| self.set_private_mode(mode, action == 'h')),
            // DECSED and DECSEL: no cell is protected.
            'J' => self.erase_display(first),
            'K' => self.erase_line(first),
            'W' if first == 5 => self.tabs = default_tabs(0, self.cols()),
            'n' if first == 6 => self.report_cursor(true),
            // Reports a dark colour scheme (contour's extension, which opencode queries).
            'n' if first == 996 => self.stream.replies.add("\x1b[?997;1n"),
            'u' => {
                let flags = self.keyboard().flags();
                self.stream.replies.add(&format!("\x1b[?{flags}u"));
            }
            _ => {}
        }
    }

    fn csi_greater(&mut self, params: &Params, action: char) {
        let first = params.get(0, 0);
        match action {
            'c' if first == 0 => self.stream.replies.secondary_attributes(),
            'q' if first == 0 => self.stream.replies.version(),
            'u' => self.keyboard().push(first),
            _ => {}
        }
    }

    // ---- Cursor ----

    pub(super) fn carriage_return(&mut self) {
        self.sequence.is_homed = false;
        let (row, _) = self.cursor();
        self.place(row, 0);
    }

    fn up(&mut self, count: u16) {
        let (row, col) = self.cursor();
        let stop = if row >= self.region.start { self.region.start } else { 0 };
        self.place((row - i32::from(count)).max(stop), col);
    }

    fn down(&mut self, count: u16) {
        let (row, col) = self.cursor();
        let stop = if row < self.region.end { self.region.end } else { self.rows() };
        self.place((row + i32::from(count)).min(stop - 1), col);
    }

    /// Moves the cursor (CUP, HVP, VPA): 1-based, within the margins if DECOM is set.
    fn position(&mut self, row: u16, col: Option<u16>) {
        let col = col.map_or(self.cursor().1, |col| usize::from(col) - 1);
        let row = i32::from(row) - 1;
        let row = match self.modes.origin {
            true => (row + self.region.start).min(self.region.end - 1),
            false => row,
        };
        self.place(row, col);
    }

    fn home(&mut self) {
        self.position(1, Some(1));
    }

    pub(super) fn save_cursor(&mut self) {
        let grid = self.term.grid_mut();
        grid.saved_cursor = grid.cursor.clone();
    }

    /// Restores the saved cursor, clamped to the margins if DECOM is set.
    pub(super) fn restore_cursor(&mut self) {
        let before = self.cursor().0;
        let grid = self.term.grid_mut();
        grid.cursor = grid.saved_cursor.clone();
        if self.modes.origin {
            let line = &mut grid.cursor.point.line.0;
            *line = (*line).clamp(self.region.start, self.region.end - 1);
        }
        self.record_rise(before);
        // The restored cursor has a pending wrap: the row has not been wrapped yet.
        if self.grid().cursor.input_needs_wrap {
            self.end_line(self.cursor().0);
        }
    }

    pub(super) fn reverse_index(&mut self) {
        let (row, col) = self.cursor();
        if row == self.region.start {
            self.scroll_down(row, 1);
            self.place(row, col);
        } else {
            self.place(row - 1, col);
        }
    }

    pub(super) fn tab(&mut self, count: u16) {
        self.charge(self.cols());
        for _ in 0..count.min(self.size.cols) {
            let (_, col) = self.cursor();
            let next = (col + 1..self.cols()).find(|col| self.tabs[*col]).unwrap_or(self.cols() - 1);
            // A pending wrap stays pending, as in xterm.
            self.term.grid_mut().cursor.point.column = Column(next);
        }
    }

    fn back_tab(&mut self, count: u16) {
        self.charge(self.cols());
        for _ in 0..count.min(self.size.cols) {
            let (row, col) = self.cursor();
            self.place(row, (0..col).rev().find(|col| self.tabs[*col]).unwrap_or(0));
        }
    }

    pub(super) fn set_tab(&mut self, on: bool) {
        let (_, col) = self.cursor();
        self.tabs[col] = on;
    }

    /// Sets the scroll region (DECSTBM), 1-based; ignores an empty region.
    pub(super) fn set_region(&mut self, top: u16, bottom: u16) {
        let bottom = match bottom {
            0 => self.rows(),
            bottom => i32::from(bottom).min(self.rows()),
        };
        let top = i32::from(top) - 1;
        if top + 1 >= bottom && !(top == 0 && bottom == self.rows()) {
            return;
        }
        self.region = top..bottom;
        self.term.set_scrolling_region(top as usize + 1, Some(bottom as usize));
        self.home();
    }

    // ---- Cells ----

    fn erase_display(&mut self, what: u16) {
        let (row, col) = self.cursor();
        match what {
            0 => {
                let is_homed = std::mem::take(&mut self.sequence.is_homed);
                if is_homed && (row, col) == (0, 0) && !self.is_alternate() {
                    self.report_erased_screen();
                }
                self.erase(row, col..self.cols());
                self.erase_rows(row + 1..self.rows());
            }
            1 => {
                self.erase_rows(0..row);
                self.erase(row, 0..col + 1);
            }
            2 => self.clear_screen(),
            3 => {
                self.store.clear();
                self.stream.changes.push_alert(Alert::ScrollbackErased);
            }
            _ => {}
        }
    }

    fn report_erased_screen(&mut self) {
        let line = LineIndex(self.store.end());
        let end = LineIndex(line.0 + self.used_rows() as u64);
        self.printing.raised_from = None;
        self.printing.overprint = Overprint::default();
        self.stream.changes.push_alert(Alert::ScreenErased { line, end });
    }

    fn erase_line(&mut self, what: u16) {
        let (row, col) = self.cursor();
        match what {
            // EL after a full-width row keeps the last column.
            0 if self.grid().cursor.input_needs_wrap => {}
            0 => self.erase(row, col..self.cols()),
            1 => self.erase(row, 0..col + 1),
            2 => self.erase(row, 0..self.cols()),
            _ => {}
        }
    }

    pub(super) fn insert_blanks(&mut self, count: usize) {
        let (row, col) = self.cursor();
        self.charge(self.cols());
        let count = count.min(self.cols() - col);
        self.split_wide(row, col);
        self.split_wide(row, self.cols() - count);
        self.term.insert_blank(count);
        self.end_line(row);
        self.touch(row, self.cols());
    }

    fn delete_chars(&mut self, count: usize) {
        let (row, col) = self.cursor();
        self.charge(self.cols());
        let count = count.min(self.cols() - col);
        self.split_wide(row, col);
        self.split_wide(row, col + count);
        let bg = self.grid().cursor.template.bg;
        let end = Column(self.cols());
        let cells = &mut self.term.grid_mut()[GridLine(row)][Column(col)..end];
        cells.rotate_left(count);
        let kept_len = cells.len() - count;
        cells[kept_len..].iter_mut().for_each(|cell| *cell = bg.into());
        self.end_line_after_shift(row);
        self.touch(row, self.cols());
    }

    /// Clears the wrap flag that shifted cells may carry.
    fn end_line_after_shift(&mut self, row: i32) {
        use alacritty_terminal::term::cell::Flags;
        let end = Column(self.cols());
        for cell in &mut self.term.grid_mut()[GridLine(row)][Column(0)..end] {
            cell.flags.remove(Flags::WRAPLINE | Flags::LEADING_WIDE_CHAR_SPACER);
        }
    }

    fn insert_or_delete_rows(&mut self, insert: bool, count: usize) {
        let (row, _) = self.cursor();
        if !self.region.contains(&row) {
            return;
        }
        match insert {
            true => self.scroll_down(row, count),
            // Rows that a program deletes are discarded; only scrolling stores them.
            false => self.scroll_up(row, count, false),
        }
        // The character before the cursor has moved or is gone, so no wrap is pending (as in xterm).
        self.term.grid_mut().cursor.input_needs_wrap = false;
    }

    // ---- Modes ----

    fn set_mode(&mut self, mode: u16, on: bool) {
        match mode {
            4 => self.modes.insert = on,
            20 => self.modes.newline = on,
            _ => return,
        }
        self.sync_modes_to_engine();
    }

    fn set_private_mode(&mut self, mode: u16, on: bool) {
        match (mode, on) {
            (47 | 1047, true) => self.enter_alternate(),
            (47 | 1047, false) => self.leave_alternate(false),
            (1048, true) => self.save_cursor(),
            (1048, false) => self.restore_cursor(),
            (1049, true) if !self.is_alternate() => {
                self.save_cursor();
                self.enter_alternate();
            }
            (1049, true) => {}
            (1049, false) => self.leave_alternate(true),
            (2026, true) => self.sequence.stop |= self.frames.open(self.stream.now),
            (2026, false) => {
                if self.frames.close() {
                    self.stream.changes.push_alert(Alert::FrameDone);
                }
            }
            _ => {
                self.modes.set_private(mode, on);
                match mode {
                    6 => self.home(),
                    7 => self.sync_modes_to_engine(),
                    _ => {}
                }
            }
        }
    }

    fn report_mode(&mut self, mode: u16) {
        let state = match mode {
            4 => Some(self.modes.insert),
            20 => Some(self.modes.newline),
            _ => None,
        };
        self.stream.replies.mode(false, mode, decrpm(state));
    }

    fn report_private_mode(&mut self, mode: u16) {
        let state = match mode {
            47 | 1047 | 1049 => decrpm(Some(self.is_alternate())),
            2026 => decrpm(Some(self.frames.is_open())),
            // Grapheme clusters are permanently on.
            2027 => 3,
            _ => decrpm(self.modes.private(mode)),
        };
        self.stream.replies.mode(true, mode, state);
    }

    /// Resets modes, margins, rendition, character sets and the saved cursor (DECSTR, VT510 manual). Cells and cursor
    /// stay.
    fn soft_reset(&mut self) {
        self.modes = ModeSet {
            cursor_visible: true,
            origin: false,
            autowrap: true,
            insert: false,
            cursor_keys: false,
            keypad: false,
            ..self.modes
        };
        self.sync_modes_to_engine();
        let cursor = self.grid().cursor.point;
        let full = self.grid().cursor.input_needs_wrap;
        self.region = 0..self.rows();
        self.term.set_scrolling_region(1, None);
        self.charset = Default::default();
        self.term.set_active_charset(self.charset);
        let grid = self.term.grid_mut();
        grid.saved_cursor = Default::default();
        grid.cursor = Default::default();
        grid.cursor.point = cursor;
        grid.cursor.input_needs_wrap = full;
    }

    // ---- Reports ----

    fn report_status(&mut self, what: u16) {
        match what {
            5 => self.stream.replies.add("\x1b[0n"),
            6 => self.report_cursor(false),
            _ => {}
        }
    }

    fn report_cursor(&mut self, extended: bool) {
        let (row, col) = self.cursor();
        let top = if self.modes.origin { self.region.start } else { 0 };
        self.stream.replies.cursor((row - top).max(0), col, extended);
    }

    fn window(&mut self, what: u16) {
        match what {
            22 => {
                if self.titles.stack.len() == MAX_TITLES {
                    self.titles.stack.remove(0);
                }
                self.titles.stack.push(self.titles.current.clone());
            }
            23 => {
                if let Some(title) = self.titles.stack.pop() {
                    self.set_title(title);
                }
            }
            _ => self.stream.replies.size(what, self.size),
        }
    }

    pub(super) fn set_title(&mut self, title: String) {
        self.titles.current.clone_from(&title);
        self.stream.changes.push_alert(Alert::Title(title));
    }
}
