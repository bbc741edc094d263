//! Pastes, and escapes typed by people.

use std::fmt;

use crate::screen::Modes;

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
