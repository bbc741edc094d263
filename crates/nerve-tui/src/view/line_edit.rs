//! A single-line editor with the keys of `less` and readline.

use crate::view::keys::{Code, Key};

/// Maximum length in characters.
const TEXT: usize = 1000;

/// A line of text with a cursor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LineEdit {
    text: String,
    /// Cursor position in bytes, on a character boundary.
    cursor: usize,
}

impl LineEdit {
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the cursor position in bytes.
    pub(crate) fn cursor(&self) -> usize {
        self.cursor
    }

    /// Replaces the text and puts the cursor at its end.
    pub(crate) fn set(&mut self, text: &str) {
        (self.text, self.cursor) = (text.to_string(), text.len());
    }

    /// Inserts the first line of `text`, without control characters, as far as there is room.
    pub(crate) fn insert(&mut self, text: &str) {
        let room = TEXT.saturating_sub(self.text.chars().count());
        let line = text.lines().next().unwrap_or_default();
        let inserted: String = line.chars().filter(|char| !char.is_control()).take(room).collect();
        self.text.insert_str(self.cursor, &inserted);
        self.cursor += inserted.len();
    }

    /// Handles an editing key. Returns false for any other key.
    pub(crate) fn key(&mut self, key: Key) -> bool {
        let by_word = key.ctrl || key.alt;
        match key.code {
            Code::Char(char) if key.ctrl && !key.alt => match char {
                'h' => self.delete_to(self.char_before()),
                'd' => self.delete_to(self.char_after()),
                'w' => self.delete_to(self.word_before()),
                'u' => {
                    self.text.clear();
                    self.cursor = 0;
                }
                'a' => self.cursor = 0,
                'e' => self.cursor = self.text.len(),
                'b' => self.cursor = self.char_before(),
                _ => return false,
            },
            Code::Char(char) if key.alt && !key.ctrl => match char {
                'h' => self.cursor = self.char_before(),
                'l' => self.cursor = self.char_after(),
                'b' => self.cursor = self.word_before(),
                'w' | 'f' => self.cursor = self.word_after(),
                '0' => self.cursor = 0,
                '$' => self.cursor = self.text.len(),
                'x' => self.delete_to(self.char_after()),
                'X' | 'd' => self.delete_to(self.word_after()),
                _ => return false,
            },
            Code::Char(char) if !key.ctrl && !key.alt => self.insert(&char.to_string()),
            Code::Backspace if by_word => self.delete_to(self.word_before()),
            Code::Backspace => self.delete_to(self.char_before()),
            Code::Delete if by_word => self.delete_to(self.word_after()),
            Code::Delete => self.delete_to(self.char_after()),
            Code::Left => self.cursor = if by_word { self.word_before() } else { self.char_before() },
            Code::Right => self.cursor = if by_word { self.word_after() } else { self.char_after() },
            Code::Home => self.cursor = 0,
            Code::End => self.cursor = self.text.len(),
            _ => return false,
        }
        true
    }

    /// Deletes the text between the cursor and another position.
    fn delete_to(&mut self, place: usize) {
        let (start, end) = (self.cursor.min(place), self.cursor.max(place));
        self.text.replace_range(start..end, "");
        self.cursor = start;
    }

    fn char_before(&self) -> usize {
        let previous = self.text[..self.cursor].char_indices().next_back();
        previous.map_or(0, |(at, _)| at)
    }

    fn char_after(&self) -> usize {
        let next = self.text[self.cursor..].chars().next();
        self.cursor + next.map_or(0, char::len_utf8)
    }

    fn word_before(&self) -> usize {
        let text = self.text[..self.cursor].trim_end();
        text.char_indices()
            .rfind(|(_, char)| char.is_whitespace())
            .map_or(0, |(at, char)| at + char.len_utf8())
    }

    fn word_after(&self) -> usize {
        let rest = &self.text[self.cursor..];
        let word = rest.len() - rest.trim_start().len();
        let end = rest[word..].find(char::is_whitespace).map_or(rest.len(), |at| word + at);
        self.cursor + end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text after these keys, with `|` at the cursor.
    fn after(text: &str, keys: &str) -> String {
        let mut line = LineEdit::default();
        line.set(text);
        for key in keys.split_whitespace() {
            assert!(line.key(key.parse().unwrap()), "{key}");
        }
        let (before, after) = line.text().split_at(line.cursor());
        format!("{before}|{after}")
    }

    #[test]
    fn edits_with_less_and_readline_keys() {
        assert_eq!(after("ab", "left x"), "ax|b");
        assert_eq!(after("日本", "home delete é right"), "é本|");
        assert_eq!(after("one two", "ctrl+w"), "one |");
        assert_eq!(after("one two", "alt+backspace alt+backspace"), "|");
        assert_eq!(after("one two", "ctrl+left ctrl+left alt+w"), "one| two");
        assert_eq!(after("one two", "alt+0 alt+X"), "| two");
        assert_eq!(after("one", "ctrl+a alt+x end backspace"), "n|");
        assert_eq!(after("one", "alt+h alt+l alt+$ ctrl+h"), "on|");
        assert_eq!(after("one", "left left ctrl+u"), "|");
        assert_eq!(after("", "left right backspace delete ctrl+w alt+d home"), "|");
    }

    #[test]
    fn accepts_one_bounded_line() {
        let mut line = LineEdit::default();
        line.insert("a\tb\u{7}\nmore");
        assert_eq!(line.text(), "ab");
        line.insert(&"日".repeat(2 * TEXT));
        assert_eq!(line.text().chars().count(), TEXT);
        assert!(!line.key("f5".parse().unwrap()) && !line.key("enter".parse().unwrap()));
    }
}
