//! Switches the user's terminal to raw mode and the alternate screen, and restores it on drop.

use std::io::{self, Write};

use nerve_types::Size;
use rustix::termios::{QueueSelector, tcflush};
use tokio::sync::mpsc;

use crate::terminal::stdin_reader::read_keys;
use crate::terminal::{self, RawMode};

/// Alternate screen, cleared, no cursor, no autowrap.
const ENTER: &str = "\x1b[?1049h\x1b[2J\x1b[?25l\x1b[?7l";
/// Undoes [`ENTER`] and ends a pending synchronized update.
const LEAVE: &str = "\x1b[?2026l\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";

/// Owns the terminal of standard output, and of standard input if that is one. Restores both on drop.
#[derive(Debug)]
pub(super) struct TerminalGuard {
    /// `None` if standard input is no terminal.
    raw: Option<RawMode>,
}

impl TerminalGuard {
    /// Enters raw mode and the alternate screen.
    pub(super) fn enter() -> io::Result<TerminalGuard> {
        let guard = TerminalGuard { raw: RawMode::enter() };
        write_now(ENTER)?;
        Ok(guard)
    }

    /// Returns a channel of typed bytes, or `None` if standard input is no terminal. Unread input is lost when the
    /// process ends.
    pub(super) fn keys(&self) -> Option<mpsc::Receiver<Vec<u8>>> {
        self.raw.is_some().then(read_keys)
    }

    /// Returns the size of the terminal, or 80 × 24 if it is unknown.
    pub(super) fn size() -> Size {
        terminal::window().unwrap_or(Size::new(80, 24))
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        // A terminal that no longer exists cannot be restored.
        let _ = write_now(LEAVE);
        if self.raw.is_some() {
            // Discards unread input.
            let _ = tcflush(io::stdin(), QueueSelector::IFlush);
        }
    }
}

/// Writes to the terminal and flushes.
pub(super) fn write_now(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
