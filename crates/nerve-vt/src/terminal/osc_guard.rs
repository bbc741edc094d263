//! Splits output into sequences and text, so that the parser sees no text, and truncates long
//! OSC strings.
//!
//! The parser does not report the end of a sequence that it ignores, and loses text after an incomplete
//! character. It also collects OSC strings without a limit; it passes on or drops the bytes of other strings
//! one by one.

use super::sequence_state::{BEL, CAN, ESC, SUB, SequenceState};

/// Maximum bytes of an OSC string that reach the parser.
const MAX_OSC_LEN: usize = 1 << 20;

/// Tracks the parser's state.
#[derive(Debug, Default)]
pub(super) struct OscGuard {
    state: SequenceState,
    /// Bytes of the OSC string so far, at most [`MAX_OSC_LEN`].
    osc_len: usize,
    /// The last OSC string was truncated.
    pub(super) cut: bool,
    /// The last OSC string was cancelled by CAN or SUB.
    pub(super) cancelled: bool,
}

/// A prefix of the bytes, and whether the parser should see it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) len: usize,
    pub(super) feed: bool,
}

impl OscGuard {
    /// Returns true unless the next byte is text or an ESC.
    pub(super) fn is_inside(&self) -> bool {
        self.state != SequenceState::Ground
    }

    /// Returns the longest prefix of `bytes` to be handled as one; `bytes` continue a sequence or begin with
    /// an ESC. A segment ends where a sequence does. It also ends where an OSC string does, so that `cut` and
    /// `cancelled` describe that string while the parser processes it.
    pub(super) fn next(&mut self, bytes: &[u8]) -> Segment {
        match self.state {
            SequenceState::Osc => return self.inside_osc(bytes),
            SequenceState::String => return self.inside_string(bytes),
            _ => {}
        }
        for (at, byte) in bytes.iter().enumerate() {
            self.state = self.state.next(*byte);
            match self.state {
                SequenceState::Osc => (self.osc_len, self.cut, self.cancelled) = (0, false, false),
                SequenceState::String | SequenceState::Ground => {}
                _ => continue,
            }
            return Segment { len: at + 1, feed: true };
        }
        Segment { len: bytes.len(), feed: true }
    }

    fn inside_osc(&mut self, bytes: &[u8]) -> Segment {
        let end = bytes.iter().position(|byte| matches!(*byte, BEL | CAN | SUB | ESC));
        let body = end.unwrap_or(bytes.len());
        let room = MAX_OSC_LEN.saturating_sub(self.osc_len);
        if body > room {
            self.cut = true;
            self.osc_len = MAX_OSC_LEN;
            return match room {
                0 => Segment { len: body, feed: false },
                _ => Segment { len: room, feed: true },
            };
        }
        self.osc_len += body;
        let Some(end) = end else { return Segment { len: body, feed: true } };
        self.cancelled = matches!(bytes[end], CAN | SUB);
        self.state = self.state.next(bytes[end]);
        Segment { len: end + 1, feed: true }
    }

    /// Hides bytes that are not ASCII: the parser ignores them, except 0x9c, which would end the string even
    /// within a character.
    fn inside_string(&mut self, bytes: &[u8]) -> Segment {
        let hidden = bytes.iter().take_while(|byte| !byte.is_ascii()).count();
        if hidden > 0 {
            return Segment { len: hidden, feed: false };
        }
        let end = bytes.iter().position(|byte| !byte.is_ascii() || matches!(*byte, CAN | SUB | ESC));
        match end {
            Some(end) if bytes[end].is_ascii() => {
                self.state = self.state.next(bytes[end]);
                Segment { len: end + 1, feed: true }
            }
            _ => Segment { len: end.unwrap_or(bytes.len()), feed: true },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bytes that the parser sees, and whether an OSC string was truncated. Text is not fed.
    fn fed(bytes: &[u8], step: usize) -> (Vec<u8>, bool) {
        let mut guard = OscGuard::default();
        let mut out = Vec::new();
        for chunk in bytes.chunks(step) {
            let mut at = 0;
            while at < chunk.len() {
                if !guard.is_inside() && chunk[at] != ESC {
                    at += 1;
                    continue;
                }
                let segment = guard.next(&chunk[at..]);
                if segment.feed {
                    out.extend_from_slice(&chunk[at..at + segment.len]);
                }
                at += segment.len;
            }
        }
        (out, guard.cut)
    }

    #[test]
    fn sequences_pass_unchanged_and_text_does_not_pass() {
        let bytes = "a\x1b]0;tïtle\x07b\x1b[31mm\x1b]8;;x\x1b\\c\x1b\x1b\x01]2;t\x18d\x1b[1?\x1b[1?mé\
                     \x1bPé\x18é\x1b(B";
        let passed =
            "\x1b]0;tïtle\x07\x1b[31m\x1b]8;;x\x1b\\\x1b\x1b\x01]2;t\x18\x1b[1?\x1b[1?m\x1bP\x18\x1b(B";
        for step in 1..bytes.len() {
            assert_eq!(fed(bytes.as_bytes(), step), (passed.into(), false));
        }
    }

    /// The scan of a segment is not longer than the segment, so the work is linear.
    #[test]
    fn segments_end_with_their_sequence() {
        let long = "x".repeat(1000);
        for sequence in ["\x1b[1?m", "\x1b[1?\x18", "\x1b7", "\x1b(B", "\x1b]", "\x1bP"] {
            let mut guard = OscGuard::default();
            assert_eq!(
                guard.next(format!("{sequence}{long}").as_bytes()).len,
                sequence.len(),
                "{sequence:?}"
            );
        }
    }

    #[test]
    fn long_strings_are_truncated_but_terminated() {
        let mut bytes = b"\x1b]0;".to_vec();
        bytes.resize(3 * MAX_OSC_LEN, b'x');
        bytes.extend_from_slice(b"\x07after");
        for step in [1 << 12, MAX_OSC_LEN, 4 * MAX_OSC_LEN] {
            let (out, cut) = fed(&bytes, step);
            assert_eq!(out.len(), 2 + MAX_OSC_LEN + 1);
            assert!(out.ends_with(b"x\x07") && cut);
        }
    }
}
