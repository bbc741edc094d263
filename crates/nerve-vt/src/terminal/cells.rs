//! Conversion of the engine's cells into lines of text and renditions.

use alacritty_terminal::grid::Row;
use alacritty_terminal::index::Column;
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::vte::ansi::{Color as CellColor, NamedColor};

use super::line::{EMOJI_STYLE, Line, Rendition, Span, TONES, ZWJ};
use super::sgr::BLINK;
use crate::screen::{Color, Link, Style, Underline};

/// Flags that change the rendition of a cell.
const RENDITION_FLAGS: Flags = Flags::INVERSE
    .union(Flags::BOLD_ITALIC)
    .union(Flags::ALL_UNDERLINES)
    .union(Flags::DIM)
    .union(Flags::HIDDEN)
    .union(Flags::STRIKEOUT)
    .union(BLINK);
/// Flags that are visible on a blank.
const VISIBLE_ON_BLANKS: Flags = Flags::INVERSE.union(Flags::ALL_UNDERLINES).union(Flags::STRIKEOUT);
/// Colours of cells that were never coloured.
const NO_FG: CellColor = CellColor::Named(NamedColor::Foreground);
/// See [`NO_FG`].
pub(super) const NO_BG: CellColor = CellColor::Named(NamedColor::Background);

/// Reads a row of cells into `line`. The columns from `bound` on are blank.
pub(super) fn read(row: &Row<Cell>, bound: usize, line: &mut Line) {
    read_as(row, bound, line, false);
}

/// Reads a whole row for a dump: see [`push_cell`].
pub(super) fn read_for_dump(row: &Row<Cell>, line: &mut Line) {
    read_as(row, row.len(), line, true);
}

fn read_as(row: &Row<Cell>, bound: usize, line: &mut Line, dump: bool) {
    line.clear();
    let cells = &row[Column(0)..Column(row.len())];
    let Some(last) = cells.last() else { return };
    line.wrapped = last.flags.contains(Flags::WRAPLINE);
    let end = if line.wrapped {
        cells.len() - usize::from(last.flags.contains(Flags::LEADING_WIDE_CHAR_SPACER))
    } else {
        let bound = bound.min(cells.len());
        // In a dump, an invisible blank before text keeps its rendition too.
        let is_read = |cell: &Cell| {
            shows(cell)
                || dump
                    && (cell.flags.intersects(RENDITION_FLAGS) || cell.fg != NO_FG || cell.extra.is_some())
        };
        cells[..bound].iter().rposition(is_read).map_or(0, |col| col + 1)
    };
    Reader { line, model: None, start_cols: 0, start_bytes: 0, cols: 0, dump }.read(cells, end);
}

/// Returns true if a cell shows anything.
pub(super) fn shows(cell: &Cell) -> bool {
    cell.c != ' '
        || cell.bg != NO_BG
        || cell.flags.intersects(VISIBLE_ON_BLANKS)
        || cell.zerowidth().is_some_and(|marks| !marks.is_empty())
}

struct Reader<'a> {
    line: &'a mut Line,
    /// The first cell of the span being read.
    model: Option<&'a Cell>,
    start_cols: usize,
    start_bytes: usize,
    cols: usize,
    dump: bool,
}

impl<'a> Reader<'a> {
    fn read(mut self, cells: &'a [Cell], end: usize) {
        self.line.text.reserve(end);
        let mut col = 0;
        if cells.first().is_some_and(|cell| {
            !cell.flags.intersects(RENDITION_FLAGS) && cell.bg == NO_BG && cell.fg == NO_FG
        }) {
            // Plain rows, as in logs, need no spans.
            let plain = plain_run(&cells[..end]);
            self.take_plain(&cells[..plain]);
            if plain == end {
                return;
            }
            self.model = cells.first().filter(|_| plain > 0);
            (col, self.cols) = (plain, plain);
        }
        while let Some(cell) = cells[..end].get(col) {
            if self.model.is_none_or(|model| !has_same_rendition(model, cell)) {
                self.close();
                self.model = Some(cell);
            }
            let plain = plain_run(&cells[col..end]);
            match plain {
                0 => self.take(cells, col, cell),
                _ => self.take_plain(&cells[col..col + plain]),
            }
            col += plain.max(1);
            self.cols = col;
        }
        self.close();
        if self.line.spans.iter().all(|span| span.rendition == Rendition::default()) {
            self.line.spans.clear();
        }
    }

    /// Copies many ASCII cells at once, because most cells are ASCII.
    fn take_plain(&mut self, cells: &[Cell]) {
        let mut bytes = [0; 64];
        for cells in cells.chunks(bytes.len()) {
            for (byte, cell) in bytes.iter_mut().zip(cells) {
                *byte = cell.c as u8;
            }
            self.line.text.push_str(str::from_utf8(&bytes[..cells.len()]).unwrap_or_default());
        }
    }

    fn take(&mut self, cells: &[Cell], col: usize, cell: &Cell) {
        let has_flag = |at: usize, flag| cells.get(at).is_some_and(|cell| cell.flags.contains(flag));
        if cell.flags.intersects(Flags::WIDE_CHAR | Flags::WIDE_CHAR_SPACER) {
            let is_whole = if cell.flags.contains(Flags::WIDE_CHAR) {
                has_flag(col + 1, Flags::WIDE_CHAR_SPACER)
            } else {
                col > 0 && has_flag(col - 1, Flags::WIDE_CHAR)
            };
            if !is_whole {
                self.line.text.push(' ');
                return;
            }
            if cell.flags.contains(Flags::WIDE_CHAR_SPACER) {
                return;
            }
        }
        if self.dump {
            push_cell(&mut self.line.text, cell);
            return;
        }
        self.line.text.push(cell.c);
        if let Some(marks) = cell.zerowidth() {
            self.line.text.extend(marks);
        }
    }

    fn close(&mut self) {
        let (cols, bytes) = (self.cols - self.start_cols, self.line.text.len() - self.start_bytes);
        if let Some(model) = self.model.take().filter(|_| cols > 0) {
            let rendition = convert_rendition(model, &mut self.line.links);
            self.line.spans.push(Span { cols: cols as u16, bytes: bytes as u32, rendition });
        }
        self.start_cols = self.cols;
        self.start_bytes = self.line.text.len();
    }
}

/// Appends a cell's characters. Inserts a NUL, which terminals ignore, where characters of separate cells, or a
/// character and a mark added later, would otherwise form one grapheme.
pub(super) fn push_cell(text: &mut String, cell: &Cell) {
    const SEPARATOR: char = '\0';
    if text.ends_with(ZWJ) || TONES.contains(&cell.c) {
        text.push(SEPARATOR);
    }
    text.push(cell.c);
    let marks = cell.zerowidth().unwrap_or_default();
    if !cell.flags.contains(Flags::WIDE_CHAR) && marks.contains(&EMOJI_STYLE) {
        text.push(SEPARATOR);
    }
    text.extend(marks);
}

/// Returns how many cells at the beginning are pure ASCII with the same rendition.
fn plain_run(cells: &[Cell]) -> usize {
    const COMPARED: Flags = RENDITION_FLAGS.union(Flags::WIDE_CHAR).union(Flags::WIDE_CHAR_SPACER);
    let Some(first) = cells.first() else { return 0 };
    let (fg, bg, flags) = (first.fg, first.bg, first.flags.intersection(RENDITION_FLAGS));
    let matches_first = |cell: &Cell| {
        cell.c.is_ascii()
            && cell.extra.is_none()
            && cell.flags.intersection(COMPARED) == flags
            && cell.fg == fg
            && cell.bg == bg
    };
    cells.iter().take_while(|cell| matches_first(cell)).count()
}

fn has_same_rendition(a: &Cell, b: &Cell) -> bool {
    // A wide character and its spacer form one unit: a spacer never starts a span.
    b.flags.contains(Flags::WIDE_CHAR_SPACER)
        || a.fg == b.fg
            && a.bg == b.bg
            && (a.flags ^ b.flags).intersection(RENDITION_FLAGS).is_empty()
            && ((a.extra.is_none() && b.extra.is_none())
                || a.underline_color() == b.underline_color() && a.hyperlink() == b.hyperlink())
}

/// Returns the rendition of a cell. Adds its hyperlink to `links` unless it is the last one there.
pub(super) fn convert_rendition(cell: &Cell, links: &mut Vec<Link>) -> Rendition {
    let flags = cell.flags;
    let underline = convert_underline(flags);
    let style = Style {
        fg: convert_color(cell.fg),
        bg: convert_color(cell.bg),
        bold: flags.contains(Flags::BOLD),
        dim: flags.contains(Flags::DIM),
        italic: flags.contains(Flags::ITALIC),
        underline: underline != Underline::None,
        blink: flags.contains(BLINK),
        inverse: flags.contains(Flags::INVERSE),
        hidden: flags.contains(Flags::HIDDEN),
        strikeout: flags.contains(Flags::STRIKEOUT),
    };
    let underline_color = cell.underline_color().map_or(Color::Default, convert_color);
    let link = cell.hyperlink().map_or(0, |link| {
        let link = Link { id: link.id().to_string(), uri: link.uri().to_string() };
        if links.last() != Some(&link) {
            links.push(link);
        }
        u16::try_from(links.len()).unwrap_or(0)
    });
    Rendition { style, underline, underline_color, link }
}

fn convert_underline(flags: Flags) -> Underline {
    match flags.intersection(Flags::ALL_UNDERLINES) {
        Flags::UNDERLINE => Underline::Single,
        Flags::DOUBLE_UNDERLINE => Underline::Double,
        Flags::UNDERCURL => Underline::Curl,
        Flags::DOTTED_UNDERLINE => Underline::Dotted,
        Flags::DASHED_UNDERLINE => Underline::Dashed,
        _ => Underline::None,
    }
}

fn convert_color(color: CellColor) -> Color {
    match color {
        CellColor::Indexed(n) => Color::Indexed(n),
        CellColor::Spec(rgb) => Color::Rgb(rgb.r, rgb.g, rgb.b),
        CellColor::Named(name) => u8::try_from(name as usize).map_or(Color::Default, Color::Indexed),
    }
}
