//! Finds rows of a line-based program's output that its answer lacks, because the program moved the cursor or erased them.

use nerve_agent::driver::{Overwrite, TurnEnd};
use nerve_host::backend::Backend;
use nerve_vt::terminal::{LineIndex, TerminalState};

use super::Actor;
use crate::terminal::turn_text::{TAB_WIDTH, shows_prompt_above};

/// Maximum width of a continuation prompt, in columns.
const CONTINUATION_WIDTH: usize = 16;

/// The screen around a prompt that is about to be typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PromptLayout {
    /// The program's own prompt: the text before the cursor.
    before: Box<str>,
    /// Maximum rows of the prompt's echo below its first row.
    echo_rows: u64,
    /// Line after the last one with text, if there is text below the cursor; otherwise 0.
    text_end: u64,
}

impl PromptLayout {
    pub(super) fn new(terminal: &TerminalState, prompt: &str) -> PromptLayout {
        let col = terminal.cursor_col();
        let before = terminal.line_text_to(terminal.cursor_line(), col).unwrap_or_default();
        PromptLayout {
            before: before.trim_end().into(),
            echo_rows: count_echo_rows(prompt, col.into(), terminal.size().cols.into()),
            text_end: if has_text_below(terminal) { terminal.line_count() } else { 0 },
        }
    }

    /// Returns true if the screen had text below the prompt.
    pub(super) fn is_above_text(&self) -> bool {
        self.text_end > 0
    }

    /// Returns true if the row above line `start` still shows the program's prompt with the echo of `prompt` behind it.
    fn is_echoed_above(&self, terminal: &TerminalState, start: u64, prompt: &str) -> bool {
        let row = start.checked_sub(1).and_then(|line| terminal.line_text(LineIndex(line)));
        row.is_some_and(|row| row.starts_with(&*self.before)) && shows_prompt_above(terminal, start, prompt)
    }
}

/// Returns true if a row below the cursor shows text.
fn has_text_below(terminal: &TerminalState) -> bool {
    terminal.line_count() > terminal.cursor_line().0 + 1
}

/// Returns the maximum number of rows of a prompt's echo below its first row, which begins at column `col`.
fn count_echo_rows(prompt: &str, col: usize, cols: usize) -> u64 {
    let width = |c: char| match c {
        '\t' => TAB_WIDTH,
        _ => 1 + usize::from(!c.is_ascii()),
    };
    let rows = prompt.lines().enumerate().map(|(at, line)| {
        let before = if at == 0 { col } else { CONTINUATION_WIDTH };
        let wrapped = (before + line.chars().map(width).sum::<usize>()) / cols.max(1);
        (wrapped + usize::from(at > 0)) as u64
    });
    rows.sum()
}

impl<B: Backend> Actor<B> {
    /// Returns the reason why the rows of a finished turn lack output or contain other text; `None` if they are whole. `shadow`: the
    /// terminal from which they are read, if that has no older text.
    pub(super) fn find_lost_rows(
        &self,
        end: &TurnEnd,
        prompt: &str,
        layout: &PromptLayout,
        shadow: Option<&TerminalState>,
    ) -> Option<&'static str> {
        let terminal = shadow.unwrap_or(&self.terminal);
        let (profile, lines) = (&self.spec.profile, &end.span.lines);
        if profile.composer.is_some() || terminal.modes().alternate {
            return None;
        }
        if lines.end < lines.start {
            return Some("the program moved the cursor above its prompt");
        }
        // Output that is reconstructed from screens has other cursor movements than the program's own.
        if self.link.backend.is_approximate() {
            return None;
        }
        let echo_rows = if end.span.has_echo { layout.echo_rows } else { 0 };
        let is_lost = match end.overwrite {
            Some(Overwrite::Output) => true,
            Some(Overwrite::Echo) => !layout.is_echoed_above(terminal, lines.start, prompt),
            Some(Overwrite::ErasedRows(rows)) => rows > echo_rows,
            Some(Overwrite::AmbiguousRow | Overwrite::LastRow) | None => false,
        };
        match end.overwrite {
            Some(Overwrite::LastRow) => {
                return Some("the program wrote its prompt over the last row of its output");
            }
            Some(Overwrite::AmbiguousRow) => {
                return Some("its last row may be a part of the program's prompt");
            }
            _ => {}
        }
        if is_lost {
            return Some("the program wrote over rows above its output, or erased a part of it");
        }
        if terminal.first_kept_line().0 > lines.start + echo_rows {
            return Some("a part of its output is no longer in the scrollback");
        }
        // Programs other than shells may draw a toolbar below their prompt.
        if !profile.foreground {
            return None;
        }
        if has_text_below(terminal) {
            return Some("the program left text below its prompt");
        }
        let is_mixed = shadow.is_none() && lines.start < lines.end && lines.start < layout.text_end;
        is_mixed.then_some("the screen had text below the prompt, which the output may not cover")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_echo_are_counted_with_wraps() {
        assert_eq!(count_echo_rows("echo", 2, 80), 0);
        assert_eq!(count_echo_rows(&"x".repeat(100), 2, 80), 1);
        assert_eq!(count_echo_rows("a\nb\n\tc", 2, 80), 2);
        assert_eq!(count_echo_rows("日日日日", 2, 8), 1);
    }
}
