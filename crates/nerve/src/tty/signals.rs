//! What is told to a process at a terminal: that it is to end, and that the window has another size.

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignalEvent {
    /// The window has another size.
    Resize,
    /// Leave: the signal's number.
    Terminate(u8),
}

/// The signals that end it, and the one that tells a new size.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    size: Signal,
}

impl Signals {
    /// Listens from now on.
    ///
    /// # Errors
    /// Signals cannot be listened for.
    pub(crate) fn listen() -> Result<Signals> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Signals {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
            size: listen(SignalKind::window_change())?,
        })
    }

    /// The next one. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> SignalEvent {
        let kind = tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.hangup.recv() => SignalKind::hangup(),
            _ = self.size.recv() => return SignalEvent::Resize,
        };
        SignalEvent::Terminate(u8::try_from(kind.as_raw_value()).unwrap_or(0))
    }
}
