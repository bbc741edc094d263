//! The state of a line-based program's prompt: its text, its place, and what was typed behind it.

use nerve_vt::terminal::MarkKind;

use super::foreign_input::ForeignInput;
use super::inherited_line::InheritedLine;
use super::prompt_end::{PromptEnd, text_between};
use super::verdict::{Verdict, text_before_cursor};
use super::{Driver, Source, View};

/// State of a line-based program's prompt, kept across observations.
#[derive(Debug, Default)]
pub(super) struct PromptLine {
    /// Text of a prompt that the program drew before it fell silent, blanks included.
    pub(super) learned: Option<String>,
    /// Bracketed paste was on when a prompt was last learned, even a blank one.
    pub(super) has_bracketed_paste: bool,
    /// End of the prompt at which the program last became ready. Text behind it was typed by someone.
    pub(super) end: Option<PromptEnd>,
    /// A line that was entered without the driver.
    pub(super) foreign_input: Option<ForeignInput>,
    /// The line that stood there when the driver attached to the program.
    pub(super) inherited: Option<InheritedLine>,
    /// An unfinished line that someone typed behind the prompt.
    pub(super) draft: Option<String>,
}

impl PromptLine {
    /// Returns the drawn prompt without trailing blanks, or an empty text.
    pub(super) fn drawn_text(&self) -> &str {
        self.end.as_ref().map_or("", PromptEnd::text)
    }

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
    /// Records where the prompt ends, and learns its text if the row cannot be output.
    pub(super) fn learn_prompt(&mut self, verdict: &Verdict, view: &View<'_>) {
        let is_ready = matches!(verdict, Verdict::Ready { .. });
        let is_draft_gone = !is_ready && self.is_inherited_draft_gone(view);
        if self.profile.composer.is_some() || !(is_ready || is_draft_gone) {
            return;
        }
        if self.prompt_line.is_visible(view) {
            // Someone is typing behind the drawn prompt.
            return;
        }
        if self.track_inherited_draft(view) {
            return;
        }
        if self.is_busy_by_foreign_input() && !self.is_prompt(&text_before_cursor(view.screen)) {
            // The row holds typed-ahead text behind a prompt, or no prompt at all.
            if let Some(prompt) = self.find_prompt_in_line(view) {
                self.prompt_line.end = Some(prompt);
            }
            return;
        }
        self.prompt_line.end = PromptEnd::at_cursor(view);
        let is_silent = matches!(verdict, Verdict::Ready { source: Source::Quiet | Source::Foreground, .. });
        // The prompt may have left output in the row, before or behind it.
        let may_be_output = self.cursor_row.is_overwrite || self.cursor_row.output_end.is_some();
        if (is_silent || is_draft_gone) && !may_be_output && !self.cursor_row.has_no_prompt {
            let text = self.prompt_candidate(view);
            self.prompt_line.learned = (!text.trim().is_empty()).then_some(text);
            self.prompt_line.has_bracketed_paste = view.screen.modes.bracketed_paste;
        }
    }

    /// Finds the unfinished line at the prompt while no turn runs.
    pub(super) fn find_line_draft(&self, view: &View<'_>) -> Option<String> {
        if self.profile.composer.is_some() || self.turns.current.is_some() {
            return None;
        }
        let mark = self.marks.last.as_ref().filter(|mark| mark.kind == MarkKind::CommandStart);
        // The first two sources ignore text behind the cursor: it may be a right-hand prompt or a suggestion.
        let draft = mark
            .and_then(|mark| text_between(view, mark.line.0, mark.col))
            .or_else(|| self.prompt_line.typed_text(view))
            .or_else(|| self.find_inherited_draft(view))?;
        Some(draft.trim().to_string()).filter(|draft| !draft.is_empty())
    }
}
