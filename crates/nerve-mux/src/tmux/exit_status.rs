//! Determines whether a pane's program has ended. No I/O.

use std::time::Duration;

use tokio::time::Instant;

use super::formats::SEPARATOR;
use super::quoting::CommandArgs;

const STATE: &str = "#{pane_id}\u{1f}#{pane_dead}\u{1f}#{pane_pid}";
/// Time that tmux gets to read the last output and to notice the exit. Other processes may hold the terminal open.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause between queries.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Tracks the end of a program.
#[derive(Debug, Default)]
pub(super) struct ExitTracker {
    is_reported: bool,
    /// Time of the system's first report that the process is gone.
    exited_since: Option<Instant>,
    retry_at: Option<Instant>,
}

/// The meaning of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The program runs, or its last output may not have been read.
    Alive,
    /// The program ended, or another one was started in the pane.
    Ended,
    /// The pane does not exist.
    Gone,
}

/// Returns the command that queries the state.
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

    /// Records that the end was reported.
    pub(super) fn report(&mut self) {
        (self.is_reported, self.retry_at) = (true, None);
    }

    pub(super) fn is_reported(&self) -> bool {
        self.is_reported
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
        let [id, dead, runs] = fields.as_slice() else { return Verdict::Gone };
        if id.is_empty() {
            return Verdict::Gone;
        }
        if *dead == "1" || pid.is_some_and(|pid| *runs != pid.to_string()) {
            return Verdict::Ended;
        }
        match self.exited_since {
            Some(since) if now.duration_since(since) > EXIT_TIMEOUT => Verdict::Ended,
            Some(_) => {
                self.retry_at = Some(now + RETRY_INTERVAL);
                Verdict::Alive
            }
            None => Verdict::Alive,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(text: &str) -> Vec<Result<String, String>> {
        vec![Ok(text.replace('|', "\u{1f}"))]
    }

    #[test]
    fn ended_replaced_and_missing_programs_are_distinguished() {
        let now = Instant::now();
        let evaluate = |text: &str| ExitTracker::default().evaluate(now, &reply(text), Some(77));
        assert_eq!(evaluate("%1|0|77"), Verdict::Alive);
        assert_eq!(evaluate("%1|1|77"), Verdict::Ended);
        assert_eq!(evaluate("%1|0|78"), Verdict::Ended);
        assert_eq!(evaluate("||"), Verdict::Gone);
        assert_eq!(ExitTracker::default().evaluate(now, &[Err("no server".into())], None), Verdict::Gone);
    }

    #[test]
    fn missed_exit_is_retried_until_the_timeout() {
        let (now, mut tracker) = (Instant::now(), ExitTracker::default());
        tracker.on_process_exit(now);
        assert_eq!(tracker.evaluate(now, &reply("%1|0|77"), Some(77)), Verdict::Alive);
        assert!(tracker.retry_at().is_some());
        let late = now + EXIT_TIMEOUT + RETRY_INTERVAL;
        assert_eq!(tracker.evaluate(late, &reply("%1|0|77"), Some(77)), Verdict::Ended);
    }
}
