//! The context of a run: the part that all steps of a graph share, and the context of the current turn.

use std::sync::Arc;
use std::time::Duration;

use nerve_host::clock::Clock;
use serde_json::Value;

use super::call_stack::GraphStack;
use super::event::Observer;
use super::gate::Gates;
use super::journal::{Journal, ReplayState};
use crate::session::Session;
use nerve_node::budget::Budget;
use nerve_node::cancellation::CancellationToken;
use nerve_node::context::{ChunkSink, TurnContext};
use nerve_node::telemetry::{Telemetry, TraceContext};
use nerve_node::trace::{StepTrace, Tracer};
use nerve_node::upstream::Upstream;

/// Everything a graph or one of its steps needs to run. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RunContext {
    /// Input, limits and output of the graph or the step.
    pub turn: TurnContext,
    /// Path of the running step, if it is needed.
    pub step: Option<Arc<str>>,
    /// Key of the step's result in the journal.
    pub(crate) key: u64,
    run: Arc<Run>,
}

/// The part of the context that all steps of a graph share.
#[derive(Clone)]
pub struct Run {
    pub(crate) session: Session,
    pub(crate) tracer: Option<Tracer>,
    /// Receiver of the events of steps.
    pub observer: Option<Observer>,
    pub(crate) journal: Option<(Journal, Option<Arc<ReplayState>>)>,
    pub(crate) gates: Option<Gates>,
    pub(crate) stack: Option<Arc<GraphStack>>,
    /// True if the observer also receives chunks.
    pub(crate) observes_chunks: bool,
    /// True if the running graph already has a span.
    pub has_span: bool,
    pub(crate) clock: Clock,
}

impl RunContext {
    /// Creates a context with a session, without input and limits.
    pub fn new(session: &Session) -> RunContext {
        let run = Run {
            session: session.clone(),
            tracer: None,
            observer: None,
            journal: None,
            gates: None,
            stack: None,
            observes_chunks: false,
            has_span: false,
            clock: Clock::start(),
        };
        RunContext { turn: session.turn_context(), step: None, key: 0, run: Arc::new(run) }
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

    /// Sets a budget. Earlier usage does not count.
    #[must_use]
    pub fn with_budget(self, budget: Budget) -> RunContext {
        self.map_turn(|turn| turn.with_budget(budget))
    }

    /// Sets the token that cancels the run.
    #[must_use]
    pub fn with_cancellation(self, cancellation: CancellationToken) -> RunContext {
        self.map_turn(|turn| turn.with_cancellation(cancellation))
    }

    /// Sends the chunks of growing answers to `chunks`.
    #[must_use]
    pub fn with_chunks(self, chunks: ChunkSink) -> RunContext {
        self.map_turn(|turn| turn.with_chunks(chunks))
    }

    /// Reports spans to `telemetry`, inside `parent` if given.
    #[must_use]
    pub fn with_telemetry(self, telemetry: Telemetry, parent: Option<Arc<TraceContext>>) -> RunContext {
        self.map_turn(|turn| turn.with_telemetry(telemetry, parent))
    }

    /// Records a trace of the steps in `tracer`. Nothing is traced otherwise.
    #[must_use]
    pub fn with_trace(mut self, tracer: Tracer) -> RunContext {
        self.run_mut().tracer = Some(tracer);
        self
    }

    /// Sends all step events to `observer`.
    #[must_use]
    pub fn with_observer(mut self, observer: Observer) -> RunContext {
        self.run_mut().observer = Some(observer);
        self
    }

    /// Sets how gates ask their questions.
    #[must_use]
    pub fn with_gates(mut self, gates: Gates) -> RunContext {
        self.run_mut().gates = Some(gates);
        self
    }

    /// Records the run in a journal. Steps with results in `replay` do not run again.
    #[must_use]
    pub fn with_journal(mut self, journal: Journal, replay: Option<ReplayState>) -> RunContext {
        self.run_mut().journal = Some((journal, replay.map(Arc::new)));
        self
    }

    /// Returns the session, where nodes are looked up by name.
    pub fn session(&self) -> &Session {
        &self.run.session
    }

    /// Returns the tracer, if a trace is recorded.
    pub fn trace(&self) -> Option<&Tracer> {
        self.run.tracer.as_ref()
    }

    /// Adds a step to the trace, if one is recorded.
    pub fn record_step(&self, step: StepTrace) {
        if let Some(tracer) = &self.run.tracer {
            tracer.record(step);
        }
    }

    /// Returns the context for a step of the running graph.
    pub(crate) fn for_step(&self, upstream: Upstream) -> RunContext {
        RunContext {
            turn: self.turn.for_step(upstream),
            step: self.step.clone(),
            key: 0,
            run: Arc::clone(&self.run),
        }
    }

    /// Returns the context with a changed turn.
    #[must_use]
    pub(crate) fn map_turn(mut self, change: impl FnOnce(TurnContext) -> TurnContext) -> RunContext {
        self.turn = change(self.turn);
        self
    }

    /// Returns the part that all steps of a run share.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Returns the shared part for modification, copied if necessary.
    pub fn run_mut(&mut self) -> &mut Run {
        Arc::make_mut(&mut self.run)
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("session", &self.session.name()).finish_non_exhaustive()
    }
}
