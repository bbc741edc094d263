//! Continuation prompts: a program asks for the rest of a command, such as `...`, `   ...>` or zsh's `quote> `.

use super::Driver;

/// Characters that end a continuation prompt: `...`, `   ...>`, `postgres-#`, `irb(main):002*`.
const CONTINUATION_ENDS: [char; 9] = ['>', '.', ':', '#', '$', '%', '|', '+', '*'];

/// Words in zsh's secondary prompt (`%_> `), and the one in the prompt of fish's `read`.
const SECONDARY_PROMPT_WORDS: [&str; 33] = [
    "for",
    "while",
    "repeat",
    "select",
    "until",
    "if",
    "then",
    "else",
    "elif",
    "math",
    "cond",
    "cmdor",
    "cmdand",
    "pipe",
    "errpipe",
    "foreach",
    "case",
    "function",
    "subsh",
    "cursh",
    "array",
    "quote",
    "dquote",
    "bquote",
    "cmdsubst",
    "mathsubst",
    "elif-then",
    "heredoc",
    "heredocd",
    "brace",
    "braceparam",
    "always",
    "read",
];

impl Driver {
    /// Returns true for a primary or continuation prompt of this line-based program, trailing blanks aside.
    pub fn is_any_prompt(&self, text: &str) -> bool {
        let trimmed = text.trim_end();
        let drawn_prompt = self.prompt_line.drawn_text();
        let learned_prompt = self.prompt_line.learned.as_deref().unwrap_or_default();
        if trimmed.is_empty() {
            return false;
        }
        if self.is_prompt(text) || [drawn_prompt, learned_prompt.trim_end()].contains(&trimmed) {
            return true;
        }
        // A continuation prompt has only symbols, or the same letters as the primary prompt.
        let letters = |text: &str| text.chars().filter(|c| c.is_alphabetic()).collect::<String>();
        let has_letters_of = |prompt: &str| {
            let text_letters = letters(trimmed);
            !text_letters.is_empty() && text_letters == letters(prompt)
        };
        let is_symbol = !trimmed.contains(char::is_alphanumeric);
        trimmed.ends_with(CONTINUATION_ENDS)
            && (is_symbol || has_letters_of(drawn_prompt) || has_letters_of(learned_prompt))
    }

    /// Returns true for zsh's secondary prompt, such as `quote> `, and for the prompt of fish's `read`.
    pub(super) fn is_secondary_prompt(&self, row: &str) -> bool {
        let has_known_words =
            |words: &str| words.split(' ').all(|word| SECONDARY_PROMPT_WORDS.contains(&word));
        self.has_fresh_lines && row.trim().strip_suffix('>').is_some_and(has_known_words)
    }

    /// Returns true if the running turn shows a continuation prompt, such as `   ...>`. The profile has no prompt.
    pub(super) fn is_at_continuation_prompt(&self, row: &str) -> bool {
        let learned = self.prompt_line.learned.as_deref().unwrap_or_default();
        let text = row.trim();
        let has_continuation_end = match self.profile.foreground {
            true => text == ">",
            false => text.ends_with('>') || ["...", "|"].contains(&text),
        };
        let is_symbol = !text.is_empty() && !text.contains(char::is_alphanumeric);
        self.turns.current.is_some()
            && self.profile.prompt.is_none()
            && !learned.trim().is_empty()
            && ((is_symbol && has_continuation_end) || self.is_secondary_prompt(row))
            // The end of the learned prompt is the prompt itself.
            && !learned.ends_with(row.trim_start())
    }
}
