//! Truncates OSC strings at a limit, because the parser collects them without one.
//!
//! DCS, APC, PM and SOS strings need no limit: the parser passes on or drops their bytes one by one.

/// Bytes of an OSC string that reach the parser.
pub(super) const LIMIT: usize = 1 << 20;

const BEL: u8 = 0x07;
const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;
const ESC: u8 = 0x1b;

/// Tracks the parser's state as far as needed to find OSC strings.
#[derive(Debug, Default)]
pub(super) struct OscGuard {
    state: State,
    /// The last OSC string was truncated.
    pub(super) cut: bool,
    /// The last OSC string was cancelled by CAN or SUB.
    pub(super) cancelled: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    Escape,
    Osc(usize),
}

/// A prefix of the bytes, and whether the parser should see it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) len: usize,
    pub(super) feed: bool,
}

impl OscGuard {
    /// Returns the longest prefix of `bytes` to be handled as one (empty only if `bytes` is). A segment ends where an
    /// OSC string does, so that `cut` and `cancelled` describe that string while the parser processes it.
    pub(super) fn next(&mut self, bytes: &[u8]) -> Segment {
        if let State::Osc(seen) = self.state {
            return self.inside_osc(seen, bytes);
        }
        let mut at = 0;
        while at < bytes.len() {
            if self.state == State::Ground {
                match memchr::memchr(ESC, &bytes[at..]) {
                    Some(esc) => at += esc + 1,
                    None => break,
                }
                self.state = State::Escape;
                continue;
            }
            at += 1;
            self.state = match bytes[at - 1] {
                b']' => State::Osc(0),
                CAN | SUB => State::Ground,
                0..=0x1f | 0x7f.. => State::Escape,
                _ => State::Ground,
            };
            if self.state == State::Osc(0) {
                (self.cut, self.cancelled) = (false, false);
                return Segment { len: at, feed: true };
            }
        }
        Segment { len: bytes.len(), feed: true }
    }

    /// Notes that the parser is not within a sequence.
    pub(super) fn reset(&mut self) {
        self.state = State::Ground;
    }

    fn inside_osc(&mut self, seen: usize, bytes: &[u8]) -> Segment {
        let end = bytes.iter().position(|byte| matches!(*byte, BEL | CAN | SUB | ESC));
        let body = end.unwrap_or(bytes.len());
        let room = LIMIT.saturating_sub(seen);
        if body > room {
            self.cut = true;
            self.state = State::Osc(LIMIT);
            return match room {
                0 => Segment { len: body, feed: false },
                _ => Segment { len: room, feed: true },
            };
        }
        self.state = State::Osc(seen + body);
        let Some(end) = end else { return Segment { len: body, feed: true } };
        self.cancelled = matches!(bytes[end], CAN | SUB);
        self.state = if bytes[end] == ESC { State::Escape } else { State::Ground };
        Segment { len: end + 1, feed: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(bytes: &[u8], step: usize) -> (Vec<u8>, bool) {
        let mut guard = OscGuard::default();
        let mut out = Vec::new();
        for chunk in bytes.chunks(step) {
            let mut at = 0;
            while at < chunk.len() {
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
    fn short_strings_pass_unchanged() {
        let bytes = b"a\x1b]0;title\x07b\x1b[31m\x1b]8;;x\x1b\\c\x1b\x1b\x01]2;t\x18d";
        for step in 1..bytes.len() {
            assert_eq!(fed(bytes, step), (bytes.to_vec(), false));
        }
    }

    #[test]
    fn long_strings_are_truncated_but_terminated() {
        let mut bytes = b"\x1b]0;".to_vec();
        bytes.resize(3 * LIMIT, b'x');
        bytes.extend_from_slice(b"\x07after");
        for step in [1 << 12, LIMIT, 4 * LIMIT] {
            let (out, cut) = fed(&bytes, step);
            assert_eq!(out.len(), 2 + LIMIT + 6);
            assert!(out.ends_with(b"x\x07after") && cut);
        }
    }
}
