//! The state behind [`TerminalState`](super::TerminalState): the engine, the screens and the store.
//!
//! The engine keeps no history: every row moves into the store when it leaves the main screen. The number of stored
//! rows is therefore always the absolute number of the screen's top row. Nothing has to be drained in time, and an idle
//! terminal costs little more than its visible cells.

use std::ops::Range;

use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::{Dimensions, Grid};
use alacritty_terminal::index::{Column, Line as GridLine};
use alacritty_terminal::term::cell::Cell;
use alacritty_terminal::term::{Config, Term};
use alacritty_terminal::vte::ansi::{CharsetIndex, Handler, NamedMode, NamedPrivateMode};
use nerve_types::{Size, TsNs};

use super::alert::FeedResult;
use super::cells;
use super::frame::{FrameView, Frames};
use super::keyboard::Keyboard;
use super::last_alt_screen::LastAltScreen;
use super::line::Line;
use super::modes::ModeSet;
use super::overprint::Overprint;
use super::palette::Palette;
use super::replies::Replies;
use super::row_extents::Extents;
use crate::screen::{Cursor, Modes, Screen};
use crate::terminal::store::Store;

pub(super) struct Model {
    pub(super) term: Term<VoidListener>,
    /// The main screen while the alternate screen is shown.
    pub(super) inactive_main: Option<Grid<Cell>>,
    pub(super) last_alt_screen: LastAltScreen,
    pub(super) store: Store,
    pub(super) size: Size,
    pub(super) stream: StreamState,
    pub(super) printing: PrintState,
    pub(super) sequence: ParserState,
    pub(super) frames: Frames,
    pub(super) modes: ModeSet,
    /// Keyboard flags of the main and the alternate screen.
    pub(super) keyboards: [Keyboard; 2],
    pub(super) palette: Palette,
    pub(super) titles: Titles,
    pub(super) charset: CharsetIndex,
    /// Cursor style as set by DECSCUSR, 0–6.
    pub(super) cursor_style: u16,
    pub(super) tabs: Vec<bool>,
    /// The scroll region, rows `start..end`.
    pub(super) region: Range<i32>,
    pub(super) extents: Extents,
    /// Scratch buffer for rows on their way to the store.
    pub(super) line: Line,
    /// The grid of an alternate screen that was left in this feed.
    pub(super) spare_alternate: Option<Grid<Cell>>,
}

/// The position in the stream, and the results of the current feed. Survives a reset of the terminal.
#[derive(Default)]
pub(super) struct StreamState {
    /// Output bytes before the current feed.
    pub(super) offset: u64,
    pub(super) now: TsNs,
    pub(super) changes: FeedResult,
    pub(super) replies: Replies,
    /// The OSC string being dispatched was truncated or cancelled.
    pub(super) string_broken: bool,
    /// Cells touched so far: see [`TerminalState::work`](super::TerminalState::work).
    pub(super) work: u64,
}

/// The grapheme left of the cursor, and the cursor's way to the next one.
#[derive(Default)]
pub(super) struct PrintState {
    /// A wide character has been written, so ASCII may overwrite half of one.
    pub(super) wide_seen: bool,
    /// The last printed character is left of the cursor: its grapheme may continue.
    pub(super) can_join: bool,
    /// That grapheme ended in a joiner.
    pub(super) after_joiner: bool,
    pub(super) last_char: Option<char>,
    /// The lowest line of the main screen from which the cursor has moved up since the last text.
    pub(super) raised_from: Option<u64>,
    pub(super) overprint: Overprint,
}

/// The parser's state that outlasts one dispatch.
#[derive(Default)]
pub(super) struct ParserState {
    /// Requests a stop after the current sequence.
    pub(super) stop: bool,
    /// A sequence moved the cursor to the first cell, and no carriage return has followed.
    pub(super) is_homed: bool,
    /// The DCS query received so far.
    pub(super) query: Option<(char, Vec<u8>)>,
}

/// The window title, and the titles saved by XTPUSHTITLE.
#[derive(Default)]
pub(super) struct Titles {
    pub(super) current: String,
    pub(super) stack: Vec<String>,
}

/// A size in the engine's format.
#[derive(Clone, Copy)]
pub(super) struct Dims(pub(super) Size);

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
        Model::with_term(term, size, store)
    }

    /// Creates a model around an engine in its initial state.
    pub(super) fn with_term(term: Term<VoidListener>, size: Size, store: Store) -> Model {
        Model {
            term,
            inactive_main: None,
            last_alt_screen: LastAltScreen::default(),
            store,
            size,
            stream: StreamState::default(),
            printing: PrintState::default(),
            sequence: ParserState::default(),
            frames: Frames::default(),
            modes: ModeSet::default(),
            keyboards: Default::default(),
            palette: Palette::default(),
            titles: Titles::default(),
            charset: CharsetIndex::G0,
            cursor_style: 0,
            tabs: default_tabs(0, usize::from(size.cols)),
            region: 0..i32::from(size.rows),
            extents: Extents::new(size),
            line: Line::default(),
            spare_alternate: None,
        }
    }

    /// Counts cells that a sequence touches.
    #[inline]
    pub(super) fn charge(&mut self, cells: usize) {
        self.stream.work = self.stream.work.saturating_add(cells as u64);
    }

    /// Counts a sequence that touches all cells.
    pub(super) fn charge_screen(&mut self) {
        self.charge(self.size.cells());
    }

    pub(super) fn rows(&self) -> i32 {
        i32::from(self.size.rows)
    }

    pub(super) fn cols(&self) -> usize {
        usize::from(self.size.cols)
    }

    pub(super) fn is_alternate(&self) -> bool {
        self.inactive_main.is_some()
    }

    pub(super) fn grid(&self) -> &Grid<Cell> {
        self.term.grid()
    }

    pub(super) fn main_grid(&self) -> &Grid<Cell> {
        self.inactive_main.as_ref().unwrap_or_else(|| self.term.grid())
    }

    pub(super) fn keyboard(&mut self) -> &mut Keyboard {
        &mut self.keyboards[usize::from(self.inactive_main.is_some())]
    }

    /// Returns the cursor's row and column.
    pub(super) fn cursor(&self) -> (i32, usize) {
        let point = self.grid().cursor.point;
        (point.line.0, point.column.0)
    }

    /// Moves the cursor, clamped to the screen.
    pub(super) fn place(&mut self, row: i32, col: usize) {
        let (rows, cols, before) = (self.rows(), self.cols(), self.cursor().0);
        let cursor = &mut self.term.grid_mut().cursor;
        cursor.point.line = GridLine(row.clamp(0, rows - 1));
        cursor.point.column = Column(col.min(cols - 1));
        cursor.input_needs_wrap = false;
        self.record_rise(before);
    }

    /// Records that the cursor has moved from row `before`, if that was a way up on the main screen.
    #[inline]
    pub(super) fn record_rise(&mut self, before: i32) {
        if self.cursor().0 < before && !self.is_alternate() {
            let line = self.store.end() + before as u64;
            self.printing.raised_from = self.printing.raised_from.max(Some(line));
        }
    }

    /// Reads a row of the main screen or, if `active`, of the active one.
    pub(super) fn read_row(&self, active: bool, row: i32, line: &mut Line) {
        let grid = if active { self.grid() } else { self.main_grid() };
        let bound = if active && self.is_alternate() { self.cols() } else { self.extents.get(row) };
        cells::read(&grid[GridLine(row)], bound, line);
    }

    /// Copies the modes that affect how cells are written into the engine.
    pub(super) fn sync_modes_to_engine(&mut self) {
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

    /// Returns the current screen, even while a frame is open.
    pub(super) fn live_screen(&self, offset: u64) -> Screen {
        let rows = (0..self.rows()).map(|row| {
            let mut line = Line::default();
            self.read_row(true, row, &mut line);
            line.into_row()
        });
        Screen { rows: rows.collect(), ..self.screen_without_rows(offset) }
    }

    /// Returns the current screen for later readers.
    pub(super) fn frame_view(&self, offset: u64) -> FrameView {
        let cells = (0..self.rows()).map(|row| self.grid()[GridLine(row)].clone());
        FrameView::new(cells.collect(), self.screen_without_rows(offset))
    }

    /// Returns the current screen without its rows.
    fn screen_without_rows(&self, offset: u64) -> Screen {
        let (row, col) = self.cursor();
        Screen {
            size: self.size,
            rows: Default::default(),
            cursor: Cursor { row: row as u16, col: col as u16, visible: self.modes.cursor_visible },
            title: self.titles.current.clone(),
            modes: self.public_modes(),
            first_line: self.store.end(),
            offset,
        }
    }

    pub(super) fn public_modes(&self) -> Modes {
        Modes {
            alternate: self.is_alternate(),
            bracketed_paste: self.modes.bracketed_paste,
            application_cursor: self.modes.cursor_keys,
            application_keypad: self.modes.keypad,
            focus_events: self.modes.focus,
            mouse: self.modes.mouse_tracking(),
            mouse_encoding: self.modes.mouse_encoding(),
            alternate_scroll: self.modes.alternate_scroll,
            kitty_keyboard: self.keyboards[usize::from(self.is_alternate())].flags(),
        }
    }
}

/// Returns default tab stops for columns `from..to`: every eighth.
pub(super) fn default_tabs(from: usize, to: usize) -> Vec<bool> {
    (from..to).map(|col| col % 8 == 0).collect()
}

/// Shrinks the engine's own alternate grid to its minimum. It is not used, because both screens must be readable at any
/// time and the engine hides its inactive grid.
pub(super) fn shrink_spare(term: &mut Term<VoidListener>) {
    let saved = term.grid().saved_cursor.clone();
    term.swap_alt();
    *term.grid_mut() = Grid::new(1, 2, 0);
    term.swap_alt();
    term.grid_mut().saved_cursor = saved;
}
