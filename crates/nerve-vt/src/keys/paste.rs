//! Encodes pastes and typed escapes.

use crate::screen::Modes;

/// Begins a bracketed paste.
pub const PASTE_START: &[u8] = b"\x1b[200~";
/// Ends a bracketed paste.
pub const PASTE_END: &[u8] = b"\x1b[201~";

/// Encodes a text as a terminal sends it when pasted.
///
/// Bracketed (`?2004`): between `ESC [ 200 ~` and `ESC [ 201 ~`, with lines ended by LF as in Alacritty, kitty and
/// Ghostty. Recorded agents read that; readers that only know LF would lose lines ended by CR. Unbracketed: lines end
/// with CR like the Enter key, as in xterm.
///
/// Removes control characters except tabs and line ends, and the C1 controls: an ESC could end the paste or cancel a
/// menu, and ^C would interrupt. No text can therefore end its own paste.
pub fn paste(text: &str, modes: Modes) -> Vec<u8> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let clean = text.chars().filter(|c| matches!(c, '\t' | '\n') || !c.is_control());
    if modes.bracketed_paste {
        let clean: String = clean.collect();
        return [PASTE_START, clean.as_bytes(), PASTE_END].concat();
    }
    clean.map(|c| if c == '\n' { '\r' } else { c }).collect::<String>().into_bytes()
}

/// Splits input at its first bracketed paste. Returns the bytes before, inside and after it.
pub fn split_paste(input: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let find = |bytes: &[u8], mark: &[u8]| bytes.windows(mark.len()).position(|window| window == mark);
    let start = find(input, PASTE_START)?;
    let (before, rest) = (&input[..start], &input[start + PASTE_START.len()..]);
    let end = find(rest, PASTE_END)?;
    Some((before, &rest[..end], &rest[end + PASTE_END.len()..]))
}

/// An invalid escape in a text for [`unescape`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem} at byte {position}")]
pub struct EscapeError {
    /// Byte offset of the escape in the text.
    pub position: usize,
    /// Description of the error.
    pub problem: String,
}

/// Replaces `\r \n \t \e \\ \0 \xHH \u{…}` by the bytes they represent.
///
/// # Errors
/// [`EscapeError`] with the position of the first invalid escape.
pub fn unescape(text: &str) -> Result<Vec<u8>, EscapeError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        let position = text.len() - rest.len() + at;
        let parsed = escape(&rest[at + 1..], &mut bytes);
        let len = parsed.map_err(|problem| EscapeError { position, problem })?;
        rest = &rest[at + 1 + len..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(bytes)
}

/// Parses one escape without its backslash and returns its length in bytes.
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
