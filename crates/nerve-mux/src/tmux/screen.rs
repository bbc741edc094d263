//! Converts the screen of an existing pane into bytes for the terminal model. No I/O.
//!
//! tmux reports text and styles (`capture-pane -e`) and most modes. The missing ones (bracketed paste, mouse encodings in older
//! versions) do not prevent input, see [`super::input`].

use super::formats::SEPARATOR;
use super::quoting::CommandArgs;
use super::quoting::command;

/// Rows of scrollback that are taken over.
const HISTORY: &str = "-10000";

/// The fields of [`PaneState`], in the order in which they are parsed.
const STATE: &str = concat!(
    "#{pane_width}\u{1f}#{pane_height}\u{1f}#{cursor_x}\u{1f}#{cursor_y}\u{1f}#{cursor_flag}\u{1f}#{alternate_on}\u{1f}",
    "#{keypad_cursor_flag}\u{1f}#{keypad_flag}\u{1f}#{wrap_flag}\u{1f}#{insert_flag}\u{1f}#{origin_flag}\u{1f}",
    "#{scroll_region_upper}\u{1f}#{scroll_region_lower}\u{1f}#{mouse_standard_flag}\u{1f}#{mouse_button_flag}\u{1f}",
    "#{mouse_all_flag}\u{1f}#{mouse_sgr_flag}\u{1f}#{pane_title}"
);

/// Returns the commands that query state, text, and the main screen below an alternate one.
pub(super) fn queries(pane: &str) -> [CommandArgs; 3] {
    [
        command(&["display-message", "-p", "-t", pane, STATE]),
        command(&["capture-pane", "-p", "-e", "-t", pane, "-S", HISTORY]),
        command(&["capture-pane", "-p", "-e", "-q", "-a", "-t", pane]),
    ]
}

/// A pane's state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PaneState {
    cols: u16,
    rows: u16,
    cursor: (u16, u16),
    /// Private modes of ECMA-48 and xterm, set or reset.
    modes: Vec<(u16, bool)>,
    keypad: bool,
    insert: bool,
    /// First and last row of the scroll region, 0-based.
    region: (u16, u16),
    alternate: bool,
    title: String,
}

impl PaneState {
    /// Parses a line of [`STATE`].
    pub(super) fn parse(line: &str) -> Option<PaneState> {
        let fields: Vec<&str> = line.trim_end_matches('\n').splitn(18, SEPARATOR).collect();
        let number = |at: usize| fields.get(at)?.parse::<u16>().ok();
        // An older tmux lacks some flags; they count as off.
        let flag = |at: usize| fields.get(at).is_some_and(|field| *field == "1");
        let rows = number(1)?;
        Some(PaneState {
            cols: number(0)?,
            rows,
            cursor: (number(2)?, number(3)?),
            alternate: flag(5),
            keypad: flag(7),
            insert: flag(9),
            region: (number(11).unwrap_or(0), number(12).unwrap_or(rows.saturating_sub(1))),
            modes: vec![
                (1, flag(6)),
                (7, flag(8)),
                (6, flag(10)),
                (1000, flag(13)),
                (1002, flag(14)),
                (1003, flag(15)),
                (1006, flag(16)),
                (25, flag(4)),
            ],
            title: fields.get(17).map(|title| (*title).to_string()).unwrap_or_default(),
        })
    }

    /// Returns columns and rows.
    pub(super) fn size(&self) -> (u16, u16) {
        (self.cols, self.rows)
    }

    /// Returns bytes that make a terminal of this size show the same. `text`: scrollback and screen; `below`: the main screen
    /// below an alternate one; both as printed by `capture-pane -e`.
    pub(super) fn repaint(&self, text: &[u8], below: Option<&[u8]>) -> Vec<u8> {
        let (history, screen) = self.split(text);
        // Resets screen, scrollback and modes.
        let mut bytes = b"\x1bc\x1b[3J".to_vec();
        let main = below.filter(|_| self.alternate).unwrap_or(screen);
        let history: Vec<&[u8]> = history.map(|rows| rows.split(is_feed).collect()).unwrap_or_default();
        history.iter().for_each(|row| write_row(row, true, &mut bytes));
        let above = history.len();
        self.write_rows(main, above, &mut bytes);
        if self.alternate {
            bytes.extend(b"\x1b[?1049h\x1b[H");
            self.write_rows(screen, 0, &mut bytes);
        }
        bytes.extend(b"\x1b[m");
        if !self.title.is_empty() {
            let title: String = self.title.chars().filter(|c| !c.is_control()).collect();
            bytes.extend(format!("\x1b]2;{title}\x1b\\").bytes());
        }
        let (top, bottom) = self.region;
        if (top, bottom) != (0, self.rows.saturating_sub(1)) && top < bottom {
            bytes.extend(format!("\x1b[{};{}r", top + 1, bottom + 1).bytes());
        }
        // Reset modes first: one mouse mode ends the others.
        for (last, on) in [('l', false), ('h', true)] {
            let modes = self.modes.iter().filter(|(mode, is_on)| *mode != 6 && *is_on == on);
            modes.for_each(|(mode, _)| bytes.extend(format!("\x1b[?{mode}{last}").bytes()));
        }
        bytes.extend(if self.insert { b"\x1b[4h" } else { b"\x1b[4l" });
        bytes.extend(if self.keypad { b"\x1b=" } else { b"\x1b>" });
        let (col, row) = (self.cursor.0.min(self.cols.saturating_sub(1)), self.cursor.1);
        let origin = self.modes.contains(&(6, true));
        let row = if origin { row.saturating_sub(top) } else { row };
        if origin {
            bytes.extend(b"\x1b[?6h");
        }
        bytes.extend(format!("\x1b[{};{}H", row + 1, col + 1).bytes());
        // Always on: tmux adds brackets only if the program enabled them.
        bytes.extend(b"\x1b[?2004h");
        bytes
    }

    /// Splits text into scrollback and screen.
    fn split<'a>(&self, text: &'a [u8]) -> (Option<&'a [u8]>, &'a [u8]) {
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        let mut ends = text.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at);
        match ends.nth(usize::from(self.rows).saturating_sub(1)) {
            Some(at) => (Some(&text[..at]), &text[at + 1..]),
            None => (None, text),
        }
    }

    /// Writes the rows of a screen below `above` rows of scrollback.
    fn write_rows(&self, screen: &[u8], above: usize, bytes: &mut Vec<u8>) {
        let screen = screen.strip_suffix(b"\n").unwrap_or(screen);
        let rows: Vec<&[u8]> = screen.split(is_feed).take(usize::from(self.rows)).collect();
        if above == 0 {
            for (at, row) in rows.iter().enumerate() {
                bytes.extend(format!("\x1b[{};1H", at + 1).bytes());
                write_row(row, false, bytes);
            }
            return;
        }
        // The last line feeds push the scrollback out.
        for (at, row) in rows.iter().enumerate() {
            write_row(row, at + 1 < usize::from(self.rows), bytes);
        }
        for at in rows.len()..usize::from(self.rows) {
            write_row(b"", at + 1 < usize::from(self.rows), bytes);
        }
    }
}

/// Writes a row with wrapping off: a full row must not start another.
fn write_row(row: &[u8], feed: bool, bytes: &mut Vec<u8>) {
    bytes.extend(b"\x1b[m\x1b[?7l");
    bytes.extend_from_slice(row);
    if feed {
        bytes.extend(b"\x1b[m\r\n");
    }
}

fn is_feed(byte: &u8) -> bool {
    *byte == b'\n'
}

#[cfg(test)]
mod tests {
    use nerve_types::{Size, TsNs};
    use nerve_vt::screen::{MouseEncoding, MouseTracking};
    use nerve_vt::terminal::TerminalState;

    use super::*;

    fn state(fields: &[&str]) -> PaneState {
        PaneState::parse(&fields.join("\u{1f}")).unwrap()
    }

    const PLAIN: [&str; 18] =
        ["10", "3", "4", "1", "1", "0", "0", "0", "1", "0", "0", "0", "2", "0", "0", "0", "0", "my title"];

    fn shown(bytes: &[u8]) -> TerminalState {
        let mut terminal = TerminalState::new(Size::new(10, 3));
        terminal.process_data(TsNs(1), b"something that was there\r\nbefore\x1b[?1049h\x1b[?25l\x1b[2;3r");
        terminal.process_data(TsNs(2), bytes);
        terminal
    }

    #[test]
    fn repaint_restores_scrollback_cursor_and_title() {
        let bytes = state(&PLAIN).repaint(b"one\n\ntwo\n\x1b[31mthree\x1b[39m\n  four 789\n\n", None);
        let terminal = shown(&bytes);
        assert_eq!(terminal.tail(usize::MAX), ["one", "", "two", "three", "  four 789"]);
        assert_eq!(terminal.screen().text(), "three\n  four 789");
        let cursor = terminal.screen().cursor;
        assert_eq!((cursor.row, cursor.col, cursor.visible), (1, 4, true));
        assert_eq!((terminal.title(), terminal.modes().alternate), ("my title", false));
        assert!(terminal.modes().bracketed_paste);
    }

    #[test]
    fn repaint_without_scrollback_or_text() {
        assert_eq!(shown(&state(&PLAIN).repaint(b"a\nb\nc\n", None)).tail(9), ["a", "b", "c"]);
        assert_eq!(shown(&state(&PLAIN).repaint(b"", None)).screen().text(), "");
        assert_eq!(shown(&state(&PLAIN).repaint(b"x\na\n\n\n", None)).tail(9), ["x", "a"]);
    }

    #[test]
    fn repaint_restores_alternate_screen_and_modes() {
        let mut fields = PLAIN;
        (fields[5], fields[6], fields[4], fields[16]) = ("1", "1", "0", "1");
        fields[13] = "1";
        let terminal = shown(&state(&fields).repaint(b"old\nfull\nscreen\n\n", Some(b"main\n\n\n")));
        assert_eq!(terminal.screen().text(), "full\nscreen");
        let modes = terminal.modes();
        assert!(modes.alternate && modes.application_cursor);
        assert_eq!((modes.mouse, modes.mouse_encoding), (Some(MouseTracking::Buttons), MouseEncoding::Sgr));
        let mut terminal = terminal;
        terminal.process_data(TsNs(3), b"\x1b[?1049l");
        assert_eq!(terminal.tail(9), ["old", "main"]);
    }

    #[test]
    fn invalid_state_is_rejected() {
        assert_eq!(PaneState::parse(""), None);
        assert_eq!(PaneState::parse("a\u{1f}b"), None);
    }
}
