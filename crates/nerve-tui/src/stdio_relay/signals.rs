//! Signals to handle while a program runs in this process.

use std::future::Future;
use std::pin::Pin;

use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::TuiError;

/// Handling of signals.
pub enum Signals {
    /// Forwards each signal to the program.
    Forwarded(mpsc::Receiver<Signal>),
    /// Ends the program on the first signal.
    Stop(Option<Pin<Box<dyn Future<Output = ()>>>>),
}

/// A received signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignalEvent {
    /// A signal to forward.
    Signal(Signal),
    /// End the program.
    Stop,
}

impl SignalEvent {
    /// Returns true if the program should end.
    pub(super) fn is_termination(self) -> bool {
        matches!(self, SignalEvent::Stop | SignalEvent::Signal(Signal::TERM | Signal::HUP))
    }
}

impl Signals {
    /// Forwards signals to the program. Must be called on a runtime.
    ///
    /// # Errors
    /// Signals cannot be handled.
    pub fn forwarded() -> Result<Signals, TuiError> {
        let (sender, signals) = mpsc::channel(16);
        let forwarded = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];
        for number in forwarded {
            let kind = SignalKind::from_raw(number.as_raw());
            let mut stream = signal(kind).map_err(TuiError::Signals)?;
            let sender = sender.clone();
            tokio::spawn(async move {
                while stream.recv().await.is_some() && sender.send(number).await.is_ok() {}
            });
        }
        Ok(Signals::Forwarded(signals))
    }

    /// Ends the program when `request` resolves.
    pub fn stop_on(request: impl Future<Output = ()> + 'static) -> Signals {
        Signals::Stop(Some(Box::pin(request)))
    }

    /// Returns the next event. Cancel-safe.
    pub(super) async fn next(&mut self) -> SignalEvent {
        match self {
            Signals::Forwarded(signals) => {
                if let Some(signal) = signals.recv().await {
                    return SignalEvent::Signal(signal);
                }
            }
            Signals::Stop(stop) => {
                if let Some(requested) = stop {
                    requested.await;
                    *stop = None;
                    return SignalEvent::Stop;
                }
            }
        }
        std::future::pending().await
    }
}
