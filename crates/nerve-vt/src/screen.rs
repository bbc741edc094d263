//! An immutable view of a terminal.

use nerve_types::Size;

/// The visible screen at one byte offset. While a synchronized update (`?2026`) is open, the last complete frame.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Screen {
    /// Size in cells.
    pub size: Size,
    /// Exactly `size.rows` rows, top to bottom.
    pub rows: Vec<Row>,
    /// Position of the cursor.
    pub cursor: Cursor,
    /// The window title (OSC 0 and 2), empty if none was set.
    pub title: String,
    /// Modes that affect the encoding of input.
    pub modes: Modes,
    /// Absolute line number of `rows[0]`: the number of lines scrolled off above. On the alternate screen, the number
    /// of the main screen's first row when it was left.
    pub first_line: u64,
    /// Output bytes of this terminal up to this view.
    pub offset: u64,
}

/// One row of cells as text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Row {
    /// Text without trailing blanks. A wide character is one char (or grapheme) here and two columns on the screen.
    pub text: String,
    /// Styles of the row, left to right, without gaps inside the text; empty for an unstyled row.
    pub runs: Vec<StyleRun>,
    /// Attributes beyond the styles, left to right: special underlines and hyperlinks.
    pub decorations: Vec<Decoration>,
    /// Hyperlinks of the decorations.
    pub links: Vec<Link>,
    /// The text continues in the next row: the terminal wrapped it.
    pub wrapped: bool,
}

/// `len` columns from `start` with the same style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StyleRun {
    /// First column, 0-based.
    pub start: u16,
    /// Number of columns.
    pub len: u16,
    /// Style of the columns.
    pub style: Style,
}

/// `len` columns from `start` with attributes beyond a style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decoration {
    /// First column, 0-based.
    pub start: u16,
    /// Number of columns.
    pub len: u16,
    /// Form of the underline.
    pub underline: Underline,
    /// Colour of the underline (SGR 58).
    pub underline_color: Color,
    /// 1-based index into [`Row::links`], 0 for none.
    pub link: u16,
}

/// Forms of underline (SGR 4, 4:2 … 4:5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Underline {
    /// Not underlined.
    #[default]
    None,
    /// One line.
    Single,
    /// Two lines.
    Double,
    /// A wave.
    Curl,
    /// Dots.
    Dotted,
    /// Dashes.
    Dashed,
}

/// A hyperlink (OSC 8).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Link {
    /// The `id` parameter, empty if the program gave none.
    pub id: String,
    /// The target.
    pub uri: String,
}

/// The style of a cell.
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

/// A colour as set by the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Color {
    /// The terminal's default colour.
    #[default]
    Default,
    /// Palette entry 0–255.
    Indexed(u8),
    /// 24-bit red, green, blue.
    Rgb(u8, u8, u8),
}

/// Position and visibility of the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cursor {
    /// Row on the screen, 0-based.
    pub row: u16,
    /// Column, 0-based.
    pub col: u16,
    /// Shown (DECTCEM).
    pub visible: bool,
}

/// Terminal modes that affect input or drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modes {
    /// The alternate screen is shown.
    pub alternate: bool,
    /// Pastes are bracketed (`?2004`).
    pub bracketed_paste: bool,
    /// Cursor keys send application codes (DECCKM).
    pub application_cursor: bool,
    /// The keypad sends application codes (DECPAM).
    pub application_keypad: bool,
    /// Focus changes are reported (`?1004`).
    pub focus_events: bool,
    /// The reported mouse events; `None` reports nothing.
    pub mouse: Option<MouseTracking>,
    /// Encoding of mouse reports.
    pub mouse_encoding: MouseEncoding,
    /// The wheel sends cursor keys on the alternate screen if no mouse events are reported (`?1007`).
    pub alternate_scroll: bool,
    /// Current kitty keyboard flags, 0–31.
    pub kitty_keyboard: u8,
}

impl Default for Modes {
    /// The modes of a new terminal.
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

/// Mouse events that a program requests (xterm, "Mouse Tracking").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MouseTracking {
    /// Presses of the three buttons, without modifiers (`?9`, X10's).
    Presses,
    /// Presses, releases and the wheel (`?1000`).
    Buttons,
    /// Also motion while a button is held (`?1002`).
    Drags,
    /// Also motion without a button (`?1003`).
    Moves,
}

/// Encodings of mouse reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MouseEncoding {
    /// One byte each, up to column and row 223.
    #[default]
    Bytes,
    /// One UTF-8 character each (`?1005`), up to 2015.
    Utf8,
    /// Decimal numbers, releases with their button (`?1006`).
    Sgr,
    /// Decimal numbers, otherwise like `Bytes` (`?1015`, urxvt).
    Urxvt,
}

impl Screen {
    /// Returns the visible text: rows joined by newlines, without trailing blank rows.
    pub fn text(&self) -> String {
        let last = self.rows.iter().rposition(|row| !row.text.is_empty()).map_or(0, |i| i + 1);
        let rows: Vec<&str> = self.rows[..last].iter().map(|row| row.text.as_str()).collect();
        rows.join("\n")
    }

    /// Creates a screen from plain text rows, for tests and saved screens.
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
