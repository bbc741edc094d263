//! Interrupts of running commands, and the signals that end the REPL.

use std::time::Duration;

use anyhow::Result;
use nerve_commands::failure::{Failure, INTERRUPTED};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

/// Time that interrupted work gets to end.
pub(super) const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(5);

/// The effect of Ctrl-C on a running command.
#[derive(Debug, Clone)]
pub(super) enum InterruptAction {
    /// Interrupts the node's turn.
    Turn(String),
    /// Cancels the run.
    Run(String),
    /// Stops waiting.
    Abandon,
}

/// Tracks whether a running command was interrupted.
#[derive(Debug)]
pub(super) struct Interruption {
    pub(super) action: InterruptAction,
    /// Time at which the REPL stops waiting; set by an interrupt.
    pub(super) deadline: Option<Instant>,
}

impl Interruption {
    /// Creates the state of a command that was not interrupted.
    pub(super) fn new(action: InterruptAction) -> Interruption {
        Interruption { action, deadline: None }
    }

    /// Returns the result of the command, or an error if it was interrupted.
    pub(super) fn resolve<T>(&self, done: Result<T>) -> Result<T> {
        match (self.deadline, done) {
            (None, done) => done,
            (Some(_), Err(error))
                if error.is::<TerminationError>() || Failure::from_error(&error).code == INTERRUPTED =>
            {
                Err(error)
            }
            (Some(_), _) => Err(Failure::interrupted().into()),
        }
    }
}

/// Signals that the REPL handles.
pub(super) struct Signals {
    pub(super) interrupt: Signal,
    pub(super) termination: TerminationSignals,
}

/// Signals that end the REPL.
pub(super) struct TerminationSignals {
    terminate: Signal,
    hangup: Signal,
    quit: Signal,
}

impl Signals {
    /// Registers the signal handlers.
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
    /// Waits for one of the signals.
    pub(super) async fn recv(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
            _ = self.quit.recv() => {}
        }
    }
}

/// Error of a command during which a termination signal arrived.
#[derive(Debug)]
pub(super) struct TerminationError;

impl std::error::Error for TerminationError {}

impl std::fmt::Display for TerminationError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("terminated by a signal")
    }
}

/// Returns the error for work that continues after an interrupt.
pub(super) fn abandoned_failure() -> Failure {
    Failure::new(INTERRUPTED, "stopped waiting; the command has not ended")
}
