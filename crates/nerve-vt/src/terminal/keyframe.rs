//! Keyframes: serialized terminals that make seeking in long recordings cheap.

use bitflags::bitflags;
use nerve_types::{Size, TsNs};

use super::model::{Model, ParserState};
use super::overprint::Overprint;
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
    /// The last printed character.
    pub last_char: Option<char>,
    /// The other parts, each on or off.
    pub flags: HiddenFlags,
}

bitflags! {
    /// State that is on or off. The bits are those of index sidecars.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct HiddenFlags: u8 {
        /// The last grapheme may continue.
        const CAN_JOIN = 1;
        /// That grapheme ended in a joiner.
        const AFTER_JOINER = 1 << 1;
        /// The cursor's wrap is pending.
        const CURSOR_WRAP = 1 << 2;
        /// The saved cursor's wrap is pending.
        const SAVED_CURSOR_WRAP = 1 << 3;
        /// The wrap of the main screen's cursor is pending, while an alternate screen is shown.
        const MAIN_CURSOR_WRAP = 1 << 4;
        /// The same of its saved cursor.
        const MAIN_SAVED_CURSOR_WRAP = 1 << 5;
    }
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

    /// Copies the terminal without stored lines, and without the text below the cursor and in the rest of its line. `None` while a
    /// character or a synchronized update is incomplete.
    ///
    /// The bytes so far must not end within an escape sequence.
    pub fn copy_without_text_below(&self, now: TsNs) -> Option<TerminalState> {
        let mut keyframe = self.keyframe(now)?;
        // ED 0.
        keyframe.dump.extend_from_slice(b"\x1b[J");
        let mut copy = TerminalState::from_keyframe(&keyframe);
        // The program did not draw the dump.
        copy.model.printing.raised_from = None;
        copy.model.printing.overprint = Overprint::default();
        copy.model.sequence = ParserState::default();
        Some(copy)
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
        self.model.sequence = ParserState::default();
        self.model.frames.close();
        self.model.stream.offset = offset;
    }
}

fn hidden_state(model: &Model) -> HiddenState {
    let grid = model.grid();
    let mut flags = HiddenFlags::empty();
    flags.set(HiddenFlags::CAN_JOIN, model.printing.can_join);
    flags.set(HiddenFlags::AFTER_JOINER, model.printing.after_joiner);
    flags.set(HiddenFlags::CURSOR_WRAP, grid.cursor.input_needs_wrap);
    flags.set(HiddenFlags::SAVED_CURSOR_WRAP, grid.saved_cursor.input_needs_wrap);
    if let Some(main) = &model.inactive_main {
        flags.set(HiddenFlags::MAIN_CURSOR_WRAP, main.cursor.input_needs_wrap);
        flags.set(HiddenFlags::MAIN_SAVED_CURSOR_WRAP, main.saved_cursor.input_needs_wrap);
    }
    HiddenState { last_char: model.printing.last_char, flags }
}

fn restore_hidden_state(model: &mut Model, HiddenState { last_char, flags }: HiddenState) {
    model.printing.can_join = flags.contains(HiddenFlags::CAN_JOIN);
    model.printing.after_joiner = flags.contains(HiddenFlags::AFTER_JOINER);
    model.printing.last_char = last_char;
    let grid = model.term.grid_mut();
    grid.cursor.input_needs_wrap = flags.contains(HiddenFlags::CURSOR_WRAP);
    grid.saved_cursor.input_needs_wrap = flags.contains(HiddenFlags::SAVED_CURSOR_WRAP);
    if let Some(main) = &mut model.inactive_main {
        main.cursor.input_needs_wrap = flags.contains(HiddenFlags::MAIN_CURSOR_WRAP);
        main.saved_cursor.input_needs_wrap = flags.contains(HiddenFlags::MAIN_SAVED_CURSOR_WRAP);
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
    #[test]
    fn output_in_copy_covers_no_older_text() {
        let mut terminal = TerminalState::new(Size::new(20, 5));
        terminal.process_data(TsNs(1), b"1\r\n2\r\n3\r\n4\r\n5\r\n6 older text\x1b[2;1H$ ");
        let mut copy = terminal.copy_without_text_below(TsNs(2)).expect("no open frame");
        let output = b"echo\r\na\tb\r\n$ ";
        let (alerts, own) =
            (terminal.process_data(TsNs(3), output).alerts, copy.process_data(TsNs(3), output).alerts);
        assert_eq!((alerts, own), (Vec::new(), Vec::new()));
        assert_eq!((copy.cursor_line(), copy.offset()), (terminal.cursor_line(), terminal.offset()));
        let rows = |terminal: &TerminalState| -> Vec<String> {
            terminal.screen().rows.into_iter().map(|row| row.text).collect()
        };
        assert_eq!(rows(&copy), ["2", "$ echo", "a       b", "$", ""]);
        assert_eq!(rows(&terminal), ["2", "$ echo", "a       b", "$", "6 older text"]);
        assert_eq!((copy.covered_line(), terminal.covered_line().is_some()), (None, true));
    }
}
