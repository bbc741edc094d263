//! Matches typed input against the input a recording expects. The text may differ: Enters are counted, and the text
//! before an Enter only has to be non-empty.

use std::collections::VecDeque;

use super::keys::Key;

/// Input that the replay waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExpectedInput {
    /// Any character or key, which counts for up to this many; also an Enter that comes early.
    Of(usize),
    /// Enter.
    Enter,
}

/// Typed keys that nothing has consumed yet.
#[derive(Debug, Default)]
pub(super) struct TypedKeys {
    /// Lines ended by Enter: number of unconsumed characters and keys of each.
    lines: VecDeque<usize>,
    /// Unconsumed characters and keys of the current line.
    open: usize,
}

impl ExpectedInput {
    /// Returns the input that a recorded key requires.
    pub(super) fn of(key: &Key) -> ExpectedInput {
        match key {
            Key::Enter => ExpectedInput::Enter,
            other => ExpectedInput::Of(weight(other)),
        }
    }
}

/// Returns the characters of a text, or 1 for any other key.
fn weight(key: &Key) -> usize {
    match key {
        Key::Text(text) | Key::Paste(text) => text.chars().count().max(1),
        _ => 1,
    }
}

impl TypedKeys {
    /// Adds a typed key.
    pub(super) fn add(&mut self, key: &Key) {
        match key {
            Key::Enter => self.lines.push_back(std::mem::take(&mut self.open)),
            other => self.open = self.open.saturating_add(weight(other)),
        }
    }

    /// Consumes the expected input if it was typed.
    pub(super) fn take(&mut self, awaited: ExpectedInput) -> bool {
        match (awaited, self.lines.front_mut()) {
            (ExpectedInput::Enter, _) => self.lines.pop_front().is_some(),
            // An Enter stands for all input recorded before it.
            (ExpectedInput::Of(count), Some(line)) => {
                *line = line.saturating_sub(count);
                true
            }
            (ExpectedInput::Of(_), None) if self.open == 0 => false,
            (ExpectedInput::Of(count), None) => {
                self.open = self.open.saturating_sub(count);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTER: ExpectedInput = ExpectedInput::Enter;

    /// Counts the expected inputs that are satisfied by these keys.
    fn met(keys: &str, awaited: &[ExpectedInput]) -> usize {
        let mut typed = TypedKeys::default();
        for key in keys.chars() {
            typed.add(&if key == '\r' { Key::Enter } else { Key::Text(key.into()) });
        }
        awaited.iter().take_while(|awaited| typed.take(**awaited)).count()
    }

    #[test]
    fn any_text_matches_but_not_none() {
        let line = [ExpectedInput::Of(5), ENTER];
        assert_eq!(met("", &line), 0);
        assert_eq!(met("h", &line), 1);
        assert_eq!(met("hello", &line), 1);
        assert_eq!(met("a much longer text", &line), 1);
        for keys in ["hi\r", "hello\r", "a much longer text\r", "\r"] {
            assert_eq!(met(keys, &line), 2, "{keys:?}");
        }
    }

    #[test]
    fn text_may_come_at_once_or_shorter() {
        let keys = [ExpectedInput::Of(1), ExpectedInput::Of(1), ExpectedInput::Of(1), ENTER];
        assert_eq!(met("ab", &keys), 2);
        assert_eq!(met("abc", &keys), 3);
        assert_eq!(met("a\r", &keys), 4);
    }

    #[test]
    fn each_line_is_used_once() {
        let two = [ExpectedInput::Of(2), ENTER, ExpectedInput::Of(2), ENTER];
        assert_eq!(met("one\r", &two), 2);
        assert_eq!(met("one\rt", &two), 3);
        assert_eq!(met("one\rtwo\r", &two), 4);
    }
}
