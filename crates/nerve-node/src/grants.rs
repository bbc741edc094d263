//! Grants: the questions of a budget at its limits, and their answers.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::Instant;

use crate::budget::{Budget, BudgetLimit};

/// The questions of a budget at its limits, and their answers.
#[derive(Debug)]
pub struct Grants {
    /// Path of the graph whose budget it is; `None` for the outermost one.
    graph: Option<Arc<str>>,
    /// The limits that were granted so far, one entry for each grant. Locked while a question is open, so that one is open at most.
    pub granted: tokio::sync::Mutex<Vec<BudgetLimit>>,
    /// Notified when usage was added and a limit is reached.
    limit_reached: Notify,
    state: Mutex<GrantState>,
}

#[derive(Debug)]
struct GrantState {
    /// The limits, raised by grants.
    limits: Budget,
    is_refused: bool,
    /// Duration of the closed questions, and the start of the open one. Time limits do not count it.
    paused: Duration,
    paused_since: Option<Instant>,
}

/// Stops the clock of a budget until it is dropped.
#[derive(Debug)]
pub struct Pause<'a> {
    grants: &'a Grants,
}

impl Grants {
    pub(crate) fn new(limits: Budget, graph: Option<Arc<str>>) -> Grants {
        let state = GrantState { limits, is_refused: false, paused: Duration::ZERO, paused_since: None };
        Grants {
            graph,
            granted: tokio::sync::Mutex::default(),
            limit_reached: Notify::new(),
            state: Mutex::new(state),
        }
    }

    /// Returns the path of the graph whose budget it is; `None` for the outermost one.
    pub fn graph(&self) -> Option<&Arc<str>> {
        self.graph.as_ref()
    }

    /// Returns the current limits.
    pub(crate) fn limits(&self) -> Budget {
        self.state.lock().limits.clone()
    }

    pub(crate) fn is_refused(&self) -> bool {
        self.state.lock().is_refused
    }

    pub(crate) fn notify_limit(&self) {
        self.limit_reached.notify_one();
    }

    /// Waits for [`Grants::notify_limit`].
    pub(crate) fn wait_for_limit(&self) -> Notified<'_> {
        self.limit_reached.notified()
    }

    /// Replaces the limits after a grant.
    pub fn grant(&self, limits: Budget) {
        self.state.lock().limits = limits;
    }

    /// Stops the run at the reached limit.
    pub fn refuse(&self) {
        self.state.lock().is_refused = true;
    }

    /// Stops the clock of the budget while its question is open.
    pub fn pause(&self) -> Pause<'_> {
        self.state.lock().paused_since.get_or_insert_with(Instant::now);
        Pause { grants: self }
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.state.lock().paused_since.is_some()
    }

    pub(crate) fn paused(&self) -> Duration {
        let state = self.state.lock();
        state.paused + state.paused_since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        let mut state = self.grants.state.lock();
        if let Some(since) = state.paused_since.take() {
            state.paused += since.elapsed();
        }
    }
}
