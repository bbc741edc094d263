//! Names of keys.

use std::fmt;
use std::str::FromStr;

use super::{Code, Key};

/// Names of keys; the first name of a key is used for output.
const NAMES: &[(&str, Code)] = &[
    ("enter", Code::Enter),
    ("return", Code::Enter),
    ("cr", Code::Enter),
    ("tab", Code::Tab),
    ("esc", Code::Esc),
    ("escape", Code::Esc),
    ("backspace", Code::Backspace),
    ("bspace", Code::Backspace),
    ("bs", Code::Backspace),
    ("up", Code::Up),
    ("down", Code::Down),
    ("left", Code::Left),
    ("right", Code::Right),
    ("home", Code::Home),
    ("end", Code::End),
    ("pageup", Code::PageUp),
    ("pgup", Code::PageUp),
    ("page-up", Code::PageUp),
    ("pagedown", Code::PageDown),
    ("pgdn", Code::PageDown),
    ("pgdown", Code::PageDown),
    ("page-down", Code::PageDown),
    ("insert", Code::Insert),
    ("ins", Code::Insert),
    ("delete", Code::Delete),
    ("del", Code::Delete),
    ("space", Code::Char(' ')),
];

/// Modifier prefixes.
const CTRL: &[&str] = &["ctrl+", "ctrl-", "control+", "c-", "^"];
const ALT: &[&str] = &["alt+", "alt-", "meta+", "m-", "a-"];
const SHIFT: &[&str] = &["shift+", "shift-", "s-"];

/// An unknown key name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown key {name:?}; try enter, esc, tab, up, f5, ctrl+c, C-c, alt+x, M-x, ctrl+shift+up or one character"
)]
pub struct KeyError {
    name: String,
}

/// Writes `ctrl+shift+up`, `g`, `G`, `space`, `pagedown`, `f5`.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (is_held, name) in [(self.ctrl, "ctrl+"), (self.alt, "alt+"), (self.shift, "shift+")] {
            if is_held {
                f.write_str(name)?;
            }
        }
        match (NAMES.iter().find(|(_, code)| *code == self.code), self.code) {
            (Some((name, _)), _) => f.write_str(name),
            (None, Code::Char(char)) => write!(f, "{char}"),
            (None, Code::F(number)) => write!(f, "f{number}"),
            (None, _) => Ok(()),
        }
    }
}

impl FromStr for Key {
    type Err = KeyError;

    /// Parses `enter`, `esc`, `up`, `f5`, `C-c`, `ctrl+c`, `^c`, `M-x`, `alt+x`, `S-tab`, `ctrl+shift+up` or one
    /// character; names are case-insensitive.
    fn from_str(name: &str) -> Result<Key, KeyError> {
        let error = || KeyError { name: name.chars().take(40).collect() };
        let mut key = Key::char(' ');
        let mut rest = name;
        // A single character stands for itself, including `^`.
        while single(rest).is_none() {
            let modifiers = [(CTRL, &mut key.ctrl), (ALT, &mut key.alt), (SHIFT, &mut key.shift)];
            let modifier = modifiers
                .into_iter()
                .find_map(|(names, is_held)| Some((strip_any_prefix(rest, names)?, is_held)));
            let Some((remainder, is_held)) = modifier else { break };
            *is_held = true;
            rest = remainder;
        }
        key.code = match single(rest) {
            Some(c) => Code::Char(c),
            None => named_code(&rest.to_ascii_lowercase(), &mut key).ok_or_else(error)?,
        };
        match key.code {
            // Non-ASCII characters have no control code, and control characters are not on a keyboard.
            Code::Char(c) if key.ctrl && !c.is_ascii() => Err(error()),
            Code::Char(c) if c.is_control() => Err(error()),
            _ => Ok(key),
        }
    }
}

fn strip_any_prefix<'a>(name: &'a str, prefixes: &[&str]) -> Option<&'a str> {
    prefixes.iter().find_map(|prefix| {
        let begin = name.get(..prefix.len())?;
        begin.eq_ignore_ascii_case(prefix).then(|| &name[prefix.len()..])
    })
}

fn single(text: &str) -> Option<char> {
    let mut chars = text.chars();
    chars.next().filter(|_| chars.next().is_none())
}

/// Returns the key with this name. `backtab` sets the Shift of `key`.
fn named_code(name: &str, key: &mut Key) -> Option<Code> {
    if matches!(name, "backtab" | "btab") {
        key.shift = true;
        return Some(Code::Tab);
    }
    if let Some((_, code)) = NAMES.iter().find(|(known, _)| *known == name) {
        return Some(*code);
    }
    let number = name.strip_prefix('f')?.parse().ok()?;
    (1..=20).contains(&number).then_some(Code::F(number))
}
