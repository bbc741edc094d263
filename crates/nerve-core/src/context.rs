//! What a node is given to work with: its input, what came before it, and the limits of its run (seed node-refactoring §4.3).

use std::sync::Arc;
use std::time::Duration;

use nerve_term::parse::ParserKind;
use serde_json::Value;

use crate::budget::{Budget, Pool, ResourceUsage};
use crate::cancellation::CancellationToken;
use crate::clock::Clock;
use crate::error::EngineError;
use crate::graph::event::Observer;
use crate::graph::journal::{Journal, Past};
use crate::graph::call_stack::Nest;
use crate::graph::upstream::Upstream;
use crate::node::gate::Gates;
use crate::session::Session;
use crate::telemetry::{Telemetry, TraceContext};
use crate::trace::{StepTrace, Tracer};

/// Takes pieces of an answer while it grows. Must not wait.
pub type ChunkSink = Arc<dyn Fn(&str) + Send + Sync>;

/// What a node is given to work with. Cheap to clone.
#[derive(Clone)]
pub struct ExecutionContext {
    /// What the node is to work on.
    pub input: Value,
    /// Results of the steps before this one.
    pub upstream: Upstream,
    /// Parser of this execution; the node's own if `None`.
    pub parser: Option<ParserKind>,
    /// Limit of this execution; the node's own if `None`.
    pub timeout: Option<Duration>,
    /// Path of the step that runs, where anybody wants to know.
    pub(crate) step: Option<Arc<str>>,
    /// What the step was given, as its journal knows it.
    pub(crate) key: u64,
    /// The span that what is done here belongs to.
    pub(crate) span: Option<Arc<TraceContext>>,
    /// What is used counts here.
    pool: Pool,
    run: Arc<Run>,
}

/// What all steps of a graph have in common.
#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) session: Session,
    pub(crate) cancellation: CancellationToken,
    pub(crate) tracer: Option<Tracer>,
    pub(crate) chunks: Option<ChunkSink>,
    pub(crate) observer: Option<Observer>,
    pub(crate) journal: Option<(Journal, Option<Arc<Past>>)>,
    pub(crate) gates: Option<Gates>,
    pub(crate) nest: Option<Arc<Nest>>,
    /// The observer is told pieces of answers too.
    pub(crate) tells_chunks: bool,
    pub(crate) telemetry: Telemetry,
    /// The graph that is run has a span already.
    pub(crate) has_span: bool,
    pub(crate) clock: Clock,
}

impl ExecutionContext {
    /// Nothing but a session: no input, no limits.
    pub fn new(session: &Session) -> ExecutionContext {
        let run = Run {
            session: session.clone(),
            cancellation: CancellationToken::new(),
            tracer: None,
            chunks: None,
            observer: None,
            journal: None,
            gates: None,
            nest: None,
            tells_chunks: false,
            telemetry: Telemetry::off(),
            has_span: false,
            clock: Clock::start(),
        };
        ExecutionContext {
            input: Value::Null,
            upstream: Upstream::default(),
            parser: None,
            timeout: None,
            step: None,
            key: 0,
            span: None,
            pool: Pool::new(None, None),
            run: Arc::new(run),
        }
    }

    /// The same with another input.
    #[must_use]
    pub fn with_input(mut self, input: impl Into<Value>) -> ExecutionContext {
        self.input = input.into();
        self
    }

    /// The same with other results before it.
    #[must_use]
    pub fn with_upstream(mut self, upstream: Upstream) -> ExecutionContext {
        self.upstream = upstream;
        self
    }

    /// The same with a parser.
    #[must_use]
    pub fn with_parser(mut self, parser: ParserKind) -> ExecutionContext {
        self.parser = Some(parser);
        self
    }

    /// The same with a limit of time.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> ExecutionContext {
        self.timeout = Some(timeout);
        self
    }

    /// The same with a budget of its own; what was used before does not count.
    #[must_use]
    pub fn with_budget(mut self, budget: Budget) -> ExecutionContext {
        self.pool = Pool::new(Some(budget), None);
        self
    }

    /// The same with a budget inside the one it has: what is used counts toward both, and either stops it.
    #[must_use]
    pub fn with_sub_budget(mut self, budget: Budget) -> ExecutionContext {
        self.pool = Pool::new(Some(budget), Some(self.pool));
        self
    }

    /// The same, stopped by `cancellation`.
    #[must_use]
    pub fn with_cancellation(mut self, cancellation: CancellationToken) -> ExecutionContext {
        self.run_mut().cancellation = cancellation;
        self
    }

    /// The same, and what steps do is kept in `tracer` (decision D12: nothing is traced that nobody asked for).
    #[must_use]
    pub fn with_trace(mut self, tracer: Tracer) -> ExecutionContext {
        self.run_mut().tracer = Some(tracer);
        self
    }

    /// The same, and pieces of an answer go to `chunks` while it grows.
    #[must_use]
    pub fn with_chunks(mut self, chunks: ChunkSink) -> ExecutionContext {
        self.run_mut().chunks = Some(chunks);
        self
    }

    /// The same, and what is done is told to `telemetry`, as part of `parent` if there is one.
    #[must_use]
    pub fn with_telemetry(
        mut self,
        telemetry: Telemetry,
        parent: Option<Arc<TraceContext>>,
    ) -> ExecutionContext {
        self.run_mut().telemetry = telemetry;
        self.span = parent;
        self
    }

    /// Where what is done is told.
    pub fn telemetry(&self) -> &Telemetry {
        &self.run.telemetry
    }

    /// The span that what is done here belongs to: for those who pass it on to other programs.
    pub fn trace_context(&self) -> Option<&Arc<TraceContext>> {
        self.span.as_ref()
    }

    /// Where nodes are found by name.
    pub fn session(&self) -> &Session {
        &self.run.session
    }

    /// The innermost budget.
    pub fn budget(&self) -> Option<&Budget> {
        self.pool.budgeted().budget()
    }

    /// What has been used of it.
    pub fn usage(&self) -> &ResourceUsage {
        self.pool.budgeted().usage()
    }

    /// What stops this execution.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.run.cancellation
    }

    /// The trace, if one is kept.
    pub fn trace(&self) -> Option<&Tracer> {
        self.run.tracer.as_ref()
    }

    /// Where pieces of an answer go, if anybody wants them.
    pub fn chunks(&self) -> Option<&ChunkSink> {
        self.run.chunks.as_ref()
    }

    /// Goes on unless the run was cancelled.
    ///
    /// # Errors
    /// Cancelled.
    pub fn check_cancelled(&self) -> Result<(), EngineError> {
        self.run.cancellation.check()
    }

    /// Goes on unless a budget is used up: this one or one that it counts toward.
    ///
    /// # Errors
    /// Budget, with what was used of which.
    pub fn check_budget(&self) -> Result<(), EngineError> {
        self.pool.check(true)
    }

    /// Counts tokens toward all budgets.
    pub fn add_tokens(&self, tokens: u64) {
        self.pool.add_tokens(tokens);
    }

    /// Counts a call of a model's API and what it cost toward all budgets.
    pub fn add_api_call(&self, cost_dollars: f64) {
        self.pool.add_api_call(cost_dollars);
    }

    /// Adds to the trace, if one is kept.
    pub fn record_step(&self, step: StepTrace) {
        if let Some(tracer) = &self.run.tracer {
            tracer.record(step);
        }
    }

    /// The same, and everything that happens to steps is told to `observer`.
    #[must_use]
    pub fn with_observer(mut self, observer: Observer) -> ExecutionContext {
        self.run_mut().observer = Some(observer);
        self
    }

    /// The same, and gates are asked through `gates`.
    #[must_use]
    pub fn with_gates(mut self, gates: Gates) -> ExecutionContext {
        self.run_mut().gates = Some(gates);
        self
    }

    /// The same, and what steps do is written to a journal; what `past` has is not done again.
    #[must_use]
    pub fn with_journal(mut self, journal: Journal, past: Option<Past>) -> ExecutionContext {
        self.run_mut().journal = Some((journal, past.map(Arc::new)));
        self
    }

    /// For a step of the graph that runs here: without the graph's input, which can be large, and its limit of time.
    pub(crate) fn of_step(&self, upstream: Upstream) -> ExecutionContext {
        ExecutionContext {
            input: Value::Null,
            upstream,
            parser: None,
            timeout: None,
            step: self.step.clone(),
            key: 0,
            span: self.span.clone(),
            pool: self.pool.clone(),
            run: Arc::clone(&self.run),
        }
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The same, and what is used counts in `pool`.
    #[must_use]
    pub(crate) fn with_pool(mut self, pool: Pool) -> ExecutionContext {
        self.pool = pool;
        self
    }

    pub(crate) fn run(&self) -> &Run {
        &self.run
    }

    /// To change what the steps have in common; a copy of its own from here on.
    pub(crate) fn run_mut(&mut self) -> &mut Run {
        Arc::make_mut(&mut self.run)
    }
}

impl std::fmt::Debug for ExecutionContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExecutionContext")
            .field("input", &self.input)
            .field("parser", &self.parser)
            .field("timeout", &self.timeout)
            .field("budget", &self.budget())
            .finish_non_exhaustive()
    }
}
