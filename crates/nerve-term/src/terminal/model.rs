//! The state behind [`TerminalState`](super::TerminalState): the engine, the screens and the store.
//!
//! The engine keeps no history: every row is moved into the store at the moment it leaves the main screen, so the number
//! of rows stored is always the absolute number of the row at the top of the screen. Nothing has to be drained in time and
//! an idle terminal costs little more than its visible cells.

use std::ops::Range;

use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::{Dimensions, Grid};
use alacritty_terminal::index::{Column, Line as GridLine};
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::term::{Config, Term};
use alacritty_terminal::vte::ansi::{CharsetIndex, Handler, NamedMode, NamedPrivateMode};

use super::cells;
use super::extents::Extents;
use super::frame::Frames;
use super::keyboard::Keyboard;
use super::line::Line;
use super::modes::ModeSet;
use super::notice::{Changes, Notice};
use super::palette::Palette;
use super::print::RUN;
use super::replies::Replies;
use crate::event::{Size, TsNs};
use crate::screen::{Cursor, Modes, Screen};
use crate::store::Store;

/// Rows a change of width may push off the top of the screen and still have stored.
const REFLOW_ROWS: usize = 100_000;

pub(super) struct Model {
    pub(super) term: Term<VoidListener>,
    /// The main screen while the alternate one is shown.
    pub(super) parked: Option<Grid<Cell>>,
    pub(super) store: Store,
    pub(super) size: Size,
    /// Output bytes taken before this feed, and after it once it is done.
    pub(super) offset: u64,
    pub(super) now: TsNs,
    pub(super) frames: Frames,
    pub(super) changes: Changes,
    pub(super) replies: Replies,
    pub(super) modes: ModeSet,
    /// Of the main and of the alternate screen.
    pub(super) keyboards: [Keyboard; 2],
    pub(super) palette: Palette,
    pub(super) title: String,
    pub(super) titles: Vec<String>,
    pub(super) charset: CharsetIndex,
    /// Cursor style as set by DECSCUSR, 0–6.
    pub(super) cursor_style: u16,
    pub(super) tabs: Vec<bool>,
    /// The scroll region, rows `start..end`.
    pub(super) region: Range<i32>,
    pub(super) extents: Extents,
    /// A wide character has been written: ASCII may overwrite halves of one.
    pub(super) wide_seen: bool,
    /// What was printed last is just left of the cursor: a grapheme may go on.
    pub(super) joinable: bool,
    /// It ended in a joiner.
    pub(super) after_joiner: bool,
    pub(super) last_char: Option<char>,
    /// Stop the parser: the feed has something to do at this very byte.
    pub(super) stop: bool,
    /// The OSC string being dispatched was cut or cancelled.
    pub(super) string_broken: bool,
    /// What a DCS query has asked so far.
    pub(super) query: Option<(char, Vec<u8>)>,
    /// Printable ASCII not yet written to the cells.
    pub(super) run: Vec<u8>,
    line: Line,
}

#[derive(Clone, Copy)]
struct Dims(Size);

impl Dimensions for Dims {
    fn total_lines(&self) -> usize {
        self.screen_lines()
    }
    fn screen_lines(&self) -> usize {
        usize::from(self.0.rows)
    }
    fn columns(&self) -> usize {
        usize::from(self.0.cols)
    }
}

impl Model {
    pub(super) fn new(size: Size, store: Store) -> Model {
        let size = Size::new(size.cols, size.rows);
        let config = Config { scrolling_history: 0, ..Config::default() };
        let mut term = Term::new(config, &Dims(size), VoidListener);
        shrink_spare(&mut term);
        Model {
            term,
            parked: None,
            store,
            size,
            offset: 0,
            now: TsNs::default(),
            frames: Frames::default(),
            changes: Changes::default(),
            replies: Replies::default(),
            modes: ModeSet::default(),
            keyboards: Default::default(),
            palette: Palette::default(),
            title: String::new(),
            titles: Vec::new(),
            charset: CharsetIndex::G0,
            cursor_style: 0,
            tabs: default_tabs(0, usize::from(size.cols)),
            region: 0..i32::from(size.rows),
            extents: Extents::new(size),
            wide_seen: false,
            joinable: false,
            after_joiner: false,
            last_char: None,
            stop: false,
            string_broken: false,
            query: None,
            run: Vec::with_capacity(RUN),
            line: Line::default(),
        }
    }

    pub(super) fn rows(&self) -> i32 {
        i32::from(self.size.rows)
    }

    pub(super) fn cols(&self) -> usize {
        usize::from(self.size.cols)
    }

    pub(super) fn alternate(&self) -> bool {
        self.parked.is_some()
    }

    pub(super) fn grid(&self) -> &Grid<Cell> {
        self.term.grid()
    }

    pub(super) fn main_grid(&self) -> &Grid<Cell> {
        self.parked.as_ref().unwrap_or_else(|| self.term.grid())
    }

    pub(super) fn keyboard(&mut self) -> &mut Keyboard {
        &mut self.keyboards[usize::from(self.parked.is_some())]
    }

    /// The cursor's row and column.
    pub(super) fn cursor(&self) -> (i32, usize) {
        let point = self.grid().cursor.point;
        (point.line.0, point.column.0)
    }

    /// Puts the cursor there, clamped to the screen.
    pub(super) fn place(&mut self, row: i32, col: usize) {
        let (rows, cols) = (self.rows(), self.cols());
        let cursor = &mut self.term.grid_mut().cursor;
        cursor.point.line = GridLine(row.clamp(0, rows - 1));
        cursor.point.column = Column(col.min(cols - 1));
        cursor.input_needs_wrap = false;
    }

    /// Reads a row of the main screen or, if `active`, of the one shown.
    pub(super) fn read_row(&self, active: bool, row: i32, line: &mut Line) {
        let grid = if active { self.grid() } else { self.main_grid() };
        let bound = if active && self.alternate() { self.cols() } else { self.extents.get(row) };
        cells::read(&grid[GridLine(row)], bound, line);
    }

    // ---- Scrolling ----

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

    /// Scrolls the rows from `top` to the bottom margin up by `count`. What leaves the top of the main screen is stored if
    /// `keep`.
    pub(super) fn scroll_up(&mut self, top: i32, count: usize, keep: bool) {
        let bottom = self.region.end;
        let count = count.min((bottom - top).max(0) as usize);
        if count == 0 {
            return;
        }
        if bottom < self.rows() {
            self.end_line(bottom - 1);
        }
        self.rotate_up(top, count, keep);
    }

    fn rotate_up(&mut self, top: i32, count: usize, keep: bool) {
        let bottom = self.region.end;
        if top > 0 {
            self.end_line(top - 1);
        } else if keep {
            self.evict(count);
        }
        self.term.grid_mut().scroll_up(&(GridLine(top)..GridLine(bottom)), count);
        if self.alternate() {
            return;
        }
        if top == 0 && bottom == self.rows() && self.plain_background() {
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
        self.term.grid_mut().scroll_down(&(GridLine(top)..GridLine(bottom)), count);
        if top > 0 {
            self.end_line(top - 1);
        }
        self.end_line(bottom - 1);
        self.touch_all();
    }

    /// Stores the first `count` rows of the main screen, which are about to leave it.
    pub(super) fn evict(&mut self, count: usize) {
        if self.alternate() {
            return;
        }
        for row in 0..count as i32 {
            cells::read(&self.term.grid()[GridLine(row)], self.extents.get(row), &mut self.line);
            self.store.push(&self.line);
        }
    }

    /// Goes on in the next row because this one is full.
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
            // Below the scroll region the last row wraps onto itself: it does not go on anywhere.
            self.end_line(row);
            self.place(row, 0);
        }
    }

    /// The row's text does not go on in the next row any more.
    pub(super) fn end_line(&mut self, row: i32) {
        let last = Column(self.cols() - 1);
        let wrapped = self.grid()[GridLine(row)][last].flags.contains(Flags::WRAPLINE);
        if wrapped {
            self.term.grid_mut()[GridLine(row)][last].flags.remove(Flags::WRAPLINE);
        }
    }

    /// Something may have been written in the row's columns before `end`.
    pub(super) fn touch(&mut self, row: i32, end: usize) {
        if self.parked.is_none() {
            self.extents.touch(row, end);
        }
    }

    /// Anything may be anywhere.
    pub(super) fn touch_all(&mut self) {
        if self.parked.is_none() {
            self.extents.fill();
        }
    }

    pub(super) fn plain_background(&self) -> bool {
        self.grid().cursor.template.bg == cells::NO_BG
    }

    // ---- Erasing ----

    /// Blanks columns of a row with the current background.
    pub(super) fn erase(&mut self, row: i32, cols: Range<usize>) {
        let cols = cols.start.min(self.cols())..cols.end.min(self.cols());
        if cols.is_empty() {
            return;
        }
        self.split_wide(row, cols.start);
        self.split_wide(row, cols.end);
        let bg = self.grid().cursor.template.bg;
        if !self.plain_background() {
            self.touch(row, cols.end);
        }
        let row = &mut self.term.grid_mut()[GridLine(row)];
        row[Column(cols.start)..Column(cols.end)].iter_mut().for_each(|cell| *cell = bg.into());
    }

    /// Blanks whole rows with the current background.
    pub(super) fn erase_rows(&mut self, rows: Range<i32>) {
        if rows.is_empty() {
            return;
        }
        let plain = self.plain_background();
        for row in rows.clone() {
            if self.parked.is_none() {
                self.extents.set(row, if plain { 0 } else { self.cols() });
            }
        }
        self.term.grid_mut().reset_region(GridLine(rows.start)..GridLine(rows.end));
    }

    /// Clears the screen; on the main one what was shown is stored first. The cursor stays.
    pub(super) fn clear_screen(&mut self) {
        if !self.alternate() {
            let used = self.used_rows();
            self.evict(used as usize);
        }
        self.erase_rows(0..self.rows());
    }

    /// Rows of the main screen up to the last that shows something.
    pub(super) fn used_rows(&self) -> i32 {
        let mut line = Line::default();
        let shows = |row: &i32| {
            self.read_row(false, *row, &mut line);
            !line.text.is_empty()
        };
        (0..self.rows()).rev().find(shows).map_or(0, |row| row + 1)
    }

    /// If a wide character lies across the boundary before `col`, blanks both its halves.
    pub(super) fn split_wide(&mut self, row: i32, col: usize) {
        if !self.wide_seen || col == 0 || col >= self.cols() {
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

    // ---- Screens ----

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

    /// Shows the main screen; the alternate one is forgotten. `restore`: the cursor goes back to where it was saved, else
    /// it stays where it is.
    pub(super) fn leave_alternate(&mut self, restore: bool) {
        let Some(main) = self.parked.take() else { return };
        let alternate = std::mem::replace(self.term.grid_mut(), main);
        match restore {
            true => self.restore_cursor(),
            false => self.term.grid_mut().cursor = alternate.cursor,
        }
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
        self.start_anew(self.size);
    }

    /// Blank screens and default modes; stored rows, the place in the stream and what is to be reported are kept.
    pub(super) fn start_anew(&mut self, size: Size) {
        let old = std::mem::replace(self, Model::new(size, Store::new(1, 0)));
        self.store = old.store;
        self.offset = old.offset;
        self.now = old.now;
        self.changes = old.changes;
        self.replies = old.replies;
        self.string_broken = old.string_broken;
    }

    /// Gives both screens a new size. The main one reflows wrapped lines; what no longer fits above is stored.
    pub(super) fn resize(&mut self, size: Size) {
        let size = Size::new(size.cols, size.rows);
        if size == self.size {
            return;
        }
        let (old, rows, cols) = (self.size, usize::from(size.rows), usize::from(size.cols));
        let alternate = self.parked.take().map(|main| std::mem::replace(self.term.grid_mut(), main));
        self.term.grid_mut().update_history(REFLOW_ROWS);
        self.term.resize(Dims(size));
        self.size = size;
        self.region = 0..self.rows();
        self.extents = Extents::full(size);
        self.store_history();
        self.end_line(self.rows() - 1);
        if let Some(mut alternate) = alternate {
            alternate.resize(false, rows, cols);
            alternate.truncate();
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

    /// Tells the engine the modes that change how it writes cells.
    pub(super) fn mirror_modes(&mut self) {
        let wrap = NamedPrivateMode::LineWrap.into();
        let insert = NamedMode::Insert.into();
        match self.modes.autowrap {
            true => self.term.set_private_mode(wrap),
            false => self.term.unset_private_mode(wrap),
        }
        match self.modes.insert {
            true => self.term.set_mode(insert),
            false => self.term.unset_mode(insert),
        }
    }

    // ---- Views ----

    /// What is on the screen now, whether a frame is open or not.
    pub(super) fn live_screen(&self, offset: u64) -> Screen {
        let mut line = Line::default();
        let rows = (0..self.rows()).map(|row| {
            self.read_row(true, row, &mut line);
            line.to_row()
        });
        let rows = rows.collect();
        let (row, col) = self.cursor();
        Screen {
            size: self.size,
            rows,
            cursor: Cursor { row: row as u16, col: col as u16, visible: self.modes.cursor_visible },
            title: self.title.clone(),
            modes: self.public_modes(),
            first_line: self.store.end(),
            offset,
        }
    }

    pub(super) fn public_modes(&self) -> Modes {
        Modes {
            alternate: self.alternate(),
            bracketed_paste: self.modes.bracketed_paste,
            application_cursor: self.modes.cursor_keys,
            application_keypad: self.modes.keypad,
            focus_events: self.modes.focus,
            mouse: self.modes.mouse != 0,
            mouse_sgr: self.modes.mouse_encoding == 1006,
            kitty_keyboard: self.keyboards[usize::from(self.alternate())].flags(),
        }
    }
}

/// Tab stops for columns `from..to`: every eighth.
pub(super) fn default_tabs(from: usize, to: usize) -> Vec<bool> {
    (from..to).map(|col| col % 8 == 0).collect()
}

/// The engine has an alternate grid of its own, which cannot be had while the main one is shown and is not used here (both
/// screens must be readable at any time): makes it as small as can be.
fn shrink_spare(term: &mut Term<VoidListener>) {
    let saved = term.grid().saved_cursor.clone();
    term.swap_alt();
    *term.grid_mut() = Grid::new(1, 2, 0);
    term.swap_alt();
    term.grid_mut().saved_cursor = saved;
}
