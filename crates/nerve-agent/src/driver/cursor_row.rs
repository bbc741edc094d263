//! The cursor's row of a line-based program: a prompt, output, or output with a prompt behind it.

use super::output_end::OutputEnd;
use super::verdict::{text_before_cursor, visible_text_before_cursor};
use super::{Driver, View};

/// Usual ends of a shell's prompt.
const SHELL_PROMPT_ENDS: [char; 4] = ['>', '#', '$', '%'];

/// The cursor's row at the last observation.
#[derive(Debug, Default)]
pub(super) struct CursorRow {
    /// The cursor's line.
    pub(super) line: u64,
    /// The row's text overwrote other text.
    pub(super) is_overwrite: bool,
    /// The row holds text.
    pub(super) has_text: bool,
    /// The row holds only a known prompt or, during a turn, the end of the learned one.
    pub(super) is_bare_prompt: bool,
    /// The row looks like a prompt of zsh or fish, whether known or changed.
    pub(super) is_likely_prompt: bool,
    /// The row is no prompt, or perhaps a continuation prompt. False proves nothing.
    pub(super) has_no_prompt: bool,
    /// Set if the row holds output and a known prompt behind it.
    pub(super) output_end: Option<OutputEnd>,
}

impl Driver {
    /// Returns the row to match against prompts: up to the cursor during a turn, otherwise with the text behind it.
    pub(super) fn prompt_candidate(&self, view: &View<'_>) -> String {
        if self.turns.current.is_some() {
            // Text behind the cursor is older than the turn.
            visible_text_before_cursor(view.screen)
        } else {
            text_before_cursor(view.screen)
        }
    }

    /// Returns true if the row is a prompt, either up to the cursor or as a whole with a right-hand prompt.
    pub(super) fn is_at_prompt(&self, view: &View<'_>) -> bool {
        self.is_prompt(&self.prompt_candidate(view)) || self.is_prompt(&text_before_cursor(view.screen))
    }

    /// Records what the cursor's row holds.
    pub(super) fn observe_cursor_row(&mut self, view: &View<'_>) {
        let text = self.prompt_candidate(view);
        let has_text = !text.trim().is_empty();
        let is_at_prompt = self.is_at_prompt(view);
        // The learned prompt may begin with output, so the prompt may be only its end.
        let learned = self.prompt_line.learned.as_deref();
        let is_learned_end = has_text && learned.is_some_and(|learned| learned.ends_with(&text));
        let is_secondary_prompt = self.is_secondary_prompt(&text);
        let is_possible_continuation =
            is_learned_end && !is_at_prompt && (text.trim() == ">" || is_secondary_prompt);
        let is_editor_on = view.screen.modes.bracketed_paste;
        // zsh and fish switch bracketed paste on while they read a line.
        let is_editor_off = self.prompt_line.has_bracketed_paste && !is_editor_on;
        let has_no_prompt = is_possible_continuation
            || (self.has_fresh_lines && (!has_text || is_editor_off || is_secondary_prompt));
        let has_known_end = is_editor_on || self.has_prompt_end(&text);
        let is_bare_prompt =
            is_at_prompt || (is_learned_end && !is_possible_continuation && self.turns.current.is_some());
        self.cursor_row = CursorRow {
            line: view.cursor_line,
            is_overwrite: view.covered_line == Some(view.cursor_line),
            has_text,
            is_bare_prompt,
            is_likely_prompt: self.has_fresh_lines && !has_no_prompt && has_known_end,
            has_no_prompt,
            output_end: self.find_output_end(text).filter(|_| !is_bare_prompt),
        };
    }

    /// Returns true if the row's last character ends the learned prompt or usual shell prompts.
    fn has_prompt_end(&self, row: &str) -> bool {
        let learned = self.prompt_line.learned.as_deref().unwrap_or_default().trim_end();
        let last = row.trim_end().chars().last();
        last.is_some_and(|last| SHELL_PROMPT_ENDS.contains(&last) || learned.ends_with(last))
    }
}
