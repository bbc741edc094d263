//! The life of a node's program, from its start to the end of the node.

use nerve_api::value::StopCause;
use nerve_host::backend::pty::ESCALATION;
use nerve_types::{ExitStatus, TsNs};
use rustix::process::Signal;
use tokio::sync::oneshot;

/// A stage in the life of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Output from before the takeover is being replayed.
    Replaying,
    /// The program runs.
    Running,
    /// The output is complete; the exit status is not known yet.
    OutputComplete,
    /// The program exited. Its descendants may continue the output until this time.
    Draining { until: TsNs },
    /// The program is gone and all of its output was read.
    Ended,
    /// The node was stopped or detached from its program: its task ends.
    Closed,
}

/// The phase of a program, the reason for its end, and the stop in progress.
#[derive(Debug)]
pub(super) struct Lifecycle {
    phase: Phase,
    exit: Option<ExitStatus>,
    /// Reason for the end, if the exit status does not show it.
    end_reason: Option<String>,
    stop: Option<Stop>,
}

/// A stop in progress. Signals escalate until the program is gone.
#[derive(Debug)]
struct Stop {
    reason: String,
    /// Number of signals sent.
    level: usize,
    /// Time of the next signal.
    next: TsNs,
    replies: Vec<oneshot::Sender<()>>,
}

impl Lifecycle {
    /// Creates the lifecycle of a program. `is_adopted`: it is running already, and its earlier output is replayed first.
    pub(super) fn new(is_adopted: bool) -> Lifecycle {
        let phase = if is_adopted { Phase::Replaying } else { Phase::Running };
        Lifecycle { phase, exit: None, end_reason: None, stop: None }
    }

    /// Returns true while earlier output is replayed: the screen is out of date.
    pub(super) fn is_replaying(&self) -> bool {
        self.phase == Phase::Replaying
    }

    /// Returns true if the program can take input and its screen can change.
    pub(super) fn has_terminal(&self) -> bool {
        matches!(self.phase, Phase::Replaying | Phase::Running | Phase::Draining { .. })
    }

    /// Returns true if the program is gone, or the node has detached from it.
    pub(super) fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended | Phase::Closed)
    }

    /// Returns true if the node's task has nothing left to do.
    pub(super) fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// Returns true once the node is to be stopped.
    pub(super) fn is_stopping(&self) -> bool {
        self.stop.is_some()
    }

    /// Returns true if the node takes requests: its program is neither gone nor being stopped.
    pub(super) fn takes_requests(&self) -> bool {
        !self.is_ended() && !self.is_stopping()
    }

    /// Returns the reason for the end, if the exit status does not show it.
    pub(super) fn end_reason(&self) -> Option<&String> {
        self.end_reason.as_ref()
    }

    /// Returns the time of the next step: the end of the output or a signal.
    pub(super) fn deadline(&self) -> Option<TsNs> {
        let drain = match self.phase {
            Phase::Draining { until } => Some(until),
            _ => None,
        };
        drain.into_iter().chain(self.stop.as_ref().map(|stop| stop.next)).min()
    }

    /// Notes the end of the replay.
    pub(super) fn finish_replay(&mut self) {
        if self.phase == Phase::Replaying {
            self.phase = Phase::Running;
        }
    }

    /// Notes that the output is complete. Returns true if the program has exited, too.
    pub(super) fn complete_output(&mut self) -> bool {
        if !self.is_ended() {
            self.phase = Phase::OutputComplete;
        }
        self.exit.is_some()
    }

    /// Notes the exit of the program. Returns true if its output is complete, too; otherwise it is awaited until `drain_until`.
    pub(super) fn exit(&mut self, exit: ExitStatus, drain_until: TsNs) -> bool {
        self.exit = Some(exit);
        let has_terminal = self.has_terminal();
        if has_terminal {
            self.phase = Phase::Draining { until: drain_until };
        }
        !has_terminal
    }

    /// Sets the reason for the end of a program without an exit status.
    pub(super) fn set_end_reason(&mut self, reason: String) {
        self.end_reason = Some(reason);
    }

    /// Returns true if the program has exited and the time for the rest of its output is over.
    pub(super) fn is_drained(&self, now: TsNs) -> bool {
        matches!(self.phase, Phase::Draining { until } if until <= now)
    }

    /// Ends the program's life. Returns its exit status, or `None` if the end was noted before.
    pub(super) fn end(&mut self) -> Option<ExitStatus> {
        if self.is_ended() {
            return None;
        }
        self.phase = Phase::Ended;
        Some(*self.exit.get_or_insert(ExitStatus::Unknown))
    }

    /// Ends the node's task.
    pub(super) fn close(&mut self) {
        self.phase = Phase::Closed;
    }

    /// Begins a stop, or joins the one in progress. Returns true if signals have to be sent.
    pub(super) fn begin_stop(
        &mut self,
        reason: String,
        now: TsNs,
        reply: Option<oneshot::Sender<()>>,
    ) -> bool {
        let is_first = self.stop.is_none();
        let stop = self.stop.get_or_insert_with(|| Stop { reason, level: 0, next: now, replies: Vec::new() });
        stop.replies.extend(reply);
        is_first && !self.is_ended()
    }

    /// Returns true if the next signal of a stop is due.
    pub(super) fn is_signal_due(&self, now: TsNs) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.next <= now)
    }

    /// Returns the next signal of a stop and schedules the one after it. `None` after the last.
    pub(super) fn next_signal(&mut self, now: TsNs) -> Option<Signal> {
        let stop = self.stop.as_mut()?;
        let (signal, pause) = ESCALATION.get(stop.level)?;
        stop.level += 1;
        stop.next = now + *pause;
        Some(*signal)
    }

    /// Closes a stopped node whose program is gone.
    pub(super) fn finish_stop(&mut self) {
        if self.stop.is_some() && self.phase == Phase::Ended {
            self.phase = Phase::Closed;
        }
    }

    /// Removes the callers that wait for the stop.
    pub(super) fn take_stop_replies(&mut self) -> Vec<oneshot::Sender<()>> {
        self.stop.as_mut().map(|stop| std::mem::take(&mut stop.replies)).unwrap_or_default()
    }

    /// Describes the end for the log.
    pub(super) fn end_description(&self) -> String {
        match (&self.stop, &self.end_reason) {
            (Some(stop), _) => stop.reason.clone(),
            (None, Some(reason)) => reason.clone(),
            (None, None) => self.exit.unwrap_or(ExitStatus::Unknown).to_string(),
        }
    }

    /// Returns the cause of the end.
    pub(super) fn stop_cause(&self) -> StopCause {
        match (&self.stop, &self.end_reason, self.exit) {
            (Some(_), ..) => StopCause::Requested,
            (None, None, Some(ExitStatus::Code(0))) => StopCause::Exited,
            _ => StopCause::Failed,
        }
    }

    /// Describes in an error why the node takes no more requests.
    pub(super) fn refusal(&self) -> String {
        match (&self.stop, &self.end_reason, self.exit) {
            (Some(stop), ..) => stop.reason.clone(),
            (None, Some(reason), _) => reason.clone(),
            (None, None, Some(exit)) => format!("its program ended with {exit}"),
            (None, None, None) => "gone".to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_ends_after_exit_and_complete_output() {
        let mut life = Lifecycle::new(false);
        assert!(!life.exit(ExitStatus::Code(3), TsNs(9)));
        assert!(life.has_terminal() && !life.is_ended(), "descendants may still write");
        assert_eq!(life.deadline(), Some(TsNs(9)));
        assert!(!life.is_drained(TsNs(8)) && life.is_drained(TsNs(9)));
        assert!(life.complete_output());
        assert_eq!(life.end(), Some(ExitStatus::Code(3)));
        assert_eq!((life.end(), life.deadline()), (None, None), "ends once");
        assert_eq!(life.stop_cause(), StopCause::Failed);
        assert_eq!(life.refusal(), "its program ended with exit code 3");

        let mut life = Lifecycle::new(false);
        assert!(!life.complete_output());
        assert!(!life.has_terminal() && !life.is_ended(), "the exit status is missing");
        assert!(life.exit(ExitStatus::Code(0), TsNs(9)));
        assert_eq!(life.stop_cause(), StopCause::Exited);
    }

    #[test]
    fn replay_precedes_running() {
        let mut life = Lifecycle::new(true);
        assert!(life.is_replaying() && life.has_terminal());
        life.finish_replay();
        assert!(!life.is_replaying() && life.has_terminal());
    }

    #[test]
    fn stop_escalates_and_closes_after_the_end() {
        let mut life = Lifecycle::new(false);
        let (reply, mut stopped) = oneshot::channel();
        assert!(life.begin_stop("no longer needed".into(), TsNs(1), Some(reply)));
        assert!(!life.begin_stop("again".into(), TsNs(1), None), "the first stop continues");
        assert_eq!(life.stop_cause(), StopCause::Requested);
        assert!(!life.takes_requests() && life.is_signal_due(TsNs(1)));
        let signals: Vec<Signal> = std::iter::from_fn(|| life.next_signal(TsNs(1))).collect();
        assert_eq!(signals, ESCALATION.map(|(signal, _)| signal));
        life.finish_stop();
        assert!(!life.is_closed(), "the program is not gone");
        assert_eq!(life.end(), Some(ExitStatus::Unknown));
        life.finish_stop();
        for reply in life.take_stop_replies() {
            reply.send(()).unwrap();
        }
        assert!(life.is_closed() && stopped.try_recv().is_ok());
        assert_eq!(life.end_description(), "no longer needed");
    }
}
