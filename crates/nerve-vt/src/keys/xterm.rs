//! Key encoding of xterm.

use super::{Code, Key};
use crate::screen::Modes;

impl Key {
    /// Encodes the key as xterm does in these modes, in the form that all programs read.
    ///
    /// Kitty keyboard flags are ignored: programs that set them still read the older forms, and recorded agents do. A
    /// user's keys are encoded with the requested flags by [`Input::bytes`].
    ///
    /// [`Input::bytes`]: super::Input::bytes
    pub fn bytes(self, modes: Modes) -> Vec<u8> {
        match self.code {
            Code::Tab if self.shift => return b"\x1b[Z".to_vec(),
            Code::Char(_) | Code::Enter | Code::Tab | Code::Esc | Code::Backspace => {}
            code => return self.sequence(code, modes),
        }
        let mut bytes = if self.alt { vec![0x1b] } else { Vec::new() };
        match self.code {
            Code::Enter => bytes.push(b'\r'),
            Code::Tab => bytes.push(b'\t'),
            Code::Esc => bytes.push(0x1b),
            // As in xterm: Control selects the other code of the two.
            Code::Backspace => bytes.push(if self.ctrl { 0x08 } else { 0x7f }),
            Code::Char(c) if self.ctrl => bytes.extend(control(c)),
            Code::Char(c) => bytes.extend(self.shifted(c).to_string().into_bytes()),
            _ => {}
        }
        bytes
    }

    /// Returns 1, plus 1 for Shift, 2 for Alt and 4 for Control (xterm, "PC-Style Function Keys").
    pub(super) fn modifiers(self) -> u8 {
        1 + u8::from(self.shift) + 2 * u8::from(self.alt) + 4 * u8::from(self.ctrl)
    }

    fn sequence(self, code: Code, modes: Modes) -> Vec<u8> {
        let modifiers = self.modifiers();
        let letter = |last: char, alone: char| match modifiers {
            1 => format!("\x1b{alone}{last}").into_bytes(),
            _ => format!("\x1b[1;{modifiers}{last}").into_bytes(),
        };
        let number = |number: u8| match modifiers {
            1 => format!("\x1b[{number}~").into_bytes(),
            _ => format!("\x1b[{number};{modifiers}~").into_bytes(),
        };
        let cursor = if modes.application_cursor { 'O' } else { '[' };
        match code {
            Code::Up => letter('A', cursor),
            Code::Down => letter('B', cursor),
            Code::Right => letter('C', cursor),
            Code::Left => letter('D', cursor),
            Code::Home => letter('H', cursor),
            Code::End => letter('F', cursor),
            Code::Insert => number(2),
            Code::Delete => number(3),
            Code::PageUp => number(5),
            Code::PageDown => number(6),
            // As in xterm: F1–F4 as SS3, the others with the gaps of the VT220 numbering.
            Code::F(nth @ 1..=4) => letter(char::from(b'P' + nth - 1), 'O'),
            Code::F(5) => number(15),
            Code::F(nth @ 6..=10) => number(nth + 11),
            Code::F(nth @ 11..=14) => number(nth + 12),
            Code::F(nth @ 15..=16) => number(nth + 13),
            Code::F(nth @ 17..=20) => number(nth + 14),
            _ => Vec::new(),
        }
    }
}

/// Returns the low five bits (ECMA-48 table 1), or the plain character if it has no control code.
fn control(c: char) -> Vec<u8> {
    match c.to_ascii_uppercase() {
        ' ' | '2' => vec![0],
        upper @ '@'..='_' => vec![upper as u8 & 0x1f],
        '3' => vec![0x1b],
        '4' => vec![0x1c],
        '5' => vec![0x1d],
        '6' => vec![0x1e],
        '7' | '/' => vec![0x1f],
        '8' | '?' => vec![0x7f],
        _ => c.to_string().into_bytes(),
    }
}
