//! Draws the task entry's box, with its title and key hints in the border.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use unicode_width::UnicodeWidthStr;

use crate::view::cells::{border, put};
use crate::view::truncate::cut;

/// Returns the text area within a box: the whole box if it is too small for a border.
pub(crate) fn text(width: u16, height: u16) -> Rect {
    let side = u16::from(width >= 3 && height >= 3);
    let top = u16::from(height >= 2);
    let bottom = u16::from(height >= 3);
    Rect { x: side, y: top, width: width - 2 * side, height: height.saturating_sub(top + bottom) }
}

/// Draws the visible rows of the box. Its first row is `row`, which may be above `lines`. `write` draws the text
/// and returns the cursor position. Returns the cursor if it is visible.
pub(crate) fn draw(
    lines: Rect,
    row: i64,
    height: u16,
    title: &str,
    hint: &str,
    write: impl FnOnce(Rect, &mut Buffer) -> Option<(u16, u16)>,
    buffer: &mut Buffer,
) -> Option<(u16, u16)> {
    let area = Rect::new(0, 0, lines.width, height);
    // The whole box is drawn first; only its visible rows are copied.
    let mut drawn = Buffer::empty(area);
    let style = Style::new().fg(Color::Cyan);
    if height >= 3 {
        border(area, style, &mut drawn);
        note(hint, area.bottom() - 1, area.width, style.add_modifier(Modifier::DIM), &mut drawn);
    } else if height == 2 {
        (0..area.width).for_each(|x| put(&mut drawn, x, 0, "─", style));
    }
    if height >= 2 {
        note(title, 0, area.width, style.add_modifier(Modifier::BOLD), &mut drawn);
    }
    let cursor = write(text(area.width, height), &mut drawn);
    let place = |inside: u16| -> Option<u16> {
        let at = u16::try_from(row.checked_add(inside.into())?).ok()?;
        (at < lines.height).then_some(lines.y + at)
    };
    for inside in 0..height {
        let Some(y) = place(inside) else { continue };
        for x in 0..area.width {
            if let (Some(from), Some(to)) = (drawn.cell((x, inside)), buffer.cell_mut((lines.x + x, y))) {
                *to = from.clone();
            }
        }
    }
    let (x, inside) = cursor?;
    Some((lines.x + x, place(inside)?))
}

/// Writes a text into a border row.
fn note(text: &str, y: u16, width: u16, style: Style, buffer: &mut Buffer) {
    let room = usize::from(width.saturating_sub(6));
    if room > 2 && !text.is_empty() {
        let text = cut(text, room);
        buffer.set_stringn(2, y, format!(" {text} "), text.width() + 2, style);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(row: i64, height: u16, width: u16) -> (String, Option<(u16, u16)>) {
        let area = Rect::new(0, 0, width, 4);
        let mut buffer = Buffer::empty(area);
        let write = |area: Rect, buffer: &mut Buffer| {
            buffer.set_stringn(area.x, area.y, "abc", area.width.into(), Style::new());
            (!area.is_empty()).then_some((area.x, area.y))
        };
        let cursor = draw(area, row, height, "a snapshot", "Esc", write, &mut buffer);
        let rows = buffer.content.chunks(width.into());
        let row = |row: &[ratatui::buffer::Cell]| row.iter().map(|cell| cell.symbol()).collect::<String>();
        (rows.map(row).collect::<Vec<_>>().join("\n"), cursor)
    }

    #[test]
    fn box_has_title_and_hints() {
        let (text, cursor) = drawn(1, 3, 16);
        assert_eq!(text, "                \n┌─ a snapshot ─┐\n│abc           │\n└─ Esc ────────┘");
        assert_eq!(cursor, Some((1, 2)));
    }

    #[test]
    fn draws_only_visible_rows() {
        let (text, cursor) = drawn(-1, 3, 16);
        assert!(text.starts_with("│abc           │\n└─ Esc ────────┘\n "), "{text}");
        assert_eq!(cursor, Some((1, 0)));
        assert_eq!(drawn(3, 3, 16).1, None);
        assert_eq!(drawn(i64::MAX, 3, 16).1, None);
        assert_eq!(drawn(-3, 3, 16).0.trim(), "");
    }

    #[test]
    fn draws_any_size() {
        assert_eq!(drawn(0, 1, 4), ("abc \n    \n    \n    ".to_string(), Some((0, 0))));
        for (width, height) in (1..20).flat_map(|width| (1..6).map(move |height| (width, height))) {
            let inner = text(width, height);
            assert!(inner.right() <= width && inner.bottom() <= height && !inner.is_empty());
            assert!(drawn(0, height, width).0.contains('a'), "{width} × {height}");
        }
    }
}
