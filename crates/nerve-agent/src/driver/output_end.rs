//! Output without a line end: the program's prompt follows it in the same row.

use super::Driver;
use super::columns::width;
use super::foreign_input::MAX_PROMPT_CHARS;

/// Minimum length in characters of a learned prompt that output rarely ends with by chance.
const MIN_DISTINCTIVE_PROMPT_CHARS: usize = 3;

/// A row in which the prompt follows output that has no line end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OutputEnd {
    /// Output and prompt, up to the cursor.
    pub(super) row: String,
    /// Column where the prompt begins.
    pub(super) col: u16,
}

impl Driver {
    /// Returns true if output is unlikely to end like the prompt: it is the profile's, or long enough.
    pub(super) fn has_distinctive_prompt(&self) -> bool {
        let learned = self.prompt_line.learned.as_deref().unwrap_or_default().trim();
        self.profile.prompt.is_some() || learned.chars().count() >= MIN_DISTINCTIVE_PROMPT_CHARS
    }

    /// Finds a known prompt behind output in the cursor's row of a running turn.
    pub(super) fn find_output_end(&self, row: String) -> Option<OutputEnd> {
        if self.turns.current.is_none() || self.profile.composer.is_some() {
            return None;
        }
        let learned = self.prompt_line.learned.as_deref().filter(|learned| !learned.trim().is_empty());
        let start = match (&self.profile.prompt, learned) {
            (Some(prompt), _) => {
                // The shortest match leaves the most to the output.
                let mut starts = row.char_indices().rev().take(MAX_PROMPT_CHARS).map(|(at, _)| at);
                starts.find(|at| prompt.is_match(&row[*at..]))
            }
            (None, Some(learned)) => row.strip_suffix(learned).map(str::len),
            (None, None) => None,
        };
        // A prompt at the beginning of the row follows no output.
        let start = start.filter(|start| *start > 0)?;
        let col = u16::try_from(width(&row[..start])).ok()?;
        Some(OutputEnd { row, col })
    }
}
