//! Effect of a viewer's window on the size of the program's terminal.

use nerve_host::protocol::Window;
use nerve_types::Size;

/// Rule for the size of the program's terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SizeRule {
    /// The smallest of all viewers' windows.
    #[default]
    Smallest,
    /// This window's size.
    Mine,
    /// Keep the current size.
    Keep,
}

impl SizeRule {
    /// Returns the window report for the host.
    pub(super) fn window(self, size: Size) -> Window {
        match self {
            SizeRule::Smallest => Window::Shares(size),
            SizeRule::Mine => Window::Sets(size),
            SizeRule::Keep => Window::Keep,
        }
    }
}
