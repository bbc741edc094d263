//! What this process is told while a program runs in it.

use std::future::Future;
use std::pin::Pin;

use anyhow::{Context, Result};
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// What is heard.
pub(crate) enum Signals {
    /// Each is for the program.
    Forwarded(mpsc::Receiver<Signal>),
    /// Each asks for its end; heard once.
    Stop(Option<Pin<Box<dyn Future<Output = ()>>>>),
}

/// Something that was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignalEvent {
    /// A signal for the program.
    Signal(Signal),
    /// The program is to end.
    Stop,
}

impl SignalEvent {
    /// Nobody wants to see more of it.
    pub(super) fn is_termination(self) -> bool {
        matches!(self, SignalEvent::Stop | SignalEvent::Signal(Signal::TERM | Signal::HUP))
    }
}

impl Signals {
    /// Those that a command is sent by who sends them to us. Must be called on a runtime.
    ///
    /// # Errors
    /// Signals cannot be listened for.
    pub(crate) fn forwarded() -> Result<Signals> {
        let (sender, signals) = mpsc::channel(16);
        let passed = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];
        for number in passed {
            let kind = SignalKind::from_raw(number.as_raw());
            let mut come = signal(kind).context("cannot listen for signals")?;
            let sender = sender.clone();
            tokio::spawn(
                async move { while come.recv().await.is_some() && sender.send(number).await.is_ok() {} },
            );
        }
        Ok(Signals::Forwarded(signals))
    }

    /// Those that ask for the end. Must be called on a runtime.
    pub(crate) fn stop_requests() -> Signals {
        Signals::Stop(Some(Box::pin(nerve_server::stop_signal())))
    }

    /// The next one. May be dropped and called again.
    pub(super) async fn next(&mut self) -> SignalEvent {
        match self {
            Signals::Forwarded(signals) => {
                if let Some(signal) = signals.recv().await {
                    return SignalEvent::Signal(signal);
                }
            }
            Signals::Stop(stop) => {
                if let Some(told) = stop {
                    told.await;
                    *stop = None;
                    return SignalEvent::Stop;
                }
            }
        }
        std::future::pending().await
    }
}
