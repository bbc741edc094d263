//! How far the end of a host's program has come: its output, its exit, and the signals of a stop. Pure.

use std::time::Duration;

use nerve_term::event::ExitStatus;
use rustix::process::Signal;
use tokio::time::Instant;

use crate::backend::pty::ESCALATION;

/// How long output of a dead program is waited for: a grandchild may hold the terminal open.
const DRAIN: Duration = Duration::from_millis(500);

/// See the module.
#[derive(Debug)]
pub(super) struct Lifecycle {
    output_open: bool,
    exit: Option<ExitStatus>,
    drain_until: Option<Instant>,
    /// The next signal of a stop, and when.
    stopping: Option<(usize, Instant)>,
}

/// What is to be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// What was written is to be taken, and then the terminal is closed.
    Drain,
    /// The program is to get this.
    Signal(Signal),
    /// Killed and still not gone: it hangs in the kernel. Nobody waits for that.
    GiveUp,
}

impl Lifecycle {
    /// A program that runs.
    pub(super) fn new() -> Lifecycle {
        Lifecycle { output_open: true, exit: None, drain_until: None, stopping: None }
    }

    /// There may be more output.
    pub(super) fn is_output_open(&self) -> bool {
        self.output_open
    }

    /// How it ended, if it has.
    pub(super) fn exit(&self) -> Option<ExitStatus> {
        self.exit
    }

    /// It has ended, and there is no more output.
    pub(super) fn is_finished(&self) -> bool {
        !self.output_open && self.exit.is_some()
    }

    /// There is no more output.
    pub(super) fn on_output_closed(&mut self) {
        self.output_open = false;
        self.drain_until = None;
    }

    pub(super) fn on_exit(&mut self, exit: ExitStatus, now: Instant) {
        self.exit = Some(exit);
        self.drain_until = self.output_open.then_some(now + DRAIN);
    }

    /// The output is not read at the moment: only time in which it is counts.
    pub(super) fn on_reading_paused(&mut self, now: Instant) {
        if self.drain_until.is_some() {
            self.drain_until = Some(now + DRAIN);
        }
    }

    /// Somebody asks for the end.
    pub(super) fn begin_stop(&mut self, now: Instant) {
        self.stopping.get_or_insert((0, now));
    }

    /// When [`Lifecycle::next_action`] is to be asked.
    pub(super) fn deadline(&self) -> Option<Instant> {
        [self.drain_until, self.stopping.map(|(_, at)| at)].into_iter().flatten().min()
    }

    /// What is to be done now; to be asked until there is nothing.
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
    fn output_that_a_grandchild_keeps_open_is_waited_for_while_it_is_read() {
        let (mut lifecycle, now) = (Lifecycle::new(), Instant::now());
        assert_eq!((lifecycle.deadline(), lifecycle.next_action(now)), (None, None));
        lifecycle.on_exit(ExitStatus::Code(0), now);
        lifecycle.on_reading_paused(now + DRAIN);
        assert_eq!(lifecycle.next_action(now + DRAIN), None, "nobody read it");
        assert_eq!(lifecycle.deadline(), Some(now + 2 * DRAIN));
        assert_eq!(lifecycle.next_action(now + 2 * DRAIN), Some(Action::Drain));
        assert!(!lifecycle.is_finished());
        lifecycle.on_output_closed();
        assert!(lifecycle.is_finished());
    }

    #[test]
    fn what_is_closed_is_waited_for_no_more() {
        let (mut lifecycle, now) = (Lifecycle::new(), Instant::now());
        lifecycle.on_exit(ExitStatus::Code(0), now);
        lifecycle.on_output_closed();
        assert_eq!((lifecycle.deadline(), lifecycle.next_action(now + 2 * DRAIN)), (None, None));
    }

    #[test]
    fn a_stop_goes_from_signal_to_signal_and_ends_whatever_the_program_does() {
        let (mut lifecycle, mut now) = (Lifecycle::new(), Instant::now());
        lifecycle.begin_stop(now);
        lifecycle.begin_stop(now + DRAIN);
        for (signal, pause) in ESCALATION {
            assert_eq!(lifecycle.next_action(now), Some(Action::Signal(signal)));
            assert_eq!(lifecycle.next_action(now), None, "each in its time");
            now += pause;
        }
        assert_eq!(lifecycle.next_action(now), Some(Action::GiveUp));
        lifecycle.on_output_closed();
        assert!(lifecycle.is_finished() && lifecycle.exit() == Some(ExitStatus::Unknown));
        assert_eq!(lifecycle.deadline(), None);
    }
}
