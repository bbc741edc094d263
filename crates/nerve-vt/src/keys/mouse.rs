//! Mouse events and their reports (xterm, "Mouse Tracking").

use super::{Code, Key};
use crate::screen::{Modes, MouseEncoding, MouseTracking};

/// A mouse event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mouse {
    /// Kind of event.
    pub action: MouseAction,
    /// Column of the terminal, 0-based.
    pub col: u16,
    /// Row of the screen, 0-based.
    pub row: u16,
    /// True if Control is held.
    pub ctrl: bool,
    /// True if Alt is held.
    pub alt: bool,
    /// True if Shift is held.
    pub shift: bool,
}

/// Kinds of mouse events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MouseAction {
    /// A button was pressed.
    Press(Button),
    /// A button was released.
    Release(Button),
    /// The pointer moved, possibly with a button held.
    Move(Option<Button>),
    /// The wheel turned by one step.
    Wheel(Wheel),
}

/// A mouse button.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Button {
    /// Left button.
    Left,
    /// Middle button.
    Middle,
    /// Right button.
    Right,
}

/// Direction of the wheel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wheel {
    /// Away from the user.
    Up,
    /// Towards the user.
    Down,
    /// To the left.
    Left,
    /// To the right.
    Right,
}

/// Offset of numbers sent as bytes or characters, which avoids control characters.
const OFFSET: u32 = 32;
/// Code for no button: a release that does not name its button, or a move without a button.
const NO_BUTTON: u32 = 3;
/// Cursor keys per wheel step.
const STEP: usize = 3;

impl Mouse {
    /// Encodes the event for a program with these modes. Empty if the program did not request it, or if the cell is too
    /// far out for the encoding.
    pub(super) fn encode(self, modes: Modes) -> Vec<u8> {
        match modes.mouse {
            Some(tracking) if self.is_wanted(tracking) => self.report(tracking, modes.mouse_encoding),
            None if modes.alternate && modes.alternate_scroll => self.scroll(modes),
            _ => Vec::new(),
        }
    }

    fn is_wanted(self, tracking: MouseTracking) -> bool {
        use MouseTracking::{Drags, Moves, Presses};
        match self.action {
            MouseAction::Press(_) => true,
            MouseAction::Release(_) | MouseAction::Wheel(_) => tracking != Presses,
            MouseAction::Move(Some(_)) => matches!(tracking, Drags | Moves),
            MouseAction::Move(None) => tracking == Moves,
        }
    }

    fn report(self, tracking: MouseTracking, encoding: MouseEncoding) -> Vec<u8> {
        let (col, row) = (u32::from(self.col) + 1, u32::from(self.row) + 1);
        let is_release = matches!(self.action, MouseAction::Release(_));
        let mut code = match self.action {
            MouseAction::Release(_) if encoding != MouseEncoding::Sgr => NO_BUTTON,
            MouseAction::Press(button) | MouseAction::Release(button) => number(button),
            MouseAction::Move(button) => 32 + button.map_or(NO_BUTTON, number),
            MouseAction::Wheel(wheel) => 64 + wheel as u32,
        };
        if tracking != MouseTracking::Presses {
            code += 4 * u32::from(self.shift) + 8 * u32::from(self.alt) + 16 * u32::from(self.ctrl);
        }
        let numbers = [code, col, row].map(|number| number + OFFSET);
        match encoding {
            MouseEncoding::Sgr => {
                format!("\x1b[<{code};{col};{row}{}", if is_release { 'm' } else { 'M' }).into_bytes()
            }
            MouseEncoding::Urxvt => format!("\x1b[{};{col};{row}M", numbers[0]).into_bytes(),
            MouseEncoding::Bytes => {
                let bytes: Result<Vec<u8>, _> = numbers.into_iter().map(u8::try_from).collect();
                bytes.map_or_else(|_| Vec::new(), |bytes| [b"\x1b[M", bytes.as_slice()].concat())
            }
            MouseEncoding::Utf8 => {
                // Readers of this encoding expect at most two bytes.
                let char = |number: u32| char::from_u32(number).filter(|char| char.len_utf8() <= 2);
                let chars: Option<String> = numbers.into_iter().map(char).collect();
                chars.map_or_else(Vec::new, |chars| format!("\x1b[M{chars}").into_bytes())
            }
        }
    }

    /// Encodes the wheel as cursor keys.
    fn scroll(self, modes: Modes) -> Vec<u8> {
        let code = match self.action {
            MouseAction::Wheel(Wheel::Up) => Code::Up,
            MouseAction::Wheel(Wheel::Down) => Code::Down,
            _ => return Vec::new(),
        };
        Key::plain(code).encode(modes).repeat(STEP)
    }
}

fn number(button: Button) -> u32 {
    match button {
        Button::Left => 0,
        Button::Middle => 1,
        Button::Right => 2,
    }
}
