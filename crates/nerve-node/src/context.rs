//! The context of a turn: its input and its limits.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nerve_agent::parse::ParserKind;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::NodeHandle;
use crate::budget::{Checkpoint, RunBudget, RunUsage};
use crate::cancellation;
use crate::client_origin::ClientOrigin;
use crate::dialog_policy::DialogPolicy;
use crate::error::EngineError;
use crate::pool::RunPool;
use crate::telemetry::{Telemetry, TraceContext};
use crate::upstream::UpstreamResults;

/// Receives the chunks of a growing answer. Must not block.
pub type ChunkSink = Arc<dyn Fn(&str) + Send + Sync>;

/// Looks up a node by its name. Fails if there is no such node.
pub type NodeLookup = Arc<dyn Fn(&str) -> Result<NodeHandle, EngineError> + Send + Sync>;

/// Everything a node needs for one execution. Cheap to clone.
///
/// Graphs run in a `RunContext`, which contains one of these.
#[derive(Clone)]
pub struct TurnContext {
    /// Input of the node.
    pub input: Value,
    /// Results of earlier steps.
    pub upstream: UpstreamResults,
    /// Parser for this execution [default: the node's parser].
    pub parser: Option<ParserKind>,
    /// Behaviour at a dialog of the agent.
    pub at_dialog: DialogPolicy,
    /// Time limit of this execution [default: the node's limit].
    pub timeout: Option<Duration>,
    /// Span of this execution.
    pub span: Option<Arc<TraceContext>>,
    /// Counts the usage.
    pool: RunPool,
    cancellation: CancellationToken,
    /// The client that cancelled this execution.
    canceller: Arc<OnceLock<ClientOrigin>>,
    chunks: Option<ChunkSink>,
    telemetry: Telemetry,
    lookup: Option<NodeLookup>,
}

impl TurnContext {
    /// Creates a context without input and limits.
    pub fn new() -> TurnContext {
        TurnContext {
            input: Value::Null,
            upstream: UpstreamResults::default(),
            parser: None,
            at_dialog: DialogPolicy::default(),
            timeout: None,
            span: None,
            pool: RunPool::new(None, None, None),
            cancellation: CancellationToken::new(),
            canceller: Arc::default(),
            chunks: None,
            telemetry: Telemetry::default(),
            lookup: None,
        }
    }

    /// Sets the input.
    #[must_use]
    pub fn with_input(mut self, input: impl Into<Value>) -> TurnContext {
        self.input = input.into();
        self
    }

    /// Sets the parser.
    #[must_use]
    pub fn with_parser(mut self, parser: ParserKind) -> TurnContext {
        self.parser = Some(parser);
        self
    }

    /// Sets a time limit.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> TurnContext {
        self.timeout = Some(timeout);
        self
    }

    /// Sets a budget. Earlier usage does not count.
    #[must_use]
    pub fn with_budget(mut self, budget: RunBudget) -> TurnContext {
        self.pool = RunPool::new(Some(budget), None, None);
        self
    }

    /// Adds the budget of the step at a path inside the current one: usage counts toward both, and either can stop the run.
    #[must_use]
    pub fn with_step_budget(mut self, budget: RunBudget, step: Option<Arc<str>>) -> TurnContext {
        self.pool = RunPool::of_step(budget, step, self.pool);
        self
    }

    /// Sets the token that cancels this execution.
    #[must_use]
    pub fn with_cancellation(mut self, cancellation: CancellationToken) -> TurnContext {
        self.cancellation = cancellation;
        self
    }

    /// Sets the cell that receives the client that cancels this execution.
    #[must_use]
    pub fn with_canceller(mut self, canceller: Arc<OnceLock<ClientOrigin>>) -> TurnContext {
        self.canceller = canceller;
        self
    }

    /// Returns the client that cancelled this execution; this process if none did.
    pub(crate) fn canceller(&self) -> ClientOrigin {
        self.canceller.get().cloned().unwrap_or_default()
    }

    /// Sends the chunks of a growing answer to `chunks`.
    #[must_use]
    pub fn with_chunks(mut self, chunks: ChunkSink) -> TurnContext {
        self.chunks = Some(chunks);
        self
    }

    /// Discards the chunks of a growing answer.
    #[must_use]
    pub(crate) fn without_chunks(mut self) -> TurnContext {
        self.chunks = None;
        self
    }

    /// Sets the telemetry settings and the span around this execution.
    #[must_use]
    pub fn with_telemetry(mut self, telemetry: Telemetry, parent: Option<Arc<TraceContext>>) -> TurnContext {
        self.telemetry = telemetry;
        self.span = parent;
        self
    }

    /// Sets the lookup of the nodes that a model uses as tools.
    #[must_use]
    pub fn with_lookup(mut self, lookup: NodeLookup) -> TurnContext {
        self.lookup = Some(lookup);
        self
    }

    /// Counts usage in `pool`.
    #[must_use]
    pub fn with_pool(mut self, pool: RunPool) -> TurnContext {
        self.pool = pool;
        self
    }

    /// Returns the context for a step: without the input, which can be large, and without parser, dialog policy
    /// and time limit.
    pub fn for_step(&self, upstream: UpstreamResults) -> TurnContext {
        TurnContext {
            input: Value::Null,
            upstream,
            parser: None,
            at_dialog: DialogPolicy::default(),
            timeout: None,
            span: self.span.clone(),
            pool: self.pool.clone(),
            cancellation: self.cancellation.clone(),
            canceller: self.canceller.clone(),
            chunks: self.chunks.clone(),
            telemetry: self.telemetry,
            lookup: self.lookup.clone(),
        }
    }

    /// Returns the node of that name, for example a model's tool.
    ///
    /// # Errors
    /// NotFound; InvalidRequest: the name belongs to something else, such as a graph.
    pub(crate) fn find_node(&self, name: &str) -> Result<NodeHandle, EngineError> {
        match &self.lookup {
            Some(lookup) => lookup(name),
            None => Err(EngineError::not_found(format!("no node '{name}'"))
                .hint("the context has no session to look it up in")),
        }
    }

    /// Returns the settings for spans.
    pub fn telemetry(&self) -> Telemetry {
        self.telemetry
    }

    /// Returns the span of this execution, to be passed on to other programs.
    pub fn trace_context(&self) -> Option<&Arc<TraceContext>> {
        self.span.as_ref()
    }

    /// Returns the innermost budget.
    pub fn budget(&self) -> Option<&RunBudget> {
        self.pool.nearest_full_pool().budget()
    }

    /// Returns the usage of the innermost budget.
    pub fn usage(&self) -> &RunUsage {
        self.pool.nearest_full_pool().usage()
    }

    /// Returns the token that cancels this execution.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.cancellation
    }

    /// Returns the receiver of chunks, if any.
    pub fn chunks(&self) -> Option<&ChunkSink> {
        self.chunks.as_ref()
    }

    /// Checks that the execution was not cancelled.
    ///
    /// # Errors
    /// Cancelled.
    pub fn check_cancelled(&self) -> Result<(), EngineError> {
        cancellation::check(&self.cancellation)
    }

    /// Checks that no budget is exceeded, neither the innermost one nor those around it.
    ///
    /// # Errors
    /// Budget, with the exceeded budget and its usage.
    pub fn check_budget(&self) -> Result<(), EngineError> {
        self.pool.check(Checkpoint::BeforeStep)
    }

    /// Counts tokens toward all budgets.
    pub fn add_tokens(&self, tokens: u64) {
        self.pool.add_tokens(tokens);
    }

    /// Counts a model API call and its cost toward all budgets.
    pub fn add_api_call(&self, cost_usd: f64) {
        self.pool.add_api_calls(1, cost_usd);
    }

    /// Counts a cost toward all budgets.
    pub(crate) fn add_cost(&self, dollars: f64) {
        self.pool.add_cost(dollars);
    }

    /// Returns the pool in which usage counts.
    pub fn pool(&self) -> &RunPool {
        &self.pool
    }
}

impl Default for TurnContext {
    fn default() -> TurnContext {
        TurnContext::new()
    }
}

impl std::fmt::Debug for TurnContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TurnContext")
            .field("input", &self.input)
            .field("parser", &self.parser)
            .field("timeout", &self.timeout)
            .field("budget", &self.budget())
            .finish_non_exhaustive()
    }
}
