//! DAG and Task → Graph and Step (seed node-refactoring §6.2).

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::Future;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use nerve_term::event::TsNs;
use serde_json::Value;

use crate::context::ExecutionContext;
use crate::error::{EngineError, ErrorKind};
use crate::graph::event::{StepEvent, StepEventKind};
use crate::graph::step::Step;
use crate::graph::{Graph, OnFailure};
use crate::node::NodeFuture;
use crate::node::function::FunctionNode;
use crate::session::deprecated::warn_once;
use crate::trace::TraceStatus;

type Execute = dyn Fn(ExecutionContext) -> NodeFuture<'static> + Send + Sync;
/// Is told the id of a task that begins.
type OnStart = Arc<dyn Fn(&str) + Send + Sync>;
/// Is told the id of a task that has ended, and what came of it.
type OnComplete = Arc<dyn Fn(&str, &TaskResult) + Send + Sync>;

/// Something to do, and what must be done before.
#[derive(Clone)]
#[deprecated(note = "use node::function::FunctionNode and graph::step::Step")]
pub struct Task {
    /// Unique in its DAG.
    pub id: String,
    /// Ids of the tasks it waits for.
    pub depends_on: Vec<String>,
    execute: Arc<Execute>,
}

/// Tasks in the order of their dependencies.
///
/// ```
/// # #![allow(deprecated)]
/// use nerve_core::compat::{Dag, DagOptions, Task};
/// use nerve_core::context::ExecutionContext;
/// use nerve_core::session::Session;
/// use serde_json::json;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let mut dag = Dag::new();
/// dag.add_task(Task::new("fetch", |_| async { Ok(json!("page")) })).unwrap();
/// let process = Task::new("process", |context| async move { Ok(context.upstream.get("fetch").cloned().unwrap_or_default()) });
/// dag.add_task(process.depends_on(["fetch"])).unwrap();
/// let results = dag.run(&ExecutionContext::new(&Session::new("demo")), DagOptions::default()).await.unwrap();
/// assert_eq!(results["process"].output, json!("page"));
/// # });
/// ```
#[derive(Debug, Clone, Default)]
#[deprecated(note = "use graph::Graph")]
pub struct Dag {
    tasks: Vec<Task>,
}

/// How tasks are run.
#[derive(Clone)]
#[deprecated(note = "use Graph::set_max_parallel and a trace")]
pub struct DagOptions {
    /// Several at once; on by default.
    pub parallel: bool,
    /// So many of them: 1 or more, 4 by default.
    pub max_workers: usize,
    /// Is told the id of a task that begins.
    pub on_task_start: Option<OnStart>,
    /// Is told the id of a task that has ended, and what came of it.
    pub on_task_complete: Option<OnComplete>,
}

/// How a task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[deprecated(note = "use trace::StepTrace")]
pub enum TaskStatus {
    /// It is done.
    Completed,
    /// It has failed.
    Failed,
    /// It was not begun: what it waits for has failed.
    Skipped,
}

/// What came of a task.
#[derive(Debug, Clone, PartialEq)]
#[deprecated(note = "use trace::StepTrace")]
pub struct TaskResult {
    /// How it ended.
    pub status: TaskStatus,
    /// Milliseconds from begin to end.
    pub duration_ms: f64,
    /// Why it failed, or was not begun.
    pub error: Option<String>,
    /// Its result; null if there is none.
    pub output: Value,
}

/// What came of each task, by id.
pub type TaskResults = BTreeMap<String, TaskResult>;

impl Task {
    /// A task that waits for nothing. Results of other tasks are in the context's `upstream`.
    pub fn new<F>(
        id: impl Into<String>,
        execute: impl Fn(ExecutionContext) -> F + Send + Sync + 'static,
    ) -> Task
    where
        F: Future<Output = Result<Value, EngineError>> + Send + 'static,
    {
        let execute = move |context| -> NodeFuture<'static> { Box::pin(execute(context)) };
        Task { id: id.into(), depends_on: Vec::new(), execute: Arc::new(execute) }
    }

    /// Waits for these tasks.
    #[must_use]
    pub fn depends_on<I: IntoIterator<Item: Into<String>>>(mut self, tasks: I) -> Task {
        self.depends_on.extend(tasks.into_iter().map(Into::into));
        self
    }
}

impl Dag {
    /// Without tasks.
    pub fn new() -> Dag {
        static WARNED: AtomicBool = AtomicBool::new(false);
        warn_once(&WARNED, "Dag is deprecated, use Graph");
        Dag::default()
    }

    /// Adds a task.
    ///
    /// # Errors
    /// AlreadyExists: there is a task of that id.
    pub fn add_task(&mut self, task: Task) -> Result<&mut Dag, EngineError> {
        if self.get_task(&task.id).is_some() {
            let message = format!("there is a task '{}' already", task.id);
            return Err(EngineError::new(ErrorKind::AlreadyExists, message).hint("take another task id"));
        }
        self.tasks.push(task);
        Ok(self)
    }

    /// Adds tasks.
    ///
    /// # Errors
    /// As [`Dag::add_task`]; those before the bad one are in.
    pub fn add_tasks(&mut self, tasks: impl IntoIterator<Item = Task>) -> Result<&mut Dag, EngineError> {
        for task in tasks {
            self.add_task(task)?;
        }
        Ok(self)
    }

    /// Makes each of these tasks depend on the one before it.
    ///
    /// # Errors
    /// NotFound: there is no task of that id.
    pub fn chain<'a>(&mut self, ids: impl IntoIterator<Item = &'a str>) -> Result<&mut Dag, EngineError> {
        let mut before: Option<&str> = None;
        for id in ids {
            let Some(task) = self.tasks.iter_mut().find(|task| task.id == id) else {
                let error = EngineError::new(ErrorKind::NotFound, format!("there is no task '{id}'"));
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

    /// What is wrong with it, in words; nothing if it can run.
    pub fn validate(&self) -> Vec<String> {
        self.to_graph().validate()
    }

    /// Ids of all tasks, each after what it depends on.
    ///
    /// # Errors
    /// InvalidRequest: it is not valid.
    pub fn execution_order(&self) -> Result<Vec<String>, EngineError> {
        self.to_graph().execution_order()
    }

    /// One task.
    pub fn get_task(&self, id: &str) -> Option<&Task> {
        self.tasks.iter().find(|task| task.id == id)
    }

    /// Ids of all tasks, as they were added.
    pub fn list_tasks(&self) -> Vec<String> {
        self.tasks.iter().map(|task| task.id.clone()).collect()
    }

    /// Runs it. A task that fails stops those that wait for it and no others.
    ///
    /// # Errors
    /// InvalidRequest: it is not valid. Cancelled, Budget: it was ended, with the outputs that are there.
    pub async fn run(
        &self,
        context: &ExecutionContext,
        options: DagOptions,
    ) -> Result<TaskResults, EngineError> {
        let mut graph = self.to_graph();
        // An invalid graph gives its problems here and not as results of tasks.
        graph.execution_order()?;
        graph.set_max_parallel(if options.parallel { options.max_workers } else { 1 });
        let watch = Arc::new(Watch { options, outer: context.step.clone(), seen: Mutex::default() });
        let (watching, before) = (Arc::clone(&watch), context.run().observer.clone());
        let context = context.clone().with_observer(Arc::new(move |event| {
            if let Some(before) = &before {
                before(event.clone());
            }
            watching.see(&event);
        }));
        let run = graph.run(&context).await;
        let ended = run.error.as_ref().is_some_and(|error| error.kind == ErrorKind::Budget);
        if ended || run.status == TraceStatus::Cancelled {
            run.into_result()?;
        }
        Ok(watch.results(self.tasks.iter().map(|task| task.id.as_str())))
    }

    /// The same as a graph named `dag`: steps that do not depend on a failed one are run to their ends.
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
            // Ids are unique: that was looked at when the tasks were added.
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

/// Makes results of what happens in a run.
struct Watch {
    options: DagOptions,
    /// Path of the step that runs it, if one does.
    outer: Option<Arc<str>>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    began: HashMap<String, TsNs>,
    results: TaskResults,
}

impl Watch {
    fn see(&self, event: &StepEvent) {
        let task = match &self.outer {
            None => Some(&*event.step),
            Some(outer) => event.step.strip_prefix(&**outer).and_then(|path| path.strip_prefix('/')),
        };
        // What graphs in a task do has a longer path.
        let Some(task) = task.filter(|task| !task.contains('/')) else { return };
        let end = |error: Option<String>, output: Value| {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let began = seen.began.get(task).copied().unwrap_or(event.at);
            let status = if error.is_some() { TaskStatus::Failed } else { TaskStatus::Completed };
            let duration_ms = event.at.0.saturating_sub(began.0) as f64 / 1e6;
            let result = TaskResult { status, duration_ms, error, output };
            seen.results.insert(task.to_string(), result.clone());
            drop(seen);
            if let Some(tell) = &self.options.on_task_complete {
                tell(task, &result);
            }
        };
        match event.kind {
            StepEventKind::Start { .. } => {
                let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.began.insert(task.to_string(), event.at);
                drop(seen);
                if let Some(tell) = &self.options.on_task_start {
                    tell(task);
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
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut results = std::mem::take(&mut seen.results);
        for id in ids {
            results.entry(id.to_string()).or_insert_with(|| TaskResult {
                status: TaskStatus::Skipped,
                duration_ms: 0.0,
                error: Some("what it waits for has failed".to_string()),
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
    /// `completed`, `failed` or `skipped`.
    pub fn as_str(self) -> &'static str {
        match self {
            TaskStatus::Completed => "completed",
            TaskStatus::Failed => "failed",
            TaskStatus::Skipped => "skipped",
        }
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
