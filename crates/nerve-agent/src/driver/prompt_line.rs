//! The prompt line of a line-based program: the prompt, and the text behind it.

use unicode_width::UnicodeWidthChar;

use super::foreign_input::ForeignInput;
use super::verdict::{Verdict, text_before_cursor};
use super::{Driver, Source, View};
use nerve_vt::screen::Screen;
use nerve_vt::terminal::MarkKind;

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
        let text = text_left_of(view.screen, cursor.row, cursor.col);
        (!text.is_empty()).then_some(PromptEnd { line: view.cursor_line, col: cursor.col, text })
    }

    /// Takes `prompt` at the beginning of the cursor's line, whatever follows.
    pub(super) fn of_line(view: &View<'_>, prompt: &str) -> PromptEnd {
        PromptEnd {
            line: view.cursor_line.saturating_sub(u64::from(wrapped_rows_above(view))),
            col: u16::try_from(width(prompt)).unwrap_or(u16::MAX),
            text: prompt.trim_end().to_string(),
        }
    }

    /// Returns true if the prompt is still drawn and the cursor is behind it.
    pub(super) fn is_visible(&self, view: &View<'_>) -> bool {
        text_between(view, self.line, self.col).is_some()
            && row_of(view, self.line)
                .is_some_and(|row| text_left_of(view.screen, row, self.col) == self.text)
    }
}

/// The prompt line of a line-based program, as of the last observation.
#[derive(Debug, Default)]
pub(super) struct PromptLine {
    /// Text of the prompt that was drawn when the program was silent.
    pub(super) learned: Option<String>,
    /// The cursor's line.
    pub(super) cursor_line: u64,
    /// The cursor's line held nothing but a known prompt.
    pub(super) is_bare: bool,
    /// End of the drawn prompt. Text behind it was typed by someone.
    pub(super) end: Option<PromptEnd>,
    /// A line entered by someone else.
    pub(super) foreign_input: Option<ForeignInput>,
    /// An unfinished line that someone typed behind the prompt.
    pub(super) draft: Option<String>,
}

impl PromptLine {
    /// Returns true if the drawn prompt is still there with the cursor behind it.
    pub(super) fn is_visible(&self, view: &View<'_>) -> bool {
        self.end.as_ref().is_some_and(|end| end.is_visible(view))
    }

    /// Returns the text between the drawn prompt and the cursor.
    fn typed_text(&self, view: &View<'_>) -> Option<String> {
        let end = self.end.as_ref().filter(|end| end.is_visible(view))?;
        text_between(view, end.line, end.col)
    }
}

impl Driver {
    /// Learns the prompt of a line-based program from a ready state.
    pub(super) fn learn_prompt(&mut self, verdict: &Verdict, view: &View<'_>) {
        if self.profile.composer.is_some() || !matches!(verdict, Verdict::Ready { .. }) {
            return;
        }
        if self.prompt_line.is_visible(view) {
            // Someone types behind it.
            return;
        }
        if self.is_busy_by_foreign_input() && !self.is_prompt(&text_before_cursor(view.screen)) {
            // Either a prompt followed by text typed ahead, or silence without a prompt.
            if let Some(prompt) = self.find_prompt_in_line(view) {
                self.prompt_line.end = Some(prompt);
            }
            return;
        }
        self.prompt_line.end = PromptEnd::at_cursor(view);
        let quiet = matches!(verdict, Verdict::Ready { source: Source::Quiet | Source::Foreground, .. });
        if quiet {
            let row = text_before_cursor(view.screen);
            self.prompt_line.learned = (!row.trim().is_empty()).then_some(row);
        }
    }

    /// Returns the text between the prompt and the cursor of a line-based program that waits for a line. Text behind
    /// the cursor may be a right-hand prompt or a suggestion.
    pub(super) fn find_line_draft(&self, view: &View<'_>) -> Option<String> {
        if self.profile.composer.is_some() || self.turns.current.is_some() {
            return None;
        }
        let mark = self.marks.last.as_ref().filter(|mark| mark.kind == MarkKind::CommandStart);
        let draft = mark
            .and_then(|mark| text_between(view, mark.line.0, mark.col))
            .or_else(|| self.prompt_line.typed_text(view))?;
        Some(draft.trim().to_string()).filter(|draft| !draft.is_empty())
    }
}

/// Returns the text between a position and the cursor within one line, including rows wrapped by the terminal. `None`
/// if the cursor is not behind the position.
pub(super) fn text_between(view: &View<'_>, line: u64, col: u16) -> Option<String> {
    let (cursor, first) = (view.screen.cursor, row_of(view, line)?);
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
fn row_of(view: &View<'_>, line: u64) -> Option<u16> {
    let back = u16::try_from(view.cursor_line.checked_sub(line)?).ok()?;
    view.screen.cursor.row.checked_sub(back)
}

/// Returns a row up to a column without trailing blanks.
fn text_left_of(screen: &Screen, row: u16, col: u16) -> String {
    let text = screen.rows.get(usize::from(row)).map_or("", |row| row.text.as_str());
    columns(text, 0, col).trim_end().to_string()
}

/// Returns the characters that begin in these columns; wide characters take two.
pub(super) fn columns(text: &str, from: u16, to: u16) -> &str {
    let place = |limit: u16| {
        let mut col = 0;
        let mut places = text.char_indices();
        let found = places.find(|(_, c)| {
            let here = col;
            col += c.width().unwrap_or(0);
            // A zero-width character belongs to the one before it.
            here >= usize::from(limit) && c.width() != Some(0)
        });
        found.map_or(text.len(), |(at, _)| at)
    };
    let start = place(from);
    &text[start..place(to).max(start)]
}

/// Returns the columns that a text takes.
pub(super) fn width(text: &str) -> usize {
    text.chars().filter_map(UnicodeWidthChar::width).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_with_wide_and_narrow_characters() {
        assert_eq!(columns("日本$ half", 6, 8), "ha");
        assert_eq!(columns("日本$ half", 0, 5), "日本$");
        assert_eq!(columns("e\u{301}x", 1, 9), "x");
        assert_eq!((columns("ab", 2, 9), columns("ab", 5, 1), columns("", 0, 0)), ("", "", ""));
    }
}
