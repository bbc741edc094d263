//! Signals of a process at a terminal: termination and resize.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// A received signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalEvent {
    /// The window size has changed.
    Resize,
    /// Terminate because of this signal.
    Terminate(u8),
}

/// Receives termination signals and SIGWINCH.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    size: Signal,
}

impl Signals {
    /// Starts to listen.
    ///
    /// # Errors
    /// Signals cannot be handled.
    pub fn listen() -> io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            size: signal(SignalKind::window_change())?,
        })
    }

    /// Returns the next signal. Cancel-safe.
    pub async fn next(&mut self) -> SignalEvent {
        let kind = tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.hangup.recv() => SignalKind::hangup(),
            _ = self.size.recv() => return SignalEvent::Resize,
        };
        SignalEvent::Terminate(u8::try_from(kind.as_raw_value()).unwrap_or(0))
    }
}
