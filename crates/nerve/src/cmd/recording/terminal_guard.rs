//! The user's terminal while a recording is shown in it: taken over, and given back whatever happens.

use std::io::{self, IsTerminal, Write};

use rustix::termios::{self, OptionalActions, Termios};
use tokio::sync::mpsc;

use nerve_term::event::Size;

/// Alternate screen, blank, no cursor, nothing wraps.
const ENTER: &str = "\x1b[?1049h\x1b[2J\x1b[?25l\x1b[?7l";
/// The reverse; an update that was being drawn is shown.
const LEAVE: &str = "\x1b[?2026l\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";

/// Bytes of keys that may wait.
const KEY_QUEUE_LEN: usize = 64;

/// The terminal of standard output, and of standard input if that is one. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct TerminalGuard {
    /// How standard input was before it was made raw.
    saved: Option<Termios>,
}

impl TerminalGuard {
    /// Takes the terminal over.
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

    /// What is typed, if somebody can type. Whatever waits when the process ends is lost with it.
    pub(super) fn keys(&self) -> Option<mpsc::Receiver<Vec<u8>>> {
        self.saved.as_ref()?;
        let (sender, receiver) = mpsc::channel(KEY_QUEUE_LEN);
        // A thread of its own: a read from a terminal cannot be given up.
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

    /// Size of the terminal; 80 × 24 if it does not tell.
    pub(super) fn size() -> Size {
        match termios::tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => Size::new(size.ws_col, size.ws_row),
            _ => Size::new(80, 24),
        }
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        // Nothing can be done about a terminal that is gone.
        let _ = write_now(LEAVE);
        if let Some(saved) = &self.saved {
            // With what was typed and not read.
            let _ = termios::tcsetattr(io::stdin(), OptionalActions::Flush, saved);
        }
    }
}

/// Writes to the terminal at once.
pub(super) fn write_now(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
