//! The prompt line of a line-based program: the prompt, the text behind it, and a line entered by someone else.

use nerve_vt::terminal::MarkKind;

use super::columns::width;
use super::foreign_input::{ForeignInput, MAX_PROMPT_CHARS};
use super::inherited_line::InheritedLine;
use super::prompt_end::{PromptEnd, text_between};
use super::verdict::{Verdict, text_before_cursor, visible_text_before_cursor};
use super::{Driver, Source, View};

/// The prompt line of a line-based program, as of the last observation.
#[derive(Debug, Default)]
pub(super) struct PromptLine {
    /// Text of the prompt that was drawn when the program was silent.
    pub(super) learned: Option<String>,
    /// The program brackets pastes at the learned prompt.
    brackets_pastes: bool,
    /// The cursor's line.
    pub(super) cursor_line: u64,
    /// The text of that line was written over other text.
    pub(super) covers_text: bool,
    /// The cursor's line held nothing but a known prompt.
    pub(super) is_bare: bool,
    /// The cursor's line held a changed prompt of zsh or fish.
    pub(super) is_fresh: bool,
    /// The cursor's line held no prompt, or possibly one for the rest of a line.
    pub(super) lacks_prompt: bool,
    /// The cursor's line held text.
    pub(super) has_text: bool,
    /// The cursor's line held output without a line end, and a known prompt behind it.
    pub(super) output_end: Option<OutputEnd>,
    /// End of the drawn prompt. Text behind it was typed by someone.
    pub(super) end: Option<PromptEnd>,
    /// A line entered by someone else.
    pub(super) foreign_input: Option<ForeignInput>,
    /// The line that stood there when the driver attached to the program.
    pub(super) inherited: Option<InheritedLine>,
    /// An unfinished line that someone typed behind the prompt.
    pub(super) draft: Option<String>,
}

/// The end of output that has no line end: the program's prompt follows in the same row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OutputEnd {
    /// The row up to the cursor.
    pub(super) row: String,
    /// Column where the prompt begins.
    pub(super) col: u16,
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

/// Characters that end a continuation prompt: `...`, `   ...>`, `postgres-#`, `irb(main):002*`.
const CONTINUATION_ENDS: [char; 9] = ['>', '.', ':', '#', '$', '%', '|', '+', '*'];

/// Usual ends of a shell's prompt.
const SHELL_PROMPT_ENDS: [char; 4] = ['>', '#', '$', '%'];

/// Words in zsh's prompt for the rest of a line (`%_> `), and the word in the prompt of fish's `read`.
const INPUT_WORDS: &str = "\
    for while repeat select until if then else elif math cond cmdor cmdand pipe errpipe foreach case function \
    subsh cursh array quote dquote bquote cmdsubst mathsubst elif-then heredoc heredocd brace braceparam always \
    read";

/// Least length of a learned prompt, in characters, that marks the end of output in the same row.
const MIN_DISTINCTIVE_CHARS: usize = 3;

impl Driver {
    /// Returns true if the text is a prompt of this line-based program, trailing blanks aside: the known, the learned or
    /// the drawn one, or a continuation prompt. Such a prompt has no letters or digits, or the letters of the prompt.
    pub fn is_input_prompt(&self, text: &str) -> bool {
        let trimmed = text.trim_end();
        let drawn_prompt = self.prompt_line.drawn_text();
        let learned_prompt = self.prompt_line.learned.as_deref().unwrap_or_default();
        if trimmed.is_empty() {
            return false;
        }
        if self.is_prompt(text) || [drawn_prompt, learned_prompt.trim_end()].contains(&trimmed) {
            return true;
        }
        let letters = |text: &str| text.chars().filter(|c| c.is_alphabetic()).collect::<String>();
        let has_letters_of = |prompt: &str| {
            let text_letters = letters(trimmed);
            !text_letters.is_empty() && text_letters == letters(prompt)
        };
        let is_bare = !trimmed.contains(char::is_alphanumeric);
        trimmed.ends_with(CONTINUATION_ENDS)
            && (is_bare || has_letters_of(drawn_prompt) || has_letters_of(learned_prompt))
    }

    /// Returns the cursor's row up to the cursor while a turn runs: text behind it is older. Otherwise someone types there.
    pub(super) fn prompt_text(&self, view: &View<'_>) -> String {
        match self.turns.current.is_some() {
            true => visible_text_before_cursor(view.screen),
            false => text_before_cursor(view.screen),
        }
    }

    /// Returns true if the cursor's row is a prompt of the program: up to the cursor or, with a right-hand prompt, the whole row.
    pub(super) fn is_at_prompt(&self, view: &View<'_>) -> bool {
        self.is_prompt(&self.prompt_text(view)) || self.is_prompt(&text_before_cursor(view.screen))
    }

    /// Updates what the cursor's row of a line-based program holds.
    pub(super) fn observe_prompt_line(&mut self, view: &View<'_>) {
        let row = self.prompt_text(view);
        let has_text = !row.trim().is_empty();
        let is_at_prompt = self.is_at_prompt(view);
        // Output without a line end may have been taken for a part of the prompt.
        let ends_learned =
            has_text && self.prompt_line.learned.as_ref().is_some_and(|learned| learned.ends_with(&row));
        let is_input_request = self.is_input_request(&row);
        let may_be_rest = ends_learned && !is_at_prompt && (row.trim() == ">" || is_input_request);
        // zsh and fish switch bracketed paste on while they read a line.
        let brackets_pastes = view.screen.modes.bracketed_paste;
        let lacks_editor = self.prompt_line.brackets_pastes && !brackets_pastes;
        let lacks_prompt =
            may_be_rest || self.has_fresh_lines && (!has_text || lacks_editor || is_input_request);
        self.prompt_line.cursor_line = view.cursor_line;
        self.prompt_line.covers_text = view.covered_line == Some(view.cursor_line);
        self.prompt_line.has_text = has_text;
        self.prompt_line.lacks_prompt = lacks_prompt;
        self.prompt_line.is_fresh =
            self.has_fresh_lines && !lacks_prompt && (brackets_pastes || self.ends_like_prompt(&row));
        self.prompt_line.is_bare =
            is_at_prompt || ends_learned && !may_be_rest && self.turns.current.is_some();
        self.prompt_line.output_end = self.find_output_end(row).filter(|_| !self.prompt_line.is_bare);
    }

    /// Returns true if the row is zsh's prompt for the rest of a line, such as `quote> `, or the prompt of fish's `read`.
    fn is_input_request(&self, row: &str) -> bool {
        let is_request =
            |words: &str| words.split(' ').all(|word| INPUT_WORDS.split(' ').any(|known| known == word));
        self.has_fresh_lines && row.trim().strip_suffix('>').is_some_and(is_request)
    }

    /// Returns true if the row ends with the character with which the learned prompt or most shells' prompts end.
    fn ends_like_prompt(&self, row: &str) -> bool {
        let learned = self.prompt_line.learned.as_deref().unwrap_or_default().trim_end();
        let end = row.trim_end().chars().last();
        end.is_some_and(|end| SHELL_PROMPT_ENDS.contains(&end) || learned.ends_with(end))
    }

    /// Returns true if output hardly ends with the prompt by chance: the profile's prompt, or a learned one that is not short.
    pub(super) fn has_distinctive_prompt(&self) -> bool {
        let learned = self.prompt_line.learned.as_deref().unwrap_or_default().trim();
        self.profile.prompt.is_some() || learned.chars().count() >= MIN_DISTINCTIVE_CHARS
    }

    /// Finds a known prompt behind output in the cursor's row of a running turn.
    pub(super) fn find_output_end(&self, row: String) -> Option<OutputEnd> {
        if self.turns.current.is_none() || self.profile.composer.is_some() {
            return None;
        }
        let learned = self.prompt_line.learned.as_deref().filter(|learned| !learned.trim().is_empty());
        let begin = match (&self.profile.prompt, learned) {
            (Some(prompt), _) => {
                let mut begins = row.char_indices().rev().take(MAX_PROMPT_CHARS).map(|(at, _)| at);
                begins.find(|at| prompt.is_match(&row[*at..]))
            }
            (None, Some(learned)) => row.strip_suffix(learned).map(str::len),
            (None, None) => None,
        };
        let begin = begin.filter(|begin| *begin > 0)?;
        Some(OutputEnd { col: u16::try_from(width(&row[..begin])).ok()?, row })
    }

    /// Returns true if a line-based program without marks shows a continuation prompt in the running turn, such as `   ...>`.
    pub(super) fn asks_for_rest(&self, row: &str) -> bool {
        let learned = self.prompt_line.learned.as_deref().unwrap_or_default();
        let text = row.trim();
        let is_rest = match self.profile.foreground {
            true => text == ">",
            false => text.ends_with('>') || ["...", "|"].contains(&text),
        };
        let is_symbol = !text.is_empty() && !text.contains(char::is_alphanumeric);
        self.turns.current.is_some()
            && self.profile.prompt.is_none()
            && !learned.trim().is_empty()
            && (is_symbol && is_rest || self.is_input_request(row))
            && !learned.ends_with(row.trim_start())
    }

    /// Learns the prompt of a line-based program from a ready state.
    pub(super) fn learn_prompt(&mut self, verdict: &Verdict, view: &View<'_>) {
        let is_ready = matches!(verdict, Verdict::Ready { .. });
        let is_bare = !is_ready && self.is_inherited_draft_gone(view);
        if self.profile.composer.is_some() || !is_ready && !is_bare {
            return;
        }
        if self.prompt_line.is_visible(view) {
            // Someone types behind it.
            return;
        }
        if self.is_at_inherited_draft(view) {
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
        // A part of the row may be output that the prompt has not covered, or that it follows.
        let may_be_output = self.prompt_line.covers_text || self.prompt_line.output_end.is_some();
        if (quiet || is_bare) && !may_be_output && !self.prompt_line.lacks_prompt {
            let row = self.prompt_text(view);
            self.prompt_line.learned = (!row.trim().is_empty()).then_some(row);
            self.prompt_line.brackets_pastes = view.screen.modes.bracketed_paste;
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
            .or_else(|| self.prompt_line.typed_text(view))
            .or_else(|| self.find_inherited_draft(view))?;
        Some(draft.trim().to_string()).filter(|draft| !draft.is_empty())
    }
}
