//! Bytes that a terminal was sent, or that somebody saved, to the rows a person would have seen.

use std::borrow::Cow;

use nerve_term::event::{Size, TsNs};
use nerve_term::parse::conversation::guess;
use nerve_term::terminal::{LineIndex, TerminalState};
use unicode_width::UnicodeWidthStr;

/// So much of a text decides whether it is one.
const SAMPLE_LEN: usize = 64 << 10;
/// Of so many bytes that are no text one may be, in a text.
const NOISE_RATIO: usize = 10;

/// What takes the alternate screen away: leaving it (xterm's DECRST 1049, 1047, 47), and clearing all of it, as some programs do before
/// they leave.
const ALT_SCREEN_ENDS: [&[u8]; 6] =
    [b"\x1b[?1049l", b"\x1b[?1047l", b"\x1b[?47l", b"\x1b[H\x1b[J", b"\x1b[1;1H\x1b[J", b"\x1b[2J"];

/// Why bytes are no text, if they are none.
pub(super) fn binary_reason(bytes: &[u8]) -> Option<String> {
    let head = &bytes[..bytes.len().min(SAMPLE_LEN)];
    if let Some(at) = head.iter().position(|&byte| byte == 0) {
        return Some(format!("the byte at {at} is 0"));
    }
    let broken = head.utf8_chunks().map(|chunk| chunk.invalid().len()).sum::<usize>();
    let controls =
        head.iter().filter(|&&byte| byte < 0x20 && !(0x07..=0x0d).contains(&byte) && byte != 0x1b).count();
    let noise = broken + controls;
    (noise * NOISE_RATIO > head.len())
        .then(|| format!("{noise} of its first {} bytes are no text", head.len()))
}

/// The rows of a text. Colours, tabs and overwritten rows are as a terminal of this size makes them; `cols` is found if `None`.
pub(super) fn rows_of(bytes: &[u8], cols: Option<u16>, rows: u16) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let is_plain = !text.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t'))
        && !text.replace("\r\n", "\n").contains('\r');
    if is_plain {
        return trimmed(text.lines().map(str::to_string).collect());
    }
    let moves = moves_cursor(&text);
    let cols = cols.unwrap_or_else(|| if moves { Size::default().cols } else { widest(&text) });
    let size = Size::new(cols, rows);
    let (mut terminal, mut left) = (TerminalState::new(size), Vec::new());
    // What a program sent has its returns; what was saved has lost them.
    let sent: Cow<'_, [u8]> = if moves { Cow::Borrowed(bytes) } else { add_returns(bytes).into() };
    for piece in split_at_ends(&sent) {
        save_alt_screen(&mut left, &terminal, piece);
        terminal.process_data(TsNs::default(), piece);
    }
    visible_rows(&terminal, left)
}

/// Keeps in `left` what the alternate screen shows, if `piece` begins with its end.
pub(super) fn save_alt_screen(left: &mut Vec<String>, terminal: &TerminalState, piece: &[u8]) {
    if is_alt_screen_end(piece) && terminal.modes().alternate {
        let screen = terminal.tail(usize::from(terminal.size().rows));
        if !screen.is_empty() {
            *left = screen;
        }
    }
}

/// What a terminal shows in the end: the alternate screen if it is on; else all lines, or, where those are no agent's, the last
/// alternate screen that was.
pub(super) fn visible_rows(terminal: &TerminalState, left: Vec<String>) -> Vec<String> {
    if terminal.modes().alternate {
        return terminal.tail(usize::from(terminal.size().rows));
    }
    let lines = terminal.text(terminal.first_kept_line()..LineIndex(terminal.line_count()));
    if guess(&lines).is_none() && guess(&left).is_some() {
        return left;
    }
    trimmed(lines)
}

/// Output in pieces: a new one begins where the alternate screen is left or cleared.
pub(super) fn split_at_ends(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let next = (1..rest.len()).find(|&at| rest[at] == 0x1b && is_alt_screen_end(&rest[at..]));
        let (piece, more) = rest.split_at(next.unwrap_or(rest.len()));
        rest = more;
        Some(piece)
    })
}

fn is_alt_screen_end(bytes: &[u8]) -> bool {
    ALT_SCREEN_ENDS.iter().any(|end| bytes.starts_with(end))
}

/// It has sequences other than colours and titles: it was sent to a terminal, not saved from one.
fn moves_cursor(text: &str) -> bool {
    text.split('\x1b').skip(1).any(|after| match after.strip_prefix('[') {
        Some(csi) => csi.chars().find(|c| ('\x40'..='\x7e').contains(c)).is_some_and(|end| end != 'm'),
        // OSC, and its end.
        None => !after.starts_with([']', '\\']),
    })
}

/// Columns of the widest line without its sequences.
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
    // A tab takes at most eight.
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

/// Without blanks at the ends of rows, and blank rows at both ends.
fn trimmed(mut rows: Vec<String>) -> Vec<String> {
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
    fn plain_text_stays_as_it_is() {
        let long = "x".repeat(10_000);
        assert_eq!(rows(&format!("\n\na\tb  \r\n\n{long}\n\n")), ["a\tb", "", long.as_str()]);
    }

    #[test]
    fn colours_and_titles_are_taken_out_and_nothing_wraps() {
        let long = "word ".repeat(60);
        let text = format!("\x1b]0;title\x07\x1b[1;32m●\x1b[0m {long}\n\x1b]0;t\x1b\\  日本語\n");
        assert_eq!(rows(&text), [format!("● {}", long.trim_end()), "  日本語".to_string()]);
    }

    #[test]
    fn an_overwritten_row_is_what_was_left_of_it() {
        assert_eq!(rows("10%\r100%\nab\x08c\n"), ["100%", "ac"]);
    }

    #[test]
    fn output_of_a_program_is_drawn() {
        assert_eq!(rows("\x1b[2J\x1b[2;3Hhello\x1b[1;1Htop\r\n"), ["top", "  hello"]);
        assert_eq!(rows_of(b"\x1b[Hab\x1b[K\r\ncd", Some(20), 2), ["ab", "cd"]);
    }

    #[test]
    fn the_last_alternate_screen_of_an_agent_is_kept() {
        let text = "$ claude\r\n\x1b[?1049h\x1b[H❯ hello\r\n\r\n● hi\r\n\x1b[?1049l$ \r\n";
        assert_eq!(rows(text), ["❯ hello", "", "● hi"]);
        // Cleared before.
        let cleared = text.replace("\x1b[?1049l", "\x1b[1;1H\x1b[J\x1b[?1049l");
        assert_eq!(rows(&cleared), ["❯ hello", "", "● hi"]);
        // One that still is shown.
        assert_eq!(rows("$ less\r\n\x1b[?1049h\x1b[Hpage"), ["page"]);
        // Nobody's.
        assert_eq!(rows("$ less\r\n\x1b[?1049h\x1b[Hpage\x1b[?1049l$ "), ["$ less", "$"]);
    }

    #[test]
    fn what_is_no_text() {
        assert_eq!(binary_reason("日本語 \x1b[1m\r\n\t".as_bytes()), None);
        assert!(binary_reason(b"ab\0c").is_some_and(|why| why.contains("byte at 2")));
        assert!(binary_reason(&[0x80; 100]).is_some());
        assert!(binary_reason(&[1, 2, 3, b'a']).is_some());
        // Latin-1 now and then is one.
        let mut latin = "plain text, and more of it".as_bytes().to_vec();
        latin.push(0xe9);
        assert_eq!(binary_reason(&latin), None);
    }
}
