//! The standard streams that a relay connects, and the source of the terminal's size.

use nerve_host::protocol::Window;
use nerve_types::Size;

use crate::terminal;

/// Standard streams that are connected to the program.
#[derive(Debug, Clone, Copy)]
pub struct Streams {
    /// Send standard input as keys.
    pub keys: bool,
    /// Write output to standard output.
    pub stdout: bool,
    /// Source of the terminal's size.
    pub size: SizeFrom,
    /// Remove the carriage returns of line ends.
    pub plain_lines: bool,
    /// Answer terminal queries for this size.
    pub answers: Option<Size>,
}

/// Source of the terminal's size.
#[derive(Debug, Clone, Copy)]
pub enum SizeFrom {
    /// The window; the smallest of all windows counts.
    Window,
    /// A fixed size.
    Fixed(Size),
    /// The initial size.
    Start,
}

impl SizeFrom {
    /// Returns the window to view the program in; `None` leaves its size as it is.
    pub(super) fn window(self) -> Option<Window> {
        match self {
            SizeFrom::Window => terminal::window().map(Window::Shares),
            SizeFrom::Fixed(size) => Some(Window::Sets(size)),
            SizeFrom::Start => None,
        }
    }
}
