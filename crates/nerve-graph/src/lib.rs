//! Graphs: steps that run in the order of their dependencies. A step can run another graph. [`session`] holds the nodes and graphs
//! that a name refers to.
//!
//! Planning (`plan`) is pure. One dispatcher (`run`) starts the steps that are ready and collects their results.

#![warn(missing_docs)]

pub mod compat;
pub mod context;
pub mod diagram;
pub mod event;
pub mod executable;
pub mod file;
pub mod function;
pub mod gate;
pub mod journal;
pub mod policy;
pub mod session;
pub mod step;
pub mod template;
pub mod trace;

mod attempt;
mod budget_question;
mod call_stack;
mod execution;
mod flow;
mod plan;
mod retry;
mod run;
mod run_journal;
mod step_report;
mod step_run;
mod step_start;
mod validation;

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use nerve_node::NodeHandle;
use nerve_node::budget::{RunBudget, RunUsage};
use nerve_node::error::EngineError;
use nerve_node::execution::panic_message;
use nerve_node::upstream::StepIndex;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use self::context::RunContext;
use self::event::StepEventStream;
use self::executable::{Executable, Target};
use self::plan::Plan;
pub use self::policy::OnFailure;
use self::step::{Scope, Step, Until};
use crate::session::Session;
use crate::trace::TraceStatus;

/// Steps that run in the order of their dependencies.
///
/// ```
/// use std::sync::Arc;
/// use nerve_graph::{Graph, context::RunContext, step::Step};
/// use nerve_graph::function::FunctionNode;
/// use nerve_graph::session::Session;
/// use serde_json::json;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let double = Arc::new(FunctionNode::new("double", |context| {
///     Ok(json!(context.input.as_i64().unwrap_or_default() * 2))
/// }));
/// let mut graph = Graph::new("pipeline");
/// graph.add_step(double.clone(), Step::new("a").input(1)).unwrap();
/// let b = Step::new("b").depends_on(["a"]).input_fn(|upstream| upstream.get("a").cloned().unwrap_or_default());
/// graph.add_step(double, b).unwrap();
/// let run = graph.run(&RunContext::new(&Session::new("demo"))).await;
/// assert_eq!(json!(run.results), json!({"a": 2, "b": 4}));
/// # });
/// ```
#[derive(Debug, Clone)]
pub struct Graph {
    id: String,
    steps: Arc<Vec<Step>>,
    names: Arc<StepIndex>,
    max_parallel: usize,
    on_failure: OnFailure,
    budget: Option<RunBudget>,
    input: Option<InputFn>,
    until: Option<Until>,
    /// The order of the steps, once the graph was checked and until it changes: most graphs run more than once.
    plan: OnceLock<Arc<Plan>>,
    /// The graph file, as JSON.
    definition: Option<Arc<Value>>,
}

/// Completes or rejects the input of a run.
#[derive(Clone)]
struct InputFn(Arc<dyn Fn(Value) -> Result<Value, EngineError> + Send + Sync>);

impl InputFn {
    /// Applies the function. A panic fails the run, not its caller.
    fn complete(&self, input: Value) -> Result<Value, EngineError> {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (self.0)(input))).unwrap_or_else(|panic| {
            Err(EngineError::internal(format!("completing the input panicked: {}", panic_message(&*panic))))
        })
    }
}

impl std::fmt::Debug for InputFn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InputFn")
    }
}

/// The outcome of a run. Every run has one, also if it failed or was cancelled.
#[derive(Debug, Clone)]
pub struct GraphRun {
    /// Results of the completed steps by id. A nested graph has its own map of results.
    pub results: Map<String, Value>,
    /// Final status.
    pub status: TraceStatus,
    /// Reason for a failed or cancelled run.
    pub error: Option<EngineError>,
    /// Resources the run used.
    pub usage: RunUsage,
}

impl Graph {
    /// Creates a graph without steps, which runs one step at a time.
    pub fn new(id: impl Into<String>) -> Graph {
        Graph {
            id: id.into(),
            steps: Arc::default(),
            names: Arc::default(),
            max_parallel: 1,
            on_failure: OnFailure::default(),
            budget: None,
            input: None,
            until: None,
            plan: OnceLock::new(),
            definition: None,
        }
    }

    /// Adds a step that executes a node, another graph or a gate.
    ///
    /// # Errors
    /// AlreadyExists: the graph has a step of that id.
    pub fn add_step(
        &mut self,
        target: impl Into<Executable>,
        mut step: Step,
    ) -> Result<&mut Graph, EngineError> {
        let target = target.into();
        step.node = target.node_name().into();
        step.target = Target::Executable(target);
        self.add(step)
    }

    /// Adds a step that runs on the session's node named `node`, which is looked up when the step starts.
    ///
    /// # Errors
    /// See [`Graph::add_step`].
    pub fn add_step_ref(&mut self, node: &str, mut step: Step) -> Result<&mut Graph, EngineError> {
        step.node = node.into();
        step.target = Target::Name(Arc::clone(&step.node));
        self.add(step)
    }

    fn add(&mut self, step: Step) -> Result<&mut Graph, EngineError> {
        if self.names.contains_key(&step.id) {
            let message = format!("graph '{}' already has a step '{}'", self.id, step.id);
            return Err(EngineError::already_exists(message).hint("use another step id"));
        }
        let index = self.steps.len() as u32;
        Arc::make_mut(&mut self.names).insert(Arc::clone(&step.id), index);
        self.plan.take();
        Arc::make_mut(&mut self.steps).push(step);
        Ok(self)
    }

    /// Makes each of these steps depend on its predecessor.
    ///
    /// # Errors
    /// NotFound: the graph has no step of that id.
    pub fn chain<'a>(&mut self, ids: impl IntoIterator<Item = &'a str>) -> Result<&mut Graph, EngineError> {
        self.plan.take();
        let mut before: Option<Arc<str>> = None;
        for id in ids {
            let Some(index) = self.names.get(id) else {
                let message = format!("graph '{}' has no step '{id}'", self.id);
                return Err(EngineError::not_found(message).hint("add the step first"));
            };
            let step = &mut Arc::make_mut(&mut self.steps)[*index as usize];
            if let Some(before) = before.replace(Arc::clone(&step.id))
                && !step.depends_on.contains(&before)
            {
                step.depends_on.push(before);
            }
        }
        Ok(self)
    }

    /// Limits the number of concurrent steps; at least 1, the default.
    pub fn set_max_parallel(&mut self, steps: usize) -> &mut Graph {
        self.max_parallel = steps.max(1);
        self
    }

    /// Sets the policy for independent steps when one step fails.
    pub fn set_on_failure(&mut self, on_failure: OnFailure) -> &mut Graph {
        self.on_failure = on_failure;
        self
    }

    /// Limits the resources of a run. Usage counts toward the context's budget, too.
    pub fn set_budget(&mut self, budget: RunBudget) -> &mut Graph {
        self.plan.take();
        self.budget = Some(budget);
        self
    }

    /// Sets a function that completes or rejects the input of a run.
    pub fn set_input(
        &mut self,
        complete: impl Fn(Value) -> Result<Value, EngineError> + Send + Sync + 'static,
    ) -> &mut Graph {
        self.input = Some(InputFn(Arc::new(complete)));
        self
    }

    /// Repeats all steps until the condition holds for their results, which become the results of the run. In round N a step's path
    /// is `id#N`. The run fails after `max_rounds` rounds.
    pub fn set_until(
        &mut self,
        condition: impl Fn(&Scope<'_>) -> Result<bool, EngineError> + Send + Sync + 'static,
        max_rounds: u32,
    ) -> &mut Graph {
        self.plan.take();
        self.until = Some(Until { condition: Arc::new(condition), max_rounds });
        self
    }

    /// Returns the graph with its definition, a graph file as JSON.
    #[must_use]
    pub fn with_definition(mut self, definition: Value) -> Graph {
        self.definition = Some(Arc::new(definition));
        self
    }

    /// Returns the graph file the graph was compiled from, as JSON.
    pub fn definition(&self) -> Option<&Value> {
        self.definition.as_deref()
    }

    /// Returns the problems of the graph; empty if it can run. Nodes that only the session knows are checked when their steps
    /// start.
    pub fn validate(&self) -> Vec<String> {
        self.check(&|_| None).err().unwrap_or_default()
    }

    /// Returns the problems of the graph as [`Graph::validate`] does, with names resolved in a session: this also finds steps that would
    /// share a stateful node.
    pub fn validate_in(&self, session: &Session) -> Vec<String> {
        self.check(&|name| session.get(name)).err().unwrap_or_default()
    }

    /// Returns the ids of all steps in an order they can run in. Ties are broken by the order in which steps were added.
    ///
    /// # Errors
    /// InvalidRequest: the graph is invalid.
    pub fn execution_order(&self) -> Result<Vec<String>, EngineError> {
        let plan = self.check(&|_| None).map_err(|problems| self.invalid(&problems))?;
        let order = plan.order().unwrap_or_default();
        Ok(order.into_iter().map(|step| self.steps[step as usize].id.to_string()).collect())
    }

    /// Returns a step by its id.
    pub fn get_step(&self, id: &str) -> Option<&Step> {
        self.steps.get(*self.names.get(id)? as usize)
    }

    /// Returns the ids of all steps in the order they were added.
    pub fn list_steps(&self) -> Vec<String> {
        self.steps.iter().map(|step| step.id.to_string()).collect()
    }

    /// Returns the number of steps.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Returns true if the graph has no steps.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Returns the graph's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the stateful nodes that the steps of this graph and of nested graphs hold directly, without duplicates.
    pub fn collect_persistent_nodes(&self) -> Vec<NodeHandle> {
        let mut nodes = Vec::new();
        // Iterative: graphs can be nested to any depth.
        let mut graphs = vec![self.clone()];
        // The same graph can be used by several steps.
        let mut seen = HashSet::new();
        while let Some(graph) = graphs.pop() {
            if !seen.insert(Arc::as_ptr(&graph.steps)) {
                continue;
            }
            for step in graph.steps.iter() {
                for target in step.targets() {
                    match target {
                        Target::Executable(Executable::Graph(inner)) => graphs.push(Graph::clone(inner)),
                        Target::Executable(Executable::Node(node))
                            if node.is_persistent()
                                && !nodes.iter().any(|known| Arc::ptr_eq(known, node)) =>
                        {
                            nodes.push(Arc::clone(node));
                        }
                        _ => {}
                    }
                }
            }
        }
        nodes
    }

    /// Runs the graph. See [`GraphRun`] for the outcome.
    pub async fn run(&self, context: &RunContext) -> GraphRun {
        run::run(self, context).await
    }

    /// Runs the graph in its own task and streams the events of its steps.
    ///
    /// Must be called from within a Tokio runtime.
    pub fn execute_stream(&self, context: RunContext) -> StepEventStream {
        let (sender, events) = mpsc::unbounded_channel();
        let outer = context.shared().observer.clone();
        let mut context = context.with_observer(Arc::new(move |event| {
            if let Some(outer) = &outer {
                outer(event.clone());
            }
            // The receiver was dropped: the run is being cancelled.
            let _ = sender.send(event);
        }));
        context.shared_mut().observes_chunks = true;
        let stop = context.turn.cancellation().child_token();
        let (graph, context) = (self.clone(), context.with_cancellation(stop.clone()));
        StepEventStream::new(events, stop, async move { graph.run(&context).await })
    }

    /// Interrupts the stateful nodes of the graph.
    pub async fn interrupt(&self) {
        // An interrupt fails if the node has stopped: then there is nothing to interrupt.
        let nodes = self.collect_persistent_nodes();
        futures_util::future::join_all(nodes.iter().map(|node| node.interrupt())).await;
    }

    fn invalid(&self, problems: &[String]) -> EngineError {
        let message = format!("invalid graph '{}': {}", self.id, problems.join("; "));
        EngineError::invalid_request(message).hint("check a graph file with `nerve graph validate`")
    }
}

impl Drop for Graph {
    /// Drops nested graphs iteratively: recursion would overflow the stack with thousands of levels.
    fn drop(&mut self) {
        if Arc::strong_count(&self.steps) > 1 {
            return;
        }
        let mut pending = vec![std::mem::take(&mut self.steps)];
        while let Some(steps) = pending.pop() {
            // Shared with another graph.
            let Some(steps) = Arc::into_inner(steps) else { continue };
            for step in &steps {
                for target in step.targets() {
                    if let Target::Executable(Executable::Graph(inner)) = target {
                        // Keeps the inner steps alive when their graph is dropped.
                        pending.push(Arc::clone(&inner.steps));
                    }
                }
            }
        }
    }
}

impl GraphRun {
    /// Creates the outcome of a run in which no step could start.
    fn failed(error: EngineError, usage: RunUsage) -> GraphRun {
        GraphRun { results: Map::new(), status: TraceStatus::Failed, error: Some(error), usage }
    }

    /// Returns the results of a completed run.
    ///
    /// # Errors
    /// The error of the run, with the results so far.
    pub fn into_result(self) -> Result<Map<String, Value>, EngineError> {
        match self.error {
            None => Ok(self.results),
            Some(error) => Err(error.with_partial(self.results)),
        }
    }
}
