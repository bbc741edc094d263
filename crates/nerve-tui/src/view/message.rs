//! Shows a message too long for the status line in rows above it, until the next key.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::view::cells::put;
use crate::view::layout::Layout;
use crate::view::truncate::cut;
use crate::view::viewer::{Mode, Viewer};

/// Maximum number of rows.
const MAX_ROWS: usize = 3;

/// Returns the rows above the status line; none if the message fits into it or is hidden.
pub(crate) fn rows(viewer: &Viewer, layout: &Layout) -> Vec<String> {
    let (width, status) = (usize::from(layout.status.width), layout.status);
    let above = usize::from(status.y.saturating_sub(layout.window.y)).min(MAX_ROWS);
    let is_asked = viewer.is_prefix_pending() || matches!(viewer.mode(), Mode::Prompt(_) | Mode::Confirm);
    match viewer.message().filter(|_| !is_asked && !status.is_empty()) {
        Some(message) if message.width() > width => wrapped(message, width, above),
        _ => Vec::new(),
    }
}

/// Draws the rows and returns their area.
pub(crate) fn draw(viewer: &Viewer, layout: &Layout, buffer: &mut Buffer) -> Rect {
    let (rows, status) = (rows(viewer, layout), layout.status);
    let height = u16::try_from(rows.len()).unwrap_or(0);
    let area = Rect { y: status.y - height, height, ..status };
    let style = Style::new().add_modifier(Modifier::REVERSED);
    for (y, text) in (area.top()..area.bottom()).zip(&rows) {
        for x in area.left()..area.right() {
            put(buffer, x, y, " ", style);
        }
        buffer.set_stringn(area.x, y, text, area.width.into(), style);
    }
    area
}

/// Wraps a text at blanks into at most this many rows, and truncates the rest with a mark.
fn wrapped(text: &str, width: usize, rows: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() && lines.len() < rows {
        if lines.len() + 1 == rows {
            lines.push(cut(rest, width));
            break;
        }
        let (line, remainder) = rest.split_at(first_line(rest, width));
        lines.push(line.trim_end().to_string());
        rest = remainder.trim_start();
    }
    lines
}

/// Returns the length in bytes of the first row, which ends at a blank if possible. It is never 0 for a text that
/// is not empty.
fn first_line(text: &str, width: usize) -> usize {
    let (mut cols, mut blank) = (0, None);
    for (at, char) in text.char_indices() {
        cols += char.width().unwrap_or(0);
        if char.is_whitespace() {
            // A trailing blank may exceed the width.
            blank = Some(at);
        } else if cols > width {
            return blank.unwrap_or(if at == 0 { char.len_utf8() } else { at });
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_wraps_at_blanks() {
        assert_eq!(wrapped("one two three", 7, 3), ["one two", "three"]);
        assert_eq!(wrapped("one two three", 8, 3), ["one two", "three"]);
        assert_eq!(wrapped("one two three four", 5, 3), ["one", "two", "thre…"]);
        assert_eq!(wrapped("abcdefgh ij", 3, 3), ["abc", "def", "gh…"]);
        assert_eq!(wrapped("one two", 3, 1), ["on…"]);
        assert!(wrapped("one two", 3, 0).is_empty());
    }

    #[test]
    fn rows_fit_the_width() {
        let text = "日本語 and e\u{301}verything else 👩\u{200d}🚀 of it";
        for width in 2..40 {
            let rows = wrapped(text, width, 3);
            assert!((1..=3).contains(&rows.len()), "{width}: {rows:?}");
            assert!(rows.iter().all(|row| row.width() <= width), "{width}: {rows:?}");
        }
        assert_eq!(wrapped("日本", 1, 2).len(), 2, "it ends where nothing has room too");
        assert_eq!(wrapped("a日本", 2, 3), ["a", "日", "本"]);
    }
}
