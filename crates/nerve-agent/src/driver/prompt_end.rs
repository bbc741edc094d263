//! The end of a prompt on the screen, and the text behind it.

use nerve_vt::screen::Screen;

use super::View;
use super::columns::{columns, width};

/// Position and text of a prompt's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PromptEnd {
    /// Absolute line.
    pub(super) line: u64,
    /// Column right behind the prompt.
    pub(super) col: u16,
    text: String,
}

impl PromptEnd {
    /// Takes the text left of the cursor as the prompt; `None` if there is none.
    pub(super) fn at_cursor(view: &View<'_>) -> Option<PromptEnd> {
        let cursor = view.screen.cursor;
        let text = row_text_before(view.screen, cursor.row, cursor.col);
        (!text.is_empty()).then_some(PromptEnd { line: view.cursor_line, col: cursor.col, text })
    }

    /// Takes `prompt` at the beginning of the cursor's line, whatever follows.
    pub(super) fn at_line_start(view: &View<'_>, prompt: &str) -> PromptEnd {
        PromptEnd {
            line: view.cursor_line.saturating_sub(u64::from(wrapped_rows_above(view))),
            col: u16::try_from(width(prompt)).unwrap_or(u16::MAX),
            text: prompt.trim_end().to_string(),
        }
    }

    /// Returns the prompt without trailing blanks.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns true if the prompt is still drawn and the cursor is behind it.
    pub(super) fn is_visible(&self, view: &View<'_>) -> bool {
        text_between(view, self.line, self.col).is_some()
            && find_row(view, self.line)
                .is_some_and(|row| row_text_before(view.screen, row, self.col) == self.text)
    }
}

/// Returns the text between a position and the cursor within one line, including rows wrapped by the terminal. `None`
/// if the cursor is not behind the position.
pub(super) fn text_between(view: &View<'_>, line: u64, col: u16) -> Option<String> {
    let (cursor, first) = (view.screen.cursor, find_row(view, line)?);
    let rows = view.screen.rows.get(usize::from(first)..=usize::from(cursor.row))?;
    let (last, before) = rows.split_last()?;
    if before.iter().any(|row| !row.wrapped) || (before.is_empty() && cursor.col < col) {
        return None;
    }
    let mut text = String::new();
    let mut from = col;
    for row in before {
        text.push_str(columns(&row.text, from, u16::MAX));
        from = 0;
    }
    text.push_str(columns(&last.text, from, cursor.col));
    Some(text)
}

/// Returns the row in which the cursor's line begins, before wrapping.
pub(super) fn first_row<'a>(view: &View<'a>) -> &'a str {
    let first = view.screen.cursor.row.saturating_sub(wrapped_rows_above(view));
    view.screen.rows.get(usize::from(first)).map_or("", |row| row.text.as_str())
}

/// Returns how many rows of the cursor's line are above the cursor.
fn wrapped_rows_above(view: &View<'_>) -> u16 {
    let above = view.screen.rows.get(..usize::from(view.screen.cursor.row)).unwrap_or_default();
    u16::try_from(above.iter().rev().take_while(|row| row.wrapped).count()).unwrap_or(u16::MAX)
}

/// Returns the row of a line that is not below the cursor.
fn find_row(view: &View<'_>, line: u64) -> Option<u16> {
    let back = u16::try_from(view.cursor_line.checked_sub(line)?).ok()?;
    view.screen.cursor.row.checked_sub(back)
}

/// Returns a row up to a column without trailing blanks.
fn row_text_before(screen: &Screen, row: u16, col: u16) -> String {
    let text = screen.rows.get(usize::from(row)).map_or("", |row| row.text.as_str());
    columns(text, 0, col).trim_end().to_string()
}
