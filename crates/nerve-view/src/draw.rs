//! Draws the viewer into cells: the frame, the lines in it, the gutter with its snapshots, the status below.

use std::time::Duration;

use nerve_term::screen::{Color as TermColor, Style as TermStyle};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use crate::document::Document;
use crate::help;
use crate::search::Direction;
use crate::viewer::{Mode, Viewer};
use crate::viewport::Row;

/// Where a snapshot was taken.
const MARK: &str = "▶";

/// On which side snapshots are marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Gutter {
    /// Left of the lines.
    Left,
    /// Right of them.
    #[default]
    Right,
    /// Nowhere.
    None,
}

impl Gutter {
    fn cols(self) -> u16 {
        u16::from(self != Gutter::None)
    }
}

/// What the status says beside what the viewer knows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Facts {
    /// What is shown: a file's name, an id.
    pub name: String,
    /// How far the recording has been played, and how long it is; `None` for one that has no times.
    pub time: Option<(Duration, Duration)>,
    /// How fast it plays; `None` while it does not.
    pub speed: Option<f64>,
    /// Something is wrong with it, in words.
    pub fault: Option<String>,
}

/// Where things are in the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The frame; `None` where there is no room for one.
    pub frame: Option<Rect>,
    /// The lines.
    pub lines: Rect,
    /// The gutter, one column wide; empty without one.
    pub gutter: Rect,
    /// The last row.
    pub status: Rect,
}

impl Layout {
    /// A frame for `cols` × `rows` in the middle of the window; smaller where the window is, none where it would be all there is.
    pub fn framed(window: Rect, cols: u16, rows: u16, gutter: Gutter) -> Layout {
        let status = Rect { y: window.bottom().saturating_sub(1), height: window.height.min(1), ..window };
        let above = Rect { height: window.height.saturating_sub(1), ..window };
        let has_frame = above.width > 2 + gutter.cols() && above.height > 2;
        let border = if has_frame { 2 } else { 0 };
        let width = (cols.max(1) + gutter.cols() + border).min(above.width);
        let height = (rows.max(1) + border).min(above.height);
        let outer = Rect {
            x: above.x + (above.width - width) / 2,
            y: above.y + (above.height - height) / 2,
            width,
            height,
        };
        let inner = Rect {
            x: outer.x + border / 2,
            y: outer.y + border / 2,
            width: width - border,
            height: height - border,
        };
        let side = gutter.cols().min(inner.width.saturating_sub(1));
        let lines = Rect {
            x: if gutter == Gutter::Left { inner.x + side } else { inner.x },
            width: inner.width - side,
            ..inner
        };
        let x = if gutter == Gutter::Left { inner.x } else { lines.right() };
        Layout { frame: has_frame.then_some(outer), lines, gutter: Rect { x, width: side, ..inner }, status }
    }
}

/// Draws all of it.
pub fn draw(viewer: &Viewer, document: &Document<'_>, facts: &Facts, layout: &Layout, buffer: &mut Buffer) {
    if let Some(frame) = layout.frame {
        border(frame, buffer);
    }
    match viewer.mode() {
        Mode::Help(from) => help::draw(viewer.bindings(), *from, layout.lines, buffer),
        _ => lines(viewer, document, layout, buffer),
    }
    status(viewer, document, facts, layout.status, buffer);
}

fn border(frame: Rect, buffer: &mut Buffer) {
    let style = Style::new().add_modifier(Modifier::DIM);
    let (left, right, top, bottom) = (frame.left(), frame.right() - 1, frame.top(), frame.bottom() - 1);
    for x in left + 1..right {
        put(buffer, x, top, "─", style);
        put(buffer, x, bottom, "─", style);
    }
    for y in top + 1..bottom {
        put(buffer, left, y, "│", style);
        put(buffer, right, y, "│", style);
    }
    for (x, y, corner) in [(left, top, "┌"), (right, top, "┐"), (left, bottom, "└"), (right, bottom, "┘")]
    {
        put(buffer, x, y, corner, style);
    }
}

fn lines(viewer: &Viewer, document: &Document<'_>, layout: &Layout, buffer: &mut Buffer) {
    for (row, y) in viewer.viewport().rows().zip(layout.lines.top()..layout.lines.bottom()) {
        // There is no task entry yet in what can be watched only.
        let Row::Line { number, dimmed } = row else { continue };
        if document.has_snapshot(number) && layout.gutter.width > 0 {
            put(buffer, layout.gutter.x, y, MARK, Style::new().fg(Color::Cyan));
        }
        line(viewer, document, number, dimmed, Rect { y, height: 1, ..layout.lines }, buffer);
    }
}

fn line(
    viewer: &Viewer,
    document: &Document<'_>,
    number: u64,
    dimmed: bool,
    area: Rect,
    buffer: &mut Buffer,
) {
    let Some(row) = document.row(number) else { return };
    let lit = viewer.pattern().map(|pattern| pattern.columns(&row.text)).unwrap_or_default();
    let is_found = viewer.found() == Some(number);
    let (left, right) = (viewer.left(), viewer.left().saturating_add(area.width));
    for cell in row.cells() {
        let end = cell.col.saturating_add(cell.width);
        if end <= left {
            continue;
        }
        if cell.col >= right {
            break;
        }
        let mut style = style(&cell.style);
        if let Some(at) = lit.iter().position(|columns| columns.contains(&cell.col)) {
            style = if is_found && at == 0 {
                Style::new().fg(Color::Black).bg(Color::Yellow)
            } else {
                style.add_modifier(Modifier::REVERSED)
            };
        }
        if dimmed {
            style = style.add_modifier(Modifier::DIM);
        }
        let whole = cell.col >= left && end <= right;
        // Half of a wide character is a blank.
        for col in cell.col.max(left)..end.min(right) {
            put(buffer, area.x + col - left, area.y, " ", style);
        }
        if whole {
            put(buffer, area.x + cell.col - left, area.y, cell.text, style);
        }
    }
}

/// The row below: on the left what is told or typed, on the right where one is.
fn status(viewer: &Viewer, document: &Document<'_>, facts: &Facts, area: Rect, buffer: &mut Buffer) {
    if area.height == 0 {
        return;
    }
    let style = Style::new().add_modifier(Modifier::REVERSED);
    for x in area.left()..area.right() {
        put(buffer, x, area.y, " ", style);
    }
    let (words, matters) = words(viewer, facts);
    let place = place(viewer, document, facts);
    let room = usize::from(area.width);
    let right = place.chars().count();
    // What is typed or just told matters more than where one is; else one wants to know that, and the words give way.
    let gap = 2;
    let has_place = if matters { words.chars().count() + gap + right <= room } else { right <= room };
    if has_place {
        let x = area.right() - u16::try_from(right).unwrap_or(0);
        buffer.set_stringn(x, area.y, &place, right, style);
    }
    let left = if has_place { room.saturating_sub(right + gap) } else { room };
    buffer.set_stringn(area.x, area.y, cut(&words, left), left, style);
}

/// A text with a mark at its end where it is cut.
fn cut(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_string();
    }
    text.chars().take(room.saturating_sub(1)).chain(['…']).collect()
}

/// And whether they matter more than the place.
fn words(viewer: &Viewer, facts: &Facts) -> (String, bool) {
    match viewer.mode() {
        Mode::Typing { direction, text } => {
            let sign = if *direction == Direction::Down { '/' } else { '?' };
            let hint = if text.is_empty() && *direction == Direction::Up { "   (Enter: help)" } else { "" };
            (format!("{sign}{text}▏{hint}"), true)
        }
        Mode::Help(_) => ("help: any other key leaves".to_string(), false),
        Mode::Scrolling => match (viewer.message(), &facts.fault) {
            (Some(message), _) => (message.to_string(), true),
            (None, Some(fault)) => (format!("! {fault}"), false),
            (None, None) => (facts.name.clone(), false),
        },
    }
}

fn place(viewer: &Viewer, document: &Document<'_>, facts: &Facts) -> String {
    let mut parts = Vec::new();
    if viewer.pattern().is_some() {
        parts.push(match viewer.matches() {
            Some((Some(place), Some(total))) => format!("match {place} of {total}"),
            Some((_, Some(total))) => format!("{total} matches"),
            _ => "looking …".to_string(),
        });
    }
    if let Some((at, of)) = facts.time {
        let sign = match facts.speed {
            Some(1.0) => "▶ ".to_string(),
            Some(speed) => format!("▶ {speed}× "),
            None => String::new(),
        };
        parts.push(format!("{sign}{} / {}", clock(at), clock(of)));
    }
    match document.snapshots() {
        0 => {}
        1 => parts.push("1 snapshot".to_string()),
        snapshots => parts.push(format!("{snapshots} snapshots")),
    }
    let lines = viewer.viewport().lines();
    let last = viewer.viewport().rows().filter_map(|row| match row {
        Row::Line { number, .. } => Some(number + 1),
        _ => None,
    });
    let last = last.last().unwrap_or(lines.start);
    parts.push(format!("line {last} of {}", lines.end));
    parts.push(match (viewer.viewport().is_at_end(), last.saturating_sub(lines.start)) {
        (true, _) => "end".to_string(),
        (false, seen) => format!("{} %", seen * 100 / (lines.end - lines.start).max(1)),
    });
    format!("{} ", parts.join(" · "))
}

/// `4:05`, `1:00:00`.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

fn put(buffer: &mut Buffer, x: u16, y: u16, text: &str, style: Style) {
    if let Some(cell) = buffer.cell_mut((x, y)) {
        cell.set_symbol(text).set_style(style);
    }
}

fn style(style: &TermStyle) -> Style {
    let attributes = [
        (style.bold, Modifier::BOLD),
        (style.dim, Modifier::DIM),
        (style.italic, Modifier::ITALIC),
        (style.underline, Modifier::UNDERLINED),
        (style.inverse, Modifier::REVERSED),
        (style.hidden, Modifier::HIDDEN),
        (style.strikeout, Modifier::CROSSED_OUT),
    ];
    let mut modifiers = Modifier::empty();
    attributes.iter().filter(|(on, _)| *on).for_each(|(_, modifier)| modifiers.insert(*modifier));
    Style::new().fg(color(style.fg)).bg(color(style.bg)).add_modifier(modifiers)
}

fn color(color: TermColor) -> Color {
    match color {
        TermColor::Default => Color::Reset,
        TermColor::Indexed(index) => Color::Indexed(index),
        TermColor::Rgb(red, green, blue) => Color::Rgb(red, green, blue),
    }
}
