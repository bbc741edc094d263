//! Keyframes: serialized terminals that make seeking in long recordings cheap.

use nerve_types::{Size, TsNs};

use super::model::Model;
use super::{TerminalState, dump};

/// A terminal without its stored lines. Keeps the line numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Keyframe {
    /// Time of the keyframe.
    pub at: TsNs,
    /// Output bytes before the keyframe.
    pub offset: u64,
    /// Absolute number of the line at the top of the main screen.
    pub first_line: u64,
    /// Size in cells.
    pub size: Size,
    /// See [`TerminalState::dump`].
    pub dump: Vec<u8>,
    /// State that a dump cannot express.
    pub hidden: HiddenState,
}

/// State that no escape sequence sets: the character that REP repeats, whether a grapheme may continue, and pending
/// wraps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HiddenState {
    /// The last printed character; 0 for none.
    pub last_char: u32,
    /// Bits, from the lowest: a grapheme may continue; that grapheme ended in a joiner. The others are pending wraps: of
    /// the cursor, the saved cursor, and both cursors of the main screen under an alternate one.
    pub flags: u8,
}

impl TerminalState {
    /// Creates a keyframe at time `now`; `None` while a character or a synchronized update is incomplete.
    ///
    /// The bytes so far must not end within an escape sequence: see [`SequenceState`](super::SequenceState).
    pub fn keyframe(&self, now: TsNs) -> Option<Keyframe> {
        if self.partial_char.len() > 0 || self.model.frames.is_open() {
            return None;
        }
        Some(Keyframe {
            at: now,
            offset: self.model.stream.offset,
            first_line: self.model.store.end(),
            size: self.model.size,
            dump: dump::dump(&self.model),
            hidden: hidden_state(&self.model),
        })
    }

    /// Restores a terminal without stored lines and snapshots. Continues at the keyframe's offset and line numbers.
    pub fn from_keyframe(keyframe: &Keyframe) -> TerminalState {
        let mut terminal = TerminalState::new(keyframe.size);
        terminal.process_data(keyframe.at, &keyframe.dump);
        terminal.model.stream.offset = keyframe.offset;
        terminal.model.store.number_from(keyframe.first_line);
        restore_hidden_state(&mut terminal.model, keyframe.hidden);
        terminal
    }

    /// Continues at byte `offset` because the output up to there is missing. Discards incomplete sequences. Does
    /// nothing for an offset already passed.
    pub fn skip_to(&mut self, offset: u64) {
        if offset <= self.model.stream.offset {
            return;
        }
        self.parser = super::Parser::new();
        self.partial_char = super::PartialChar::default();
        self.strings = super::OscGuard::default();
        self.model.sequence = super::model::ParserState::default();
        self.model.frames.close();
        self.model.stream.offset = offset;
    }
}

fn hidden_state(model: &Model) -> HiddenState {
    let grid = model.grid();
    let below = model.inactive_main.as_ref();
    let bits = [
        model.printing.can_join,
        model.printing.after_joiner,
        grid.cursor.input_needs_wrap,
        grid.saved_cursor.input_needs_wrap,
        below.is_some_and(|main| main.cursor.input_needs_wrap),
        below.is_some_and(|main| main.saved_cursor.input_needs_wrap),
    ];
    let flags = bits.iter().enumerate().fold(0, |flags, (nth, on)| flags | u8::from(*on) << nth);
    HiddenState { last_char: model.printing.last_char.map_or(0, u32::from), flags }
}

fn restore_hidden_state(model: &mut Model, hidden: HiddenState) {
    let on = |nth: u8| hidden.flags >> nth & 1 != 0;
    model.printing.can_join = on(0);
    model.printing.after_joiner = on(1);
    model.printing.last_char = char::from_u32(hidden.last_char).filter(|c| *c != '\0');
    let grid = model.term.grid_mut();
    grid.cursor.input_needs_wrap = on(2);
    grid.saved_cursor.input_needs_wrap = on(3);
    if let Some(main) = &mut model.inactive_main {
        main.cursor.input_needs_wrap = on(4);
        main.saved_cursor.input_needs_wrap = on(5);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keyframe_keeps_hidden_state() {
        let fed = |more: &str| {
            let mut terminal = TerminalState::new(Size::new(4, 2));
            terminal.process_data(TsNs(1), format!("\r\n\r\nabcd\x1b7{more}").as_bytes());
            terminal
        };
        for more in ["", "\x1b[2b", "e\u{301}", "\x1b[1;1H\x1b8x", "\r\n1\r\n2"] {
            let mut copy = TerminalState::from_keyframe(&fed("").keyframe(TsNs(2)).expect("no open frame"));
            copy.process_data(TsNs(3), more.as_bytes());
            assert_eq!(copy.screen(), fed(more).screen(), "{more:?}");
            assert_eq!(copy.line_count(), fed(more).line_count());
        }
    }
}
