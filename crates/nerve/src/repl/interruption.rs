//! What Ctrl-C does to a command that runs, and what the process is told from outside.

use std::time::Duration;

use anyhow::Result;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use crate::exit::{Failure, INTERRUPTED};

/// What was interrupted gets this long to end by itself.
pub(super) const INTERRUPT_PATIENCE: Duration = Duration::from_secs(5);

/// What Ctrl-C does to a command that runs.
#[derive(Debug, Clone)]
pub(super) enum Interrupt {
    /// Interrupts the node's turn.
    Turn(String),
    /// Cancels the run.
    Run(String),
    /// Nothing is waited for any more.
    GiveUp,
}

/// A command that can be interrupted, and whether it was.
#[derive(Debug)]
pub(super) struct Interruption {
    pub(super) what: Interrupt,
    /// It was; until then it may end by itself.
    pub(super) deadline: Option<Instant>,
}

impl Interruption {
    pub(super) fn of(what: Interrupt) -> Interruption {
        Interruption { what, deadline: None }
    }

    /// What came of the work: if somebody wanted it to end, that it did.
    pub(super) fn judge<T>(&self, done: Result<T>) -> Result<T> {
        match (self.deadline, done) {
            (None, done) => done,
            (Some(_), Err(error))
                if error.is::<ToldToLeave>() || Failure::from_error(&error).code == INTERRUPTED =>
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
    pub(super) leaving: Leaving,
}

/// Signals that say to leave.
pub(super) struct Leaving {
    terminate: Signal,
    hangup: Signal,
    quit: Signal,
}

impl Signals {
    pub(super) fn listen() -> Result<Signals> {
        let leaving = Leaving {
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
        };
        Ok(Signals { interrupt: signal(SignalKind::interrupt())?, leaving })
    }
}

impl Leaving {
    pub(super) async fn told(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
            _ = self.quit.recv() => {}
        }
    }
}

/// The process was told to leave in the middle of a command.
#[derive(Debug)]
pub(super) struct ToldToLeave;

impl std::error::Error for ToldToLeave {}

impl std::fmt::Display for ToldToLeave {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("told to leave")
    }
}

/// It was interrupted and goes on all the same.
pub(super) fn not_waited_for() -> Failure {
    Failure::new(INTERRUPTED, "it has not ended; nothing is waited for any more")
}

/// Somebody wanted it to end.
pub(super) fn interrupted() -> Failure {
    Failure::new(INTERRUPTED, "interrupted")
}
