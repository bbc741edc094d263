//! Jumps to the matching bracket, like `{`, `(`, `}` and `)` in `less`.

use crate::view::document::Document;
use crate::view::keys::Operation;
use crate::view::pager::Pager;

/// Maximum number of lines searched.
const MAX_LINES: usize = 50_000;

impl Pager {
    /// Jumps from an opening bracket in the top line down to its closing bracket, or from a closing bracket in the
    /// bottom line up to its opening bracket. `nth` selects among several in that line, 1-based.
    pub(crate) fn go_to_bracket(&mut self, operation: Operation, nth: i64, document: &Document<'_>) {
        let (from, to, is_down) = match operation {
            Operation::CloseBrace => ('{', '}', true),
            Operation::CloseParenthesis => ('(', ')', true),
            Operation::OpenBrace => ('}', '{', false),
            _ => (')', '(', false),
        };
        let top = self.viewport.top_line();
        let line = if is_down { top } else { self.last_line().unwrap_or(top) };
        let text = document.text(line).unwrap_or_default();
        let nth = usize::try_from(nth.max(1)).unwrap_or(usize::MAX);
        let Some((at, _)) = text.match_indices(from).nth(nth - 1) else {
            let place = if is_down { "first" } else { "last" };
            return self.show_message(&format!("no '{from}' in the {place} line of the window"));
        };
        let lines = document.lines();
        let matching = if is_down {
            let rest = text[at + 1..].to_string();
            let others = (line + 1..lines.end).map(|line| (line, document.text(line).unwrap_or_default()));
            let texts = std::iter::once((line, rest)).chain(others);
            matching_line(texts, from, to, |text, closes| text.chars().any(closes))
        } else {
            let rest = text[..at].to_string();
            let others =
                (lines.start..line).rev().map(|line| (line, document.text(line).unwrap_or_default()));
            let texts = std::iter::once((line, rest)).chain(others);
            matching_line(texts, from, to, |text, closes| text.chars().rev().any(closes))
        };
        let Some(line) = matching else {
            return self.show_message(&format!("no matching '{to}' within {MAX_LINES} lines"));
        };
        self.go_to(line);
        if is_down {
            self.viewport.go_to_bottom(line);
        }
    }
}

/// Returns the line of the matching bracket, skipping nested pairs: `to` ends what `from` begins. `any_char` searches a text in one direction.
fn matching_line(
    texts: impl Iterator<Item = (u64, String)>,
    from: char,
    to: char,
    any_char: impl Fn(&str, &mut dyn FnMut(char) -> bool) -> bool,
) -> Option<u64> {
    let mut depth = 1_u64;
    let mut closes = |char: char| {
        if char == from {
            depth += 1;
        } else if char == to {
            depth -= 1;
        }
        depth == 0
    };
    texts.take(MAX_LINES).find(|(_, text)| any_char(text, &mut closes)).map(|(line, _)| line)
}
