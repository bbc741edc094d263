//! What a person does at a terminal, as the bytes its program is sent.

use super::{Key, Mouse, paste};
use crate::screen::Modes;

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

impl Input {
    /// What the program gets that has set these modes, as it would from the person's own terminal; nothing for what it did not ask
    /// for.
    ///
    /// ```
    /// use nerve_term::keys::{Button, Input, Mouse, MouseAct};
    /// use nerve_term::screen::{Modes, MouseEncoding, MouseTracking};
    /// let key = Input::Key("ctrl+c".parse()?);
    /// assert_eq!(key.bytes(Modes::default()), b"\x03");
    /// assert_eq!(key.bytes(Modes { kitty_keyboard: 1, ..Modes::default() }), b"\x1b[99;5u");
    ///
    /// let what = MouseAct::Press(Button::Left);
    /// let click = Input::Mouse(Mouse { what, col: 4, row: 0, ctrl: false, alt: false, shift: false });
    /// assert_eq!(click.bytes(Modes::default()), b"");
    /// let (mouse, mouse_encoding) = (Some(MouseTracking::Buttons), MouseEncoding::Sgr);
    /// assert_eq!(click.bytes(Modes { mouse, mouse_encoding, ..Modes::default() }), b"\x1b[<0;5;1M");
    /// # Ok::<(), nerve_term::keys::KeyError>(())
    /// ```
    pub fn bytes(&self, modes: Modes) -> Vec<u8> {
        match self {
            Input::Key(key) => key.typed(modes),
            Input::Paste(text) => paste(text, modes),
            Input::Mouse(mouse) => mouse.bytes(modes),
            Input::Focus(here) if modes.focus_events => if *here { b"\x1b[I" } else { b"\x1b[O" }.to_vec(),
            Input::Focus(_) => Vec::new(),
        }
    }
}

impl Key {
    /// The bytes for a program that may have asked for kitty's protocol.
    pub(super) fn typed(self, modes: Modes) -> Vec<u8> {
        self.kitty(modes.kitty_keyboard).unwrap_or_else(|| self.bytes(modes))
    }
}
