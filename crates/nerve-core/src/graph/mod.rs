//! Graphs: steps in the order of their dependencies (seed node-refactoring §5.2). A graph is a node: graphs run in graphs.
//!
//! Planning (`plan`) is pure. Running is one dispatcher (`run`) that starts what is ready and takes in what has ended.

pub mod event;
pub mod file;
pub mod journal;
pub mod show;
pub mod step;
pub mod upstream;

pub(crate) mod attempt;
mod doing;
mod flow;
pub(crate) mod nest;
pub(crate) mod plan;
mod run;
mod validate;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::mpsc;

use self::event::StepEvents;
use self::step::{Step, Target};
use self::upstream::Names;
use crate::budget::{Budget, ResourceUsage};
use crate::context::ExecutionContext;
use crate::error::{EngineError, ErrorKind};
use crate::node::{Node, NodeFuture, NodeHandle};
use crate::session::Session;
use crate::trace::TraceStatus;

/// What becomes of steps that do not depend on one that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// They are cancelled, or not begun.
    #[default]
    Stop,
    /// They are run to their ends.
    Finish,
}

/// Steps in the order of their dependencies.
///
/// ```
/// use std::sync::Arc;
/// use nerve_core::context::ExecutionContext;
/// use nerve_core::graph::{Graph, step::Step};
/// use nerve_core::node::function::FunctionNode;
/// use nerve_core::session::Session;
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
/// let run = graph.run(&ExecutionContext::new(&Session::new("demo"))).await;
/// assert_eq!(json!(run.results), json!({"a": 2, "b": 4}));
/// # });
/// ```
#[derive(Debug, Clone)]
pub struct Graph {
    id: String,
    steps: Arc<Vec<Step>>,
    names: Arc<Names>,
    max_parallel: usize,
    on_failure: OnFailure,
    budget: Option<Budget>,
    input: Option<Input>,
    /// As a graph file has it.
    definition: Option<Arc<Value>>,
}

/// Makes a run's input of what it is given.
#[derive(Clone)]
struct Input(Arc<dyn Fn(Value) -> Result<Value, EngineError> + Send + Sync>);

impl Input {
    /// One that panics fails the run, not whoever runs it.
    fn complete(&self, given: Value) -> Result<Value, EngineError> {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (self.0)(given))).unwrap_or_else(|panic| {
            let message = format!("completing the input panicked: {}", attempt::words_of(&*panic));
            Err(EngineError::new(ErrorKind::Internal, message))
        })
    }
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Input")
    }
}

/// What came of a run. There is always one, whatever happened.
#[derive(Debug, Clone)]
pub struct GraphRun {
    /// Results of the steps that are done, by id; of a graph in it, its own results (decision D11).
    pub results: Map<String, Value>,
    /// How it ended.
    pub status: TraceStatus,
    /// Why it failed or was cancelled.
    pub error: Option<EngineError>,
    /// What it used.
    pub usage: ResourceUsage,
}

impl Graph {
    /// A graph without steps, one at a time.
    pub fn new(id: impl Into<String>) -> Graph {
        Graph {
            id: id.into(),
            steps: Arc::default(),
            names: Arc::default(),
            max_parallel: 1,
            on_failure: OnFailure::default(),
            budget: None,
            input: None,
            definition: None,
        }
    }

    /// Adds a step that `node` does.
    ///
    /// # Errors
    /// AlreadyExists: there is a step of that id.
    pub fn add_step(&mut self, node: NodeHandle, mut step: Step) -> Result<&mut Graph, EngineError> {
        step.node = node.id().into();
        step.target = Target::Node(node);
        self.add(step)
    }

    /// Adds a step that is done by whoever has the name `node` in the session when it begins.
    ///
    /// # Errors
    /// As [`Graph::add_step`].
    pub fn add_step_ref(&mut self, node: &str, mut step: Step) -> Result<&mut Graph, EngineError> {
        step.node = node.into();
        step.target = Target::Name(Arc::clone(&step.node));
        self.add(step)
    }

    fn add(&mut self, step: Step) -> Result<&mut Graph, EngineError> {
        if self.names.contains_key(&step.id) {
            let message = format!("graph '{}' has a step '{}' already", self.id, step.id);
            return Err(EngineError::new(ErrorKind::AlreadyExists, message).hint("take another step id"));
        }
        let place = self.steps.len() as u32;
        Arc::make_mut(&mut self.names).insert(Arc::clone(&step.id), place);
        Arc::make_mut(&mut self.steps).push(step);
        Ok(self)
    }

    /// Makes each of these steps depend on the one before it.
    ///
    /// # Errors
    /// NotFound: there is no step of that id.
    pub fn chain<'a>(&mut self, ids: impl IntoIterator<Item = &'a str>) -> Result<&mut Graph, EngineError> {
        let mut before: Option<Arc<str>> = None;
        for id in ids {
            let Some(place) = self.names.get(id) else {
                let message = format!("graph '{}' has no step '{id}'", self.id);
                return Err(EngineError::new(ErrorKind::NotFound, message).hint("add the step first"));
            };
            let step = &mut Arc::make_mut(&mut self.steps)[*place as usize];
            if let Some(before) = before.replace(Arc::clone(&step.id))
                && !step.depends_on.contains(&before)
            {
                step.depends_on.push(before);
            }
        }
        Ok(self)
    }

    /// So many steps at once; at least 1, which is what a new graph has.
    pub fn set_max_parallel(&mut self, steps: usize) -> &mut Graph {
        self.max_parallel = steps.max(1);
        self
    }

    /// What becomes of steps that do not depend on one that failed.
    pub fn set_on_failure(&mut self, on_failure: OnFailure) -> &mut Graph {
        self.on_failure = on_failure;
        self
    }

    /// What a run may use; counts toward the budget of the context too.
    pub fn set_budget(&mut self, budget: Budget) -> &mut Graph {
        self.budget = Some(budget);
        self
    }

    /// What a run is given goes through this first: it adds what is missing, or refuses it.
    pub fn set_input(
        &mut self,
        complete: impl Fn(Value) -> Result<Value, EngineError> + Send + Sync + 'static,
    ) -> &mut Graph {
        self.input = Some(Input(Arc::new(complete)));
        self
    }

    /// The same, made from this: a graph file as JSON.
    #[must_use]
    pub fn with_definition(mut self, definition: Value) -> Graph {
        self.definition = Some(Arc::new(definition));
        self
    }

    /// The graph file it was made from, as JSON.
    pub fn definition(&self) -> Option<&Value> {
        self.definition.as_deref()
    }

    /// What is wrong with it, in words; nothing if it can run. Steps that name a node that only the session knows are looked at
    /// when they begin.
    pub fn validate(&self) -> Vec<String> {
        self.check(None).err().unwrap_or_default()
    }

    /// As [`Graph::validate`], with the nodes of a session: two steps that would use one persistent node at once are found too.
    pub fn validate_in(&self, session: &Session) -> Vec<String> {
        self.check(Some(session)).err().unwrap_or_default()
    }

    /// Ids of all steps, each after what it depends on; of those that could come next, the one that was added first.
    ///
    /// # Errors
    /// InvalidRequest: it is not valid.
    pub fn execution_order(&self) -> Result<Vec<String>, EngineError> {
        let plan = self.check(None).map_err(|problems| self.invalid(&problems))?;
        let order = plan.order().unwrap_or_default();
        Ok(order.into_iter().map(|step| self.steps[step as usize].id.to_string()).collect())
    }

    /// One step.
    pub fn get_step(&self, id: &str) -> Option<&Step> {
        self.steps.get(*self.names.get(id)? as usize)
    }

    /// Ids of all steps, as they were added.
    pub fn list_steps(&self) -> Vec<String> {
        self.steps.iter().map(|step| step.id.to_string()).collect()
    }

    /// How many steps it has.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// It has no steps.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Persistent nodes that its steps hold directly, those of graphs in it included; each once.
    pub fn collect_persistent_nodes(&self) -> Vec<NodeHandle> {
        let mut found = Vec::new();
        // Not by recursion: graphs can be nested to any depth.
        let mut graphs = vec![self.clone()];
        // One graph can be several steps, in graphs that are several steps again.
        let mut seen = HashSet::new();
        while let Some(graph) = graphs.pop() {
            if !seen.insert(Arc::as_ptr(&graph.steps)) {
                continue;
            }
            for step in graph.steps.iter() {
                let fallback = step.error_policy.as_ref().and_then(|policy| policy.fallback_node.as_ref());
                for target in std::iter::once(&step.target).chain(fallback) {
                    let Target::Node(node) = target else { continue };
                    if let Some(inner) = node.as_graph() {
                        graphs.push(inner.clone());
                    } else if node.persistent() && !found.iter().any(|known| Arc::ptr_eq(known, node)) {
                        found.push(Arc::clone(node));
                    }
                }
            }
        }
        found
    }

    /// Runs it. There is always a result; see [`GraphRun`].
    pub async fn run(&self, context: &ExecutionContext) -> GraphRun {
        run::run(self, context).await
    }

    /// Runs it in a task of its own and tells what happens to its steps.
    ///
    /// Must be called on a runtime.
    pub fn execute_stream(&self, context: ExecutionContext) -> StepEvents {
        let (sender, events) = mpsc::unbounded_channel();
        let before = context.run().observer.clone();
        let mut context = context.with_observer(Arc::new(move |event| {
            if let Some(before) = &before {
                before(event.clone());
            }
            // Nobody listens: the run is being cancelled.
            let _ = sender.send(event);
        }));
        context.run_mut().tells_chunks = true;
        let stop = context.cancellation().child();
        let (graph, context) = (self.clone(), context.with_cancellation(stop.clone()));
        StepEvents::new(events, stop, async move { graph.run(&context).await })
    }

    /// Interrupts what its persistent nodes do now.
    pub async fn interrupt(&self) {
        for node in self.collect_persistent_nodes() {
            // Stopped already: nothing to interrupt.
            let _ = node.interrupt().await;
        }
    }

    fn invalid(&self, problems: &[String]) -> EngineError {
        let message = format!("graph '{}' is not valid: {}", self.id, problems.join("; "));
        EngineError::new(ErrorKind::InvalidRequest, message)
            .hint("`nerve server graph validate` says the same of a file")
    }
}

impl Drop for Graph {
    /// One after the other: thousands of graphs in each other must not need a stack of thousands.
    fn drop(&mut self) {
        if Arc::strong_count(&self.steps) > 1 {
            return;
        }
        let mut left = vec![std::mem::take(&mut self.steps)];
        while let Some(steps) = left.pop() {
            // Somebody else has it too.
            let Some(steps) = Arc::into_inner(steps) else { continue };
            for step in &steps {
                let fallback = step.error_policy.as_ref().and_then(|policy| policy.fallback_node.as_ref());
                for target in std::iter::once(&step.target).chain(fallback) {
                    if let Target::Node(node) = target
                        && let Some(inner) = node.as_graph()
                    {
                        // Held here, they do not go with the graph that has them.
                        left.push(Arc::clone(&inner.steps));
                    }
                }
            }
        }
    }
}

impl GraphRun {
    /// The results of a run that completed.
    ///
    /// # Errors
    /// That of one that did not; it carries the results that are there.
    pub fn into_result(self) -> Result<Map<String, Value>, EngineError> {
        match self.error {
            None => Ok(self.results),
            Some(error) => Err(error.with_partial(self.results)),
        }
    }
}

impl Node for Graph {
    fn id(&self) -> &str {
        &self.id
    }

    fn kind(&self) -> &'static str {
        "graph"
    }

    fn execute<'a>(&'a self, context: &'a ExecutionContext) -> NodeFuture<'a> {
        Box::pin(async move { Ok(Value::Object(self.run(context).await.into_result()?)) })
    }

    /// Its steps are bounded, each by itself.
    fn cancel_grace(&self) -> Duration {
        Duration::MAX
    }

    fn interrupt(&self) -> NodeFuture<'_, ()> {
        Box::pin(async {
            Graph::interrupt(self).await;
            Ok(())
        })
    }

    fn as_graph(&self) -> Option<&Graph> {
        Some(self)
    }
}
