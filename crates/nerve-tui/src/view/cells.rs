//! Draws the lines of a document as cells.

use std::num::NonZeroU16;

use nerve_vt::screen::{Color as TermColor, Style as TermStyle};
use nerve_vt::terminal::Cell;
use ratatui::buffer::{Buffer, CellDiffOption, CellWidth};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::widgets::{Block, Widget};

use crate::view::decorations::Decorations;
use crate::view::document::Document;
use crate::view::pager::Pager;
use crate::view::viewport::Row;

/// Marks the line of a snapshot.
const MARK: &str = "▶";

/// Draws the visible lines and their snapshot marks.
pub(crate) fn lines(
    document: &Document<'_>,
    pager: &Pager,
    area: Rect,
    gutter: Rect,
    buffer: &mut Buffer,
    decorations: &mut Decorations,
) {
    let viewport = pager.viewport();
    let mut painter = LinePainter { document, pager, buffer, decorations };
    for (row, y) in viewport.rows().zip(area.top()..area.bottom()) {
        let Row::Line { number, dimmed } = row else { continue };
        if document.has_snapshot(number) {
            mark(Rect { y, ..gutter }, painter.buffer);
        }
        painter.draw_line(number, dimmed, Rect { y, height: 1, ..area });
    }
    // While the line of the task entry's snapshot is above the window, its mark is drawn next to the entry.
    if let (Some(line), Some((row, height))) = (viewport.entry_line(), viewport.entry())
        && document.has_snapshot(line)
        && viewport.row_of(line).is_none()
        && row + i64::from(height) > 0
        && let Ok(row) = u16::try_from(row.max(0))
        && row < area.height
    {
        mark(Rect { y: area.y + row, ..gutter }, painter.buffer);
    }
}

/// Returns the window position of the document's cursor, or `None` if it is hidden or outside.
pub(crate) fn cursor(document: &Document<'_>, pager: &Pager, area: Rect) -> Option<(u16, u16)> {
    let cursor = document.cursor().filter(|cursor| cursor.is_visible)?;
    let row = pager.viewport().row_of(cursor.line).filter(|row| *row < area.height)?;
    let col = cursor.col.checked_sub(pager.left()).filter(|col| *col < area.width)?;
    Some((area.x + col, area.y + row))
}

/// Draws the right edge of the program's screen in a wider window, except in rows with text beyond it.
pub(crate) fn edge(document: &Document<'_>, pager: &Pager, area: Rect, buffer: &mut Buffer) {
    let Some(col) = document.width().checked_sub(pager.left()).filter(|col| *col < area.width) else {
        return;
    };
    let is_blank = |buffer: &Buffer, at| {
        let cell = buffer.cell(at);
        cell.is_some_and(|cell| cell.symbol() == " " && cell.bg == Color::Reset && cell.modifier.is_empty())
    };
    for y in area.top()..area.bottom() {
        let has_text_beyond = col > 0 && is_wide(buffer, area.x + col - 1, y)
            || (area.x + col..area.right()).any(|x| !is_blank(buffer, (x, y)));
        if !has_text_beyond {
            put(buffer, area.x + col, y, "│", Style::new().add_modifier(Modifier::DIM));
        }
    }
}

/// Draws a snapshot mark in the first row of the gutter.
fn mark(gutter: Rect, buffer: &mut Buffer) {
    if gutter.width > 0 {
        put(buffer, gutter.x, gutter.y, MARK, Style::new().fg(Color::Cyan));
    }
}

/// Draws lines of a document, with the matches of the search.
struct LinePainter<'a> {
    document: &'a Document<'a>,
    pager: &'a Pager,
    buffer: &'a mut Buffer,
    decorations: &'a mut Decorations,
}

impl LinePainter<'_> {
    fn draw_line(&mut self, number: u64, dimmed: bool, area: Rect) {
        let Some(row) = self.document.row(number) else { return };
        let matches = self.pager.pattern().map(|pattern| pattern.columns(&row.text)).unwrap_or_default();
        let is_found = self.pager.found() == Some(number);
        // Cells and matches are both ascending. `next` is the first match that does not end before the cell.
        let mut next = 0;
        let mut last = None;
        let (left, right) = (self.pager.left(), self.pager.left().saturating_add(area.width));
        let visible = row.cells().skip_while(|cell| cell.col.saturating_add(cell.width) <= left);
        for cell in visible.take_while(|cell| cell.col < right) {
            let mut style = style(&cell.style);
            while matches.get(next).is_some_and(|columns| columns.end <= cell.col) {
                next += 1;
            }
            if matches.get(next).is_some_and(|columns| columns.contains(&cell.col)) {
                style = highlight(style, is_found && next == 0);
            }
            if dimmed {
                style = style.add_modifier(Modifier::DIM);
            }
            if let Some(decoration) = cell.decoration {
                let (_, tag) = last
                    .filter(|(before, _)| std::ptr::eq(*before, decoration))
                    .unwrap_or_else(|| (decoration, self.decorations.register(&row, decoration)));
                last = Some((decoration, tag));
                style = style.underline_color(tag);
            }
            self.draw_cell(&cell, style, area);
        }
    }

    /// Draws the visible columns of a cell. Half of a wide character is drawn as a blank.
    fn draw_cell(&mut self, cell: &Cell<'_>, style: Style, area: Rect) {
        let (left, end) = (self.pager.left(), cell.col.saturating_add(cell.width));
        let right = left.saturating_add(area.width);
        let is_whole = cell.col >= left && end <= right;
        let first = cell.col.max(left);
        let x = area.x + first - left;
        put(self.buffer, x, area.y, if is_whole { cell.text } else { " " }, style);
        if is_whole {
            force_width(cell.width, x, area.y, self.buffer);
        }
        for col in first + 1..end.min(right) {
            put(self.buffer, area.x + col - left, area.y, " ", style);
        }
    }
}

/// Returns the style of a cell in a match. `is_current`: the last search found this match.
fn highlight(mut style: Style, is_current: bool) -> Style {
    if is_current {
        // The modifiers keep the match visible without colours.
        let modifiers = Modifier::REVERSED | Modifier::BOLD;
        return Style::new().fg(Color::Yellow).bg(Color::Black).add_modifier(modifiers);
    }
    // Toggling keeps a match in reversed text distinguishable.
    style.add_modifier.toggle(Modifier::REVERSED);
    style
}

/// Overwrites a cell completely.
pub(crate) fn put(buffer: &mut Buffer, x: u16, y: u16, text: &str, style: Style) {
    if let Some(cell) = buffer.cell_mut((x, y)) {
        cell.reset();
        cell.set_symbol(text).set_style(style);
    }
}

/// Sets a cell's width explicitly if ratatui would compute another one.
fn force_width(columns: u16, x: u16, y: u16, buffer: &mut Buffer) {
    if let Some(cell) = buffer.cell_mut((x, y))
        && cell.cell_width() != columns
        && let Some(columns) = NonZeroU16::new(columns)
    {
        cell.set_diff_option(CellDiffOption::ForcedWidth(columns));
    }
}

fn is_wide(buffer: &Buffer, x: u16, y: u16) -> bool {
    buffer.cell((x, y)).is_some_and(|cell| cell.cell_width() > 1)
}

/// Clears an area, including a wide character that reaches into it from the left.
pub(crate) fn clear(area: Rect, buffer: &mut Buffer) {
    for y in area.top()..area.bottom() {
        if let Some(x) = area.x.checked_sub(1)
            && is_wide(buffer, x, y)
            && let Some(cell) = buffer.cell_mut((x, y))
        {
            cell.set_symbol(" ").set_diff_option(CellDiffOption::None);
        }
        for x in area.left()..area.right() {
            if let Some(cell) = buffer.cell_mut((x, y)) {
                cell.reset();
            }
        }
    }
}

/// Converts a cell's style. Underline forms and colours are kept in [`Decorations`].
fn style(style: &TermStyle) -> Style {
    let attributes = [
        (style.bold, Modifier::BOLD),
        (style.dim, Modifier::DIM),
        (style.italic, Modifier::ITALIC),
        (style.underline, Modifier::UNDERLINED),
        (style.blink, Modifier::SLOW_BLINK),
        (style.inverse, Modifier::REVERSED),
        (style.hidden, Modifier::HIDDEN),
        (style.strikeout, Modifier::CROSSED_OUT),
    ];
    let mut modifiers = Modifier::empty();
    attributes.iter().filter(|(on, _)| *on).for_each(|(_, modifier)| modifiers.insert(*modifier));
    Style::new().fg(color(style.fg)).bg(color(style.bg)).add_modifier(modifiers)
}

/// Converts a colour.
fn color(color: TermColor) -> Color {
    match color {
        TermColor::Default => Color::Reset,
        TermColor::Indexed(index) => Color::Indexed(index),
        TermColor::Rgb(red, green, blue) => Color::Rgb(red, green, blue),
    }
}

/// Draws a border into blank cells if there is room for one.
pub(crate) fn border(area: Rect, style: Style, buffer: &mut Buffer) {
    if area.width >= 2 && area.height >= 2 {
        Block::bordered().border_style(style).render(area, buffer);
    }
}
