//! Serializes a terminal as the bytes that recreate it, for late attach and keyframes.

use alacritty_terminal::grid::{Cursor, Grid};
use alacritty_terminal::index::{Column, Line as GridLine};
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::vte::ansi::{CharsetIndex, StandardCharset};
use unicode_width::UnicodeWidthChar;

use super::ansi::AnsiWriter;
use super::cells;
use super::keyboard::Keyboard;
use super::line::Line;
use super::model::{Model, default_tabs};
use super::palette::FOREGROUND;

/// Typical size of an escape sequence that changes the rendition, in bytes.
const SPAN_BYTES: usize = 20;

/// Implements [`TerminalState::dump`](super::TerminalState::dump).
pub(super) fn dump(model: &Model) -> Vec<u8> {
    let mut dump = Dump { model, writer: AnsiWriter::default() };
    let main = model.main_grid();
    dump.keyboard(&model.keyboards[0]);
    dump.grid(main);
    if model.is_alternate() {
        dump.cursor(&main.cursor, main, 0);
        dump.raw("\x1b[?1047h");
        dump.keyboard(&model.keyboards[1]);
        dump.grid(model.grid());
    }
    dump.settings();
    let cursor = &model.grid().cursor;
    let top = if model.modes.origin { model.region.start } else { 0 };
    dump.cursor(cursor, model.grid(), top);
    dump.late_settings();
    dump.writer.out
}

/// Implements [`TerminalState::dump_with_scrollback`](super::TerminalState::dump_with_scrollback).
pub(super) fn dump_with_scrollback(model: &Model, max_rows: usize, max_bytes: usize) -> Vec<u8> {
    let mut lines = Vec::new();
    let mut bytes = 0;
    for number in (model.store.first()..model.store.end()).rev().take(max_rows) {
        let mut line = Line::default();
        let is_stored = model.store.read(number, &mut line);
        bytes += line.text.len() + line.spans.len() * SPAN_BYTES;
        if !is_stored || bytes > max_bytes {
            break;
        }
        lines.push(line);
    }
    let mut writer = AnsiWriter::default();
    for line in lines.iter().rev() {
        writer.line(line);
        if !line.wrapped {
            writer.reset();
            writer.out.extend_from_slice(b"\r\n");
        }
    }
    if let Some(last) = lines.first() {
        writer.reset();
        // Moves the lines above the screen. After one that wraps, the cursor is still in its row.
        let rows = model.rows() as usize - usize::from(!last.wrapped);
        writer.out.extend(b"\r\n".repeat(rows));
        writer.out.extend_from_slice(b"\x1b[H");
    }
    writer.out.extend(dump(model));
    writer.out
}

struct Dump<'a> {
    model: &'a Model,
    writer: AnsiWriter,
}

impl Dump<'_> {
    fn raw(&mut self, text: &str) {
        self.writer.out.extend_from_slice(text.as_bytes());
    }

    /// Writes cells and saved cursor onto a blank screen.
    fn grid(&mut self, grid: &Grid<Cell>) {
        self.raw("\x1b(B");
        let rows = self.model.rows();
        let mut lines: Vec<Line> = (0..rows).map(|_| Line::default()).collect();
        for (row, line) in (0..rows).zip(&mut lines) {
            cells::read_for_dump(&grid[GridLine(row)], line);
        }
        let mut follows = false;
        for (row, line) in lines.iter().enumerate() {
            if !follows && !line.text.is_empty() {
                self.writer.raw(format_args!("\x1b[{};1H", row + 1));
            }
            if follows {
                // Separates the last character of the row before from the first one of this row (a joiner, a skin tone)
                // without moving anything.
                self.raw("\x1b(B");
            }
            if follows && line.text.is_empty() {
                // Only a character makes the previous row wrap.
                self.writer.reset();
                self.raw(" ");
            }
            self.writer.line(line);
            if line.wrapped && self.has_lost_wide(grid, row as i32) {
                self.writer.reset();
                self.raw(" ");
            }
            follows = line.wrapped && row + 1 < lines.len();
        }
        self.cursor(&grid.saved_cursor, grid, 0);
        self.raw("\x1b7");
    }

    /// Returns true if the row's last column was left free for a wide character that is gone. A narrow character that an
    /// emoji selector has widened since does not count: printed again, it would fit into the last column.
    fn has_lost_wide(&self, grid: &Grid<Cell>, row: i32) -> bool {
        let last = Column(self.model.cols() - 1);
        let free = grid[GridLine(row)][last].flags.contains(Flags::LEADING_WIDE_CHAR_SPACER);
        let next = row + 1 < self.model.rows();
        free && !(next && grid[GridLine(row + 1)][Column(0)].c.width() == Some(2))
    }

    /// Writes position, rendition, hyperlink and character sets of a cursor. `top`: the row that counts as the first
    /// one.
    fn cursor(&mut self, cursor: &Cursor<Cell>, grid: &Grid<Cell>, top: i32) {
        let (row, col) = (cursor.point.line, cursor.point.column.0);
        let (line, number) = (&grid[row], row.0 - top + 1);
        let wide = line[Column(col)].flags.contains(Flags::WIDE_CHAR_SPACER);
        let first = col - usize::from(wide);
        // Rewriting a column must not undo a wrap: the flag of this row, or the free column in the row before.
        let last = Column(self.model.cols() - 1);
        let free = |row: GridLine| grid[row][last].flags.contains(Flags::LEADING_WIDE_CHAR_SPACER);
        let undoes_wrap =
            line[Column(col)].flags.contains(Flags::WRAPLINE) || first == 0 && row > 0 && free(row - 1);
        let rewrites_cell = cursor.input_needs_wrap && !undoes_wrap;
        if rewrites_cell {
            // Rewriting the last column leaves the cursor behind it.
            let cell = &line[Column(first)];
            let mut links = Vec::new();
            self.writer.raw(format_args!("\x1b(B\x1b[{number};{}H", first + 1));
            let rendition = cells::convert_rendition(cell, &mut links);
            self.writer.rendition(rendition, &links);
            let mut text = String::new();
            cells::push_cell(&mut text, cell);
            self.raw(&text);
        } else {
            self.writer.raw(format_args!("\x1b[{number};{}H", col + 1));
        }
        let mut links = Vec::new();
        let rendition = cells::convert_rendition(&cursor.template, &mut links);
        self.writer.rendition(rendition, &links);
        let sets = [CharsetIndex::G0, CharsetIndex::G1, CharsetIndex::G2, CharsetIndex::G3];
        for (index, mark) in sets.into_iter().zip(['(', ')', '*', '+']) {
            let set = match cursor.charsets[index] {
                StandardCharset::Ascii => 'B',
                StandardCharset::SpecialCharacterAndLineDrawing => '0',
            };
            self.writer.raw(format_args!("\x1b{mark}{set}"));
        }
    }

    fn keyboard(&mut self, keyboard: &Keyboard) {
        for (i, flags) in keyboard.history().enumerate() {
            match i {
                0 if flags == 0 => {}
                0 => self.writer.raw(format_args!("\x1b[={flags};1u")),
                _ => self.writer.raw(format_args!("\x1b[>{flags}u")),
            }
        }
    }

    /// Writes the settings that come before the final cursor position, because some of them move the cursor.
    fn settings(&mut self) {
        let model = self.model;
        if model.tabs != default_tabs(0, model.cols()) {
            self.raw("\x1b[3g");
            for col in (0..model.cols()).filter(|col| model.tabs[*col]) {
                self.writer.raw(format_args!("\x1b[1;{}H\x1bH", col + 1));
            }
        }
        for title in &model.titles.stack {
            self.writer.raw(format_args!("\x1b]2;{title}\x1b\\\x1b[22t"));
        }
        if !model.titles.current.is_empty() || !model.titles.stack.is_empty() {
            self.writer.raw(format_args!("\x1b]2;{}\x1b\\", model.titles.current));
        }
        for (index, color) in model.palette.changed() {
            let selector = match index {
                0..FOREGROUND => format!("4;{index}"),
                _ => (index - FOREGROUND + 10).to_string(),
            };
            let (r, g, b) = (color.0, color.1, color.2);
            self.writer.raw(format_args!("\x1b]{selector};rgb:{r:02x}/{g:02x}/{b:02x}\x1b\\"));
        }
        if model.cursor_style != 0 {
            self.writer.raw(format_args!("\x1b[{} q", model.cursor_style));
        }
        if model.region != (0..model.rows()) {
            self.writer.raw(format_args!("\x1b[{};{}r", model.region.start + 1, model.region.end));
        }
        if model.modes.origin {
            self.raw("\x1b[?6h");
        }
    }

    /// Writes the settings that would affect how the cursor's cell is written.
    fn late_settings(&mut self) {
        let model = self.model;
        self.raw(match model.charset {
            CharsetIndex::G0 => "",
            CharsetIndex::G1 => "\x0e",
            CharsetIndex::G2 => "\x1bn",
            CharsetIndex::G3 => "\x1bo",
        });
        for (mode, on) in model.modes.changed() {
            self.writer.raw(format_args!("\x1b[?{mode}{}", if on { 'h' } else { 'l' }));
        }
        for (mode, on) in [(4, model.modes.insert), (20, model.modes.newline)] {
            if on {
                self.writer.raw(format_args!("\x1b[{mode}h"));
            }
        }
        if model.frames.is_open() {
            self.raw("\x1b[?2026h");
        }
    }
}
