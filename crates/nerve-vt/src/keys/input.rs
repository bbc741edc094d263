//! User input at a terminal, encoded for the program.

use super::{Key, Mouse, paste};
use crate::screen::Modes;

/// An input event of a terminal's user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A key press.
    Key(Key),
    /// A pasted text.
    Paste(String),
    /// A mouse event.
    Mouse(Mouse),
    /// The window gained or lost the focus.
    Focus(bool),
}

impl Input {
    /// Encodes the input for a program that has set these modes; empty for events that the program did not request.
    ///
    /// ```
    /// use nerve_vt::keys::{Button, Input, Mouse, MouseAction};
    /// use nerve_vt::screen::{Modes, MouseEncoding, MouseTracking};
    /// let key = Input::Key("ctrl+c".parse()?);
    /// assert_eq!(key.bytes(Modes::default()), b"\x03");
    /// assert_eq!(key.bytes(Modes { kitty_keyboard: 1, ..Modes::default() }), b"\x1b[99;5u");
    ///
    /// let action = MouseAction::Press(Button::Left);
    /// let click = Input::Mouse(Mouse { action, col: 4, row: 0, ctrl: false, alt: false, shift: false });
    /// assert_eq!(click.bytes(Modes::default()), b"");
    /// let (mouse, mouse_encoding) = (Some(MouseTracking::Buttons), MouseEncoding::Sgr);
    /// assert_eq!(click.bytes(Modes { mouse, mouse_encoding, ..Modes::default() }), b"\x1b[<0;5;1M");
    /// # Ok::<(), nerve_vt::keys::KeyError>(())
    /// ```
    pub fn bytes(&self, modes: Modes) -> Vec<u8> {
        match self {
            Input::Key(key) => key.encode(modes),
            Input::Paste(text) => paste(text, modes),
            Input::Mouse(mouse) => mouse.encode(modes),
            Input::Focus(here) if modes.focus_events => if *here { b"\x1b[I" } else { b"\x1b[O" }.to_vec(),
            Input::Focus(_) => Vec::new(),
        }
    }
}

impl Key {
    /// Encodes the key, in kitty's protocol if the program requested it.
    pub(super) fn encode(self, modes: Modes) -> Vec<u8> {
        self.kitty(modes.kitty_keyboard).unwrap_or_else(|| self.bytes(modes))
    }
}
