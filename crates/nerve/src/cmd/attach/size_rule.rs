//! Whose window says how large the program's terminal is.

use nerve_core::host::protocol::Window;
use nerve_term::event::Size;

/// How a viewer's window counts for the size of the program's terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum SizeRule {
    /// The smallest of all viewers' windows
    #[default]
    Smallest,
    /// This window's, whoever else looks
    Mine,
    /// It stays as it is
    Keep,
}

impl SizeRule {
    /// What a window with room for that is to the host.
    pub(super) fn window(self, size: Size) -> Window {
        match self {
            SizeRule::Smallest => Window::Shares(size),
            SizeRule::Mine => Window::Sets(size),
            SizeRule::Keep => Window::Keep,
        }
    }
}
