//! The state of a node whose turns run in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nerve_host::clock::MAX_TIMEOUT;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use crate::cancellation::{INTERRUPT_TIMEOUT, interrupt_timeout_error, wait_timeout_error};
use crate::command::{EventKind, NodeRef, StateName};
use crate::error::{EngineError, ErrorKind};
use crate::events::Publisher;

/// The state of a node: ready, busy while turns run, stopping, stopped. Publishes its changes.
#[derive(Debug)]
pub(crate) struct TurnState {
    pub(crate) node: NodeRef,
    pub(crate) events: Publisher,
    evidence: Evidence,
    state: watch::Sender<StateName>,
    /// Number of turns begun.
    turns: AtomicU64,
    /// Number of turns that run now.
    running: AtomicU64,
    interrupt: Notify,
}

/// The evidence that the node reports for its states.
#[derive(Debug)]
pub(crate) struct Evidence {
    pub(crate) busy: &'static str,
    pub(crate) ready: &'static str,
}

/// A running turn. The node is ready again when its last turn is dropped, however it ends.
#[derive(Debug)]
pub(crate) struct RunningTurn {
    /// Number of the turn, from 1.
    pub(crate) number: u64,
    state: Arc<TurnState>,
}

impl TurnState {
    /// Creates the state of a ready node.
    pub(crate) fn new(node: NodeRef, events: Publisher, evidence: Evidence) -> Arc<TurnState> {
        Arc::new(TurnState {
            node,
            events,
            evidence,
            state: watch::Sender::new(StateName::Ready),
            turns: AtomicU64::new(0),
            running: AtomicU64::new(0),
            interrupt: Notify::new(),
        })
    }

    pub(crate) fn current(&self) -> StateName {
        *self.state.borrow()
    }

    /// Returns the number of turns begun.
    pub(crate) fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    /// Begins a turn.
    ///
    /// # Errors
    /// NodeStopped.
    pub(crate) fn begin_turn(self: &Arc<TurnState>) -> Result<RunningTurn, EngineError> {
        let mut is_stopped = false;
        let has_started = self.state.send_if_modified(|state| {
            is_stopped = !matches!(state, StateName::Ready | StateName::Busy);
            if !is_stopped {
                self.running.fetch_add(1, Ordering::Relaxed);
            }
            replace_if(state, &[StateName::Ready], StateName::Busy)
        });
        if is_stopped {
            return Err(self.stopped_error());
        }
        if has_started {
            self.publish(EventKind::NodeBusy { evidence: self.evidence.busy.to_string() });
        }
        let number = self.turns.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(RunningTurn { number, state: Arc::clone(self) })
    }

    /// Returns a future that completes with the next interrupt. Enable it before the turn begins, so that a busy node can always be
    /// interrupted.
    pub(crate) fn interrupted(&self) -> Notified<'_> {
        self.interrupt.notified()
    }

    /// Completes when the node is stopped during a turn.
    pub(crate) async fn stopping(&self) {
        // An error means that the node is gone.
        let _ = self.state.subscribe().wait_for(|state| *state != StateName::Busy).await;
    }

    /// Interrupts the running turns. Returns when the node is not busy with them any more.
    ///
    /// # Errors
    /// Timeout: they did not end in time.
    pub(crate) async fn interrupt(&self) -> Result<(), EngineError> {
        let mut state = self.state.subscribe();
        self.interrupt.notify_waiters();
        if *state.borrow() != StateName::Busy {
            return Ok(());
        }
        // Any change counts: the next turn may begin at once. A closed channel means that the node is gone.
        match timeout(INTERRUPT_TIMEOUT, state.changed()).await {
            Ok(_) => Ok(()),
            Err(_) => Err(interrupt_timeout_error(&self.node.node)),
        }
    }

    /// Waits until the node is in one of `states`. Returns at once if it is.
    ///
    /// # Errors
    /// Timeout; NodeStopped if no such state can be reached any more.
    pub(crate) async fn wait(
        &self,
        states: &[StateName],
        limit: Option<Duration>,
    ) -> Result<StateName, EngineError> {
        let mut state = self.state.subscribe();
        let reached = async {
            let found = state.wait_for(|state| states.contains(state) || *state == StateName::Stopped).await;
            found.map_or(StateName::Stopped, |state| *state)
        };
        let state = match limit {
            Some(limit) => timeout(limit.min(MAX_TIMEOUT), reached)
                .await
                .map_err(|_| self.wait_timeout_error(states, limit))?,
            None => reached.await,
        };
        if states.contains(&state) { Ok(state) } else { Err(self.stopped_error()) }
    }

    /// Begins to stop the node: running turns end, and no other begins.
    pub(crate) fn begin_stop(&self) {
        let living = [StateName::Ready, StateName::Busy];
        self.state.send_if_modified(|state| replace_if(state, &living, StateName::Stopping));
    }

    /// Marks the node stopped. The caller waited until no turn runs.
    pub(crate) fn end_stop(&self, reason: &str) {
        self.state.send_replace(StateName::Stopped);
        self.publish(EventKind::NodeStopped { reason: reason.to_string() });
    }

    /// Publishes an event of the node.
    pub(crate) fn publish(&self, event: EventKind) {
        self.events.publish(Some(&self.node), event);
    }

    /// Creates an error that names the node.
    pub(crate) fn error(&self, kind: ErrorKind, what: &str) -> EngineError {
        EngineError::new(kind, format!("node '{}': {what}", self.node.node))
    }

    fn stopped_error(&self) -> EngineError {
        self.error(ErrorKind::NodeStopped, "the node is stopped")
    }

    fn wait_timeout_error(&self, states: &[StateName], limit: Duration) -> EngineError {
        let now = self.current();
        let evidence = if now == StateName::Ready { self.evidence.ready } else { self.evidence.busy };
        wait_timeout_error(&self.node.node, now, states, (limit, evidence.to_string()))
    }
}

impl Drop for RunningTurn {
    fn drop(&mut self) {
        let inner = &self.state;
        let is_ready = inner.state.send_if_modified(|state| {
            let is_last = inner.running.fetch_sub(1, Ordering::Relaxed) == 1;
            is_last && replace_if(state, &[StateName::Busy], StateName::Ready)
        });
        if is_ready {
            inner.publish(EventKind::NodeReady { evidence: inner.evidence.ready.to_string() });
        }
    }
}

/// Replaces the state if it is one of `old`. Returns true if it was.
fn replace_if(state: &mut StateName, old: &[StateName], new: StateName) -> bool {
    let is_old = old.contains(state);
    if is_old {
        *state = new;
    }
    is_old
}
