//! Switches the user's terminal to raw mode and the alternate screen, and restores it on drop.

use std::io::{self, IsTerminal, Write};

use rustix::termios::{self, OptionalActions, Termios};
use tokio::sync::mpsc;

use nerve_types::Size;

/// Alternate screen, cleared, no cursor, no autowrap.
const ENTER: &str = "\x1b[?1049h\x1b[2J\x1b[?25l\x1b[?7l";
/// Undoes [`ENTER`] and ends a pending synchronized update.
const LEAVE: &str = "\x1b[?2026l\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";

/// Capacity of the key channel, in reads.
const KEY_QUEUE_LEN: usize = 64;

/// Owns the terminal of standard output, and of standard input if that is one. Restores both on drop.
#[derive(Debug)]
pub(super) struct TerminalGuard {
    /// Settings of standard input before raw mode; `None` if it is no terminal.
    saved: Option<Termios>,
}

impl TerminalGuard {
    /// Enters raw mode and the alternate screen.
    pub(super) fn enter() -> io::Result<TerminalGuard> {
        let stdin = io::stdin();
        let mut guard = TerminalGuard { saved: None };
        if stdin.is_terminal() {
            let saved = termios::tcgetattr(&stdin)?;
            let mut raw = saved.clone();
            raw.make_raw();
            termios::tcsetattr(&stdin, OptionalActions::Now, &raw)?;
            guard.saved = Some(saved);
        }
        write_now(ENTER)?;
        Ok(guard)
    }

    /// Returns a channel of typed bytes, or `None` if standard input is no terminal. Unread input is lost when the
    /// process ends.
    pub(super) fn keys(&self) -> Option<mpsc::Receiver<Vec<u8>>> {
        self.saved.as_ref()?;
        let (sender, receiver) = mpsc::channel(KEY_QUEUE_LEN);
        // A read from a terminal cannot be cancelled, so it gets its own thread.
        std::thread::spawn(move || {
            let mut bytes = [0; 256];
            while let Ok(len @ 1..) = rustix::io::read(io::stdin(), &mut bytes) {
                if sender.blocking_send(bytes[..len].to_vec()).is_err() {
                    break;
                }
            }
        });
        Some(receiver)
    }

    /// Returns the size of the terminal, or 80 × 24 if it is unknown.
    pub(super) fn size() -> Size {
        match termios::tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => Size::new(size.ws_col, size.ws_row),
            _ => Size::new(80, 24),
        }
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        // A terminal that no longer exists cannot be restored.
        let _ = write_now(LEAVE);
        if let Some(saved) = &self.saved {
            // Discards unread input.
            let _ = termios::tcsetattr(io::stdin(), OptionalActions::Flush, saved);
        }
    }
}

/// Writes to the terminal and flushes.
pub(super) fn write_now(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
