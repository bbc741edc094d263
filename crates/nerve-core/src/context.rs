//! The execution context of a node: its input, earlier results, and the limits of its run.

use std::sync::Arc;
use std::time::Duration;

use nerve_agent::parse::ParserKind;
use serde_json::Value;

use crate::budget::{Budget, Pool, ResourceUsage};
use crate::cancellation::CancellationToken;
use crate::error::EngineError;
use crate::graph::call_stack::GraphStack;
use crate::graph::event::Observer;
use crate::graph::journal::{Journal, ReplayState};
use crate::graph::upstream::Upstream;
use crate::node::gate::Gates;
use crate::session::Session;
use crate::telemetry::{Telemetry, TraceContext};
use crate::trace::{StepTrace, Tracer};
use nerve_host::clock::Clock;

/// Receives the chunks of a growing answer. Must not block.
pub type ChunkSink = Arc<dyn Fn(&str) + Send + Sync>;

/// Everything a node needs to execute. Cheap to clone.
#[derive(Clone)]
pub struct ExecutionContext {
    /// Input of the node.
    pub input: Value,
    /// Results of earlier steps.
    pub upstream: Upstream,
    /// Parser for this execution [default: the node's parser].
    pub parser: Option<ParserKind>,
    /// Time limit of this execution [default: the node's limit].
    pub timeout: Option<Duration>,
    /// Path of the running step, if it is needed.
    pub(crate) step: Option<Arc<str>>,
    /// Key of the step's result in the journal.
    pub(crate) key: u64,
    /// Span of this execution.
    pub(crate) span: Option<Arc<TraceContext>>,
    /// Usage counts here.
    pool: Pool,
    run: Arc<Run>,
}

/// The part of the context that all steps of a graph share.
#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) session: Session,
    pub(crate) cancellation: CancellationToken,
    pub(crate) tracer: Option<Tracer>,
    pub(crate) chunks: Option<ChunkSink>,
    pub(crate) observer: Option<Observer>,
    pub(crate) journal: Option<(Journal, Option<Arc<ReplayState>>)>,
    pub(crate) gates: Option<Gates>,
    pub(crate) stack: Option<Arc<GraphStack>>,
    /// True if the observer also receives chunks.
    pub(crate) observes_chunks: bool,
    pub(crate) telemetry: Telemetry,
    /// True if the running graph already has a span.
    pub(crate) has_span: bool,
    pub(crate) clock: Clock,
}

impl ExecutionContext {
    /// Creates a context with a session, without input and limits.
    pub fn new(session: &Session) -> ExecutionContext {
        let run = Run {
            session: session.clone(),
            cancellation: CancellationToken::new(),
            tracer: None,
            chunks: None,
            observer: None,
            journal: None,
            gates: None,
            stack: None,
            observes_chunks: false,
            telemetry: Telemetry::default(),
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

    /// Sets the input.
    #[must_use]
    pub fn with_input(mut self, input: impl Into<Value>) -> ExecutionContext {
        self.input = input.into();
        self
    }

    /// Sets the earlier results.
    #[must_use]
    pub fn with_upstream(mut self, upstream: Upstream) -> ExecutionContext {
        self.upstream = upstream;
        self
    }

    /// Sets the parser.
    #[must_use]
    pub fn with_parser(mut self, parser: ParserKind) -> ExecutionContext {
        self.parser = Some(parser);
        self
    }

    /// Sets a time limit.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> ExecutionContext {
        self.timeout = Some(timeout);
        self
    }

    /// Sets a budget. Earlier usage does not count.
    #[must_use]
    pub fn with_budget(mut self, budget: Budget) -> ExecutionContext {
        self.pool = Pool::new(Some(budget), None);
        self
    }

    /// Adds a budget inside the current one: usage counts toward both, and either can stop the run.
    #[must_use]
    pub fn with_sub_budget(mut self, budget: Budget) -> ExecutionContext {
        self.pool = Pool::new(Some(budget), Some(self.pool));
        self
    }

    /// Sets the token that cancels this execution.
    #[must_use]
    pub fn with_cancellation(mut self, cancellation: CancellationToken) -> ExecutionContext {
        self.run_mut().cancellation = cancellation;
        self
    }

    /// Records a trace of the steps in `tracer`. Nothing is traced otherwise.
    #[must_use]
    pub fn with_trace(mut self, tracer: Tracer) -> ExecutionContext {
        self.run_mut().tracer = Some(tracer);
        self
    }

    /// Sends the chunks of a growing answer to `chunks`.
    #[must_use]
    pub fn with_chunks(mut self, chunks: ChunkSink) -> ExecutionContext {
        self.run_mut().chunks = Some(chunks);
        self
    }

    /// Sets how spans are described, and the span around this execution.
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

    /// Returns the settings for spans.
    pub fn telemetry(&self) -> Telemetry {
        self.run.telemetry
    }

    /// Returns the span of this execution, to be passed on to other programs.
    pub fn trace_context(&self) -> Option<&Arc<TraceContext>> {
        self.span.as_ref()
    }

    /// Returns the session, where nodes are looked up by name.
    pub fn session(&self) -> &Session {
        &self.run.session
    }

    /// Returns the innermost budget.
    pub fn budget(&self) -> Option<&Budget> {
        self.pool.budgeted().budget()
    }

    /// Returns the usage of the innermost budget.
    pub fn usage(&self) -> &ResourceUsage {
        self.pool.budgeted().usage()
    }

    /// Returns the token that cancels this execution.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.run.cancellation
    }

    /// Returns the tracer, if a trace is recorded.
    pub fn trace(&self) -> Option<&Tracer> {
        self.run.tracer.as_ref()
    }

    /// Returns the receiver of chunks, if any.
    pub fn chunks(&self) -> Option<&ChunkSink> {
        self.run.chunks.as_ref()
    }

    /// Checks that the run was not cancelled.
    ///
    /// # Errors
    /// Cancelled.
    pub fn check_cancelled(&self) -> Result<(), EngineError> {
        self.run.cancellation.check()
    }

    /// Checks that no budget is exceeded, neither the innermost one nor those around it.
    ///
    /// # Errors
    /// Budget, with the exceeded budget and its usage.
    pub fn check_budget(&self) -> Result<(), EngineError> {
        self.pool.check(true)
    }

    /// Counts tokens toward all budgets.
    pub fn add_tokens(&self, tokens: u64) {
        self.pool.add_tokens(tokens);
    }

    /// Counts a model API call and its cost toward all budgets.
    pub fn add_api_call(&self, cost_dollars: f64) {
        self.pool.add_api_call(cost_dollars);
    }

    /// Adds a step to the trace, if one is recorded.
    pub fn record_step(&self, step: StepTrace) {
        if let Some(tracer) = &self.run.tracer {
            tracer.record(step);
        }
    }

    /// Sends all step events to `observer`.
    #[must_use]
    pub fn with_observer(mut self, observer: Observer) -> ExecutionContext {
        self.run_mut().observer = Some(observer);
        self
    }

    /// Sets how gates ask their questions.
    #[must_use]
    pub fn with_gates(mut self, gates: Gates) -> ExecutionContext {
        self.run_mut().gates = Some(gates);
        self
    }

    /// Records the run in a journal. Steps with results in `replay` do not run again.
    #[must_use]
    pub fn with_journal(mut self, journal: Journal, replay: Option<ReplayState>) -> ExecutionContext {
        self.run_mut().journal = Some((journal, replay.map(Arc::new)));
        self
    }

    /// Returns the context for a step of the running graph: without the graph's input, which can be large, and without its time
    /// limit.
    pub(crate) fn for_step(&self, upstream: Upstream) -> ExecutionContext {
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

    /// Counts usage in `pool`.
    #[must_use]
    pub(crate) fn with_pool(mut self, pool: Pool) -> ExecutionContext {
        self.pool = pool;
        self
    }

    pub(crate) fn run(&self) -> &Run {
        &self.run
    }

    /// Returns the shared part for modification, copied if necessary.
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
