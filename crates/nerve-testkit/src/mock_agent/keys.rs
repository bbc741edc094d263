//! Decodes terminal input into keys.

/// A key or a paste.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Key {
    /// Typed text, without control characters.
    Text(String),
    /// A bracketed paste; line ends are `\n`.
    Paste(String),
    Enter,
    /// A line end that does not submit: Ctrl+J or ESC CR.
    Newline,
    Escape,
    /// ^C
    Interrupt,
    /// ^D
    EndOfInput,
    /// Ctrl+U
    ClearDraft,
    Backspace,
    Up,
    Down,
}

/// Maximum bytes of a paste; the rest is dropped.
const PASTE_LIMIT: usize = 32 << 20;
/// An unfinished escape sequence longer than this is discarded.
const SEQUENCE_LIMIT: usize = 4096;
const PASTE_START: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";

/// The state between two reads.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    pending: Vec<u8>,
    paste: Option<Vec<u8>>,
}

/// The item at the front of the pending bytes: a key, the start of a paste, or an incomplete sequence.
enum Item {
    /// The length of a key or of an ignored sequence.
    Key(usize, Option<Key>),
    PasteStart,
    /// An incomplete sequence.
    Unfinished,
}

impl Decoder {
    /// Decodes bytes and returns the completed keys.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Key> {
        let mut keys = Vec::new();
        self.pending.extend_from_slice(bytes);
        loop {
            if self.paste.is_some() {
                let Some(key) = self.take_paste() else { break };
                keys.push(key);
            }
            if self.pending.is_empty() {
                break;
            }
            match front(&self.pending) {
                Item::Key(used, key) => {
                    self.pending.drain(..used);
                    keys.extend(key);
                }
                Item::PasteStart => {
                    self.pending.drain(..PASTE_START.len());
                    self.paste = Some(Vec::new());
                }
                Item::Unfinished if self.pending.len() > SEQUENCE_LIMIT => self.pending.clear(),
                Item::Unfinished => break,
            }
        }
        keys
    }

    /// Returns true if a lone ESC is pending, which after a moment means the Escape key.
    pub(super) fn holds_escape(&self) -> bool {
        self.paste.is_none() && self.pending == [0x1b]
    }

    /// Resolves a pending ESC as the Escape key.
    pub(super) fn escape_alone(&mut self) -> Option<Key> {
        self.holds_escape().then(|| {
            self.pending.clear();
            Key::Escape
        })
    }

    /// Moves pending bytes into the paste; returns the paste if it is complete.
    fn take_paste(&mut self) -> Option<Key> {
        let paste = self.paste.as_mut()?;
        let end = find(&self.pending, PASTE_END);
        // An incomplete end marker stays pending.
        let take = end.unwrap_or(self.pending.len().saturating_sub(PASTE_END.len() - 1));
        let room = PASTE_LIMIT.saturating_sub(paste.len());
        paste.extend_from_slice(&self.pending[..take.min(room)]);
        self.pending.drain(..take + end.map_or(0, |_| PASTE_END.len()));
        end?;
        let text = String::from_utf8_lossy(&self.paste.take()?).into_owned();
        Some(Key::Paste(text.replace("\r\n", "\n").replace('\r', "\n")))
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn front(bytes: &[u8]) -> Item {
    match bytes[0] {
        0x1b => escape(bytes),
        b'\r' => Item::Key(1, Some(Key::Enter)),
        b'\n' => Item::Key(1, Some(Key::Newline)),
        0x03 => Item::Key(1, Some(Key::Interrupt)),
        0x04 => Item::Key(1, Some(Key::EndOfInput)),
        0x15 => Item::Key(1, Some(Key::ClearDraft)),
        0x08 | 0x7f => Item::Key(1, Some(Key::Backspace)),
        b'\t' => Item::Key(1, Some(Key::Text("\t".into()))),
        0x00..=0x1f => Item::Key(1, None),
        _ => text(bytes),
    }
}

fn text(bytes: &[u8]) -> Item {
    let run = bytes.iter().position(|&b| b < 0x20 || b == 0x7f).unwrap_or(bytes.len());
    match std::str::from_utf8(&bytes[..run]) {
        Ok(text) => Item::Key(run, Some(Key::Text(text.into()))),
        Err(e) if e.valid_up_to() > 0 => front(&bytes[..e.valid_up_to()]),
        Err(e) => match e.error_len() {
            Some(bad) => Item::Key(bad, None),
            None if run < bytes.len() => Item::Key(run, None),
            None => Item::Unfinished,
        },
    }
}

fn escape(bytes: &[u8]) -> Item {
    match bytes.get(1) {
        None => Item::Unfinished,
        Some(b'\r' | b'\n') => Item::Key(2, Some(Key::Newline)),
        Some(b'[') => control_sequence(bytes),
        Some(b'O') => match bytes.get(2) {
            None => Item::Unfinished,
            Some(&end) => Item::Key(3, arrow(end)),
        },
        // The terminal's responses to queries (DCS, OSC, APC …) end with ST or BEL.
        Some(b'P' | b']' | b'_' | b'^' | b'X') => string(bytes),
        Some(0x1b) => Item::Key(1, Some(Key::Escape)),
        // Alt plus a key.
        Some(_) => Item::Key(2, None),
    }
}

fn control_sequence(bytes: &[u8]) -> Item {
    if bytes.starts_with(PASTE_START) {
        return Item::PasteStart;
    }
    match bytes[2..].iter().position(|b| (0x40..=0x7e).contains(b)) {
        None => Item::Unfinished,
        Some(at) => Item::Key(at + 3, (at == 0).then(|| arrow(bytes[2])).flatten()),
    }
}

fn arrow(end: u8) -> Option<Key> {
    match end {
        b'A' => Some(Key::Up),
        b'B' => Some(Key::Down),
        b'M' => Some(Key::Enter),
        _ => None,
    }
}

fn string(bytes: &[u8]) -> Item {
    for (at, &byte) in bytes.iter().enumerate().skip(2) {
        match byte {
            0x07 => return Item::Key(at + 1, None),
            b'\\' if bytes[at - 1] == 0x1b => return Item::Key(at + 1, None),
            _ => {}
        }
    }
    Item::Unfinished
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the keys do not depend on how the input is split. Adjacent text counts as one key.
    #[track_caller]
    fn check(input: &[u8], expected: &[Key]) {
        for cut in [1, 2, 3, input.len()] {
            let mut decoder = Decoder::default();
            let mut keys: Vec<Key> = Vec::new();
            for key in input.chunks(cut).flat_map(|chunk| decoder.feed(chunk)) {
                match (keys.last_mut(), key) {
                    (Some(Key::Text(before)), Key::Text(now)) => before.push_str(&now),
                    (_, key) => keys.push(key),
                }
            }
            assert_eq!(keys, expected, "cut into {cut}");
        }
    }

    fn typed(text: &str) -> Key {
        Key::Text(text.into())
    }

    #[test]
    fn text_and_control_keys() {
        check(b"hi\r", &[typed("hi"), Key::Enter]);
        check(
            b"\x03\x04\x15\x7f\n",
            &[Key::Interrupt, Key::EndOfInput, Key::ClearDraft, Key::Backspace, Key::Newline],
        );
        check("né日😀".as_bytes(), &[typed("né日😀")]);
    }

    #[test]
    fn escape_and_carriage_return_is_a_line_end() {
        check(b"a\x1b\rb", &[typed("a"), Key::Newline, typed("b")]);
    }

    #[test]
    fn arrows_in_both_cursor_modes() {
        check(b"\x1b[A\x1bOB", &[Key::Up, Key::Down]);
    }

    #[test]
    fn a_paste_keeps_what_looks_like_keys() {
        check(b"\x1b[200~a\r\nb\x03\x1b[A\x1b[201~\r", &[Key::Paste("a\nb\x03\x1b[A".into()), Key::Enter]);
    }

    #[test]
    fn answers_of_the_terminal_are_not_text() {
        check(b"\x1b[?62;22c\x1bP>|term 1\x1b\\\x1b[?0u\x1b]11;rgb:0/0/0\x07x", &[typed("x")]);
    }

    #[test]
    fn invalid_utf8_is_dropped() {
        check(b"a\xffb\xe3\r", &[typed("ab"), Key::Enter]);
    }

    #[test]
    fn a_lone_escape_is_held_until_it_is_alone() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.feed(b"\x1b"), []);
        assert!(decoder.holds_escape());
        assert_eq!(decoder.escape_alone(), Some(Key::Escape));
        assert!(!decoder.holds_escape());
        assert_eq!(decoder.escape_alone(), None);
    }
}
