//! The user's terminal and the signals of this process: the source of a viewer's events.

use nerve_vt::keys::Input;
use tokio::time::Instant;

use super::pacing::{FramePacer, until};
use super::signals::{SignalEvent, Signals};
use super::{Tty, TtyEvent};
use crate::TuiError;

/// The user's terminal and this process's signals. Dropping it restores the terminal.
pub struct UserTerminal {
    /// The terminal.
    pub tty: Tty,
    signals: Signals,
}

/// The next thing to do at the user's terminal.
pub(crate) enum TerminalEvent {
    /// Handle this input.
    Input(Input),
    /// Leave: this process received the signal with this number, or the terminal is closed.
    Closed(Option<u8>),
    /// Draw a frame.
    DrawDue,
}

impl UserTerminal {
    /// Takes over the terminal.
    ///
    /// # Errors
    /// There is no terminal, or signals cannot be handled.
    pub fn take() -> Result<UserTerminal, TuiError> {
        // Signals are handled before the terminal has to be restored.
        let signals = Signals::listen().map_err(TuiError::Signals)?;
        Ok(UserTerminal { tty: Tty::enter().map_err(TuiError::Terminal)?, signals })
    }

    /// Returns the next thing to do. Cancel-safe.
    pub(crate) async fn next_event(&mut self, pacing: &mut FramePacer) -> TerminalEvent {
        loop {
            let now = Instant::now();
            let frame = pacing.due(now);
            let is_due = frame.is_some_and(|due| due <= now);
            if is_due && self.tty.is_idle() {
                return TerminalEvent::DrawDue;
            }
            tokio::select! {
                biased;
                signal = self.signals.next() => match signal {
                    SignalEvent::Terminate(number) => return TerminalEvent::Closed(Some(number)),
                    SignalEvent::Resize => pacing.request(),
                },
                event = self.tty.next(is_due) => match event {
                    TtyEvent::Input(input) => return TerminalEvent::Input(input),
                    TtyEvent::Closed => return TerminalEvent::Closed(None),
                    TtyEvent::Redraw => pacing.request(),
                    TtyEvent::Writable => {}
                },
                () = until(frame), if !is_due => {}
            }
        }
    }
}
