//! Lines typed into a line-based program faster than it reads them: its next prompt may answer an earlier line.

use nerve_types::TsNs;

use super::foreign_input::MAX_PROMPT_CHARS;
use super::observation::squeeze;
use super::verdict::{Verdict, text_before_cursor};
use super::{Driver, View};

const PASTE_START: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";
/// Without the expected prompts, the program is ready after this many quiet periods: it may have read the lines as the input of a
/// command.
const PATIENCE: u32 = 5;

/// The lines typed since the program was last ready.
#[derive(Debug, Default)]
pub(super) struct Typeahead {
    /// Number of lines.
    lines: u32,
    /// Number of prompts that the shell has marked since the first line.
    marked_prompts: u32,
    /// Cursor line when the first line was typed.
    first_line: u64,
}

impl Typeahead {
    /// Records typed input.
    pub(super) fn record(&mut self, bytes: &[u8], cursor_line: u64) {
        if bytes.contains(&0x03) {
            // The terminal drops unread input on an interrupt.
            *self = Typeahead::default();
        }
        if self.lines == 0 {
            *self = Typeahead { first_line: cursor_line, ..Typeahead::default() };
        }
        self.lines = self.lines.saturating_add(submitted_lines(bytes));
    }

    /// Records that the shell marked a prompt, or the prompt for the rest of a command.
    pub(super) fn on_prompt(&mut self) {
        self.marked_prompts = self.marked_prompts.saturating_add(1);
    }
}

impl Driver {
    /// Delays a ready verdict until each typed line has been followed by a prompt.
    pub(super) fn await_typeahead(&self, now: TsNs, view: &View<'_>, verdict: Verdict) -> Verdict {
        let is_ready = matches!(verdict, Verdict::Ready { .. });
        if !is_ready || self.typeahead.lines < 2 || self.prompts_since_input(view) >= self.typeahead.lines {
            return verdict;
        }
        // Prompts of a turn that have scrolled off the screen cannot be counted.
        let is_scrolled = self.turns.current.is_some() && self.typeahead.first_line < view.screen.first_line;
        let patience = if is_scrolled { 1 } else { PATIENCE };
        let due = self.silent_since() + self.profile.timing.quiet() * patience;
        if now < due { Verdict::Unknown { recheck: Some(due) } } else { verdict }
    }

    /// Returns the number of prompts drawn below the first typed line, as far as they are still visible.
    fn prompts_since_input(&self, view: &View<'_>) -> u32 {
        if self.marks.marks_prompts() {
            return self.typeahead.marked_prompts;
        }
        let cursor_row = usize::from(view.screen.cursor.row);
        let below = (self.typeahead.first_line + 1).saturating_sub(view.screen.first_line);
        let below = usize::try_from(below).unwrap_or(usize::MAX);
        let rows = view.screen.rows.iter().take(cursor_row).skip(below);
        let is_prompt = |text: &str| self.begins_with_prompt(text) || self.echoes_line_of_turn(text);
        let above = rows.filter(|row| is_prompt(&row.text)).count();
        let at_cursor = cursor_row >= below && self.begins_with_prompt(&text_before_cursor(view.screen));
        u32::try_from(above).unwrap_or(u32::MAX).saturating_add(at_cursor.into())
    }

    /// Returns true if the row is a prompt of the program with a further line of the running turn behind it.
    fn echoes_line_of_turn(&self, row: &str) -> bool {
        let Some(turn) = &self.turns.current else { return false };
        // A trailing line break followed by Enter makes one more, empty line.
        let lines: Vec<String> = turn.prompt.lines().skip(1).chain([""]).map(squeeze).collect();
        let mut ends = row.char_indices().map(|(at, char)| at + char.len_utf8()).take(MAX_PROMPT_CHARS);
        ends.any(|end| {
            let (before, echo) = row.split_at(end);
            lines.contains(&squeeze(echo)) && self.is_any_prompt(before)
        })
    }
}

/// Returns how many lines the input submits. Line ends inside a bracketed paste submit nothing.
fn submitted_lines(bytes: &[u8]) -> u32 {
    let (mut lines, mut rest) = (0, bytes);
    while let Some((first, tail)) = rest.split_first() {
        if let Some(pasted) = rest.strip_prefix(PASTE_START) {
            let end = pasted.windows(PASTE_END.len()).position(|window| window == PASTE_END);
            rest = end.map_or(&[], |end| &pasted[end..]);
            continue;
        }
        let is_line_end = match first {
            b'\r' => !tail.starts_with(b"\n"),
            b'\n' | 0x03 | 0x04 | 0x1a | 0x1c => true,
            _ => false,
        };
        lines += u32::from(is_line_end);
        rest = tail;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pasted_line_ends_do_not_submit() {
        assert_eq!(submitted_lines(b"a\rb\r\nc"), 2);
        assert_eq!(submitted_lines(b"\x1b[200~a\nb\x1b[201~\r"), 1);
        assert_eq!(submitted_lines(b"\x1b[200~a\nb"), 0);
        assert_eq!(submitted_lines(b"\x03"), 1);
    }
}
