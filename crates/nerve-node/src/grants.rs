//! Grants: the questions of a budget at its limits, and their answers.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::budget::{RunBudget, RunLimit};

/// The grants of a run's budget: its questions, its limits as raised by the answers, and its pauses.
#[derive(Debug)]
pub struct RunGrants {
    /// Beginning of the paths of the questions: `part/` for the graph in a step, `part` for the step itself.
    prefix: Arc<str>,
    /// The limits that were granted so far, one entry for each grant. Locked while a question is open, so that one is open at most.
    granted: tokio::sync::Mutex<Vec<RunLimit>>,
    /// Notified when usage was added and a limit is reached.
    limit_reached: Notify,
    /// True while a question is open.
    is_open: watch::Sender<bool>,
    state: Mutex<GrantState>,
}

#[derive(Debug)]
struct GrantState {
    /// The limits, raised by grants.
    limits: RunBudget,
    is_refused: bool,
    /// Beginning and end of each question; the open one has no end. Time limits do not count these times.
    pauses: Vec<(Instant, Option<Instant>)>,
}

/// Stops the clock of a budget until it is dropped.
#[derive(Debug)]
pub struct Pause<'a> {
    grants: &'a RunGrants,
}

impl RunGrants {
    pub(crate) fn new(limits: RunBudget, prefix: Arc<str>) -> RunGrants {
        let state = GrantState { limits, is_refused: false, pauses: Vec::new() };
        RunGrants {
            prefix,
            granted: tokio::sync::Mutex::default(),
            limit_reached: Notify::new(),
            is_open: watch::Sender::new(false),
            state: Mutex::new(state),
        }
    }

    /// Returns the beginning of the paths of the questions; empty for the outermost graph.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Waits until no question is open. While the lock is held, only its holder may ask. Returns the limits granted so far.
    pub async fn lock_questions(&self) -> tokio::sync::MutexGuard<'_, Vec<RunLimit>> {
        self.granted.lock().await
    }

    /// Returns the current limits.
    pub(crate) fn limits(&self) -> RunBudget {
        self.state.lock().limits.clone()
    }

    pub(crate) fn is_refused(&self) -> bool {
        self.state.lock().is_refused
    }

    pub(crate) fn notify_limit(&self) {
        self.limit_reached.notify_one();
    }

    /// Waits for [`RunGrants::notify_limit`].
    pub(crate) fn wait_for_limit(&self) -> Notified<'_> {
        self.limit_reached.notified()
    }

    /// Replaces the limits after a grant.
    pub fn grant(&self, limits: RunBudget) {
        self.state.lock().limits = limits;
    }

    /// Stops the run at the reached limit.
    pub fn refuse(&self) {
        self.state.lock().is_refused = true;
    }

    /// Stops the clock of the budget, and of those inside it, while its question is open.
    pub fn pause(&self) -> Pause<'_> {
        self.state.lock().pauses.push((Instant::now(), None));
        self.is_open.send_replace(true);
        Pause { grants: self }
    }

    /// Returns true while a question is open.
    pub(crate) fn is_paused(&self) -> bool {
        *self.is_open.borrow()
    }

    /// Waits until no question is open.
    pub(crate) async fn wait_for_end_of_pause(&self) {
        // The sender is part of the grants, so it outlives the wait.
        let _ = self.is_open.subscribe().wait_for(|is_open| !is_open).await;
    }

    /// Returns beginning and end of the questions. The open one ends `now`.
    pub(crate) fn pauses(&self, now: Instant) -> Vec<(Instant, Instant)> {
        self.state.lock().pauses.iter().map(|(begin, end)| (*begin, end.unwrap_or(now))).collect()
    }
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        if let Some((_, end)) = self.grants.state.lock().pauses.last_mut() {
            end.get_or_insert_with(Instant::now);
        }
        self.grants.is_open.send_replace(false);
    }
}
