//! Exports a recording as an animated SVG image (SVG 2, CSS animations), which needs no script and no other file.
//!
//! The frames lie next to each other in a strip, which the animation moves by one frame at a time. Rows that several
//! frames show are drawn once.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::io::{self, Read, Seek, Write};
use std::time::Duration;

use nerve_types::{Size, TsNs};
use nerve_vt::screen::{Row, Style};
use nerve_vt::terminal::{Cell, Rgb, TerminalState};

use super::ExportError;
use super::markup::escape_markup;
use crate::ahr::{DamagedRange, Part, Reader};
use crate::replay::TerminalReplay;

/// Size of a cell and of the margin around the screen, in pixels.
const CELL_WIDTH: f32 = 8.4;
const ROW_HEIGHT: f32 = 18.0;
const BASELINE: f32 = 13.5;
const MARGIN: f32 = 12.0;
/// Shortest time that a frame is shown, in milliseconds.
const MIN_FRAME_MS: u64 = 66;
/// Time for which the last frame is shown, in milliseconds.
const LAST_FRAME_MS: u64 = 3_000;
/// Maximum number of frames and maximum size of the drawings in bytes. Longer recordings get fewer frames per second.
const MAX_FRAMES: usize = 2_000;
const MAX_DRAWN_BYTES: usize = 64 << 20;

const STYLE: &str = "\
text{white-space:pre;font:14px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace}
.b{font-weight:bold}.i{font-style:italic}.d{fill-opacity:.6}.u{text-decoration:underline}.s{text-decoration:line-through}";

/// Options of an image.
#[derive(Debug, Clone, Default)]
pub struct SvgOptions {
    /// Size until the first resize record.
    pub size: Size,
    /// Title of the image.
    pub title: Option<String>,
    /// Longest pause that is shown; longer ones are shortened.
    pub idle_limit: Option<Duration>,
}

/// Exports the rest of `reader`. Memory grows with the number of different rows in at most 2,000 frames.
///
/// # Errors
/// The recording cannot be read or the image cannot be written.
pub fn svg<R: Read + Seek>(
    reader: &mut Reader<R>,
    options: &SvgOptions,
    mut out: impl Write,
    mut on_lost: impl FnMut(&DamagedRange),
) -> Result<(), ExportError> {
    let mut replay = TerminalReplay::new(options.size);
    let mut animation = Animation::new(options.idle_limit);
    while let Some(part) = reader.next()? {
        match part {
            Part::Block(block) => {
                replay.begin_block(&block);
                for record in block.records() {
                    animation.advance(record.at, &replay.terminal);
                    replay.apply(&record);
                    replay.check_work()?;
                }
                block.damage().into_iter().for_each(&mut on_lost);
            }
            Part::Lost(lost) => on_lost(&lost),
        }
    }
    replay.finish();
    animation.finish(&replay.terminal);
    animation.write(options.title.as_deref(), &mut out)?;
    Ok(())
}

/// A rendered screen, shown from `at` milliseconds on.
#[derive(Debug, PartialEq)]
struct Frame {
    at: u64,
    /// Rows that are not empty: their position on the screen, and the id of their drawing.
    rows: Vec<(u16, usize)>,
    /// Column and row of a visible cursor.
    cursor: Option<(u16, u16)>,
}

/// The frames of a recording.
#[derive(Debug)]
struct Animation {
    idle_limit: Option<Duration>,
    /// Time of the last record, and its time in the animation.
    clock: Option<(TsNs, Duration)>,
    /// Time of the first change that no frame shows yet.
    changed: Option<u64>,
    interval: u64,
    frames: Vec<Frame>,
    /// Drawings of rows, and their ids.
    drawings: HashMap<String, usize>,
    next_id: usize,
    /// Size of the drawings in bytes.
    drawn_bytes: usize,
    /// The largest screen.
    cols: u16,
    rows: u16,
}

impl Animation {
    fn new(idle_limit: Option<Duration>) -> Animation {
        Animation {
            idle_limit,
            clock: None,
            changed: None,
            interval: MIN_FRAME_MS,
            frames: Vec::new(),
            drawings: HashMap::new(),
            next_id: 0,
            drawn_bytes: 0,
            cols: 1,
            rows: 1,
        }
    }

    /// Moves to the time of the next record. The terminal is in the state before it.
    fn advance(&mut self, at: TsNs, terminal: &TerminalState) {
        let (last, time) = self.clock.unwrap_or((at, Duration::ZERO));
        let pause = Duration::from_nanos(at.0.saturating_sub(last.0));
        let shown_pause = self.idle_limit.map_or(pause, |limit| pause.min(limit));
        let time = time.saturating_add(shown_pause);
        self.clock = Some((last.max(at), time));
        let now = nerve_types::millis(time);
        if self.changed.is_some_and(|since| now >= since + self.interval) {
            self.add_frame(terminal);
        }
        self.changed.get_or_insert(now);
    }

    fn finish(&mut self, terminal: &TerminalState) {
        self.changed.get_or_insert(0);
        self.add_frame(terminal);
    }

    fn add_frame(&mut self, terminal: &TerminalState) {
        let Some(at) = self.changed.take() else { return };
        let screen = terminal.screen();
        self.cols = self.cols.max(screen.size.cols);
        self.rows = self.rows.max(screen.size.rows);
        let mut rows = Vec::new();
        for (number, row) in (0..).zip(&screen.rows) {
            let drawing = draw_row(row, terminal);
            if !drawing.is_empty() {
                let bytes = drawing.len();
                let id = *self.drawings.entry(drawing).or_insert(self.next_id);
                if id == self.next_id {
                    self.next_id += 1;
                    self.drawn_bytes += bytes;
                }
                rows.push((number, id));
            }
        }
        let cursor = screen.cursor.visible.then_some((screen.cursor.col, screen.cursor.row));
        if self.frames.last().is_some_and(|last| last.rows == rows && last.cursor == cursor) {
            return;
        }
        self.frames.push(Frame { at, rows, cursor });
        let is_large = self.drawn_bytes > MAX_DRAWN_BYTES && self.frames.len() > 2;
        if self.frames.len() > MAX_FRAMES || is_large {
            self.halve_rate();
        }
    }

    /// Removes every second frame except the last one, and the drawings that no frame shows any more.
    fn halve_rate(&mut self) {
        self.interval *= 2;
        let last = self.frames.len() - 1;
        let mut number = 0;
        self.frames.retain(|_| {
            number += 1;
            number % 2 == 1 || number > last
        });
        let used_ids: HashSet<usize> =
            self.frames.iter().flat_map(|frame| frame.rows.iter().map(|(_, id)| *id)).collect();
        self.drawings.retain(|_, id| used_ids.contains(id));
        self.drawn_bytes = self.drawings.keys().map(String::len).sum();
    }

    fn write(&self, title: Option<&str>, out: &mut impl Write) -> io::Result<()> {
        let (width, height) = (f32::from(self.cols) * CELL_WIDTH, f32::from(self.rows) * ROW_HEIGHT);
        let (outer_width, outer_height) = (width + 2.0 * MARGIN, height + 2.0 * MARGIN);
        writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" xml:space=\"preserve\" width=\"{outer_width:.0}\" height=\"{outer_height:.0}\" \
             viewBox=\"0 0 {outer_width:.1} {outer_height:.1}\">"
        )?;
        if let Some(title) = title {
            writeln!(out, "<title>{}</title>", escape_markup(title))?;
        }
        writeln!(out, "<style>\n{STYLE}\n{}</style>", self.css_rules(outer_width))?;
        let background = hex(TerminalState::new(Size::default()).cell_colors(Style::default()).background);
        writeln!(out, "<rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"{background}\"/>\n<defs>")?;
        let mut drawings: Vec<(&String, usize)> =
            self.drawings.iter().map(|(drawing, id)| (drawing, *id)).collect();
        drawings.sort_unstable_by_key(|(_, id)| *id);
        for (drawing, id) in drawings {
            writeln!(out, "<g id=\"r{id}\">{drawing}</g>")?;
        }
        writeln!(
            out,
            "</defs>\n<svg x=\"{MARGIN}\" y=\"{MARGIN}\" width=\"{width:.1}\" height=\"{height:.1}\">\n<g id=\"frames\">"
        )?;
        for (number, frame) in self.frames.iter().enumerate() {
            write_frame(frame, number as f32 * outer_width, out)?;
        }
        writeln!(out, "</g>\n</svg>\n</svg>")?;
        out.flush()
    }

    /// Returns the CSS rules that move the strip. Viewers without animations see the last frame.
    fn css_rules(&self, frame_width: f32) -> String {
        let last = self.frames.len().saturating_sub(1);
        let shift =
            |number: usize| format!("{{transform:translateX(-{:.1}px)}}", number as f32 * frame_width);
        let end = self.frames.last().map_or(0, |frame| frame.at) + LAST_FRAME_MS;
        let mut rules = format!("#frames{}\n", shift(last));
        if last == 0 {
            return rules;
        }
        rules.push_str("@media not (prefers-reduced-motion: reduce){#frames{animation:frames ");
        let _ = writeln!(rules, "{:.3}s step-end infinite}}}}", end as f64 / 1000.0);
        rules.push_str("@keyframes frames{");
        for (number, frame) in self.frames.iter().enumerate() {
            let percent = if number == 0 { 0.0 } else { frame.at as f64 * 100.0 / end as f64 };
            let _ = writeln!(rules, "{percent:.4}%{}", shift(number));
        }
        rules.push_str("}\n");
        rules
    }
}

fn write_frame(frame: &Frame, left: f32, out: &mut impl Write) -> io::Result<()> {
    write!(out, "<g transform=\"translate({left:.1})\">")?;
    if let Some((col, row)) = frame.cursor {
        let (x, y) = (f32::from(col) * CELL_WIDTH, f32::from(row) * ROW_HEIGHT);
        write!(
            out,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{CELL_WIDTH}\" height=\"{ROW_HEIGHT}\" fill=\"#dddddd\" \
             fill-opacity=\".5\"/>"
        )?;
    }
    for (row, id) in &frame.rows {
        write!(out, "<use href=\"#r{id}\" y=\"{:.1}\"/>", f32::from(*row) * ROW_HEIGHT)?;
    }
    writeln!(out, "</g>")
}

/// Consecutive cells of one style.
struct Piece {
    col: u16,
    cols: u16,
    style: Style,
    text: String,
}

/// Draws a row at the origin; an empty string for a row that shows nothing.
fn draw_row(row: &Row, terminal: &TerminalState) -> String {
    let mut drawn = String::new();
    for piece in pieces(row.cells()) {
        draw_piece(&piece, terminal, &mut drawn);
    }
    drawn
}

fn pieces<'a>(cells: impl Iterator<Item = Cell<'a>>) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for cell in cells {
        match pieces.last_mut() {
            Some(last) if last.style == cell.style => {
                last.cols += cell.width;
                last.text.push_str(cell.text);
            }
            _ => pieces.push(Piece {
                col: cell.col,
                cols: cell.width,
                style: cell.style,
                text: cell.text.into(),
            }),
        }
    }
    pieces
}

fn draw_piece(piece: &Piece, terminal: &TerminalState, drawn: &mut String) {
    let Piece { col, cols, style, text } = piece;
    let (x, width) = (f32::from(*col) * CELL_WIDTH, f32::from(*cols) * CELL_WIDTH);
    let colors = terminal.cell_colors(*style);
    if colors.background != terminal.cell_colors(Style::default()).background {
        let fill = hex(colors.background);
        let _ = write!(
            drawn,
            "<rect x=\"{x:.1}\" width=\"{width:.1}\" height=\"{ROW_HEIGHT}\" fill=\"{fill}\"/>"
        );
    }
    let has_lines = style.underline || style.strikeout;
    if style.hidden || (text.trim().is_empty() && !has_lines) {
        return;
    }
    let classes = [
        (style.bold, 'b'),
        (style.italic, 'i'),
        (style.dim, 'd'),
        (style.underline, 'u'),
        (style.strikeout, 's'),
    ];
    let classes: Vec<String> =
        classes.iter().filter(|(is_set, _)| *is_set).map(|(_, name)| name.to_string()).collect();
    let class = if classes.is_empty() { String::new() } else { format!(" class=\"{}\"", classes.join(" ")) };
    // The length keeps columns aligned whatever font the reader has.
    let _ = write!(
        drawn,
        "<text x=\"{x:.1}\" y=\"{BASELINE}\" textLength=\"{width:.1}\" fill=\"{}\"{class}>{}</text>",
        hex(colors.foreground),
        escape_markup(text)
    );
}

fn hex(Rgb(red, green, blue): Rgb) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}
