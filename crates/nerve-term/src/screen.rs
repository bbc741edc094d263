//! An immutable view of what a terminal shows.

use crate::event::Size;
use crate::terminal::line::{Link, Underline};

/// What is visible, as of one byte offset. While a synchronized update (`?2026`) is open this is the last finished frame.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Screen {
    /// Size in cells.
    pub size: Size,
    /// Exactly `size.rows` rows, top to bottom.
    pub rows: Vec<Row>,
    /// Where the cursor is.
    pub cursor: Cursor,
    /// The window title (OSC 0 and 2), empty if none was set.
    pub title: String,
    /// Modes that decide how input has to look.
    pub modes: Modes,
    /// Absolute line number of `rows[0]`: how many lines have scrolled off above. On the alternate screen, the number its
    /// main screen had when it was left.
    pub first_line: u64,
    /// Output bytes of this terminal that made this view.
    pub offset: u64,
}

/// One row of cells as text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Row {
    /// Text with trailing blanks cut. A wide character is one char (or one grapheme) here and two columns on the screen.
    pub text: String,
    /// Styles of the row, left to right, without gaps inside the text; unstyled rows have none.
    pub runs: Vec<StyleRun>,
    /// What the runs do not say, left to right: other underlines than a plain one, and hyperlinks.
    pub decorations: Vec<Decoration>,
    /// The hyperlinks of the decorations.
    pub links: Vec<Link>,
    /// The text goes on in the next row (the terminal wrapped it, the program did not end the line).
    pub wrapped: bool,
}

/// `len` columns from `start` that look the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StyleRun {
    /// First column, 0-based.
    pub start: u16,
    /// Columns.
    pub len: u16,
    /// Their look.
    pub style: Style,
}

/// `len` columns from `start` that have more than a style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decoration {
    /// First column, 0-based.
    pub start: u16,
    /// Columns.
    pub len: u16,
    /// Form of the underline.
    pub underline: Underline,
    /// Colour of the underline (SGR 58).
    pub underline_color: Color,
    /// 1-based index into [`Row::links`], 0 for none.
    pub link: u16,
}

/// How a cell looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Style {
    /// Text colour.
    pub fg: Color,
    /// Background colour.
    pub bg: Color,
    /// Bold (SGR 1).
    pub bold: bool,
    /// Dim (SGR 2).
    pub dim: bool,
    /// Italic (SGR 3).
    pub italic: bool,
    /// Underlined in any form (SGR 4).
    pub underline: bool,
    /// Blinking, slowly or fast (SGR 5, 6).
    pub blink: bool,
    /// Colours swapped (SGR 7).
    pub inverse: bool,
    /// Hidden (SGR 8).
    pub hidden: bool,
    /// Struck out (SGR 9).
    pub strikeout: bool,
}

/// A colour as the program asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Color {
    /// The terminal's own.
    #[default]
    Default,
    /// Palette entry 0–255.
    Indexed(u8),
    /// 24-bit red, green, blue.
    Rgb(u8, u8, u8),
}

/// Where the cursor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cursor {
    /// Row on the screen, 0-based.
    pub row: u16,
    /// Column, 0-based.
    pub col: u16,
    /// Shown (DECTCEM).
    pub visible: bool,
}

/// Modes of the terminal that matter to whoever types into it or draws it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modes {
    /// The alternate screen is shown.
    pub alternate: bool,
    /// Pastes are to be bracketed (`?2004`).
    pub bracketed_paste: bool,
    /// Cursor keys send application codes (DECCKM).
    pub application_cursor: bool,
    /// The keypad sends application codes (DECPAM).
    pub application_keypad: bool,
    /// Focus changes are reported (`?1004`).
    pub focus_events: bool,
    /// What of the mouse is reported; nothing if `None`.
    pub mouse: Option<MouseTracking>,
    /// How it is reported.
    pub mouse_encoding: MouseEncoding,
    /// The wheel is cursor keys where nothing of the mouse is reported and the alternate screen is shown (`?1007`).
    pub alternate_scroll: bool,
    /// Kitty keyboard flags in force, 0–31.
    pub kitty_keyboard: u8,
}

impl Default for Modes {
    /// What a terminal has before a program sets any.
    fn default() -> Modes {
        Modes {
            alternate: false,
            bracketed_paste: false,
            application_cursor: false,
            application_keypad: false,
            focus_events: false,
            mouse: None,
            mouse_encoding: MouseEncoding::default(),
            alternate_scroll: true,
            kitty_keyboard: 0,
        }
    }
}

/// What of the mouse a program wants reported (xterm, "Mouse Tracking").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MouseTracking {
    /// Presses of the three buttons, without modifiers (`?9`, X10's).
    Presses,
    /// Presses, releases and the wheel (`?1000`).
    Buttons,
    /// Also moves while a button is held (`?1002`).
    Drags,
    /// Also moves without one (`?1003`).
    Moves,
}

/// How the mouse is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MouseEncoding {
    /// A byte each, which ends at column and row 223.
    #[default]
    Bytes,
    /// A character of UTF-8 each (`?1005`), which ends at 2015.
    Utf8,
    /// Decimal numbers, releases with their button (`?1006`).
    Sgr,
    /// Decimal numbers otherwise as the bytes (`?1015`, urxvt's).
    Urxvt,
}

impl Screen {
    /// The visible text, rows joined by newlines, blank rows at the end left out.
    pub fn text(&self) -> String {
        let last = self.rows.iter().rposition(|row| !row.text.is_empty()).map_or(0, |i| i + 1);
        let rows: Vec<&str> = self.rows[..last].iter().map(|row| row.text.as_str()).collect();
        rows.join("\n")
    }

    /// A screen made of plain text rows with the cursor somewhere: what tests and saved screens start from.
    pub fn from_text(text: &str, size: Size, cursor: Cursor) -> Screen {
        let mut rows: Vec<Row> = text
            .lines()
            .take(size.rows as usize)
            .map(|line| Row { text: line.trim_end().to_string(), ..Row::default() })
            .collect();
        rows.resize(size.rows as usize, Row::default());
        Screen { size, rows, cursor, ..Screen::default() }
    }
}
