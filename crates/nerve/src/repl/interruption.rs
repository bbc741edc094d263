//! What Ctrl-C does to a command that runs, and what the process is told from outside.

use std::time::Duration;

use anyhow::Result;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use crate::exit::{Failure, INTERRUPTED};

/// What was interrupted gets this long to end by itself.
pub(super) const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(5);

/// What Ctrl-C does to a command that runs.
#[derive(Debug, Clone)]
pub(super) enum InterruptAction {
    /// Interrupts the node's turn.
    Turn(String),
    /// Cancels the run.
    Run(String),
    /// Nothing is waited for any more.
    Abandon,
}

/// A command that can be interrupted, and whether it was.
#[derive(Debug)]
pub(super) struct Interruption {
    pub(super) action: InterruptAction,
    /// It was; until then it may end by itself.
    pub(super) deadline: Option<Instant>,
}

impl Interruption {
    pub(super) fn new(action: InterruptAction) -> Interruption {
        Interruption { action, deadline: None }
    }

    /// What came of the work: if somebody wanted it to end, that it did.
    pub(super) fn resolve<T>(&self, done: Result<T>) -> Result<T> {
        match (self.deadline, done) {
            (None, done) => done,
            (Some(_), Err(error))
                if error.is::<Terminated>() || Failure::from_error(&error).code == INTERRUPTED =>
            {
                Err(error)
            }
            (Some(_), _) => Err(interrupted().into()),
        }
    }
}

/// What the process is told from outside.
pub(super) struct Signals {
    pub(super) interrupt: Signal,
    pub(super) termination: TerminationSignals,
}

/// Signals that say to leave.
pub(super) struct TerminationSignals {
    terminate: Signal,
    hangup: Signal,
    quit: Signal,
}

impl Signals {
    pub(super) fn listen() -> Result<Signals> {
        let termination = TerminationSignals {
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
        };
        Ok(Signals { interrupt: signal(SignalKind::interrupt())?, termination })
    }
}

impl TerminationSignals {
    pub(super) async fn recv(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
            _ = self.quit.recv() => {}
        }
    }
}

/// The process was told to leave in the middle of a command.
#[derive(Debug)]
pub(super) struct Terminated;

impl std::error::Error for Terminated {}

impl std::fmt::Display for Terminated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("terminated by a signal")
    }
}

/// It was interrupted and goes on all the same.
pub(super) fn abandoned() -> Failure {
    Failure::new(INTERRUPTED, "it has not ended; nothing is waited for any more")
}

/// Somebody wanted it to end.
pub(super) fn interrupted() -> Failure {
    Failure::new(INTERRUPTED, "interrupted")
}
