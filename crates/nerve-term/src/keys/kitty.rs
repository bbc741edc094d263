//! Keys as bytes for programs that asked for the kitty keyboard protocol
//! (<https://sw.kovidgoyal.net/kitty/keyboard-protocol/>).

use super::{Code, Key};

/// Nothing is ambiguous: Escape and what is held with Control or Alt are escape codes.
const DISAMBIGUATE: u8 = 1;
/// Presses, repeats and releases are told apart. There are presses here only, which are told as without it.
const EVENT_TYPES: u8 = 2;
/// With Shift the shifted character is told too.
const ALTERNATE_KEYS: u8 = 4;
/// What gives text is an escape code too.
const ALL_KEYS: u8 = 8;
/// With its text.
const TEXT: u8 = 16;

impl Key {
    /// The bytes of the protocol with these flags; `None` where it leaves them as they were without it.
    pub(super) fn kitty(self, flags: u8) -> Option<Vec<u8>> {
        let all = flags & ALL_KEYS != 0;
        let unambiguous = all || flags & DISAMBIGUATE != 0;
        if !unambiguous && flags & EVENT_TYPES == 0 {
            return None;
        }
        let (number, last) = match self.code {
            Code::Char(char) => return self.kitty_char(char, flags),
            // Where the shell is left in these modes by a program that crashed, a person can still type `reset`.
            Code::Enter | Code::Tab | Code::Backspace if !all && self.modifiers() == 1 => return None,
            Code::Esc if !unambiguous && self.modifiers() == 1 => return None,
            Code::Enter => (13, 'u'),
            Code::Tab => (9, 'u'),
            Code::Backspace => (127, 'u'),
            Code::Esc => (27, 'u'),
            Code::Up => (1, 'A'),
            Code::Down => (1, 'B'),
            Code::Right => (1, 'C'),
            Code::Left => (1, 'D'),
            Code::Home => (1, 'H'),
            Code::End => (1, 'F'),
            Code::Insert => (2, '~'),
            Code::Delete => (3, '~'),
            Code::PageUp => (5, '~'),
            Code::PageDown => (6, '~'),
            // Not 'R', which an answer to the question for the cursor ends with.
            Code::F(3) => (13, '~'),
            Code::F(nth @ 1..=4) => (1, char::from(b'P' + nth - 1)),
            Code::F(5) => (15, '~'),
            Code::F(nth @ 6..=10) => (u32::from(nth) + 11, '~'),
            Code::F(nth @ 11..=12) => (u32::from(nth) + 12, '~'),
            Code::F(nth @ 13..=20) => (57376 + u32::from(nth) - 13, 'u'),
            Code::F(_) => return Some(Vec::new()),
        };
        let code = match (number, self.modifiers()) {
            (1, 1) => format!("\x1b[{last}"),
            (number, 1) => format!("\x1b[{number}{last}"),
            (number, modifiers) => format!("\x1b[{number};{modifiers}{last}"),
        };
        Some(code.into_bytes())
    }

    fn kitty_char(self, char: char, flags: u8) -> Option<Vec<u8>> {
        let gives_text = !self.ctrl && !self.alt;
        if flags & (DISAMBIGUATE | ALL_KEYS) == 0 || gives_text && flags & ALL_KEYS == 0 {
            return None;
        }
        // A key is called by what it gives without Shift. Of letters that is known, of `$` only the keyboard's layout would tell.
        let plain = lower(char);
        let key = Key { shift: self.shift || plain != char, ..self };
        let mut code = format!("\x1b[{}", u32::from(plain));
        let shifted = self.shifted(char);
        if flags & ALTERNATE_KEYS != 0 && key.shift && shifted != plain {
            code.push_str(&format!(":{}", u32::from(shifted)));
        }
        let text = (gives_text && flags & TEXT != 0).then_some(shifted);
        match (key.modifiers(), text) {
            (1, None) => {}
            (modifiers, None) => code.push_str(&format!(";{modifiers}")),
            (1, Some(text)) => code.push_str(&format!(";;{}", u32::from(text))),
            (modifiers, Some(text)) => code.push_str(&format!(";{modifiers};{}", u32::from(text))),
        }
        code.push('u');
        Some(code.into_bytes())
    }

    /// The character it gives: with Shift the upper case, where that is one character.
    pub(super) fn shifted(self, char: char) -> char {
        if self.shift { only(char.to_uppercase()).unwrap_or(char) } else { char }
    }
}

/// The lower case, if there is one of one character that leads back.
fn lower(char: char) -> char {
    let lower = only(char.to_lowercase());
    lower.filter(|lower| only(lower.to_uppercase()) == Some(char)).unwrap_or(char)
}

fn only(mut chars: impl Iterator<Item = char>) -> Option<char> {
    chars.next().filter(|_| chars.next().is_none())
}
