//! A run of this server: its state, its journal, its gates and its events.

use std::sync::atomic::{AtomicBool, Ordering};

use nerve_api::RunIds;
use nerve_api::event::EventKind;
use nerve_api::reply::{RunEnded, RunInfo, RunStep};
use nerve_api::value::{RunStatus, StepState};
use nerve_graph::event::{StepEvent, StepEventKind};
use nerve_graph::gate::open_gates::OpenGates;
use nerve_graph::journal::{Journal, JournalRecord};
use nerve_graph::trace::ExecutionTrace;
use nerve_host::clock::Clock;
use nerve_node::error::EngineError;
use nerve_node::events::Publisher;
use nerve_types::TsNs;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::state::{RunState, text};

/// A run of this server.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) id: String,
    pub(crate) graph: String,
    pub(crate) cancellation: CancellationToken,
    pub(crate) gates: OpenGates,
    session: String,
    /// Present while the run is active.
    journal: Mutex<Option<Journal>>,
    events: Publisher,
    clock: Clock,
    state: Mutex<RunState>,
    /// Time of the end.
    ended: watch::Sender<Option<TsNs>>,
    /// Set if the server shut down before the run had ended. Such a run can be resumed.
    interrupted: AtomicBool,
}

/// The outcome of a run.
#[derive(Debug)]
pub(crate) struct RunEnd {
    pub(crate) status: RunStatus,
    pub(crate) tokens: u64,
    /// Results of completed steps.
    pub(crate) results: Map<String, Value>,
    /// Reason of a failed or cancelled run.
    pub(crate) error: Option<EngineError>,
    pub(crate) trace: Option<Box<ExecutionTrace>>,
}

impl Run {
    /// Creates a run that is about to begin.
    pub(crate) fn new(info: RunInfo, clock: Clock, events: Publisher) -> Run {
        Run {
            id: info.run_id.clone(),
            graph: info.graph_id.clone(),
            cancellation: CancellationToken::new(),
            gates: OpenGates::new(),
            session: info.session_id.clone(),
            journal: Mutex::default(),
            events,
            clock,
            state: Mutex::new(RunState::new(info)),
            ended: watch::Sender::new(None),
            interrupted: false.into(),
        }
    }

    /// Begins the run, which has `total` steps.
    pub(crate) fn begin(&self, total: usize, journal: Option<Journal>) {
        let path = journal.as_ref().map(|journal| journal.path().display().to_string());
        self.state.lock().begin(total, path);
        *self.journal.lock() = journal;
        // The server may have begun to shut down before there was a journal.
        if self.was_interrupted() {
            self.journal().iter().for_each(Journal::seal);
        }
    }

    /// Interrupts the run because the server shuts down. It can be resumed.
    pub(crate) fn interrupt(&self, cancels: bool) {
        self.interrupted.store(true, Ordering::Release);
        // A step whose node stops with the server has not failed.
        if let Some(journal) = self.journal() {
            journal.record(&JournalRecord::Paused { at: self.clock.now() });
            journal.seal();
        }
        if cancels {
            self.cancellation.cancel();
        }
    }

    /// Ends a run that never began.
    pub(crate) fn abandon(&self) {
        self.ended.send_replace(Some(self.clock.now()));
    }

    /// Returns the state of the run.
    pub(crate) fn info(&self) -> RunInfo {
        let mut info = self.state.lock().info().clone();
        info.gates = self.gates.waiting();
        let is_running = |step: &RunStep| {
            matches!(step.state, StepState::Running | StepState::Queued)
                && !info.gates.iter().any(|gate| is_in(&gate.step_id, &step.step_id))
        };
        if info.status == RunStatus::Running && !info.gates.is_empty() && !info.steps.iter().any(is_running) {
            info.status = RunStatus::Waiting;
        }
        info.faults.extend(
            self.journal().as_ref().and_then(Journal::fault).map(|fault| format!("journal: {fault}")),
        );
        info
    }

    /// Returns the journal while the run is active.
    pub(crate) fn journal(&self) -> Option<Journal> {
        self.journal.lock().clone()
    }

    /// Returns true until the run has ended.
    pub(crate) fn is_active(&self) -> bool {
        self.end_time().is_none()
    }

    /// Returns the time of the end.
    pub(crate) fn end_time(&self) -> Option<TsNs> {
        *self.ended.borrow()
    }

    pub(crate) fn was_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Acquire)
    }

    /// Waits for the end of the run.
    pub(crate) async fn wait(&self) {
        // The sender is a field of the run, so it cannot be dropped first.
        let _ = self.ended.subscribe().wait_for(Option::is_some).await;
    }

    /// Records an event of a step and publishes it.
    pub(crate) fn observe(&self, event: &StepEvent) {
        let (step_id, node_id) = (event.step.to_string(), event.node.to_string());
        let run = self.ids();
        let kind = {
            let mut state = self.state.lock();
            state.observe(event);
            match event.kind {
                StepEventKind::Chunk => return,
                StepEventKind::Asked => {
                    let Some(gate) = self.gates.waiting().into_iter().find(|gate| gate.step_id == step_id)
                    else {
                        return;
                    };
                    EventKind::GateAsked { run, gate }
                }
                StepEventKind::Answered { by } => {
                    EventKind::GateAnswered { run, step_id, choice: text(&event.data), by }
                }
                StepEventKind::Start { queued } => {
                    EventKind::StepStarted { run, step_id, node_id, attempt: 1, queued }
                }
                StepEventKind::Complete { how, ms, tokens } => EventKind::StepCompleted {
                    run,
                    step_id,
                    node_id,
                    state: how.into(),
                    duration_ms: ms,
                    tokens_used: tokens,
                },
                StepEventKind::Error { error_type } | StepEventKind::Retry { error_type, .. } => {
                    EventKind::StepFailed {
                        run,
                        step_id,
                        node_id,
                        error: text(&event.data),
                        error_type,
                        hint: event.hint.clone(),
                        retry_in_ms: event.kind.retry_delay_ms(),
                    }
                }
            }
        };
        self.events.publish_in(&self.session, kind);
    }

    /// Publishes an event of this run.
    pub(crate) fn publish(&self, kind: impl FnOnce(RunIds) -> EventKind) {
        self.events.publish_in(&self.session, kind(self.ids()));
    }

    fn ids(&self) -> RunIds {
        RunIds { run_id: self.id.clone(), graph_id: self.graph.clone() }
    }

    /// Ends the run, notifies its waiters and returns the run with its results.
    pub(crate) fn end(&self, end: RunEnd) -> (RunEnded, Option<EngineError>) {
        let RunEnd { status, tokens, results, error, trace } = end;
        let now = self.clock.now();
        let ms = self.state.lock().end(status, now, tokens, error.as_ref());
        let info = self.info();
        // Others can resume the run from here on.
        self.journal.lock().take();
        // The journal is gone, but its faults are still reported.
        self.state.lock().set_faults(info.faults.clone());
        // Published before the end, so that waiters have received the event.
        self.publish(|run| EventKind::GraphCompleted {
            run,
            status,
            duration_ms: ms,
            tokens_used: tokens,
            error: info.error.clone(),
            error_type: info.error_type,
            hint: info.hint.clone(),
        });
        self.ended.send_replace(Some(now));
        let ended = RunEnded {
            graph_id: info.graph_id,
            run_id: info.run_id,
            status: info.status,
            results,
            started_at: info.started_at,
            ended_at: info.ended_at,
            tokens_used: info.tokens_used,
            journal: info.journal,
            faults: info.faults,
            trace: trace.map(|trace| trace.to_dict()),
        };
        (ended, error)
    }
}

/// Returns true if `path` is the step or one of its items, rounds or inner steps.
fn is_in(path: &str, step: &str) -> bool {
    path.strip_prefix(step).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '[', '#']))
}
