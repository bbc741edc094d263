//! The help sheet: its scroll position, and drawing in columns.

mod content;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use unicode_width::UnicodeWidthStr;

use crate::view::bindings::Bindings;
use crate::view::effect::Source;
use crate::view::help::content::{Line, sheet};
use crate::view::keys::Operation;
use crate::view::status_info::Capabilities;
use crate::view::truncate::cut;

/// Maximum number of columns.
const COLUMNS: u16 = 3;
/// Blanks between columns.
const GAP: u16 = 3;
/// Minimum width of a column if there are several.
const COLUMN: u16 = 58;
/// Width of the keys within a column.
const KEYS: u16 = 24;

/// The help sheet's scroll position.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HelpSheet {
    /// First visible row; `None` while the sheet is closed.
    row: Option<u16>,
    /// Last row that can be at the top.
    max_row: u16,
}

impl Default for HelpSheet {
    fn default() -> HelpSheet {
        HelpSheet { row: None, max_row: u16::MAX }
    }
}

impl HelpSheet {
    pub(crate) fn open(&mut self) {
        self.row = Some(0);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.row.is_some()
    }

    /// Returns the first visible row; `None` while the sheet is closed.
    pub(crate) fn row(&self) -> Option<u16> {
        self.row
    }

    /// Sets the last row that can be at the top. Returns true if the sheet has moved.
    pub(crate) fn set_max_row(&mut self, max_row: u16) -> bool {
        self.max_row = max_row;
        let row = self.row.map(|row| row.min(max_row));
        std::mem::replace(&mut self.row, row) != row
    }

    /// Scrolls down by this many lines; up if negative. Returns false while the sheet is closed.
    pub(crate) fn scroll_lines(&mut self, lines: i64) -> bool {
        let by = i16::try_from(lines).unwrap_or(0);
        let max_row = self.max_row;
        self.row = self.row.map(|row| row.min(max_row).saturating_add_signed(by).min(max_row));
        self.is_open()
    }

    /// Scrolls in a window of `rows` rows. Any operation that does not scroll closes the sheet.
    pub(crate) fn scroll(&mut self, operation: Option<Operation>, rows: u16) {
        let last = self.max_row;
        let Some(row) = self.row.map(|row| row.min(last)) else { return };
        self.row = match operation {
            Some(Operation::LineDown) => Some(row.saturating_add(1).min(last)),
            Some(Operation::LineUp) => Some(row.saturating_sub(1)),
            Some(Operation::PageDown | Operation::HalfDown) => Some(row.saturating_add(rows).min(last)),
            Some(Operation::PageUp | Operation::HalfUp) => Some(row.saturating_sub(rows)),
            Some(Operation::Start) => Some(0),
            Some(Operation::End) => Some(last),
            _ => None,
        };
    }
}

/// The wrapped rows of the sheet and their arrangement in columns.
struct Grid {
    lines: Vec<Line>,
    columns: u16,
    width: u16,
    rows: u16,
}

fn grid(bindings: &Bindings, source: Source, capabilities: Capabilities, area: Rect) -> Grid {
    let columns = (area.width.saturating_add(GAP) / (COLUMN + GAP)).clamp(1, COLUMNS);
    let width = ((area.width + GAP) / columns).saturating_sub(GAP).max(1);
    let room = usize::from(width.saturating_sub(keys_width(width) + 2)).max(1);
    let lines = sheet(bindings, source, capabilities).into_iter();
    let lines: Vec<Line> = lines.flat_map(|line| wrapped(line, room)).collect();
    let rows = u16::try_from(lines.len()).unwrap_or(u16::MAX).div_ceil(columns);
    Grid { lines, columns, width, rows }
}

/// Returns the width of the keys in a column of this width.
fn keys_width(width: u16) -> u16 {
    KEYS.min(width / 2)
}

/// Wraps a row's text.
fn wrapped(line: Line, room: usize) -> Vec<Line> {
    let Line::Keys { keys, arrive, help } = line else { return vec![line] };
    let mut texts = vec![String::new()];
    for word in help.split(' ') {
        let last = texts.len() - 1;
        if !texts[last].is_empty() && texts[last].width() + 1 + word.width() > room {
            texts.push(word.to_string());
        } else if texts[last].is_empty() {
            texts[last] = word.to_string();
        } else {
            texts[last] = format!("{} {word}", texts[last]);
        }
    }
    let keys = std::iter::once(keys).chain(std::iter::repeat(String::new()));
    texts.into_iter().zip(keys).map(|(help, keys)| Line::Keys { keys, arrive, help }).collect()
}

/// Returns the last row that can be at the top.
pub(crate) fn max_row(bindings: &Bindings, source: Source, capabilities: Capabilities, area: Rect) -> u16 {
    grid(bindings, source, capabilities, area).rows.saturating_sub(area.height)
}

/// Draws the sheet from this row on; the last rows if `from` is too large.
pub(crate) fn draw(
    bindings: &Bindings,
    source: Source,
    capabilities: Capabilities,
    from: u16,
    area: Rect,
    buffer: &mut Buffer,
) {
    let Grid { lines, columns, width, rows } = grid(bindings, source, capabilities, area);
    let from = usize::from(from.min(rows.saturating_sub(area.height)));
    for (column, lines) in (0..columns).zip(lines.chunks(rows.max(1).into())) {
        let x = area.x + column * (width + GAP);
        for (line, y) in lines.iter().skip(from).zip(area.top()..area.bottom()) {
            draw_line(
                line,
                Rect { x, y, width: width.min(area.right().saturating_sub(x)), height: 1 },
                buffer,
            );
        }
    }
}

fn draw_line(line: &Line, area: Rect, buffer: &mut Buffer) {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let room = usize::from(area.width);
    match line {
        Line::Blank => {}
        Line::Title(title) => {
            buffer.set_stringn(
                area.x,
                area.y,
                cut(title, room),
                room,
                bold.add_modifier(Modifier::UNDERLINED),
            );
        }
        Line::Keys { keys, arrive, help } => {
            let style = if *arrive { bold } else { Style::new().add_modifier(Modifier::DIM) };
            let wide = keys_width(area.width);
            // Keys are sorted by length; the longer ones may be omitted.
            buffer.set_stringn(area.x, area.y, fit_keys(keys, wide.into()), wide.into(), style);
            let x = area.x + (wide + 2).min(area.width);
            let room = usize::from(area.right().saturating_sub(x));
            buffer.set_stringn(x, area.y, cut(help, room), room, Style::new());
        }
    }
}

/// Returns as many key names as fit, or the first one truncated.
fn fit_keys(keys: &str, room: usize) -> String {
    let mut text = String::new();
    for key in keys.split("  ") {
        let longer = if text.is_empty() { key.to_string() } else { format!("{text}  {key}") };
        if longer.width() > room {
            return if text.is_empty() { cut(key, room) } else { text };
        }
        text = longer;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::help::content::text_row;

    #[test]
    fn long_rows_wrap() {
        let rows = wrapped(text_row("j", "one two three"), 8);
        assert_eq!(rows, [text_row("j", "one two"), text_row("", "three")]);
        assert_eq!(wrapped(text_row("j", "longest of words"), 3).len(), 3);
    }

    #[test]
    fn lists_the_keys_that_fit() {
        assert_eq!(fit_keys("j  e  down  enter", 9), "j  e");
        assert_eq!(fit_keys("ctrl+shift+up", 5), "ctrl…");
        assert_eq!(fit_keys("j", 5), "j");
    }
}
