//! Key encoding of the kitty keyboard protocol (<https://sw.kovidgoyal.net/kitty/keyboard-protocol/>).

use super::{Code, Key};

/// Sends escape codes for Escape and for keys with Control or Alt.
const DISAMBIGUATE: u8 = 1;
/// Distinguishes presses, repeats and releases. Only presses occur here, and they are sent as without the flag.
const EVENT_TYPES: u8 = 2;
/// Also sends the shifted character.
const ALTERNATE_KEYS: u8 = 4;
/// Sends escape codes for text keys too.
const ALL_KEYS: u8 = 8;
/// Also sends the text of a key.
const TEXT: u8 = 16;

impl Key {
    /// Encodes the key with these flags; `None` if the flags do not change its encoding.
    pub(super) fn kitty(self, flags: u8) -> Option<Vec<u8>> {
        let all = flags & ALL_KEYS != 0;
        let unambiguous = all || flags & DISAMBIGUATE != 0;
        if !unambiguous && flags & EVENT_TYPES == 0 {
            return None;
        }
        let (number, last) = match self.code {
            Code::Char(char) => return self.kitty_char(char, flags),
            // Keeps `reset` typable in a shell after a program crashed with these modes set.
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
            // Not 'R', which ends a cursor position report.
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
        // A key is identified by its unshifted character. That is known for letters; for `$` it would need the keyboard
        // layout.
        let unshifted = lower(char);
        let key = Key { shift: self.shift || unshifted != char, ..self };
        let mut code = format!("\x1b[{}", u32::from(unshifted));
        let shifted = self.shifted(char);
        if flags & ALTERNATE_KEYS != 0 && key.shift && shifted != unshifted {
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

    /// Returns the character of the key: upper case with Shift, if that is a single character.
    pub(super) fn shifted(self, char: char) -> char {
        if self.shift { only(char.to_uppercase()).unwrap_or(char) } else { char }
    }
}

/// Returns the lower case if it is one character that maps back.
fn lower(char: char) -> char {
    let lower = only(char.to_lowercase());
    lower.filter(|lower| only(lower.to_uppercase()) == Some(char)).unwrap_or(char)
}

fn only(mut chars: impl Iterator<Item = char>) -> Option<char> {
    chars.next().filter(|_| chars.next().is_none())
}
