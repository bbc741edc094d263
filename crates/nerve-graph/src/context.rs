//! The context of a run: the part that all steps share, and the context of the current turn.

use std::sync::Arc;
use std::time::Duration;

use crate::trace::{StepTrace, Tracer};
use nerve_host::clock::Clock;
use nerve_node::budget::RunBudget;
use nerve_node::context::{ChunkSink, TurnContext};
use nerve_node::error::EngineError;
use nerve_node::telemetry::{Telemetry, TraceContext};
use nerve_node::upstream::UpstreamResults;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::call_stack::GraphStack;
use super::event::{Observer, StepEvent, StepEventKind};
use super::executable::Executable;
use super::gate::open_gates::OpenGates;
use super::journal::{Journal, ReplayState, StepReplay};
use super::run_journal::RunJournal;

/// Everything a graph or one of its steps needs to run. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RunContext {
    /// Input, limits, cancellation and output sink of the current execution.
    pub turn: TurnContext,
    /// Path of the running step. `None` outside of a step, and if nothing records it.
    pub step: Option<Arc<str>>,
    /// Key of the step's result in the journal; 0 before the step has one.
    pub(crate) journal_key: u64,
    shared: Arc<SharedContext>,
}

/// Finds a node or a graph by its name.
pub(crate) type Lookup = Arc<dyn Fn(&str) -> Result<Executable, EngineError> + Send + Sync>;

/// The part of the context that all steps of a run share.
#[derive(Clone)]
pub(crate) struct SharedContext {
    lookup: Lookup,
    pub(crate) tracer: Option<Tracer>,
    /// Receiver of the events of steps.
    pub(crate) observer: Option<Observer>,
    pub(crate) journal: Option<RunJournal>,
    pub(crate) gates: Option<OpenGates>,
    /// The graphs that enclose the current one.
    pub(crate) stack: Option<Arc<GraphStack>>,
    /// True if the observer also receives the pieces of unfinished answers.
    pub(crate) observes_chunks: bool,
    /// True if the caller has already begun the span of the outermost graph.
    pub(crate) has_span: bool,
    pub(crate) clock: Clock,
}

impl RunContext {
    /// Creates a context without input and limits. `turn` is the context of turns, and `lookup` finds the nodes of steps.
    pub(crate) fn with_lookup(turn: TurnContext, lookup: Lookup) -> RunContext {
        let shared = SharedContext {
            lookup,
            tracer: None,
            observer: None,
            journal: None,
            gates: None,
            stack: None,
            observes_chunks: false,
            has_span: false,
            clock: Clock::start(),
        };
        RunContext { turn, step: None, journal_key: 0, shared: Arc::new(shared) }
    }

    /// Sets the input.
    #[must_use]
    pub fn with_input(self, input: impl Into<Value>) -> RunContext {
        self.map_turn(|turn| turn.with_input(input))
    }

    /// Sets a time limit.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> RunContext {
        self.map_turn(|turn| turn.with_timeout(timeout))
    }

    /// Sets a budget. Usage before this call does not count.
    #[must_use]
    pub fn with_budget(self, budget: RunBudget) -> RunContext {
        self.map_turn(|turn| turn.with_budget(budget))
    }

    /// Sets the token that cancels the run.
    #[must_use]
    pub fn with_cancellation(self, cancellation: CancellationToken) -> RunContext {
        self.map_turn(|turn| turn.with_cancellation(cancellation))
    }

    /// Sends the pieces of unfinished answers to `chunks` as they arrive.
    #[must_use]
    pub fn with_chunks(self, chunks: ChunkSink) -> RunContext {
        self.map_turn(|turn| turn.with_chunks(chunks))
    }

    /// Reports spans to `telemetry`, inside `parent` if given.
    #[must_use]
    pub fn with_telemetry(self, telemetry: Telemetry, parent: Option<Arc<TraceContext>>) -> RunContext {
        self.map_turn(|turn| turn.with_telemetry(telemetry, parent))
    }

    /// Records a trace of the steps in `tracer`. Without it, no step trace is recorded.
    #[must_use]
    pub fn with_trace(mut self, tracer: Tracer) -> RunContext {
        self.shared_mut().tracer = Some(tracer);
        self
    }

    /// Sends all step events to `observer`.
    #[must_use]
    pub fn with_observer(mut self, observer: Observer) -> RunContext {
        self.shared_mut().observer = Some(observer);
        self
    }

    /// Declares that the caller has already begun the span of the outermost graph.
    #[must_use]
    pub fn with_own_span(mut self) -> RunContext {
        self.shared_mut().has_span = true;
        self
    }

    /// Sets the gates, whose questions can be answered there.
    #[must_use]
    pub fn with_gates(mut self, gates: OpenGates) -> RunContext {
        self.shared_mut().gates = Some(gates);
        self
    }

    /// Records the run in a journal. Steps with results in `replay` do not run again.
    #[must_use]
    pub fn with_journal(mut self, journal: Journal, replay: Option<ReplayState>) -> RunContext {
        self.shared_mut().journal = Some(RunJournal::new(journal, replay));
        self
    }

    /// Returns the node or graph of that name in the session.
    ///
    /// # Errors
    /// NotFound; the hint lists the existing nodes.
    pub fn find(&self, name: &str) -> Result<Executable, EngineError> {
        (self.shared.lookup)(name)
    }

    /// Returns the receiver of step events, if there is one.
    pub fn observer(&self) -> Option<&Observer> {
        self.shared.observer.as_ref()
    }

    /// Returns the tracer, if a trace is recorded.
    pub fn trace(&self) -> Option<&Tracer> {
        self.shared.tracer.as_ref()
    }

    /// Adds a step to the trace, if one is recorded.
    pub fn record_step(&self, step: StepTrace) {
        if let Some(tracer) = &self.shared.tracer {
            tracer.record(step);
        }
    }

    /// Returns the context for a step of the running graph. The caller sets its path and key.
    pub(crate) fn for_step(&self, upstream: UpstreamResults) -> RunContext {
        RunContext {
            turn: self.turn.for_step(upstream),
            step: self.step.clone(),
            journal_key: 0,
            shared: Arc::clone(&self.shared),
        }
    }

    /// Returns the context with a pool of its own, whose usage also counts toward the current one.
    #[must_use]
    pub(crate) fn with_subtotal(self) -> RunContext {
        self.map_turn(|turn| {
            let pool = turn.pool().subtotal();
            turn.with_pool(pool)
        })
    }

    /// Returns the context with its turn replaced by `change`.
    #[must_use]
    pub(crate) fn map_turn(mut self, change: impl FnOnce(TurnContext) -> TurnContext) -> RunContext {
        self.turn = change(self.turn);
        self
    }

    /// Returns the part that all steps of a run share.
    pub(crate) fn shared(&self) -> &SharedContext {
        &self.shared
    }

    /// Returns the shared part for modification, copied if necessary.
    pub(crate) fn shared_mut(&mut self) -> &mut SharedContext {
        Arc::make_mut(&mut self.shared)
    }
}

impl SharedContext {
    /// Returns true if something records the times and results of steps.
    pub(crate) fn is_watched(&self) -> bool {
        self.observer.is_some() || self.tracer.is_some() || self.journal.is_some()
    }

    /// Returns the earlier state of a step with this path and key, if the run was resumed.
    pub(crate) fn replay(&self, step: &str, key: u64) -> Option<&StepReplay> {
        self.journal.as_ref()?.replay(step, key)
    }

    /// Reports an event of a step to the observer, if there is one. `hint`: that of an error.
    pub(crate) fn notify(
        &self,
        step: &Arc<str>,
        node: &Arc<str>,
        kind: StepEventKind,
        data: Value,
        hint: Option<String>,
    ) {
        let Some(observer) = &self.observer else { return };
        let (step, node, at) = (Arc::clone(step), Arc::clone(node), self.clock.now());
        observer(StepEvent { kind, step, node, data, hint, at });
    }
}

impl std::fmt::Debug for SharedContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedContext").finish_non_exhaustive()
    }
}
