//! Tracks the end of a host's program: its output, its exit status and the signals of a stop request.
//!
//! This state machine reads no clock and does no I/O.

use std::time::Duration;

use nerve_types::ExitStatus;
use rustix::process::Signal;
use tokio::time::Instant;

use crate::backend::pty::ESCALATION;

/// Time that remaining output is read after the exit: a grandchild may hold the terminal open.
const DRAIN: Duration = Duration::from_millis(500);

/// The state of the program and of its terminal.
#[derive(Debug)]
pub(super) struct Lifecycle {
    output_open: bool,
    exit: Option<ExitStatus>,
    drain_until: Option<Instant>,
    /// Index of the next signal of a stop request, and when to send it.
    stopping: Option<(usize, Instant)>,
}

/// An action due now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Read the remaining output, then close the terminal.
    Drain,
    /// Send this signal to the program.
    Signal(Signal),
    /// The program survived SIGKILL: it hangs in the kernel and is abandoned.
    GiveUp,
}

impl Lifecycle {
    /// Creates the state of a running program.
    pub(super) fn new() -> Lifecycle {
        Lifecycle { output_open: true, exit: None, drain_until: None, stopping: None }
    }

    /// Returns true if more output may come.
    pub(super) fn is_output_open(&self) -> bool {
        self.output_open
    }

    /// Returns the exit status once the program has ended.
    pub(super) fn exit(&self) -> Option<ExitStatus> {
        self.exit
    }

    /// Returns true if the program has ended and its output is closed.
    pub(super) fn is_finished(&self) -> bool {
        !self.output_open && self.exit.is_some()
    }

    /// Records that the output is closed.
    pub(super) fn on_output_closed(&mut self) {
        self.output_open = false;
        self.drain_until = None;
    }

    pub(super) fn on_exit(&mut self, exit: ExitStatus, now: Instant) {
        self.exit = Some(exit);
        self.drain_until = self.output_open.then_some(now + DRAIN);
    }

    /// Restarts the drain timeout: only time during which the output is read counts.
    pub(super) fn on_reading_paused(&mut self, now: Instant) {
        if self.drain_until.is_some() {
            self.drain_until = Some(now + DRAIN);
        }
    }

    /// Begins to stop the program. A second call has no effect.
    pub(super) fn begin_stop(&mut self, now: Instant) {
        self.stopping.get_or_insert((0, now));
    }

    /// Returns when [`Lifecycle::next_action`] has to be called.
    pub(super) fn deadline(&self) -> Option<Instant> {
        [self.drain_until, self.stopping.map(|(_, at)| at)].into_iter().flatten().min()
    }

    /// Returns the next action that is due. Call it until it returns `None`.
    pub(super) fn next_action(&mut self, now: Instant) -> Option<Action> {
        if self.drain_until.is_some_and(|at| at <= now) {
            self.drain_until = None;
            return Some(Action::Drain);
        }
        let (level, _) = self.stopping.filter(|(_, at)| *at <= now)?;
        let Some((signal, pause)) = ESCALATION.get(level) else {
            self.stopping = None;
            self.exit.get_or_insert(ExitStatus::Unknown);
            return Some(Action::GiveUp);
        };
        self.stopping = Some((level + 1, now + *pause));
        Some(Action::Signal(*signal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drain_timeout_counts_only_while_reading() {
        let (mut lifecycle, now) = (Lifecycle::new(), Instant::now());
        assert_eq!((lifecycle.deadline(), lifecycle.next_action(now)), (None, None));
        lifecycle.on_exit(ExitStatus::Code(0), now);
        lifecycle.on_reading_paused(now + DRAIN);
        assert_eq!(lifecycle.next_action(now + DRAIN), None, "the output was not read");
        assert_eq!(lifecycle.deadline(), Some(now + 2 * DRAIN));
        assert_eq!(lifecycle.next_action(now + 2 * DRAIN), Some(Action::Drain));
        assert!(!lifecycle.is_finished());
        lifecycle.on_output_closed();
        assert!(lifecycle.is_finished());
    }

    #[test]
    fn closed_output_cancels_the_drain() {
        let (mut lifecycle, now) = (Lifecycle::new(), Instant::now());
        lifecycle.on_exit(ExitStatus::Code(0), now);
        lifecycle.on_output_closed();
        assert_eq!((lifecycle.deadline(), lifecycle.next_action(now + 2 * DRAIN)), (None, None));
    }

    #[test]
    fn stop_escalates_signals_and_gives_up() {
        let (mut lifecycle, mut now) = (Lifecycle::new(), Instant::now());
        lifecycle.begin_stop(now);
        lifecycle.begin_stop(now + DRAIN);
        for (signal, pause) in ESCALATION {
            assert_eq!(lifecycle.next_action(now), Some(Action::Signal(signal)));
            assert_eq!(lifecycle.next_action(now), None, "the next signal comes after a pause");
            now += pause;
        }
        assert_eq!(lifecycle.next_action(now), Some(Action::GiveUp));
        lifecycle.on_output_closed();
        assert!(lifecycle.is_finished() && lifecycle.exit() == Some(ExitStatus::Unknown));
        assert_eq!(lifecycle.deadline(), None);
    }
}
