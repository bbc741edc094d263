//! Parses tmux's control mode (tmux(1), CONTROL MODE). No I/O.

/// Limit of a line in bytes.
const LINE_LIMIT: usize = 32 << 20;
/// Limit of a reply in bytes.
const REPLY_LIMIT: usize = 128 << 20;

/// A message of tmux.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ControlMessage {
    /// Output of a pane's program.
    Output {
        /// The pane's number: 3 of `%3`.
        pane: u32,
        /// The output.
        bytes: Vec<u8>,
    },
    /// The result of a command.
    Reply {
        /// The command was sent by this connection, not by a hook or tmux itself.
        ours: bool,
        /// The printed lines with their line feeds, or the error message.
        text: Result<Vec<u8>, String>,
    },
    /// A pane has entered or left a mode.
    ModeChanged {
        /// The pane's number.
        pane: u32,
    },
    /// The sizes or panes of a window have changed.
    LayoutChanged {
        /// The visible layout in tmux's notation.
        visible: String,
    },
    /// Windows appeared or closed, or the session changed: panes may be gone.
    PanesChanged,
    /// The connection is over; the reason, if given.
    Exit(String),
}

/// The input exceeds a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("tmux sent a control-mode line or reply that exceeds the size limit")]
pub(super) struct TooLong;

/// Parses input that arrives in arbitrary pieces.
#[derive(Debug, Default)]
pub(super) struct ControlParser {
    buffer: Vec<u8>,
    /// Bytes already parsed.
    done: usize,
    /// Position up to which there is no line feed.
    searched: usize,
    block: Option<Block>,
}

/// An unfinished reply.
#[derive(Debug)]
struct Block {
    /// The rest of its first line, which its last line has to repeat: a pane's text may look like a last line.
    guard: Vec<u8>,
    text: Vec<u8>,
}

impl ControlParser {
    /// Returns the buffer to append input to.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        if self.done > 0 {
            self.buffer.drain(..self.done);
            self.searched -= self.done;
            self.done = 0;
        }
        &mut self.buffer
    }

    /// Returns the next complete message.
    ///
    /// # Errors
    /// A line or reply exceeds the limit.
    pub(super) fn next(&mut self) -> Result<Option<ControlMessage>, TooLong> {
        loop {
            let Some(length) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') else {
                self.searched = self.buffer.len();
                return if self.searched - self.done > LINE_LIMIT { Err(TooLong) } else { Ok(None) };
            };
            let (from, to) = (self.done, self.searched + length);
            (self.done, self.searched) = (to + 1, to + 1);
            let line = &self.buffer[from..to];
            if let Some(message) = parse_line(line, &mut self.block)? {
                return Ok(Some(message));
            }
        }
    }
}

/// Parses a line; `block` is the reply that it may be part of.
fn parse_line(line: &[u8], block: &mut Option<Block>) -> Result<Option<ControlMessage>, TooLong> {
    if let Some(open) = block {
        let end = |word: &[u8]| line.strip_prefix(word) == Some(open.guard.as_slice());
        let (is_end, is_error) = (end(b"%end"), end(b"%error"));
        if !is_end && !is_error {
            if open.text.len() + line.len() > REPLY_LIMIT {
                return Err(TooLong);
            }
            open.text.extend_from_slice(line);
            open.text.push(b'\n');
            return Ok(None);
        }
        let ours = open.guard.ends_with(b" 1");
        let text = std::mem::take(&mut open.text);
        let text = if is_end { Ok(text) } else { Err(String::from_utf8_lossy(&text).trim().to_string()) };
        *block = None;
        return Ok(Some(ControlMessage::Reply { ours, text }));
    }
    let (word, rest) = line.split_at(line.iter().position(|byte| *byte == b' ').unwrap_or(line.len()));
    let rest_text = || String::from_utf8_lossy(rest.get(1..).unwrap_or_default()).into_owned();
    Ok(match word {
        b"%begin" => {
            *block = Some(Block { guard: rest.to_vec(), text: Vec::new() });
            None
        }
        b"%output" => output(rest),
        b"%pane-mode-changed" => pane_of(rest_text().trim()).map(|pane| ControlMessage::ModeChanged { pane }),
        // Fields: window, layout, visible layout, flags.
        b"%layout-change" => {
            let text = rest_text();
            let words: Vec<&str> = text.split(' ').collect();
            words
                .get(2)
                .or(words.get(1))
                .map(|visible| ControlMessage::LayoutChanged { visible: (*visible).to_string() })
        }
        b"%window-close" | b"%unlinked-window-close" | b"%session-changed" | b"%window-add" => {
            Some(ControlMessage::PanesChanged)
        }
        b"%exit" => Some(ControlMessage::Exit(rest_text())),
        _ => None,
    })
}

/// Parses ` %3 text`, where backslashes and bytes below 32 are written as `\ooo`.
fn output(rest: &[u8]) -> Option<ControlMessage> {
    let rest = rest.strip_prefix(b" ")?;
    let (id, text) = rest.split_at(rest.iter().position(|byte| *byte == b' ')?);
    let pane = pane_of(std::str::from_utf8(id).ok()?)?;
    Some(ControlMessage::Output { pane, bytes: unescape(&text[1..]) })
}

fn unescape(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        bytes.extend_from_slice(&rest[..at]);
        let digits =
            rest.get(at + 1..at + 4).filter(|digits| digits.iter().all(|d| (b'0'..=b'7').contains(d)));
        let number = digits.map(|digits| digits.iter().fold(0_u16, |n, d| n * 8 + u16::from(d - b'0')));
        let (byte, length) = match number.and_then(|number| u8::try_from(number).ok()) {
            Some(byte) => (byte, 4),
            // tmux writes no such sequence, so the backslash is kept.
            None => (b'\\', 1),
        };
        bytes.push(byte);
        rest = &rest[at + length..];
    }
    bytes.extend_from_slice(rest);
    bytes
}

/// Parses a pane id.
pub(super) fn pane_of(id: &str) -> Option<u32> {
    id.strip_prefix('%')?.parse().ok()
}

/// Returns columns and rows of a pane in a layout (`b25d,80x24,0,0{40x24,0,0,1,39x24,41,0,2}`).
pub(super) fn size_in(layout: &str, pane: u32) -> Option<(u16, u16)> {
    let (_, cells) = layout.split_once(',')?;
    // Each cell is WxH,X,Y and its pane, or its own cells in brackets.
    let mut words = cells.split([',', '{', '}', '[', ']']).filter(|word| !word.is_empty()).peekable();
    while let Some(word) = words.next() {
        let Some((cols, rows)) = word.split_once('x') else { continue };
        let (_x, _y) = (words.next()?, words.next()?);
        if words.peek().and_then(|id| id.parse::<u32>().ok()) == Some(pane) {
            return Some((cols.parse().ok()?, rows.parse().ok()?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(pieces: &[&[u8]]) -> Vec<ControlMessage> {
        let mut lines = ControlParser::default();
        let mut message = Vec::new();
        for piece in pieces {
            lines.buffer().extend_from_slice(piece);
            while let Some(next) = lines.next().unwrap() {
                message.push(next);
            }
        }
        message
    }

    const INPUT: &[u8] = b"%begin 1 280 0\n%end 1 280 0\n%session-changed $0 a\n%begin 2 285 1\n%1 354 @1\n%end 1 2 1\n%end 2 285 1\n\
        %output %1 a\\015\\012\\134\xff b\n%begin 3 300 1\nparse error: unknown command: bogus\n%error 3 300 1\n\
        %pane-mode-changed %1\n%something-new x\n%layout-change @1 a29e,90x20,0,0,1 b29e,80x20,0,0,1 *\n%output %12 \n%exit too far behind\n";

    fn expected() -> Vec<ControlMessage> {
        vec![
            ControlMessage::Reply { ours: false, text: Ok(Vec::new()) },
            ControlMessage::PanesChanged,
            ControlMessage::Reply { ours: true, text: Ok(b"%1 354 @1\n%end 1 2 1\n".to_vec()) },
            ControlMessage::Output { pane: 1, bytes: b"a\r\n\\\xff b".to_vec() },
            ControlMessage::Reply { ours: true, text: Err("parse error: unknown command: bogus".into()) },
            ControlMessage::ModeChanged { pane: 1 },
            ControlMessage::LayoutChanged { visible: "b29e,80x20,0,0,1".into() },
            ControlMessage::Output { pane: 12, bytes: Vec::new() },
            ControlMessage::Exit("too far behind".into()),
        ]
    }

    #[test]
    fn parses_replies_output_and_notifications() {
        assert_eq!(all(&[INPUT]), expected());
    }

    #[test]
    fn input_may_arrive_in_any_pieces() {
        for size in [1, 2, 3, 7, 50] {
            assert_eq!(all(&INPUT.chunks(size).collect::<Vec<_>>()), expected(), "{size}");
        }
    }

    #[test]
    fn unknown_lines_are_ignored_and_bad_escapes_kept() {
        assert_eq!(all(&[b"hello\n%output\n%output x y\n%output %1\n%layout-change @1\n\n"]), []);
        assert_eq!(unescape(b"a\\9\\777\\12"), b"a\\9\\777\\12", "no byte, and cut short");
    }

    #[test]
    fn endless_line_is_an_error() {
        let mut lines = ControlParser::default();
        lines.buffer().resize(LINE_LIMIT + 2, b'x');
        assert_eq!(lines.next(), Err(TooLong));
    }

    #[test]
    fn finds_pane_sizes_in_layouts() {
        let split = "b25d,80x24,0,0{40x24,0,0,1,39x24,41,0[39x12,41,0,2,39x11,41,13,13]}";
        assert_eq!(size_in(split, 1), Some((40, 24)));
        assert_eq!(size_in(split, 2), Some((39, 12)));
        assert_eq!(size_in(split, 13), Some((39, 11)));
        assert_eq!((size_in(split, 0), size_in(split, 41), size_in("", 1)), (None, None, None));
        assert_eq!(size_in("aafd,120x40,0,0,0", 0), Some((120, 40)));
    }
}
