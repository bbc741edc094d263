//! Keys, pastes and escapes typed by people, as the bytes a program expects from its terminal.

use std::fmt;
use std::str::FromStr;

use crate::screen::Modes;

/// A key.
///
/// ```
/// use nerve_term::keys::Key;
/// use nerve_term::screen::Modes;
/// assert_eq!("C-c".parse::<Key>()?.bytes(Modes::default()), b"\x03");
/// assert_eq!("up".parse::<Key>()?.bytes(Modes::default()), b"\x1b[A");
/// # Ok::<(), nerve_term::keys::KeyError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Key {
    /// Return.
    Enter,
    /// Tab.
    Tab,
    /// Shift-Tab.
    BackTab,
    /// Escape.
    Escape,
    /// Backspace.
    Backspace,
    /// Cursor up.
    Up,
    /// Cursor down.
    Down,
    /// Cursor left.
    Left,
    /// Cursor right.
    Right,
    /// Home.
    Home,
    /// End.
    End,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// Insert.
    Insert,
    /// Delete.
    Delete,
    /// A function key, 1–20; others give no bytes.
    F(u8),
    /// A character.
    Char(char),
    /// A character with Control.
    Ctrl(char),
    /// A character with Alt (Meta).
    Alt(char),
}

impl Key {
    /// The bytes a terminal in these modes sends: xterm's, in the form all programs read.
    ///
    /// Kitty keyboard flags do not change them: the protocol has programs go on reading the older forms, and the agents do
    /// (their recorded sessions were typed so).
    pub fn bytes(self, modes: Modes) -> Vec<u8> {
        let cursor = |last: char| match modes.application_cursor {
            true => format!("\x1bO{last}").into_bytes(),
            false => format!("\x1b[{last}").into_bytes(),
        };
        match self {
            Key::Enter => b"\r".to_vec(),
            Key::Tab => b"\t".to_vec(),
            Key::BackTab => b"\x1b[Z".to_vec(),
            Key::Escape => b"\x1b".to_vec(),
            Key::Backspace => b"\x7f".to_vec(),
            Key::Up => cursor('A'),
            Key::Down => cursor('B'),
            Key::Right => cursor('C'),
            Key::Left => cursor('D'),
            Key::Home => cursor('H'),
            Key::End => cursor('F'),
            Key::Insert => b"\x1b[2~".to_vec(),
            Key::Delete => b"\x1b[3~".to_vec(),
            Key::PageUp => b"\x1b[5~".to_vec(),
            Key::PageDown => b"\x1b[6~".to_vec(),
            Key::F(number) => function_key(number),
            Key::Char(c) => c.to_string().into_bytes(),
            Key::Ctrl(c) => control(c),
            Key::Alt(c) => format!("\x1b{c}").into_bytes(),
        }
    }
}

/// xterm's function keys: F1–F4 as SS3, the others numbered with VT220's gaps.
fn function_key(number: u8) -> Vec<u8> {
    let code = match number {
        1..=4 => return vec![0x1b, b'O', b'P' + number - 1],
        5 => 15,
        6..=10 => number + 11,
        11..=14 => number + 12,
        15 | 16 => number + 13,
        17..=20 => number + 14,
        _ => return Vec::new(),
    };
    format!("\x1b[{code}~").into_bytes()
}

/// Control takes the low five bits (ECMA-48 table 1); what has no control character is sent plain.
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

/// No key has that name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyError {
    name: String,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        write!(
            f,
            "no key is called {name:?}; try enter, esc, tab, up, f5, ctrl+c, C-c, alt+x, M-x or one character"
        )
    }
}

impl std::error::Error for KeyError {}

impl FromStr for Key {
    type Err = KeyError;

    /// Reads `enter`, `esc`, `up`, `f5`, `C-c`, `ctrl+c`, `^c`, `M-x`, `alt+x`, `S-tab` or one character; names in any case.
    fn from_str(name: &str) -> Result<Key, KeyError> {
        let error = || KeyError { name: name.chars().take(40).collect() };
        if let Some(c) = single(name) {
            return Ok(Key::Char(c));
        }
        let lower = name.to_ascii_lowercase();
        let prefixed = |prefixes: &[&str]| {
            prefixes.iter().find(|prefix| lower.starts_with(**prefix)).map(|prefix| &name[prefix.len()..])
        };
        if let Some(rest) = prefixed(&["c-", "ctrl+", "ctrl-", "control+", "^"]) {
            return character(rest).filter(char::is_ascii).map(Key::Ctrl).ok_or_else(error);
        }
        if let Some(rest) = prefixed(&["m-", "a-", "alt+", "alt-", "meta+"]) {
            return character(rest).map(Key::Alt).ok_or_else(error);
        }
        named(&lower).ok_or_else(error)
    }
}

fn single(text: &str) -> Option<char> {
    let mut chars = text.chars();
    chars.next().filter(|_| chars.next().is_none())
}

/// What may follow `ctrl+`: a character or the name of one.
fn character(name: &str) -> Option<char> {
    single(name).or_else(|| match name.to_ascii_lowercase().as_str() {
        "space" => Some(' '),
        "enter" | "return" => Some('\r'),
        "backspace" => Some('\u{7f}'),
        _ => None,
    })
}

fn named(name: &str) -> Option<Key> {
    Some(match name {
        "enter" | "return" | "cr" => Key::Enter,
        "tab" => Key::Tab,
        "backtab" | "btab" | "s-tab" | "shift+tab" | "shift-tab" => Key::BackTab,
        "esc" | "escape" => Key::Escape,
        "backspace" | "bspace" | "bs" => Key::Backspace,
        "up" => Key::Up,
        "down" => Key::Down,
        "left" => Key::Left,
        "right" => Key::Right,
        "home" => Key::Home,
        "end" => Key::End,
        "pageup" | "pgup" | "page-up" => Key::PageUp,
        "pagedown" | "pgdn" | "pgdown" | "page-down" => Key::PageDown,
        "insert" | "ins" => Key::Insert,
        "delete" | "del" => Key::Delete,
        "space" => Key::Char(' '),
        _ => {
            let number = name.strip_prefix('f')?.parse().ok()?;
            return (1..=20).contains(&number).then_some(Key::F(number));
        }
    })
}

/// Text as the terminal of a person who pastes it would send it.
///
/// Bracketed (`?2004`): between `ESC [ 200 ~` and `ESC [ 201 ~`, lines ended by LF as Alacritty, kitty and Ghostty send them;
/// the agents were recorded reading that, and readers that only know LF lose lines to CR. Not bracketed: lines ended by CR,
/// what the Enter key sends, as in xterm and all others.
///
/// Control characters other than tab and line ends, and the C1 controls, are left out: an ESC inside a paste would end it or
/// cancel a menu, and ^C would interrupt. So nothing in the text can end the paste.
pub fn paste(text: &str, modes: Modes) -> Vec<u8> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let clean = text.chars().filter(|c| matches!(c, '\t' | '\n') || !c.is_control());
    if modes.bracketed_paste {
        let clean: String = clean.collect();
        return [b"\x1b[200~", clean.as_bytes(), b"\x1b[201~"].concat();
    }
    clean.map(|c| if c == '\n' { '\r' } else { c }).collect::<String>().into_bytes()
}

/// An escape in text for [`unescape`] is not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EscapeError {
    /// Where the escape starts, in bytes from the start of the text.
    pub position: usize,
    /// What is wrong with it.
    pub problem: String,
}

impl fmt::Display for EscapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.problem, self.position)
    }
}

impl std::error::Error for EscapeError {}

/// Replaces `\r \n \t \e \\ \0 \xHH \u{…}` by the bytes they stand for.
///
/// # Errors
/// [`EscapeError`] with the place of the first escape that is none of these.
pub fn unescape(text: &str) -> Result<Vec<u8>, EscapeError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        let position = text.len() - rest.len() + at;
        let used = escape(&rest[at + 1..], &mut bytes);
        let used = used.map_err(|problem| EscapeError { position, problem })?;
        rest = &rest[at + 1 + used..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(bytes)
}

/// One escape without its backslash; returns how many bytes of `text` it is.
fn escape(text: &str, bytes: &mut Vec<u8>) -> Result<usize, String> {
    let Some(kind) = text.chars().next() else { return Err("a backslash ends the text".to_string()) };
    bytes.push(match kind {
        'r' => b'\r',
        'n' => b'\n',
        't' => b'\t',
        'e' => 0x1b,
        '0' => 0,
        '\\' => b'\\',
        'x' => {
            let hex = text.get(1..3).filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
            let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
            bytes.push(byte.ok_or("\\x needs two hexadecimal digits")?);
            return Ok(3);
        }
        'u' => {
            let hex = text[1..].strip_prefix('{').and_then(|rest| rest.split_once('}')).map(|(hex, _)| hex);
            let hex = hex.filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
            let code = hex.and_then(|hex| u32::from_str_radix(hex, 16).ok()).and_then(char::from_u32);
            let (Some(hex), Some(c)) = (hex, code) else {
                return Err("\\u needs a character's number in braces, as in \\u{1f600}".to_string());
            };
            bytes.extend_from_slice(c.to_string().as_bytes());
            return Ok(hex.len() + 3);
        }
        other => {
            return Err(format!(
                "\\{other} is not an escape (known: \\r \\n \\t \\e \\0 \\\\ \\xHH \\u{{…}})"
            ));
        }
    });
    Ok(1)
}
