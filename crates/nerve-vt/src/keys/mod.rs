//! Encodes keys, pastes, typed escapes and mouse events as the bytes that a program expects from its terminal.

mod input;
mod kitty;
mod mouse;
mod names;
mod paste;
mod xterm;

pub use self::input::Input;
pub use self::mouse::{Button, Mouse, MouseAction, Wheel};
pub use self::names::KeyError;
pub use self::paste::{EscapeError, PASTE_END, PASTE_START, paste, split_paste, unescape};

/// A key with its modifiers.
///
/// ```
/// use nerve_vt::keys::Key;
/// use nerve_vt::screen::Modes;
/// assert_eq!("C-c".parse::<Key>()?.bytes(Modes::default()), b"\x03");
/// assert_eq!("up".parse::<Key>()?.bytes(Modes::default()), b"\x1b[A");
/// # Ok::<(), nerve_vt::keys::KeyError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// The key without modifiers.
    pub code: Code,
    /// True if Control is held.
    pub ctrl: bool,
    /// True if Alt (Meta) is held.
    pub alt: bool,
    /// True if Shift is held, unless the character itself implies it: `A` is a character.
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
    /// A function key, 1–20; other numbers produce no bytes.
    F(u8),
}

impl Key {
    /// Creates a key without modifiers.
    pub const fn plain(code: Code) -> Key {
        Key { code, ctrl: false, alt: false, shift: false }
    }

    /// Creates a character key without modifiers.
    pub const fn char(char: char) -> Key {
        Key::plain(Code::Char(char))
    }

    /// Creates a character key with Control.
    pub const fn ctrl(char: char) -> Key {
        Key { ctrl: true, ..Key::char(char) }
    }

    /// Creates a character key with Alt.
    pub const fn alt(char: char) -> Key {
        Key { alt: true, ..Key::char(char) }
    }
}
