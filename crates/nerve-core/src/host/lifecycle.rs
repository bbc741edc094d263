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
pub(super) struct Life {
    open: bool,
    exit: Option<ExitStatus>,
    drain_until: Option<Instant>,
    /// The next signal of a stop, and when.
    stopping: Option<(usize, Instant)>,
}

/// What is to be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// What was written is to be taken, and then the terminal is closed.
    Drain,
    /// The program is to get this.
    Signal(Signal),
    /// Killed and still not gone: it hangs in the kernel. Nobody waits for that.
    GiveUp,
}

impl Life {
    /// A program that runs.
    pub(super) fn new() -> Life {
        Life { open: true, exit: None, drain_until: None, stopping: None }
    }

    /// There may be more output.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// How it ended, if it has.
    pub(super) fn exit(&self) -> Option<ExitStatus> {
        self.exit
    }

    /// It has ended, and there is no more output.
    pub(super) fn is_over(&self) -> bool {
        !self.open && self.exit.is_some()
    }

    /// There is no more output.
    pub(super) fn closed(&mut self) {
        self.open = false;
        self.drain_until = None;
    }

    pub(super) fn exited(&mut self, exit: ExitStatus, now: Instant) {
        self.exit = Some(exit);
        self.drain_until = self.open.then_some(now + DRAIN);
    }

    /// The output is not read at the moment: only time in which it is counts.
    pub(super) fn held_up(&mut self, now: Instant) {
        if self.drain_until.is_some() {
            self.drain_until = Some(now + DRAIN);
        }
    }

    /// Somebody asks for the end.
    pub(super) fn stop(&mut self, now: Instant) {
        self.stopping.get_or_insert((0, now));
    }

    /// When [`Life::due`] is to be asked.
    pub(super) fn deadline(&self) -> Option<Instant> {
        [self.drain_until, self.stopping.map(|(_, at)| at)].into_iter().flatten().min()
    }

    /// What is to be done now; to be asked until there is nothing.
    pub(super) fn due(&mut self, now: Instant) -> Option<Due> {
        if self.drain_until.is_some_and(|at| at <= now) {
            self.drain_until = None;
            return Some(Due::Drain);
        }
        let (level, _) = self.stopping.filter(|(_, at)| *at <= now)?;
        let Some((signal, pause)) = ESCALATION.get(level) else {
            self.stopping = None;
            self.exit.get_or_insert(ExitStatus::Unknown);
            return Some(Due::GiveUp);
        };
        self.stopping = Some((level + 1, now + *pause));
        Some(Due::Signal(*signal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_that_a_grandchild_keeps_open_is_waited_for_while_it_is_read() {
        let (mut life, now) = (Life::new(), Instant::now());
        assert_eq!((life.deadline(), life.due(now)), (None, None));
        life.exited(ExitStatus::Code(0), now);
        life.held_up(now + DRAIN);
        assert_eq!(life.due(now + DRAIN), None, "nobody read it");
        assert_eq!(life.deadline(), Some(now + 2 * DRAIN));
        assert_eq!(life.due(now + 2 * DRAIN), Some(Due::Drain));
        assert!(!life.is_over());
        life.closed();
        assert!(life.is_over());
    }

    #[test]
    fn what_is_closed_is_waited_for_no_more() {
        let (mut life, now) = (Life::new(), Instant::now());
        life.exited(ExitStatus::Code(0), now);
        life.closed();
        assert_eq!((life.deadline(), life.due(now + 2 * DRAIN)), (None, None));
    }

    #[test]
    fn a_stop_goes_from_signal_to_signal_and_ends_whatever_the_program_does() {
        let (mut life, mut now) = (Life::new(), Instant::now());
        life.stop(now);
        life.stop(now + DRAIN);
        for (signal, pause) in ESCALATION {
            assert_eq!(life.due(now), Some(Due::Signal(signal)));
            assert_eq!(life.due(now), None, "each in its time");
            now += pause;
        }
        assert_eq!(life.due(now), Some(Due::GiveUp));
        life.closed();
        assert!(life.is_over() && life.exit() == Some(ExitStatus::Unknown));
        assert_eq!(life.deadline(), None);
    }
}
