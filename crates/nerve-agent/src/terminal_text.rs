//! Converts raw terminal output or saved text to the rows that a terminal displays, for the parsers.

use std::borrow::Cow;

use memchr::memchr_iter;
use nerve_types::{Size, TsNs};
use nerve_vt::terminal::{LineIndex, TerminalState};
use unicode_width::UnicodeWidthStr;

use crate::parse::conversation::guess;

/// Bytes examined to tell text from binary data.
const SAMPLE_LEN: usize = 64 << 10;
/// In text, at most one of this many bytes is not text.
const NOISE_RATIO: usize = 10;

/// Sequences that leave the alternate screen (xterm's DECRST 1049, 1047, 47) or clear it, as some programs do before
/// leaving.
const ALT_SCREEN_ENDS: [&[u8]; 6] =
    [b"\x1b[?1049l", b"\x1b[?1047l", b"\x1b[?47l", b"\x1b[H\x1b[J", b"\x1b[1;1H\x1b[J", b"\x1b[2J"];

/// Returns why bytes are not text, or `None` if they are.
pub fn binary_reason(bytes: &[u8]) -> Option<String> {
    let head = &bytes[..bytes.len().min(SAMPLE_LEN)];
    if let Some(at) = head.iter().position(|&byte| byte == 0) {
        return Some(format!("the byte at {at} is 0"));
    }
    let broken = head.utf8_chunks().map(|chunk| chunk.invalid().len()).sum::<usize>();
    let controls =
        head.iter().filter(|&&byte| byte < 0x20 && !(0x07..=0x0d).contains(&byte) && byte != 0x1b).count();
    let noise = broken + controls;
    (noise * NOISE_RATIO > head.len())
        .then(|| format!("{noise} of its first {} bytes are not text", head.len()))
}

/// Returns the rows of a text as a terminal of this size displays them. If `cols` is `None` it is derived from the
/// text.
pub fn rows_of(bytes: &[u8], cols: Option<u16>, rows: u16) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let is_plain = !text.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t'))
        && !text.replace("\r\n", "\n").contains('\r');
    if is_plain {
        return trim_blanks(text.lines().map(str::to_string).collect());
    }
    let is_raw = moves_cursor(&text);
    let cols = cols.unwrap_or_else(|| if is_raw { Size::default().cols } else { widest(&text) });
    let size = Size::new(cols, rows);
    let (mut terminal, mut last_alt_screen) = (TerminalState::new(size), Vec::new());
    // Raw output contains carriage returns; saved text usually has none.
    let sent: Cow<'_, [u8]> = if is_raw { Cow::Borrowed(bytes) } else { add_returns(bytes).into() };
    for piece in split_at_ends(&sent) {
        save_alt_screen(&mut last_alt_screen, &terminal, piece);
        terminal.process_data(TsNs::default(), piece);
    }
    visible_rows(&terminal, last_alt_screen)
}

/// Copies the alternate screen to `last_alt_screen` if `piece` begins with a sequence that leaves or clears it.
pub fn save_alt_screen(last_alt_screen: &mut Vec<String>, terminal: &TerminalState, piece: &[u8]) {
    if is_screen_end(piece) && terminal.modes().alternate {
        let screen = terminal.tail(usize::from(terminal.size().rows));
        if !screen.is_empty() {
            *last_alt_screen = screen;
        }
    }
}

/// Returns the alternate screen if it is active, otherwise all lines. Falls back to `last_alt_screen` if only that
/// belongs to an agent.
pub fn visible_rows(terminal: &TerminalState, last_alt_screen: Vec<String>) -> Vec<String> {
    if terminal.modes().alternate {
        return terminal.tail(usize::from(terminal.size().rows));
    }
    let lines = terminal.text(terminal.first_kept_line()..LineIndex(terminal.line_count()));
    if guess(&lines).is_none() && guess(&last_alt_screen).is_some() {
        return last_alt_screen;
    }
    trim_blanks(lines)
}

/// Splits output before each sequence that leaves or clears the alternate screen.
pub fn split_at_ends(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let next = memchr_iter(0x1b, rest).find(|&at| at > 0 && is_screen_end(&rest[at..]));
        let (piece, more) = rest.split_at(next.unwrap_or(rest.len()));
        rest = more;
        Some(piece)
    })
}

/// Returns true if output begins with a sequence that leaves or clears the alternate screen. Those that clear it clear the
/// normal screen too.
pub fn is_screen_end(bytes: &[u8]) -> bool {
    screen_end_len(bytes).is_some()
}

/// Returns the length of the sequence with which output leaves or clears the alternate screen; `None` if it begins with something else.
pub fn screen_end_len(bytes: &[u8]) -> Option<usize> {
    ALT_SCREEN_ENDS.iter().find(|end| bytes.starts_with(end)).map(|end| end.len())
}

/// Returns true if the text has sequences other than colours and titles: raw output, not saved text.
fn moves_cursor(text: &str) -> bool {
    text.split('\x1b').skip(1).any(|after| match after.strip_prefix('[') {
        Some(csi) => csi.chars().find(|c| ('\x40'..='\x7e').contains(c)).is_some_and(|end| end != 'm'),
        // OSC and its terminator.
        None => !after.starts_with([']', '\\']),
    })
}

/// Returns the columns of the widest line, without escape sequences.
fn widest(text: &str) -> u16 {
    let width = text.lines().map(width).max().unwrap_or(0);
    u16::try_from(width).unwrap_or(u16::MAX)
}

fn width(line: &str) -> usize {
    let mut parts = line.split('\x1b');
    let first = parts.next().unwrap_or_default();
    let rest = parts.map(|part| {
        let body = match part.chars().next() {
            Some('[') => part.find(|c: char| c.is_ascii_alphabetic()).map(|end| &part[end + 1..]),
            Some(']') => part.find('\x07').map(|end| &part[end + 1..]),
            _ => part.get(1..),
        };
        body.unwrap_or_default()
    });
    std::iter::once(first).chain(rest).map(columns).sum()
}

fn columns(text: &str) -> usize {
    // A tab takes at most eight columns.
    text.width() + 8 * text.matches('\t').count()
}

fn add_returns(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + bytes.len() / 32);
    let mut before = 0;
    for &byte in bytes {
        if byte == b'\n' && before != b'\r' {
            out.push(b'\r');
        }
        out.push(byte);
        before = byte;
    }
    out
}

/// Removes trailing blanks, and blank rows at both ends.
fn trim_blanks(mut rows: Vec<String>) -> Vec<String> {
    for row in &mut rows {
        row.truncate(row.trim_end().len());
    }
    let end = rows.iter().rposition(|row| !row.is_empty()).map_or(0, |last| last + 1);
    rows.truncate(end);
    let start = rows.iter().position(|row| !row.is_empty()).unwrap_or(0);
    rows.split_off(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<String> {
        rows_of(text.as_bytes(), None, 40)
    }

    #[test]
    fn plain_text_is_unchanged() {
        let long = "x".repeat(10_000);
        assert_eq!(rows(&format!("\n\na\tb  \r\n\n{long}\n\n")), ["a\tb", "", long.as_str()]);
    }

    #[test]
    fn colours_and_titles_are_removed_without_wrapping() {
        let long = "word ".repeat(60);
        let text = format!("\x1b]0;title\x07\x1b[1;32m●\x1b[0m {long}\n\x1b]0;t\x1b\\  日本語\n");
        assert_eq!(rows(&text), [format!("● {}", long.trim_end()), "  日本語".to_string()]);
    }

    #[test]
    fn overwritten_rows_show_final_text() {
        assert_eq!(rows("10%\r100%\nab\x08c\n"), ["100%", "ac"]);
    }

    #[test]
    fn raw_output_is_rendered() {
        assert_eq!(rows("\x1b[2J\x1b[2;3Hhello\x1b[1;1Htop\r\n"), ["top", "  hello"]);
        assert_eq!(rows_of(b"\x1b[Hab\x1b[K\r\ncd", Some(20), 2), ["ab", "cd"]);
    }

    #[test]
    fn last_alternate_screen_of_agent_is_kept() {
        let text = "$ claude\r\n\x1b[?1049h\x1b[H❯ hello\r\n\r\n● hi\r\n\x1b[?1049l$ \r\n";
        assert_eq!(rows(text), ["❯ hello", "", "● hi"]);
        // Cleared before leaving.
        let cleared = text.replace("\x1b[?1049l", "\x1b[1;1H\x1b[J\x1b[?1049l");
        assert_eq!(rows(&cleared), ["❯ hello", "", "● hi"]);
        // Still active.
        assert_eq!(rows("$ less\r\n\x1b[?1049h\x1b[Hpage"), ["page"]);
        // Of no agent.
        assert_eq!(rows("$ less\r\n\x1b[?1049h\x1b[Hpage\x1b[?1049l$ "), ["$ less", "$"]);
    }

    #[test]
    fn binary_data_is_detected() {
        assert_eq!(binary_reason("日本語 \x1b[1m\r\n\t".as_bytes()), None);
        assert!(binary_reason(b"ab\0c").is_some_and(|why| why.contains("byte at 2")));
        assert!(binary_reason(&[0x80; 100]).is_some());
        assert!(binary_reason(&[1, 2, 3, b'a']).is_some());
        // Occasional Latin-1 bytes are accepted.
        let mut latin = "plain text, and more of it".as_bytes().to_vec();
        latin.push(0xe9);
        assert_eq!(binary_reason(&latin), None);
    }
}
