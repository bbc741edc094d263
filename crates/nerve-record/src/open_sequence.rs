//! Keeps the incomplete escape sequence or character at the end of the output, which a dump of the terminal lacks.

use nerve_vt::terminal::SequenceState;

/// Maximum bytes kept of a sequence. A longer one loses its rest, for example the end of a title.
const MAX_LEN: usize = 64 << 10;
const ESC: u8 = 0x1b;

/// The unfinished end of the output so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenSequence {
    state: SequenceState,
    bytes: Vec<u8>,
}

impl OpenSequence {
    /// Returns the bytes; empty if the output ends between sequences and characters.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Processes the next output.
    pub(crate) fn feed(&mut self, output: &[u8]) {
        self.state.feed(output);
        if self.state != SequenceState::Ground {
            match output.iter().rposition(|byte| *byte == ESC) {
                Some(start) => self.bytes = output[start..].to_vec(),
                None => self.bytes.extend_from_slice(output),
            }
            self.bytes.truncate(MAX_LEN);
            return;
        }
        // An incomplete character has at most three bytes (UTF-8).
        if output.len() >= 3 || self.bytes.first() == Some(&ESC) {
            self.bytes.clear();
        }
        self.bytes.extend_from_slice(&output[output.len().saturating_sub(3)..]);
        let start = self.bytes.len() - incomplete_char_len(&self.bytes);
        self.bytes.drain(..start);
    }
}

/// Returns the length of the incomplete character at the end of `bytes`.
fn incomplete_char_len(bytes: &[u8]) -> usize {
    let lead = bytes.iter().rev().take(3).position(|byte| byte & 0xc0 != 0x80);
    let Some(len) = lead.map(|position| position + 1) else { return 0 };
    let expected = match bytes[bytes.len() - len] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    if expected > len { len } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_end_is_kept_however_output_is_split() {
        let cases: [(&[u8], &[u8]); 9] = [
            (b"plain", b""),
            (b"a\x1b[31", b"\x1b[31"),
            (b"a\x1b[31m", b""),
            (b"\x1b]0;title", b"\x1b]0;title"),
            (b"\x1b]0;title\x1b", b"\x1b"),
            ("a\u{65e5}".as_bytes(), b""),
            (b"a\xe6\x97", b"\xe6\x97"),
            (b"\x1b[m\xf0\x9f\x91", b"\xf0\x9f\x91"),
            (b"\x97\x97\x97", b""),
        ];
        for (output, expected) in cases {
            let mut whole = OpenSequence::default();
            whole.feed(output);
            assert_eq!(whole.bytes(), expected, "{:?}", output.escape_ascii().to_string());
            if expected != b"\x1b" {
                let mut split = OpenSequence::default();
                output.chunks(1).for_each(|byte| split.feed(byte));
                assert_eq!(split.bytes(), expected, "{:?} byte by byte", output.escape_ascii().to_string());
            }
        }
    }

    #[test]
    fn long_sequence_keeps_its_start() {
        let mut open = OpenSequence::default();
        open.feed(b"\x1b]52;c;");
        open.feed(&[b'x'; MAX_LEN]);
        assert_eq!(open.bytes().len(), MAX_LEN);
        open.feed(b"\x07ok");
        assert_eq!(open.bytes(), b"");
    }
}
