//! A terminal at one moment, to go on from: what makes it cheap to open a long recording in its middle.

use super::model::Model;
use super::{TerminalState, dump};
use crate::event::{Size, TsNs};

/// A terminal without the lines it has stored: enough to go on from, with the line numbers it had.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Keyframe {
    /// When it was taken.
    pub at: TsNs,
    /// Output bytes before it.
    pub offset: u64,
    /// Absolute number of the line at the top of the main screen.
    pub first_line: u64,
    /// Size in cells.
    pub size: Size,
    /// See [`TerminalState::dump`].
    pub dump: Vec<u8>,
    /// What a dump cannot say.
    pub hidden: Hidden,
}

/// The state that no escape sequence sets: what REP repeats, whether a grapheme may go on, which cursors are behind the last
/// column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hidden {
    /// The character printed last; 0 for none.
    pub last_char: u32,
    /// Bits, from the lowest: a grapheme may go on; it ended in a joiner; then a pending wrap of the cursor, the saved cursor,
    /// and both of the main screen under an alternate one.
    pub flags: u8,
}

impl TerminalState {
    /// A moment to go on from, at time `now`; `None` while a character or a synchronized update is unfinished.
    ///
    /// The bytes so far must not end within an escape sequence: [`Between`] tells.
    pub fn keyframe(&self, now: TsNs) -> Option<Keyframe> {
        if self.partial.len() > 0 || self.model.frames.is_open() {
            return None;
        }
        Some(Keyframe {
            at: now,
            offset: self.model.offset,
            first_line: self.model.store.end(),
            size: self.model.size,
            dump: dump::dump(&self.model),
            hidden: hidden(&self.model),
        })
    }

    /// The terminal as it was, without stored lines and snapshots. Goes on at the keyframe's offset and line numbers.
    pub fn from_keyframe(keyframe: &Keyframe) -> TerminalState {
        let mut terminal = TerminalState::new(keyframe.size);
        terminal.process_data(keyframe.at, &keyframe.dump);
        terminal.model.offset = keyframe.offset;
        terminal.model.store.number_from(keyframe.first_line);
        hide(&mut terminal.model, keyframe.hidden);
        terminal
    }

    /// Goes on at byte `offset` because the output up to there is missing. What was unfinished is given up. An offset that has
    /// been passed already changes nothing.
    pub fn skip_to(&mut self, offset: u64) {
        if offset <= self.model.offset {
            return;
        }
        self.parser = super::Parser::new();
        self.partial = super::Partial::default();
        self.strings = super::StringGuard::default();
        self.model.query = None;
        self.model.frames.close();
        self.model.offset = offset;
    }
}

fn hidden(model: &Model) -> Hidden {
    let grid = model.grid();
    let below = model.parked.as_ref();
    let bits = [
        model.joinable,
        model.after_joiner,
        grid.cursor.input_needs_wrap,
        grid.saved_cursor.input_needs_wrap,
        below.is_some_and(|main| main.cursor.input_needs_wrap),
        below.is_some_and(|main| main.saved_cursor.input_needs_wrap),
    ];
    let flags = bits.iter().enumerate().fold(0, |flags, (nth, on)| flags | u8::from(*on) << nth);
    Hidden { last_char: model.last_char.map_or(0, u32::from), flags }
}

fn hide(model: &mut Model, hidden: Hidden) {
    let on = |nth: u8| hidden.flags >> nth & 1 != 0;
    model.joinable = on(0);
    model.after_joiner = on(1);
    model.last_char = char::from_u32(hidden.last_char).filter(|c| *c != '\0');
    let grid = model.term.grid_mut();
    grid.cursor.input_needs_wrap = on(2);
    grid.saved_cursor.input_needs_wrap = on(3);
    if let Some(main) = &mut model.parked {
        main.cursor.input_needs_wrap = on(4);
        main.saved_cursor.input_needs_wrap = on(5);
    }
}

/// Tells whether a stream of bytes is between escape sequences (the states of ECMA-48 §5, as
/// <https://vt100.net/emu/dec_ansi_parser> draws them). When in doubt it says no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Between {
    /// It is.
    #[default]
    Yes,
    /// After ESC.
    Escape,
    /// After ESC and an intermediate byte.
    Intermediate,
    /// In a control sequence.
    Control,
    /// In an OSC string, which BEL ends too.
    Command,
    /// In another string.
    String,
}

const BEL: u8 = 0x07;
const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;
const ESC: u8 = 0x1b;

impl Between {
    /// Takes the next bytes. Only those from the last ESC on count: it starts something new in any state.
    pub fn feed(&mut self, bytes: &[u8]) {
        let rest = match bytes.iter().rposition(|byte| *byte == ESC) {
            Some(esc) => {
                *self = Between::Escape;
                &bytes[esc + 1..]
            }
            None => bytes,
        };
        for byte in rest {
            if *self == Between::Yes {
                break;
            }
            *self = self.next(*byte);
        }
    }

    fn next(self, byte: u8) -> Between {
        match (self, byte) {
            (_, CAN | SUB) | (Between::Command, BEL) => Between::Yes,
            (Between::Escape, b'[') => Between::Control,
            (Between::Escape, b']') => Between::Command,
            (Between::Escape, b'P' | b'X' | b'^' | b'_') => Between::String,
            (Between::Escape, 0x20..=0x2f) => Between::Intermediate,
            (Between::Escape | Between::Intermediate, 0x30..=0x7e) => Between::Yes,
            (Between::Control, 0x40..=0x7e) => Between::Yes,
            (state, _) => state,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_followed_however_they_are_cut() {
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
            let mut whole = Between::default();
            whole.feed(bytes);
            let mut split = Between::default();
            bytes.chunks(1).for_each(|byte| split.feed(byte));
            assert_eq!((whole == Between::Yes, split), (yes, whole), "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn what_no_sequence_sets_is_kept() {
        let fed = |more: &str| {
            let mut terminal = TerminalState::new(Size::new(4, 2));
            terminal.process_data(TsNs(1), format!("\r\n\r\nabcd\x1b7{more}").as_bytes());
            terminal
        };
        for more in ["", "\x1b[2b", "e\u{301}", "\x1b[1;1H\x1b8x", "\r\n1\r\n2"] {
            let mut copy = TerminalState::from_keyframe(&fed("").keyframe(TsNs(2)).expect("nothing is open"));
            copy.process_data(TsNs(3), more.as_bytes());
            assert_eq!(copy.screen(), fed(more).screen(), "{more:?}");
            assert_eq!(copy.line_count(), fed(more).line_count());
        }
    }
}
