//! The state of a byte stream between and within escape sequences.

pub(super) const BEL: u8 = 0x07;
pub(super) const CAN: u8 = 0x18;
pub(super) const SUB: u8 = 0x1a;
pub(super) const ESC: u8 = 0x1b;

/// Tracks whether a byte stream is between escape sequences (the states of ECMA-48 §5, as in
/// <https://vt100.net/emu/dec_ansi_parser>). Never reports [`SequenceState::Ground`] in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SequenceState {
    /// Between escape sequences.
    #[default]
    Ground,
    /// After ESC.
    Escape,
    /// After ESC and an intermediate byte.
    EscapeIntermediate,
    /// Within a control sequence.
    Csi,
    /// Within an OSC string, which BEL also ends.
    Osc,
    /// Within another string.
    String,
}

impl SequenceState {
    /// Processes the next bytes. Only those from the last ESC on matter: ESC starts a sequence in any state.
    pub fn feed(&mut self, bytes: &[u8]) {
        let rest = match bytes.iter().rposition(|byte| *byte == ESC) {
            Some(esc) => {
                *self = SequenceState::Escape;
                &bytes[esc + 1..]
            }
            None => bytes,
        };
        for byte in rest {
            if *self == SequenceState::Ground {
                break;
            }
            *self = self.next(*byte);
        }
    }

    /// Returns the state after `byte`.
    pub(super) fn next(self, byte: u8) -> SequenceState {
        match (self, byte) {
            (_, ESC) => SequenceState::Escape,
            (_, CAN | SUB) | (SequenceState::Osc, BEL) => SequenceState::Ground,
            (SequenceState::Escape, b'[') => SequenceState::Csi,
            (SequenceState::Escape, b']') => SequenceState::Osc,
            (SequenceState::Escape, b'P' | b'X' | b'^' | b'_') => SequenceState::String,
            (SequenceState::Escape, 0x20..=0x2f) => SequenceState::EscapeIntermediate,
            (SequenceState::Escape | SequenceState::EscapeIntermediate, 0x30..=0x7e) => SequenceState::Ground,
            (SequenceState::Csi, 0x40..=0x7e) => SequenceState::Ground,
            (state, _) => state,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_tracked_across_chunks() {
        let cases: [(&[u8], bool); 14] = [
            (b"plain", true),
            (b"\x1b", false),
            (b"\x1b[", false),
            (b"\x1b[31", false),
            (b"\x1b[31m", true),
            (b"\x1b(", false),
            (b"\x1b(B", true),
            (b"\x1b]0;title", false),
            (b"\x1b]0;title\x07", true),
            (b"\x1b]0;title\x1b\\", true),
            (b"\x1bPq\x07", false),
            (b"\x1bPq\x1b\\", true),
            (b"\x1b[3\x18", true),
            (b"\x1b]0;t\x1b[m", true),
        ];
        for (bytes, yes) in cases {
            let mut whole = SequenceState::default();
            whole.feed(bytes);
            let mut split = SequenceState::default();
            bytes.chunks(1).for_each(|byte| split.feed(byte));
            assert_eq!(
                (whole == SequenceState::Ground, split),
                (yes, whole),
                "{:?}",
                String::from_utf8_lossy(bytes)
            );
        }
    }
}
