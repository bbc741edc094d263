//! The attempts to connect to a machine, and the pauses between them.

use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared, ready};
use nerve_api::ErrorKind;
use tokio::time::Instant;

use super::changed_entry_error;
use super::connection::MachineConnection;
use crate::error::MachineError;
use crate::machine::Machine;

/// Pause after the first failed attempt. It doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// Maximum pause after a failed attempt. The pause after a rejected login is longer.
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// Pause after a rejected login, of which some machines permit only a few in ten minutes.
const LOGIN_PAUSE: Duration = Duration::from_secs(300);
/// Maximum number of failed attempts during pauses until a connection succeeds. A contact by another command permits such an attempt,
/// because that command may have a key that this process lacks.
const MAX_EARLY_FAILURES: u32 = 3;
/// Time after a pause in which the last error is still reported, even if no attempt runs.
const ERROR_RETENTION: Duration = Duration::from_secs(60);

/// The outcome of an attempt to connect.
pub(super) type Outcome = Result<Arc<MachineConnection>, MachineError>;
/// An attempt that several callers can await. It stops when the last of them drops it.
pub(super) type Attempt = Shared<BoxFuture<'static, Outcome>>;

/// The connection to one machine, or why there is none.
#[derive(Debug)]
pub(super) struct MachineLink {
    /// The entry of the list to which the rest belongs.
    machine: Machine,
    connection: Weak<MachineConnection>,
    attempt: Option<WeakShared<BoxFuture<'static, Outcome>>>,
    retry: Option<RetryState>,
}

/// The state of the attempts since the last connection, after at least one failure.
#[derive(Debug)]
struct RetryState {
    last_error: MachineError,
    failed_at: SystemTime,
    /// End of the pause after the last failure.
    retry_at: Instant,
    /// Number of failed attempts.
    failures: u32,
    /// Number of those that ended during a pause.
    early_failures: u32,
}

impl MachineLink {
    pub(super) fn new(machine: Machine) -> MachineLink {
        MachineLink { machine, connection: Weak::new(), attempt: None, retry: None }
    }

    /// Returns true if the link belongs to this entry of the list.
    pub(super) fn is_of(&self, machine: &Machine) -> bool {
        self.machine == *machine
    }

    /// Returns the connection if it is open.
    pub(super) fn connection(&self) -> Option<Arc<MachineConnection>> {
        self.connection.upgrade().filter(|connection| !connection.has_ended())
    }

    /// Returns why the machine cannot be reached, if that is known.
    pub(super) fn last_error(&self) -> Option<&MachineError> {
        let retry = self.retry.as_ref()?;
        let is_recent = Instant::now() < retry.retry_at + ERROR_RETENTION;
        (is_recent || self.running_attempt().is_some()).then_some(&retry.last_error)
    }

    /// Returns the known outcome, or the attempt that runs; `None` if the caller has to start one. During a pause, a contact after the
    /// last failure permits another attempt, until [`MAX_EARLY_FAILURES`] of them have failed.
    pub(super) fn outcome_or_attempt(&self, last_contact: Option<SystemTime>) -> Option<Attempt> {
        let is_paused = |retry: &&RetryState| {
            let has_contact = last_contact.is_some_and(|at| at > retry.failed_at);
            Instant::now() < retry.retry_at && !(has_contact && retry.early_failures < MAX_EARLY_FAILURES)
        };
        let known = match (self.connection(), self.retry.as_ref().filter(is_paused)) {
            (Some(connection), _) => Ok(connection),
            (None, Some(retry)) => Err(retry.last_error.clone()),
            (None, None) => return self.running_attempt(),
        };
        Some(ready(known).boxed().shared())
    }

    fn running_attempt(&self) -> Option<Attempt> {
        self.attempt.as_ref()?.upgrade()
    }

    /// Starts an attempt, which has to [record](MachineLink::record) its outcome.
    pub(super) fn start(&mut self, attempt: BoxFuture<'static, Outcome>) -> Attempt {
        let attempt = attempt.shared();
        self.attempt = attempt.downgrade();
        attempt
    }

    /// Records the outcome of the attempt.
    pub(super) fn record(&mut self, outcome: Outcome) -> Outcome {
        self.attempt = None;
        match &outcome {
            Ok(connection) => {
                self.retry = None;
                self.connection = Arc::downgrade(connection);
            }
            Err(error) => self.retry = Some(RetryState::after(self.retry.take(), error)),
        }
        outcome
    }

    /// Ends the connection of an entry that is no longer in the list.
    pub(super) fn end(self) {
        if let Some(connection) = self.connection() {
            connection.end(changed_entry_error(&self.machine));
        }
    }
}

impl RetryState {
    /// Returns the state after another failure.
    fn after(previous: Option<RetryState>, error: &MachineError) -> RetryState {
        let now = Instant::now();
        let (failures, early_failures) = previous.map_or((0, 0), |previous| {
            (previous.failures, previous.early_failures + u32::from(now < previous.retry_at))
        });
        let failures = failures.saturating_add(1);
        RetryState {
            last_error: error.clone(),
            failed_at: SystemTime::now(),
            retry_at: now + pause_after(failures, error.kind),
            failures,
            early_failures,
        }
    }
}

/// Returns the pause after this many failures, the last of this kind.
fn pause_after(failures: u32, kind: ErrorKind) -> Duration {
    match kind {
        ErrorKind::Authentication => LOGIN_PAUSE,
        _ => FIRST_PAUSE.saturating_mul(1 << (failures.saturating_sub(1)).min(16)).min(MAX_BACKOFF),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(kind: ErrorKind) -> Outcome {
        Err(MachineError::new(kind, "refused"))
    }

    #[test]
    fn pauses_grow_to_limit() {
        let pauses: Vec<u64> = (1..8).map(|count| pause_after(count, ErrorKind::Network).as_secs()).collect();
        assert_eq!(pauses, [5, 10, 20, 40, 60, 60, 60]);
        assert_eq!(pause_after(u32::MAX, ErrorKind::Network), MAX_BACKOFF);
        assert_eq!(pause_after(1, ErrorKind::Authentication), LOGIN_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn failure_is_known_during_pause_and_a_while_later() {
        let mut link = MachineLink::new(Machine::unnamed("ssh://h"));
        for pause in [FIRST_PAUSE, FIRST_PAUSE * 2] {
            assert!(link.outcome_or_attempt(None).is_none());
            link.record(failed(ErrorKind::Network)).unwrap_err();
            tokio::time::advance(pause - Duration::from_millis(1)).await;
            assert!(link.outcome_or_attempt(None).unwrap().await.is_err());
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert!(link.outcome_or_attempt(None).is_none() && link.last_error().is_some());
        tokio::time::advance(ERROR_RETENTION).await;
        assert_eq!(link.last_error(), None);
        // An attempt that runs does not hide why the last one failed.
        let attempt = link.start(std::future::pending().boxed());
        assert!(link.last_error().is_some() && link.outcome_or_attempt(None).is_some());
        drop(attempt);
        assert!(link.last_error().is_none() && link.outcome_or_attempt(None).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn rejected_login_is_repeated_late_or_after_a_contact() {
        let mut link = MachineLink::new(Machine::unnamed("ssh://h"));
        let before = SystemTime::now();
        link.record(failed(ErrorKind::Authentication)).unwrap_err();
        tokio::time::advance(MAX_BACKOFF).await;
        assert!(link.outcome_or_attempt(Some(before)).is_some());
        let later = Some(SystemTime::now() + Duration::from_secs(3600));
        for _ in 0..MAX_EARLY_FAILURES {
            assert!(link.outcome_or_attempt(later).is_none());
            link.record(failed(ErrorKind::Authentication)).unwrap_err();
        }
        // Another command reaches the machine again and again, and this process does not.
        assert!(link.outcome_or_attempt(later).is_some());
        tokio::time::advance(LOGIN_PAUSE).await;
        assert!(link.outcome_or_attempt(None).is_none());
    }
}
