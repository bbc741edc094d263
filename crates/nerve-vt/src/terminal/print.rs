//! Writes characters: runs of ASCII directly into the cells, other characters through the engine, and each grapheme
//! into one cell.

use alacritty_terminal::index::{Column, Line as GridLine};
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::vte::Perform;
use alacritty_terminal::vte::ansi::{Handler, StandardCharset};
use unicode_width::UnicodeWidthChar;

use super::alert::Alert;
use super::line::{EMOJI_STYLE, LineIndex, TONES, ZWJ, columns};
use super::model::Model;

/// Maximum marks (combining characters, joiners, joined emoji) of a cell; more are dropped.
const MAX_MARKS: usize = 16;

impl Model {
    /// Prints text and executes its controls, up to the first ESC. Returns the number of bytes processed.
    pub(super) fn print_text(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while let Some(first) = bytes.get(at) {
            at += match first {
                b' '..=b'~' => self.print_ascii(&bytes[at..]),
                0x1b => break,
                0..=0x1f => {
                    self.execute(*first);
                    1
                }
                // DEL is ignored as in xterm.
                0x7f => 1,
                0x80.. => self.print_non_ascii(&bytes[at..]),
            };
        }
        at
    }

    /// Prints the printable ASCII characters at the beginning of `bytes` and returns their number.
    fn print_ascii(&mut self, bytes: &[u8]) -> usize {
        let len = printable_len(bytes);
        let mut rest = &bytes[..len];
        let mapped = self.grid().cursor.charsets[self.charset] != StandardCharset::Ascii;
        self.printing.last_char = rest.last().map(|byte| char::from(*byte));
        while let Some((first, remainder)) = rest.split_first() {
            let cells = self.cells_ahead();
            let cells = &cells[..cells.len().min(rest.len())];
            let room = match self.printing.wide_seen {
                true => cells.iter().position(is_wide).unwrap_or(cells.len()),
                false => cells.len(),
            };
            if mapped || room == 0 {
                self.input(char::from(*first));
                rest = remainder;
            } else {
                self.write(room, rest[..room].iter().map(|byte| char::from(*byte)));
                rest = &rest[room..];
            }
        }
        len
    }

    /// Prints the characters up to the next ASCII byte, U+FFFD for invalid UTF-8, and returns their length in bytes.
    fn print_non_ascii(&mut self, bytes: &[u8]) -> usize {
        let len = bytes.iter().position(u8::is_ascii).unwrap_or(bytes.len());
        for chunk in bytes[..len].utf8_chunks() {
            let mut text = chunk.valid();
            while let Some(c) = text.chars().next() {
                let narrow = self.print_narrow(text);
                if narrow == 0 && !c.is_control() {
                    self.print_char(c);
                }
                text = &text[narrow.max(c.len_utf8())..];
            }
            match chunk.invalid() {
                // 8-bit C1 controls are not used with UTF-8.
                [] | [0x80..=0x9f] => {}
                _ => self.print_char(char::REPLACEMENT_CHARACTER),
            }
        }
        len
    }

    /// Prints the narrow characters at the beginning of `text` that can be written directly into the rest of
    /// the row, up to a wide character in it. Returns their length in bytes.
    fn print_narrow(&mut self, text: &str) -> usize {
        // After a joiner, the first character may belong to the grapheme before it.
        if self.printing.after_joiner {
            return 0;
        }
        let (mut last, mut count, mut len) = (None, 0, 0);
        // Reads nothing beyond the run, so that the work is proportional to the text.
        for (c, cell) in text.chars().zip(self.cells_ahead()) {
            // Lines of boxes repeat one character, so its width need not be looked up again.
            let is_narrow = last == Some(c) || c.width() == Some(1);
            if !is_narrow || self.printing.wide_seen && is_wide(cell) {
                break;
            }
            (last, count, len) = (Some(c), count + 1, len + c.len_utf8());
        }
        if count > 0 {
            self.write(count, text[..len].chars());
            self.printing.last_char = last;
        }
        len
    }

    /// Repeats the last character (REP), at most one screenful. Repeats it less often if characters have to be written
    /// singly, so that the work is proportional to the screen.
    pub(super) fn repeat(&mut self, count: u16) {
        let Some(c) = self.printing.last_char else { return };
        let mapped = self.grid().cursor.charsets[self.charset].map(c);
        let is_narrow = mapped.width() == Some(1);
        let max_count = match (is_narrow, self.modes.insert) {
            (true, false) => self.size.cells(),
            (true, true) | (false, false) => self.cols(),
            (false, true) => usize::from(self.size.rows),
        };
        let mut remaining = usize::from(count).min(max_count);
        while remaining > 0 {
            if is_narrow && !self.grid().cursor.input_needs_wrap {
                remaining -= self.fill(mapped, remaining);
                continue;
            }
            self.printing.can_join = false;
            self.print_char(c);
            // Without autowrap, all further characters replace the one in the last column.
            let stays = self.grid().cursor.input_needs_wrap && !self.modes.autowrap;
            remaining = if stays { 0 } else { remaining - 1 };
        }
    }

    /// Writes up to `count` copies of a narrow character into the rest of the row. Returns how many.
    fn fill(&mut self, c: char, count: usize) -> usize {
        let (row, col) = self.cursor();
        let room = count.min(self.cols() - col);
        if self.modes.insert {
            self.insert_blanks(room);
        }
        self.split_wide(row, col);
        self.split_wide(row, col + room);
        self.write(room, std::iter::repeat_n(c, room));
        room
    }

    /// Returns the cells from the cursor to the end of the row; none if characters cannot be written
    /// directly.
    fn cells_ahead(&self) -> &[Cell] {
        if self.modes.insert || self.grid().cursor.input_needs_wrap {
            return &[];
        }
        let (row, col) = self.cursor();
        &self.grid()[GridLine(row)][Column(col)..Column(self.cols())]
    }

    /// Writes narrow characters into the cells at the cursor; the caller ensures that they fit.
    fn write(&mut self, count: usize, chars: impl Iterator<Item = char> + Clone) {
        self.report_redraw();
        self.record_text(count, chars.clone());
        let cols = self.cols();
        let (row, col) = self.cursor();
        let grid = self.term.grid_mut();
        let template = grid.cursor.template.clone();
        let cells = &mut grid[GridLine(row)][Column(col)..Column(col + count)];
        for (cell, c) in cells.iter_mut().zip(chars) {
            cell.c = c;
            cell.fg = template.fg;
            cell.bg = template.bg;
            cell.flags = template.flags;
            if cell.extra.is_some() || template.extra.is_some() {
                cell.extra = template.extra.clone();
            }
        }
        let end = col + count;
        self.stream.work = self.stream.work.saturating_add(count as u64);
        let grid = self.term.grid_mut();
        grid.cursor.point.column = Column(end.min(cols - 1));
        grid.cursor.input_needs_wrap = end == cols;
        self.touch(row, end);
        self.printing.can_join = true;
        self.printing.after_joiner = false;
    }

    /// Writes a character of any kind.
    pub(super) fn print_char(&mut self, c: char) {
        self.input(c);
        self.printing.last_char = Some(c);
    }

    fn input(&mut self, c: char) {
        let Some(width) = c.width() else { return };
        if width == 0 {
            return self.combine(c);
        }
        // ASCII never joins: most of it is written without this check. Digits are emoji too (keycaps).
        let is_joined = self.printing.after_joiner && !c.is_ascii() || TONES.contains(&c);
        if self.printing.can_join && is_joined && self.join(c) {
            return;
        }
        if self.modes.autowrap && self.grid().cursor.input_needs_wrap {
            self.wrap();
        }
        if width > 1 {
            self.printing.wide_seen = true;
            self.make_room();
        }
        self.report_redraw();
        self.record_text(width, std::iter::once(c));
        let (row, col) = self.cursor();
        self.charge(if self.modes.insert { self.cols() } else { width });
        if self.modes.insert {
            self.split_wide(row, col);
            self.split_wide(row, self.cols().saturating_sub(width));
            self.touch(row, self.cols());
        }
        self.term.input(c);
        let (row, col) = self.cursor();
        self.touch(row, col + 1);
        self.printing.can_join = true;
        self.printing.after_joiner = false;
    }

    /// Records characters that are about to be written at the cursor, in `count` columns.
    #[inline]
    fn record_text(&mut self, count: usize, chars: impl Iterator<Item = char> + Clone) {
        if self.is_alternate() {
            return;
        }
        let ((row, col), cols) = (self.cursor(), self.cols());
        let line = self.store.end() + row as u64;
        self.printing.overprint.add_text(line, col..col + count);
        if self.extents.get(row) > col && !self.modes.insert {
            let cells = &self.term.grid()[GridLine(row)][Column(0)..Column(cols)];
            self.printing.overprint.compare_text(cells, col, chars);
        }
    }

    /// Reports text that is about to be written above a line where the cursor was.
    #[inline]
    fn report_redraw(&mut self) {
        if self.printing.raised_from.is_none() || self.is_alternate() {
            return;
        }
        let line = self.store.end() + self.cursor().0 as u64;
        if self.printing.raised_from.take() > Some(line) {
            self.stream.changes.push_alert(Alert::Redraw { line: LineIndex(line) });
        }
    }

    /// Wraps if a wide character does not fit into the last column.
    fn make_room(&mut self) {
        let (row, col) = self.cursor();
        if !self.modes.autowrap || col + 1 < self.cols() {
            return;
        }
        self.split_wide(row, col);
        let grid = self.term.grid_mut();
        let mut cell = Cell { c: ' ', ..grid.cursor.template.clone() };
        cell.flags.insert(Flags::LEADING_WIDE_CHAR_SPACER);
        *grid.cursor_cell() = cell;
        self.wrap();
    }

    /// Returns the cell with which the next character would combine.
    fn previous(&self) -> (GridLine, Column) {
        let cursor = &self.grid().cursor;
        let (line, mut col) = (cursor.point.line, cursor.point.column.0);
        if !cursor.input_needs_wrap {
            col = col.saturating_sub(1);
        }
        if self.grid()[line][Column(col)].flags.contains(Flags::WIDE_CHAR_SPACER) {
            col = col.saturating_sub(1);
        }
        (line, Column(col))
    }

    /// Adds a zero-width character to the previous cell.
    fn combine(&mut self, c: char) {
        let (line, col) = self.previous();
        let cell = &mut self.term.grid_mut()[line][col];
        if cell.zerowidth().map_or(0, <[char]>::len) >= MAX_MARKS {
            return;
        }
        let widens = c == EMOJI_STYLE
            && !cell.flags.contains(Flags::WIDE_CHAR)
            && columns(&format!("{}{c}", cluster(cell))) == 2;
        if widens && !self.widen(line, col) {
            // Drop the selector: with it, the cell's text would claim two columns.
            return;
        }
        self.term.grid_mut()[line][col].push_zerowidth(c);
        self.printing.after_joiner = c == ZWJ;
        self.touch(line.0, col.0 + 2);
    }

    /// Makes the cell before the cursor two columns wide. Returns false without room, or if that cell was not printed
    /// last.
    fn widen(&mut self, line: GridLine, col: Column) -> bool {
        let cursor = &self.grid().cursor;
        let is_next = cursor.point.line == line && cursor.point.column == col + 1;
        if !self.printing.can_join || cursor.input_needs_wrap || !is_next {
            return false;
        }
        self.printing.wide_seen = true;
        self.input(' ');
        let row = &mut self.term.grid_mut()[line];
        let first = row[col].clone();
        row[col].flags.insert(Flags::WIDE_CHAR);
        let second = &mut row[col + 1];
        *second = Cell { c: ' ', extra: second.extra.take(), ..first };
        second.flags.insert(Flags::WIDE_CHAR_SPACER);
        true
    }

    /// Adds an emoji to the previous cell if they form one grapheme: after a joiner, or a skin tone after a suitable
    /// emoji.
    fn join(&mut self, c: char) -> bool {
        let (line, col) = self.previous();
        let cursor = &self.grid().cursor;
        let printed = cursor.input_needs_wrap || cursor.point.column.0 > 0;
        let cell = &self.grid()[line][col];
        let marks = cell.zerowidth().unwrap_or_default();
        if !printed || marks.len() >= MAX_MARKS || !cell.flags.contains(Flags::WIDE_CHAR) {
            return false;
        }
        let mut text = cluster(cell);
        text.push(c);
        // Some characters count as emoji only with the presentation selector that follows.
        if columns(&text) != 2 && columns(&format!("{text}{EMOJI_STYLE}")) != 2 {
            return false;
        }
        self.term.grid_mut()[line][col].push_zerowidth(c);
        self.printing.after_joiner = false;
        true
    }
}

/// Returns how many bytes at the beginning are printable ASCII.
fn printable_len(bytes: &[u8]) -> usize {
    let is_printable = |byte: &u8| matches!(byte, b' '..=b'~');
    // Without an early exit the compiler checks all bytes of a piece at once.
    let all_printable = |piece: &&[u8; 16]| piece.iter().fold(true, |all, byte| all & is_printable(byte));
    let (pieces, _) = bytes.as_chunks::<16>();
    let len = 16 * pieces.iter().take_while(all_printable).count();
    len + bytes[len..].iter().take_while(|byte| is_printable(byte)).count()
}

/// Returns true for each half of a wide character.
fn is_wide(cell: &Cell) -> bool {
    cell.flags.intersects(Flags::WIDE_CHAR | Flags::WIDE_CHAR_SPACER)
}

fn cluster(cell: &Cell) -> String {
    std::iter::once(cell.c).chain(cell.zerowidth().unwrap_or_default().iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use nerve_types::Size;

    use super::*;
    use crate::terminal::store::Store;

    /// If it did not, every character of the run would scan the whole run again.
    #[test]
    fn narrow_run_ends_at_wide_character() {
        let mut model = Model::new(Size::new(40, 2), Store::default());
        model.place(0, 30);
        model.print_text("日".as_bytes());
        for (col, written) in [(0, 30), (29, 1), (30, 0), (31, 0), (32, 8)] {
            model.place(0, col);
            let text = "é".repeat(60);
            assert_eq!(model.print_narrow(&text), 2 * written, "column {col}");
        }
    }
}
