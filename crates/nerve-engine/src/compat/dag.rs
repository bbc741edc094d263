//! DAGs and tasks as graphs and steps.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use nerve_types::TsNs;
use parking_lot::Mutex;
use serde_json::Value;

use nerve_graph::context::RunContext;
use nerve_graph::event::{StepEvent, StepEventKind};
use nerve_graph::function::FunctionNode;
use nerve_graph::step::Step;
use nerve_graph::trace::TraceStatus;
use nerve_graph::warn_deprecated;
use nerve_graph::{Graph, OnFailure};
use nerve_node::NodeFuture;
use nerve_node::context::TurnContext;
use nerve_node::error::{EngineError, ErrorKind};

type Execute = dyn Fn(TurnContext) -> NodeFuture<'static> + Send + Sync;
/// Callback with the id of a task that starts.
type OnStart = Arc<dyn Fn(&str) + Send + Sync>;
/// Callback with the id and result of a task that has ended.
type OnComplete = Arc<dyn Fn(&str, &TaskResult) + Send + Sync>;

/// A task with its dependencies.
#[derive(Clone)]
#[deprecated(note = "use node::function::FunctionNode and graph::step::Step")]
pub struct Task {
    /// Id, unique in its DAG.
    pub id: String,
    /// Ids of its dependencies.
    pub depends_on: Vec<String>,
    execute: Arc<Execute>,
}

/// Tasks that run in the order of their dependencies.
///
/// ```
/// # #![allow(deprecated)]
/// use nerve_engine::compat::{Dag, DagOptions, Task};
/// use nerve_graph::context::RunContext;
/// use nerve_graph::session::Session;
/// use serde_json::json;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let mut dag = Dag::new();
/// dag.add_task(Task::new("fetch", |_| async { Ok(json!("page")) })).unwrap();
/// let process = Task::new("process", |context| async move { Ok(context.upstream.get("fetch").cloned().unwrap_or_default()) });
/// dag.add_task(process.depends_on(["fetch"])).unwrap();
/// let results = dag.run(&RunContext::new(&Session::new("demo")), DagOptions::default()).await.unwrap();
/// assert_eq!(results["process"].output, json!("page"));
/// # });
/// ```
#[derive(Debug, Clone, Default)]
#[deprecated(note = "use graph::Graph")]
pub struct Dag {
    tasks: Vec<Task>,
}

/// Options for running tasks.
#[derive(Clone)]
#[deprecated(note = "use Graph::set_max_parallel and a trace")]
pub struct DagOptions {
    /// Allows tasks to run concurrently [default: true].
    pub parallel: bool,
    /// Maximum number of concurrent tasks: at least 1 [default: 4].
    pub max_workers: usize,
    /// Called when a task starts.
    pub on_task_start: Option<OnStart>,
    /// Called when a task has ended.
    pub on_task_complete: Option<OnComplete>,
}

/// Status of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[deprecated(note = "use trace::StepTrace")]
#[strum(serialize_all = "lowercase")]
pub enum TaskStatus {
    /// The task succeeded.
    Completed,
    /// The task failed.
    Failed,
    /// The task did not start because a dependency failed.
    Skipped,
}

/// The result of a task.
#[derive(Debug, Clone, PartialEq)]
#[deprecated(note = "use trace::StepTrace")]
pub struct TaskResult {
    /// Status of the task.
    pub status: TaskStatus,
    /// Duration in milliseconds.
    pub duration_ms: f64,
    /// Reason for a failed or skipped task.
    pub error: Option<String>,
    /// Output; null if there is none.
    pub output: Value,
}

/// Results of tasks by id.
pub type TaskResults = BTreeMap<String, TaskResult>;

impl Task {
    /// Creates a task without dependencies. Results of other tasks are in the context's `upstream`.
    pub fn new<F>(id: impl Into<String>, execute: impl Fn(TurnContext) -> F + Send + Sync + 'static) -> Task
    where
        F: Future<Output = Result<Value, EngineError>> + Send + 'static,
    {
        let execute = move |context| -> NodeFuture<'static> { Box::pin(execute(context)) };
        Task { id: id.into(), depends_on: Vec::new(), execute: Arc::new(execute) }
    }

    /// Adds dependencies.
    #[must_use]
    pub fn depends_on<I: IntoIterator<Item: Into<String>>>(mut self, tasks: I) -> Task {
        self.depends_on.extend(tasks.into_iter().map(Into::into));
        self
    }
}

impl Dag {
    /// Creates a DAG without tasks.
    pub fn new() -> Dag {
        warn_deprecated!("Dag is deprecated, use Graph");
        Dag::default()
    }

    /// Adds a task.
    ///
    /// # Errors
    /// AlreadyExists: the id is taken.
    pub fn add_task(&mut self, task: Task) -> Result<&mut Dag, EngineError> {
        if self.get_task(&task.id).is_some() {
            let message = format!("task '{}' already exists", task.id);
            return Err(EngineError::already_exists(message).hint("use another task id"));
        }
        self.tasks.push(task);
        Ok(self)
    }

    /// Adds tasks.
    ///
    /// # Errors
    /// Same as [`Dag::add_task`]; the tasks before the invalid one have been added.
    pub fn add_tasks(&mut self, tasks: impl IntoIterator<Item = Task>) -> Result<&mut Dag, EngineError> {
        for task in tasks {
            self.add_task(task)?;
        }
        Ok(self)
    }

    /// Makes each of these tasks depend on its predecessor.
    ///
    /// # Errors
    /// NotFound: the DAG has no task of that id.
    pub fn chain<'a>(&mut self, ids: impl IntoIterator<Item = &'a str>) -> Result<&mut Dag, EngineError> {
        let mut before: Option<&str> = None;
        for id in ids {
            let Some(task) = self.tasks.iter_mut().find(|task| task.id == id) else {
                let error = EngineError::not_found(format!("no task '{id}'"));
                return Err(error.hint("add the task first"));
            };
            if let Some(before) = before.replace(id)
                && !task.depends_on.iter().any(|known| known == before)
            {
                task.depends_on.push(before.to_string());
            }
        }
        Ok(self)
    }

    /// Returns the problems of the DAG; empty if it can run.
    pub fn validate(&self) -> Vec<String> {
        self.to_graph().validate()
    }

    /// Returns the ids of all tasks in an order they can run in.
    ///
    /// # Errors
    /// InvalidRequest: the DAG is invalid.
    pub fn execution_order(&self) -> Result<Vec<String>, EngineError> {
        self.to_graph().execution_order()
    }

    /// Returns a task by its id.
    pub fn get_task(&self, id: &str) -> Option<&Task> {
        self.tasks.iter().find(|task| task.id == id)
    }

    /// Returns the ids of all tasks in the order they were added.
    pub fn list_tasks(&self) -> Vec<String> {
        self.tasks.iter().map(|task| task.id.clone()).collect()
    }

    /// Runs the DAG. A failed task stops only its dependants.
    ///
    /// # Errors
    /// InvalidRequest: the DAG is invalid. Cancelled, Budget: the run was stopped; the error has the outputs so far.
    pub async fn run(&self, context: &RunContext, options: DagOptions) -> Result<TaskResults, EngineError> {
        let mut graph = self.to_graph();
        // Reports the problems of an invalid graph as an error, not as results of tasks.
        graph.execution_order()?;
        graph.set_max_parallel(if options.parallel { options.max_workers } else { 1 });
        let collector =
            Arc::new(ResultCollector { options, outer: context.step.clone(), collected: Mutex::default() });
        let (event_collector, observer) = (Arc::clone(&collector), context.observer().cloned());
        let context = context.clone().with_observer(Arc::new(move |event| {
            if let Some(observer) = &observer {
                observer(event.clone());
            }
            event_collector.on_event(&event);
        }));
        let run = graph.run(&context).await;
        let ended = run.error.as_ref().is_some_and(|error| error.kind == ErrorKind::Budget);
        if ended || run.status == TraceStatus::Cancelled {
            run.into_result()?;
        }
        Ok(collector.results(self.tasks.iter().map(|task| task.id.as_str())))
    }

    /// Converts to a graph named `dag`, in which independent steps continue after a failure.
    pub fn into_graph(self) -> Graph {
        self.to_graph()
    }

    fn to_graph(&self) -> Graph {
        let mut graph = Graph::new("dag");
        graph.set_on_failure(OnFailure::Finish);
        for task in &self.tasks {
            let execute = Arc::clone(&task.execute);
            let node = FunctionNode::asynchronous(task.id.clone(), move |context| execute(context));
            let step = Step::new(task.id.clone()).depends_on(task.depends_on.clone());
            // Cannot fail: ids are unique, as checked when tasks were added.
            let _ = graph.add_step(Arc::new(node), step);
        }
        graph
    }
}

impl From<Dag> for Graph {
    fn from(dag: Dag) -> Graph {
        dag.into_graph()
    }
}

/// Collects the results of tasks from step events.
struct ResultCollector {
    options: DagOptions,
    /// Path of the outer step, if any.
    outer: Option<Arc<str>>,
    collected: Mutex<TaskCollection>,
}

#[derive(Default)]
struct TaskCollection {
    started: HashMap<String, TsNs>,
    results: TaskResults,
}

impl ResultCollector {
    fn on_event(&self, event: &StepEvent) {
        let task = match &self.outer {
            None => Some(&*event.step),
            Some(outer) => event.step.strip_prefix(&**outer).and_then(|path| path.strip_prefix('/')),
        };
        // Steps of nested graphs have longer paths.
        let Some(task) = task.filter(|task| !task.contains('/')) else { return };
        let end = |error: Option<String>, output: Value| {
            let mut collected = self.collected.lock();
            let started = collected.started.get(task).copied().unwrap_or(event.at);
            let status = if error.is_some() { TaskStatus::Failed } else { TaskStatus::Completed };
            let duration_ms = event.at.0.saturating_sub(started.0) as f64 / 1e6;
            let result = TaskResult { status, duration_ms, error, output };
            collected.results.insert(task.to_string(), result.clone());
            drop(collected);
            if let Some(callback) = &self.options.on_task_complete {
                callback(task, &result);
            }
        };
        match event.kind {
            StepEventKind::Start { .. } => {
                let mut collected = self.collected.lock();
                collected.started.insert(task.to_string(), event.at);
                drop(collected);
                if let Some(callback) = &self.options.on_task_start {
                    callback(task);
                }
            }
            StepEventKind::Complete { .. } => end(None, event.data.clone()),
            StepEventKind::Error { .. } => {
                end(Some(event.data.as_str().unwrap_or_default().to_string()), Value::Null);
            }
            _ => {}
        }
    }

    fn results<'a>(&self, ids: impl Iterator<Item = &'a str>) -> TaskResults {
        let mut collected = self.collected.lock();
        let mut results = std::mem::take(&mut collected.results);
        for id in ids {
            results.entry(id.to_string()).or_insert_with(|| TaskResult {
                status: TaskStatus::Skipped,
                duration_ms: 0.0,
                error: Some("a dependency failed".to_string()),
                output: Value::Null,
            });
        }
        results
    }
}

impl Default for DagOptions {
    fn default() -> DagOptions {
        DagOptions { parallel: true, max_workers: 4, on_task_start: None, on_task_complete: None }
    }
}

impl TaskStatus {
    /// Returns `completed`, `failed` or `skipped`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("id", &self.id)
            .field("depends_on", &self.depends_on)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for DagOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DagOptions")
            .field("parallel", &self.parallel)
            .field("max_workers", &self.max_workers)
            .finish_non_exhaustive()
    }
}
