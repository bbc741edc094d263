//! Keys, pastes and escapes typed by people, as the bytes a program expects from its terminal.

mod bytes;
mod names;
mod text;

pub use self::names::KeyError;
pub use self::text::{EscapeError, paste, unescape};

/// A key with its modifiers.
///
/// ```
/// use nerve_term::keys::Key;
/// use nerve_term::screen::Modes;
/// assert_eq!("C-c".parse::<Key>()?.bytes(Modes::default()), b"\x03");
/// assert_eq!("up".parse::<Key>()?.bytes(Modes::default()), b"\x1b[A");
/// # Ok::<(), nerve_term::keys::KeyError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// Which one.
    pub code: Code,
    /// With Control.
    pub ctrl: bool,
    /// With Alt (Meta).
    pub alt: bool,
    /// With Shift, where the key itself does not say so: `A` is a character.
    pub shift: bool,
}

/// A key without modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// A character, as it was typed.
    Char(char),
    /// Return.
    Enter,
    /// Tab.
    Tab,
    /// Escape.
    Esc,
    /// Backspace.
    Backspace,
    /// Cursor up.
    Up,
    /// Cursor down.
    Down,
    /// Cursor left.
    Left,
    /// Cursor right.
    Right,
    /// Home.
    Home,
    /// End.
    End,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// Insert.
    Insert,
    /// Delete.
    Delete,
    /// A function key, 1–20; others give no bytes.
    F(u8),
}

impl Key {
    /// A key alone.
    pub const fn plain(code: Code) -> Key {
        Key { code, ctrl: false, alt: false, shift: false }
    }

    /// A character alone.
    pub const fn char(char: char) -> Key {
        Key::plain(Code::Char(char))
    }

    /// A character with Control.
    pub const fn ctrl(char: char) -> Key {
        Key { ctrl: true, ..Key::char(char) }
    }

    /// A character with Alt.
    pub const fn alt(char: char) -> Key {
        Key { alt: true, ..Key::char(char) }
    }
}

/// What somebody does at a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Presses a key.
    Key(Key),
    /// Pastes a text.
    Paste(String),
    /// Does something with the mouse.
    Mouse(Mouse),
    /// Turns to the window, or away from it.
    Focus(bool),
}

/// What is done with the mouse, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mouse {
    /// What.
    pub what: MouseAct,
    /// Column of the terminal, 0-based.
    pub col: u16,
    /// Row of the screen, 0-based.
    pub row: u16,
    /// With Control.
    pub ctrl: bool,
    /// With Alt.
    pub alt: bool,
    /// With Shift.
    pub shift: bool,
}

/// What is done with a mouse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MouseAct {
    /// A button is pressed.
    Press(Button),
    /// A button is let go.
    Release(Button),
    /// It is moved, with a button held or without.
    Move(Option<Button>),
    /// The wheel is turned by a step.
    Wheel(Wheel),
}

/// A button of a mouse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Button {
    /// The left one.
    Left,
    /// The middle one.
    Middle,
    /// The right one.
    Right,
}

/// Which way a wheel is turned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wheel {
    /// Away from oneself.
    Up,
    /// Towards oneself.
    Down,
    /// To the left.
    Left,
    /// To the right.
    Right,
}
