//! Renders cells as SVG text; any monospaced font will do.

mod colors;
mod glyphs;
mod underlines;

use std::fmt::Write;

use nerve_tui::view::decorations::Decorations;
use nerve_vt::screen::Underline;
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::Modifier;
use unicode_width::UnicodeWidthStr;

use self::colors::{BACKGROUND, FOREGROUND, Rgb};

/// Cell width in pixels: 0.6 of the font size, as in most monospaced fonts.
const WIDTH: f64 = 8.4;
/// Cell height in pixels.
const HEIGHT: f64 = 18.0;
/// Baseline, in pixels below the cell's top.
const BASE: f64 = 13.5;
/// Margin around the cells in pixels.
const MARGIN: f64 = 10.0;

/// The resolved attributes of a cell: colours swapped, dimmed and hidden.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Look {
    fg: Rgb,
    /// Background, if it is not the picture's.
    bg: Option<Rgb>,
    modifier: Modifier,
    /// Form and colour of an underline other than a plain one.
    underline: Option<(Underline, Rgb)>,
}

/// Renders a window with this title and a cursor at this column and row.
pub(crate) fn svg(
    buffer: &Buffer,
    decorations: &Decorations,
    cursor: Option<(u16, u16)>,
    title: &str,
) -> String {
    let (cols, rows) = (buffer.area.width, buffer.area.height);
    let width = f64::from(cols) * WIDTH + 2.0 * MARGIN;
    let height = f64::from(rows) * HEIGHT + 2.0 * MARGIN;
    let mut out = String::new();
    // Writing to a string cannot fail; this holds for the writes below too.
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w} {h}\" width=\"{w}\" height=\"{h}\" role=\"img\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"14\" xml:space=\"preserve\">\n\
         <title>{title}</title>\n<rect width=\"{w}\" height=\"{h}\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n\
         <g transform=\"translate({MARGIN} {MARGIN})\">\n",
        w = number(width),
        h = number(height),
        title = escaped(title),
    );
    for row in 0..rows {
        let cells = (0..cols).filter_map(|col| buffer.cell((buffer.area.x + col, buffer.area.y + row)));
        let is_cursor = |col: usize| cursor.is_some_and(|at| (usize::from(at.0), at.1) == (col, row));
        let cells: Vec<(&Cell, Look)> =
            cells.enumerate().map(|(col, cell)| (cell, look(cell, decorations, is_cursor(col)))).collect();
        let y = f64::from(row) * HEIGHT;
        backgrounds(&cells, y, &mut out);
        letters(&cells, y, &mut out);
    }
    out.push_str("</g>\n</svg>\n");
    out
}

fn look(cell: &Cell, decorations: &Decorations, is_cursor: bool) -> Look {
    let mut fg = colors::of(cell.fg).unwrap_or(FOREGROUND);
    let mut bg = colors::of(cell.bg);
    if cell.modifier.contains(Modifier::REVERSED) != is_cursor {
        (fg, bg) = (bg.unwrap_or(BACKGROUND), Some(fg));
    }
    if cell.modifier.contains(Modifier::DIM) {
        fg = fg.towards(bg.unwrap_or(BACKGROUND));
    }
    let seen = Modifier::BOLD
        | Modifier::ITALIC
        | Modifier::UNDERLINED
        | Modifier::CROSSED_OUT
        | Modifier::HIDDEN
        | Modifier::DIM;
    let mut modifier = cell.modifier.intersection(seen);
    let decoration = decorations.of(cell).filter(|_| modifier.contains(Modifier::UNDERLINED));
    let underline = decoration.map(|of| (of.underline, colors::of_terminal(of.color).unwrap_or(fg)));
    let underline = underline.filter(|underline| *underline != (Underline::Single, fg));
    if underline.is_some() {
        modifier.remove(Modifier::UNDERLINED);
    }
    Look { fg, bg, modifier, underline }
}

/// Draws neighbouring cells of one background as one rectangle.
fn backgrounds(cells: &[(&Cell, Look)], y: f64, out: &mut String) {
    let mut col = 0;
    for run in cells.chunk_by(|(_, a), (_, b)| a.bg == b.bg) {
        if let [(_, Look { bg: Some(bg), .. }), ..] = run {
            let (x, width) = (number(col as f64 * WIDTH), number(run.len() as f64 * WIDTH));
            let y = number(y);
            let _ = writeln!(
                out,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{HEIGHT}\" fill=\"{bg}\" shape-rendering=\"crispEdges\"/>"
            );
        }
        col += run.len();
    }
}

/// Draws a row: runs of equal attributes as one text, box and block characters as shapes, wide characters one by
/// one.
fn letters(cells: &[(&Cell, Look)], y: f64, out: &mut String) {
    let mut col = 0;
    while let Some((cell, look)) = cells.get(col) {
        let (symbol, look) = (cell.symbol(), *look);
        let width = symbol.width().max(1);
        if look.modifier.contains(Modifier::HIDDEN) || is_blank(symbol, look) {
            col += width;
            continue;
        }
        if let Some(char) = glyphs::is_drawn(symbol) {
            let same = |(cell, other): &&(&Cell, Look)| *other == look && cell.symbol() == symbol;
            let times = cells[col..].iter().take_while(same).count();
            glyphs::draw(char, col as f64 * WIDTH, y, times, look.fg, out);
            col += times;
            continue;
        }
        let mut text = String::from(symbol);
        let mut cols = width;
        while width == 1
            && let Some((cell, other)) = cells.get(col + cols)
            && *other == look
            && cell.symbol().width() == 1
            && glyphs::is_drawn(cell.symbol()).is_none()
            && !ends(&cells[col + cols..], look)
        {
            text.push_str(cell.symbol());
            cols += 1;
        }
        write_text(&text, col, cols, y, look, out);
        col += cols;
    }
}

/// Returns true if nothing of the cell is visible.
fn is_blank(symbol: &str, look: Look) -> bool {
    let has_lines = look.modifier.intersects(Modifier::UNDERLINED | Modifier::CROSSED_OUT);
    symbol == " " && !has_lines && look.underline.is_none()
}

/// Returns true where a text run ends: before two blanks, so that the following text is positioned anew.
fn ends(cells: &[(&Cell, Look)], look: Look) -> bool {
    let blank = |at: usize| cells.get(at).is_none_or(|(cell, _)| is_blank(cell.symbol(), look));
    blank(0) && blank(1)
}

fn write_text(text: &str, col: usize, cols: usize, top: f64, look: Look, out: &mut String) {
    let (x, y, length) = (number(col as f64 * WIDTH), number(top + BASE), number(cols as f64 * WIDTH));
    let mut more = String::new();
    if look.modifier.contains(Modifier::BOLD) {
        more.push_str(" font-weight=\"bold\"");
    }
    if look.modifier.contains(Modifier::ITALIC) {
        more.push_str(" font-style=\"italic\"");
    }
    let under = look.modifier.contains(Modifier::UNDERLINED).then_some("underline");
    let through = look.modifier.contains(Modifier::CROSSED_OUT).then_some("line-through");
    let lines: Vec<&str> = under.into_iter().chain(through).collect();
    if !lines.is_empty() {
        let _ = write!(more, " text-decoration=\"{}\"", lines.join(" "));
    }
    // Keeps the letters in their columns, whatever the font's width.
    if cols > 1 {
        let _ = write!(more, " textLength=\"{length}\" lengthAdjust=\"spacingAndGlyphs\"");
    }
    if let Some((form, color)) = look.underline {
        underlines::draw(form, color, (col, cols), top, out);
    }
    let (fill, text) = (look.fg, escaped(text));
    let _ = writeln!(out, "<text x=\"{x}\" y=\"{y}\" fill=\"{fill}\"{more}>{text}</text>");
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // Control characters are not allowed in XML.
            char if char.is_control() => out.push(' '),
            char => out.push(char),
        }
    }
    out
}

/// Formats a length in pixels with at most one decimal.
fn number(pixels: f64) -> String {
    let text = format!("{pixels:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_string)
}

#[cfg(test)]
mod tests {
    use nerve_vt::screen;
    use ratatui::layout::Rect;
    use ratatui::style::{Color, Style};

    use super::*;

    fn picture(write: impl FnOnce(&mut Buffer), cursor: Option<(u16, u16)>) -> Vec<String> {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 20, 1));
        write(&mut buffer);
        let svg = svg(&buffer, &Decorations::default(), cursor, "a <title>");
        assert!(svg.contains("viewBox=\"0 0 188 38\"") && svg.contains("<title>a &lt;title&gt;</title>"));
        let (_, inner) = svg.split_once("translate(10 10)\">\n").unwrap();
        inner.lines().take_while(|line| *line != "</g>").map(str::to_string).collect()
    }

    #[test]
    fn equal_neighbours_are_one_text() {
        let lines = picture(
            |buffer| {
                buffer.set_string(0, 0, "a & b", Style::new());
                buffer.set_string(5, 0, "<bold>", Style::new().add_modifier(Modifier::BOLD));
                buffer.set_string(15, 0, "x", Style::new().fg(Color::Rgb(1, 2, 3)));
            },
            None,
        );
        assert_eq!(
            lines,
            [
                "<text x=\"0\" y=\"13.5\" fill=\"#d8dee9\" textLength=\"42\" lengthAdjust=\"spacingAndGlyphs\">a &amp; b</text>",
                "<text x=\"42\" y=\"13.5\" fill=\"#d8dee9\" font-weight=\"bold\" textLength=\"50.4\" \
                 lengthAdjust=\"spacingAndGlyphs\">&lt;bold&gt;</text>",
                "<text x=\"126\" y=\"13.5\" fill=\"#010203\">x</text>",
            ]
        );
    }

    #[test]
    fn styled_underlines_are_shapes() {
        let mut decorations = Decorations::default();
        let mut buffer = Buffer::empty(Rect::new(0, 0, 20, 1));
        let forms =
            [Underline::Single, Underline::Double, Underline::Curl, Underline::Dotted, Underline::Dashed];
        for (x, underline) in (0u16..).zip(forms) {
            let color = nerve_vt::screen::Color::Rgb(1, 2, 3);
            let of = screen::Decoration { start: 0, len: 1, underline, underline_color: color, link: 0 };
            let sign = decorations.register(&screen::Row::default(), &of);
            let style = Style::new().add_modifier(Modifier::UNDERLINED);
            buffer.set_string(2 * x, 0, "ab", style.underline_color(sign));
        }
        let svg = svg(&buffer, &decorations, None, "");
        assert_eq!(
            (svg.matches("stroke=\"#010203\"").count(), svg.matches("text-decoration").count()),
            (5, 0)
        );
        assert!(svg.contains("d=\"M33.6 16q2.1 -3 4.2 0t4.2 0t4.2 0t4.2 0\""), "{svg}");
        assert!(svg.contains("d=\"M16.8 15.2H33.6M16.8 17.2H33.6\""), "{svg}");
    }

    #[test]
    fn wide_characters_keep_their_columns() {
        let lines = picture(
            |buffer| {
                buffer.set_string(1, 0, "日x", Style::new());
            },
            None,
        );
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].contains("x=\"8.4\"") && lines[0].contains("日"), "{lines:?}");
        assert!(lines[1].contains("x=\"25.2\"") && lines[1].contains(">x<"), "{lines:?}");
    }

    #[test]
    fn backgrounds_reversed_cells_and_cursor() {
        let lines = picture(
            |buffer| {
                buffer.set_string(0, 0, "ab", Style::new().bg(Color::Indexed(196)));
                let hidden = Style::new().add_modifier(Modifier::HIDDEN);
                buffer.set_string(4, 0, "no", hidden);
            },
            Some((8, 0)),
        );
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[0].contains("width=\"16.8\"") && lines[0].contains("#ff0000"), "{lines:?}");
        assert!(lines[1].contains("x=\"67.2\"") && lines[1].contains("#d8dee9"), "{lines:?}");
        assert!(lines[2].contains(">ab<"), "{lines:?}");
    }

    #[test]
    fn lines_and_blocks_are_joined_shapes() {
        let lines = picture(
            |buffer| {
                buffer.set_string(0, 0, "┌───┐█▛", Style::new());
            },
            None,
        );
        assert_eq!(lines.iter().filter(|line| line.starts_with("<text")).count(), 0, "{lines:?}");
        assert_eq!(
            lines[1],
            "<path d=\"M8.4 9H33.6\" stroke=\"#d8dee9\" stroke-width=\"1.2\" fill=\"none\"/>"
        );
    }
}
