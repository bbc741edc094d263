//! The help sheet.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use crate::bindings::Bindings;
use crate::keys::OPERATIONS;

/// The sheet's rows: keys, and what they do.
pub(crate) fn rows(bindings: &Bindings) -> Vec<(String, String)> {
    let rows =
        OPERATIONS.iter().map(|entry| (bindings.keys_of(entry.operation).join("  "), entry.help.to_string()));
    let more = [
        ("10 before a key", "ten times, or to line 10"),
        ("/ and a text, n, N", "capitals count if there is one in it; regular expressions"),
        ("wheel", "three lines"),
    ];
    rows.chain(more.map(|(keys, help)| (keys.to_string(), help.to_string()))).collect()
}

/// Draws as many rows as there is room for, from this one on; the last ones if it is beyond them.
pub(crate) fn draw(bindings: &Bindings, from: u16, area: Rect, buffer: &mut Buffer) {
    let rows = rows(bindings);
    let from = usize::from(from).min(rows.len().saturating_sub(area.height.into()));
    let wide = rows.iter().map(|(keys, _)| keys.chars().count()).max().unwrap_or(0);
    let wide = u16::try_from(wide).unwrap_or(0).min(area.width / 2);
    for ((keys, help), y) in rows.iter().skip(from).zip(area.top()..area.bottom()) {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        buffer.set_stringn(area.x, y, keys, wide.into(), bold);
        let x = area.x + (wide + 2).min(area.width);
        buffer.set_stringn(x, y, help, (area.right() - x).into(), Style::new());
    }
}
