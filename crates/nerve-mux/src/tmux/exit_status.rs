//! Determines how a pane's program ended, as far as tmux knows. No I/O.

use std::time::Duration;

use nerve_types::{ExitStatus, signal_number};
use tokio::time::Instant;

use super::formats::SEPARATOR;
use super::quoting::CommandArgs;

const STATE: &str =
    "#{pane_id}\u{1f}#{pane_dead}\u{1f}#{pane_dead_status}\u{1f}#{pane_dead_signal}\u{1f}#{pane_pid}";
/// Time that tmux gets to report the status after the process is gone.
const STATUS_TIMEOUT: Duration = Duration::from_secs(1);
/// Time that other processes may hold the terminal open.
const DRAIN: Duration = Duration::from_millis(500);
/// Pause between queries.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Tracks the end of a program.
#[derive(Debug, Default)]
pub(super) struct ExitTracker {
    exit: Option<ExitStatus>,
    /// Time of the system's first report that the process is gone.
    exited_since: Option<Instant>,
    retry_at: Option<Instant>,
}

/// The meaning of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The program runs, or its status is not known yet.
    Alive,
    /// tmux has not noticed: version 3.3 sometimes misses the exit of a child until another one exits.
    Nudge,
    /// The program ended.
    Ended(ExitStatus),
    /// Another program was started in the pane.
    Replaced,
    /// The pane does not exist.
    Gone,
}

/// Returns the command that queries the status.
pub(super) fn query(pane: &str) -> CommandArgs {
    super::quoting::command(&["display-message", "-p", "-t", pane, STATE])
}

impl ExitTracker {
    /// Records that the system reports the process as gone.
    pub(super) fn on_process_exit(&mut self, now: Instant) {
        self.exited_since.get_or_insert(now);
    }

    pub(super) fn has_process_exited(&self) -> bool {
        self.exited_since.is_some()
    }

    /// Returns when to query tmux again.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    pub(super) fn clear_retry(&mut self) {
        self.retry_at = None;
    }

    /// Records that the exit was reported.
    pub(super) fn report(&mut self, exit: ExitStatus) {
        self.exit.get_or_insert(exit);
        self.retry_at = None;
    }

    pub(super) fn is_reported(&self) -> bool {
        self.exit.is_some()
    }

    pub(super) fn exit(&self) -> Option<ExitStatus> {
        self.exit
    }

    /// Evaluates a reply about the pane of the program `pid`.
    pub(super) fn evaluate(
        &mut self,
        now: Instant,
        replies: &[Result<String, String>],
        pid: Option<i32>,
    ) -> Verdict {
        let Some(Ok(text)) = replies.first() else { return Verdict::Gone };
        let fields: Vec<&str> = text.split(SEPARATOR).collect();
        let [id, dead, status, signal, runs] = fields.as_slice() else { return Verdict::Gone };
        if id.is_empty() {
            return Verdict::Gone;
        }
        if pid.is_some_and(|pid| *runs != pid.to_string()) {
            return Verdict::Replaced;
        }
        if *dead != "1" && self.exited_since.is_none() {
            return Verdict::Alive;
        }
        let waited = now.duration_since(*self.exited_since.get_or_insert(now));
        let by_signal = || parse_signal(signal).map(ExitStatus::Signal);
        if let Some(exit) = status.parse().ok().map(ExitStatus::Code).or_else(by_signal)
            && (*dead == "1" || waited > DRAIN)
        {
            return Verdict::Ended(exit);
        }
        if waited > STATUS_TIMEOUT {
            return Verdict::Ended(ExitStatus::Unknown);
        }
        self.retry_at = Some(now + RETRY_INTERVAL);
        if *dead == "1" { Verdict::Nudge } else { Verdict::Alive }
    }
}

/// Parses a signal's name or number.
fn parse_signal(message: &str) -> Option<i32> {
    let message = message.trim();
    message.parse().ok().or_else(|| signal_number(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(text: &str) -> Vec<Result<String, String>> {
        vec![Ok(text.replace('|', "\u{1f}"))]
    }

    #[test]
    fn evaluates_codes_signals_and_missing_panes() {
        let now = Instant::now();
        let evaluate = |text: &str| ExitTracker::default().evaluate(now, &reply(text), Some(77));
        assert_eq!(evaluate("%1|1|3||77"), Verdict::Ended(ExitStatus::Code(3)));
        assert_eq!(evaluate("%1|1||9|77"), Verdict::Ended(ExitStatus::Signal(9)));
        assert_eq!(evaluate("%1|1||TERM|77"), Verdict::Ended(ExitStatus::Signal(15)));
        assert_eq!(evaluate("%1|0|||77"), Verdict::Alive);
        assert_eq!(evaluate("%1|0|||78"), Verdict::Replaced);
        assert_eq!(evaluate("||||"), Verdict::Gone);
        assert_eq!(ExitTracker::default().evaluate(now, &[Err("no server".into())], None), Verdict::Gone);
    }

    #[test]
    fn missed_exit_is_retried_until_the_timeout() {
        let (now, mut tracker) = (Instant::now(), ExitTracker::default());
        tracker.on_process_exit(now);
        assert_eq!(tracker.evaluate(now, &reply("%1|1|||77"), Some(77)), Verdict::Nudge);
        assert!(tracker.retry_at().is_some());
        let late = now + STATUS_TIMEOUT + RETRY_INTERVAL;
        assert_eq!(
            tracker.evaluate(late, &reply("%1|1|||77"), Some(77)),
            Verdict::Ended(ExitStatus::Unknown)
        );
    }

    #[test]
    fn terminal_held_open_delays_the_exit_briefly() {
        let (now, mut tracker) = (Instant::now(), ExitTracker::default());
        tracker.on_process_exit(now);
        assert_eq!(tracker.evaluate(now, &reply("%1|0|5||77"), Some(77)), Verdict::Alive);
        let later = now + DRAIN + RETRY_INTERVAL;
        assert_eq!(
            tracker.evaluate(later, &reply("%1|0|5||77"), Some(77)),
            Verdict::Ended(ExitStatus::Code(5))
        );
    }
}
