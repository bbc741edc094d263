//! The state of a node whose turns run in this process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use nerve_api::event::EventKind;
use nerve_api::reply::{NodeExplanation, NodeInfo};
use nerve_api::request::NodeRef;
use nerve_api::value::{BlockKind, NodeState, SignalSource, StopCause};
use nerve_host::clock::MAX_TIMEOUT;
use nerve_types::TsNs;
use parking_lot::Mutex;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::audit_log::AuditLog;
use crate::cancellation::{INTERRUPT_TIMEOUT, cancelled_error, interrupt_timeout_error, wait_timeout_error};
use crate::dialog_answer::{DialogAnswer, check_dialog, no_dialog_error, resolve_choice};
use crate::dialog_policy::DialogPolicy;
use crate::error::{EngineError, ErrorKind};
use crate::events::Publisher;
use crate::usage_ledger::{ReachedLimit, UsageLedger};

/// States without a turn.
const IDLE: [NodeState; 2] = [NodeState::Ready, NodeState::Blocked];

/// The state of a node: ready or blocked by its budget, busy while turns run, stopping, stopped. Publishes its changes.
#[derive(Debug)]
pub struct TurnState {
    /// The node.
    pub node: NodeRef,
    /// Publishes its events.
    pub events: Publisher,
    evidence: StateEvidence,
    state: watch::Sender<NodeState>,
    /// Counts the usage of the node.
    pub ledger: UsageLedger,
    /// The reached limit of its budget.
    limit: Mutex<Option<ReachedLimit>>,
    /// The open dialog of a running turn.
    dialog: Mutex<Option<OpenDialog>>,
    /// Number of turns begun.
    turns: AtomicU64,
    /// Number of turns that run now.
    running: AtomicU64,
    interrupt: Notify,
}

/// The evidence that the node reports for its states.
#[derive(Debug)]
pub struct StateEvidence {
    /// Evidence of a busy node, with its source.
    pub busy: (SignalSource, &'static str),
    /// Evidence of a ready node, with its source.
    pub ready: (SignalSource, &'static str),
}

/// A question of an agent, for which its turn waits.
#[derive(Debug, Clone)]
pub struct OpenDialog {
    /// Id, different from that of other dialogs.
    pub id: String,
    /// The choices, at least one.
    pub choices: Vec<String>,
    /// The question, in one line.
    pub question: String,
}

/// A running turn. When the last one is dropped, the node becomes ready, or blocked at a limit.
#[derive(Debug)]
pub struct TurnGuard {
    /// Number of the turn, from 1.
    pub number: u64,
    state: Arc<TurnState>,
}

impl TurnState {
    /// Creates the state of a ready node, or of one whose budget has reached a limit. Must be called on a runtime.
    pub fn new(
        node: NodeRef,
        events: Publisher,
        evidence: StateEvidence,
        ledger: UsageLedger,
    ) -> Arc<TurnState> {
        let limit = ledger.reached();
        let state = if limit.is_some() { NodeState::Blocked } else { NodeState::Ready };
        let state = Arc::new(TurnState {
            node,
            events,
            evidence,
            state: watch::Sender::new(state),
            ledger,
            limit: Mutex::new(limit),
            dialog: Mutex::default(),
            turns: AtomicU64::new(0),
            running: AtomicU64::new(0),
            interrupt: Notify::new(),
        });
        tokio::spawn(follow_budget(Arc::downgrade(&state), state.state.subscribe(), state.ledger.clone()));
        state
    }

    /// Returns the state.
    pub fn current(&self) -> NodeState {
        *self.state.borrow()
    }

    /// Returns the number of turns begun.
    pub fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    /// Begins a turn.
    ///
    /// # Errors
    /// NodeStopped.
    pub fn begin_turn(self: &Arc<TurnState>) -> Result<TurnGuard, EngineError> {
        let mut is_stopped = false;
        let has_started = self.state.send_if_modified(|state| {
            is_stopped = !matches!(state, NodeState::Ready | NodeState::Blocked | NodeState::Busy);
            if !is_stopped {
                self.running.fetch_add(1, Ordering::Relaxed);
            }
            replace_if(state, &IDLE, NodeState::Busy)
        });
        if is_stopped {
            return Err(self.stopped_error());
        }
        if has_started {
            self.publish(EventKind::NodeBusy { evidence: self.evidence.busy.1.to_string() });
        }
        let number = self.turns.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(TurnGuard { number, state: Arc::clone(self) })
    }

    /// Reads the limit of the budget again, and blocks or unblocks the node. A running turn continues.
    pub fn refresh_limit(&self) {
        let question = |limit: &Option<ReachedLimit>| limit.as_ref().map(ReachedLimit::question);
        self.enter_idle_state(&IDLE, "budget: no limit is reached", || {
            let reached = self.ledger.reached();
            let mut limit = self.limit.lock();
            let has_changed = question(&limit) != question(&reached);
            *limit = reached;
            // At the end of its turn, a node with a dialog is blocked by the limit.
            has_changed && self.dialog.lock().is_none()
        });
    }

    /// Waits for the answer to the question at a limit, if a prompt with this policy waits at dialogs and the node runs. Returns
    /// the deadline of the turn. For a prompt without its own time limit, the wait is unlimited and postpones `deadline`.
    ///
    /// # Errors
    /// Blocked, Budget, Cancelled.
    pub async fn await_budget(
        &self,
        policy: DialogPolicy,
        cancellation: &CancellationToken,
        deadline: Instant,
        has_own_limit: bool,
    ) -> Result<Instant, EngineError> {
        let began = Instant::now();
        let mut states = self.state.subscribe();
        while let Some(reached) = self.ledger.reached().filter(|_| !is_ending(&self.current())) {
            let error = reached.error(&self.node);
            if reached.offer.is_none() || policy != DialogPolicy::Wait {
                return Err(error);
            }
            tokio::select! {
                () = self.ledger.question_answered() => {}
                _ = states.wait_for(is_ending) => {}
                () = cancellation.cancelled() => return Err(cancelled_error()),
                () = sleep_until(deadline), if has_own_limit => return Err(error),
            }
        }
        Ok(if has_own_limit { deadline } else { deadline + began.elapsed() })
    }

    /// Answers the question at a limit.
    ///
    /// # Errors
    /// InvalidRequest (no question, no such choice); Budget: prompts fail at the limit.
    pub fn answer_budget(
        &self,
        answer: &DialogAnswer,
        now: TsNs,
        audit_log: &Mutex<AuditLog>,
    ) -> Result<(), EngineError> {
        let reached = self.ledger.reached().ok_or_else(|| no_dialog_error(&self.node.node))?;
        let choices = reached.choices();
        if choices.is_empty() {
            return Err(reached.error(&self.node));
        }
        check_dialog(&self.node, answer, &reached.dialog_id(), &choices)?;
        let picked = resolve_choice(&answer.choice, &choices)?;
        let choice = picked.and_then(|picked| choices.get(picked)).map(String::as_str);
        audit_log.lock().log_dialog(now, BlockKind::Budget.as_str(), choice, &answer.origin);
        self.ledger.answer(picked);
        self.refresh_limit();
        Ok(())
    }

    /// Opens a dialog of the running turn, which blocks the node, or closes it.
    pub fn set_dialog(&self, dialog: Option<OpenDialog>) {
        let event = match &dialog {
            Some(OpenDialog { choices, question, .. }) => EventKind::NodeBlocked {
                kind: BlockKind::Permission,
                choices: choices.clone(),
                evidence: question.clone(),
            },
            None => EventKind::NodeBusy { evidence: self.evidence.busy.1.to_string() },
        };
        let new = if dialog.is_some() { NodeState::Blocked } else { NodeState::Busy };
        let has_changed = self.state.send_if_modified(|state| {
            let had_dialog = std::mem::replace(&mut *self.dialog.lock(), dialog).is_some();
            (had_dialog || new == NodeState::Blocked)
                && replace_if(state, &[NodeState::Busy, NodeState::Blocked], new)
        });
        if has_changed {
            self.publish(event);
        }
    }

    /// Returns the open dialog of the running turn.
    pub fn dialog(&self) -> Option<OpenDialog> {
        self.dialog.lock().clone()
    }

    /// Waits until a dialog of a turn is open, and returns it.
    pub async fn dialog_opened(&self) -> OpenDialog {
        let mut states = self.state.subscribe();
        loop {
            if let Some(dialog) = self.dialog() {
                return dialog;
            }
            if states.changed().await.is_err() {
                std::future::pending().await
            }
        }
    }

    /// Explains the state. `screen`: the text of the node.
    pub fn explain(&self, info: NodeInfo, screen: String) -> NodeExplanation {
        let NodeInfo { node_id, state, metadata, .. } = info;
        let (source, evidence) = self.evidence();
        let reached = self.ledger.reached().filter(|_| state == NodeState::Blocked);
        let limit = reached.map(|reached| (reached.dialog_id(), reached.choices()));
        let dialog = self.dialog().map(|dialog| (dialog.id, dialog.choices)).or(limit);
        let (dialog_id, choices) = dialog.map_or((None, Vec::new()), |(id, choices)| (Some(id), choices));
        let (offset, turn) = (0, None);
        NodeExplanation {
            node_id,
            state,
            evidence,
            source,
            offset,
            choices,
            dialog_id,
            screen,
            turn,
            metadata,
        }
    }

    /// Returns what blocks the node.
    pub fn block_kind(&self) -> Option<&'static str> {
        let kind = if self.dialog.lock().is_some() { BlockKind::Permission } else { BlockKind::Budget };
        (self.current() == NodeState::Blocked).then_some(kind.as_str())
    }

    /// Publishes the limit at which the node was created.
    fn report_limit(&self) {
        let limit = self.limit.lock().clone();
        if let Some(limit) = limit.filter(|_| self.current() == NodeState::Blocked) {
            self.publish(blocked_event(&limit));
        }
    }

    /// Enters the state without a turn, and publishes it. `update` runs under the lock of the state, so that threads do not
    /// overwrite each other's changes. It returns true if the state must be computed again. Changes only the states in `old`.
    /// `ready_evidence`: the evidence that is published if the node becomes ready.
    fn enter_idle_state(&self, old: &[NodeState], ready_evidence: &str, update: impl FnOnce() -> bool) {
        let mut event = None;
        self.state.send_if_modified(|state| {
            let needs_update = update();
            let (idle, reported) = match self.limit.lock().as_ref() {
                Some(limit) => (NodeState::Blocked, blocked_event(limit)),
                None => (NodeState::Ready, EventKind::NodeReady { evidence: ready_evidence.to_string() }),
            };
            let has_entered = needs_update && replace_if(state, old, idle);
            event = has_entered.then_some(reported);
            has_entered
        });
        if let Some(event) = event {
            self.publish(event);
        }
    }

    /// Returns the evidence for the current state.
    pub fn evidence(&self) -> (SignalSource, String) {
        let state = self.current();
        if let (NodeState::Blocked, Some(dialog)) = (state, self.dialog()) {
            return (self.evidence.busy.0, dialog.question);
        }
        match (state, self.limit.lock().as_ref()) {
            (NodeState::Blocked, Some(limit)) => (SignalSource::Budget, limit.reason.clone()),
            (NodeState::Busy, _) => (self.evidence.busy.0, self.evidence.busy.1.to_string()),
            _ => (self.evidence.ready.0, self.evidence.ready.1.to_string()),
        }
    }

    /// Returns a future that completes with the next interrupt. Create it before the turn begins, so that a busy node can always be
    /// interrupted.
    pub fn interrupted(&self) -> Notified<'_> {
        self.interrupt.notified()
    }

    /// Completes when the node is stopped during a turn.
    pub async fn stopping(&self) {
        // An error means that the node is gone.
        let _ = self.state.subscribe().wait_for(is_ending).await;
    }

    /// Interrupts the running turns. Returns when the node is not busy with them any more.
    ///
    /// # Errors
    /// Timeout: they did not end in time.
    pub async fn interrupt(&self) -> Result<(), EngineError> {
        let mut state = self.state.subscribe();
        self.interrupt.notify_waiters();
        if *state.borrow() != NodeState::Busy {
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
    pub async fn wait(
        &self,
        states: &[NodeState],
        limit: Option<Duration>,
    ) -> Result<NodeState, EngineError> {
        let reached = await_state(self.state.subscribe(), |state| *state, states, limit).await;
        let state = reached.map_err(|limit| self.wait_timeout_error(states, limit))?;
        if states.contains(&state) { Ok(state) } else { Err(self.stopped_error()) }
    }

    /// Begins to stop the node: running turns end, and no other begins.
    pub fn begin_stop(&self) {
        let living = [NodeState::Ready, NodeState::Blocked, NodeState::Busy];
        self.state.send_if_modified(|state| replace_if(state, &living, NodeState::Stopping));
    }

    /// Marks the node stopped. The caller waited until no turn runs.
    pub fn end_stop(&self, reason: &str, cause: StopCause) {
        self.state.send_replace(NodeState::Stopped);
        self.publish(EventKind::NodeStopped { reason: reason.to_string(), cause });
    }

    /// Publishes an event of the node.
    pub fn publish(&self, event: EventKind) {
        self.events.publish(Some(&self.node), event);
    }

    /// Creates an error that names the node.
    pub fn error(&self, kind: ErrorKind, what: &str) -> EngineError {
        EngineError::new(kind, format!("node '{}': {what}", self.node.node))
    }

    fn stopped_error(&self) -> EngineError {
        self.error(ErrorKind::NodeStopped, "the node is stopped")
    }

    fn wait_timeout_error(&self, states: &[NodeState], limit: Duration) -> EngineError {
        let now = self.current();
        wait_timeout_error(&self.node.node, now, states, limit, self.evidence().1)
    }
}

impl Drop for TurnGuard {
    fn drop(&mut self) {
        let is_last = || self.state.running.fetch_sub(1, Ordering::Relaxed) == 1;
        self.state.enter_idle_state(&[NodeState::Busy], self.state.evidence.ready.1, is_last);
    }
}

/// Blocks the node while a limit of its budget is reached, until it stops.
async fn follow_budget(state: Weak<TurnState>, mut states: watch::Receiver<NodeState>, ledger: UsageLedger) {
    let mut changes = ledger.subscribe();
    if let Some(state) = state.upgrade() {
        state.report_limit();
    }
    while let Some(state) = state.upgrade() {
        state.refresh_limit();
        drop(state);
        tokio::select! {
            _ = changes.changed() => {}
            _ = states.wait_for(|state| *state == NodeState::Stopped) => return,
        }
    }
}

fn blocked_event(limit: &ReachedLimit) -> EventKind {
    let (kind, evidence) = (BlockKind::Budget, limit.reason.clone());
    EventKind::NodeBlocked { kind, choices: limit.choices(), evidence }
}

fn is_ending(state: &NodeState) -> bool {
    matches!(state, NodeState::Stopping | NodeState::Stopped)
}

/// Replaces the state if it is one of `old`. Returns true if it was.
fn replace_if(state: &mut NodeState, old: &[NodeState], new: NodeState) -> bool {
    let is_old = old.contains(state);
    if is_old {
        *state = new;
    }
    is_old
}

/// Waits until a state is one of `states` or Stopped, for at most `limit`, which is the error.
pub(crate) async fn await_state<T>(
    mut status: watch::Receiver<T>,
    name: impl Fn(&T) -> NodeState,
    states: &[NodeState],
    limit: Option<Duration>,
) -> Result<NodeState, Duration> {
    let is_reached = |state| states.contains(&state) || state == NodeState::Stopped;
    let reached = async {
        let result = status.wait_for(|status| is_reached(name(status))).await;
        result.map_or(NodeState::Stopped, |status| name(&status))
    };
    match limit {
        Some(limit) => timeout(limit.min(MAX_TIMEOUT), reached).await.map_err(|_| limit),
        None => Ok(reached.await),
    }
}
