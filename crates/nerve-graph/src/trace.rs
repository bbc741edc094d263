//! Traces of graph runs, step by step. A trace is requested through the context and kept in memory, in contrast to the audit logs
//! of nodes. Node, time and turn relate the two.

use std::fmt;
use std::sync::Arc;

use nerve_host::clock::Clock;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_types::TsNs;
use nerve_types::activity::TsMs;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

/// The trace of one step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepTrace {
    /// Path of the step: `outer/inner`, items of a list `each[3]`.
    pub step_id: Arc<str>,
    /// Id of its node.
    pub node_id: Arc<str>,
    /// Kind of the node.
    pub node_type: &'static str,
    /// Input of the node.
    pub input: Value,
    /// Result; null if the step failed.
    pub output: Value,
    /// Error message of a failed step.
    pub error: Option<String>,
    /// Kind of the error.
    pub error_type: Option<ErrorKind>,
    /// Hint of the error.
    pub hint: Option<String>,
    /// Start of the step.
    pub start_time: TsNs,
    /// End of the step.
    pub end_time: TsNs,
    /// Tokens used, including retries.
    pub tokens_used: u64,
    /// Further details: `attempts`, `turn` (the node's turn, as in its audit log), `skipped`, `reused`.
    pub metadata: Map<String, Value>,
}

/// Status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum TraceStatus {
    /// The run has not ended.
    Running,
    /// All steps are done.
    Completed,
    /// A step failed, or a budget was exceeded.
    Failed,
    /// The run was cancelled.
    Cancelled,
}

/// The trace of a graph's run.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutionTrace {
    /// The graph's id.
    pub graph_id: String,
    /// Start of the run.
    pub start_time: TsNs,
    /// End of the run.
    pub end_time: Option<TsNs>,
    /// Status of the run.
    pub status: TraceStatus,
    /// Steps of the graph and of nested graphs, in the order they ended.
    pub steps: Vec<StepTrace>,
    /// Tokens of all steps.
    pub total_tokens: u64,
    /// Cost in dollars, where nodes report it.
    pub total_cost: f64,
    /// Error message of a failed run.
    pub error: Option<String>,
    /// Kind of the error.
    pub error_type: Option<ErrorKind>,
    /// Hint of the error.
    pub hint: Option<String>,
}

/// Collects the trace of a run. Cheap to clone: clones share the trace.
#[derive(Debug, Clone)]
pub struct Tracer {
    trace: Arc<Mutex<ExecutionTrace>>,
}

impl StepTrace {
    /// Returns the duration in milliseconds.
    pub fn duration_ms(&self) -> u64 {
        millis(self.start_time, self.end_time)
    }

    fn to_value(&self) -> Value {
        json!({
            "step_id": &*self.step_id, "node_id": &*self.node_id, "node_type": self.node_type,
            "input": self.input, "output": self.output,
            "error": self.error, "error_type": self.error_type, "hint": self.hint,
            "started_at": TsMs::from(self.start_time), "ended_at": TsMs::from(self.end_time),
            "duration_ms": self.duration_ms(), "tokens_used": self.tokens_used, "metadata": self.metadata,
        })
    }
}

impl TraceStatus {
    /// Returns `running`, `completed`, `failed` or `cancelled`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl ExecutionTrace {
    /// Creates a trace without steps.
    pub fn new(graph_id: impl Into<String>, start_time: TsNs) -> ExecutionTrace {
        ExecutionTrace {
            graph_id: graph_id.into(),
            start_time,
            end_time: None,
            status: TraceStatus::Running,
            steps: Vec::new(),
            total_tokens: 0,
            total_cost: 0.0,
            error: None,
            error_type: None,
            hint: None,
        }
    }

    /// Formats the trace for people: a line for the run, and one for each step.
    ///
    /// ```
    /// use nerve_graph::trace::ExecutionTrace;
    /// use nerve_types::TsNs;
    /// let trace = ExecutionTrace::new("review", TsNs(0));
    /// assert_eq!(trace.explain(), "Graph: review\nStatus: running\nSteps: 0\n");
    /// ```
    pub fn explain(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, out: &mut impl fmt::Write) -> fmt::Result {
        writeln!(out, "Graph: {}", self.graph_id)?;
        writeln!(out, "Status: {}", self.status.as_str())?;
        if let Some(end) = self.end_time {
            writeln!(out, "Duration: {}ms", millis(self.start_time, end))?;
        }
        if self.total_tokens > 0 {
            writeln!(out, "Tokens: {}", self.total_tokens)?;
        }
        if let Some(error) = &self.error {
            writeln!(out, "Error: {}", with_hint(error, self.hint.as_deref()))?;
        }
        writeln!(out, "Steps: {}", self.steps.len())?;
        for step in &self.steps {
            let mark = if step.error.is_some() { "[x]" } else { "[+]" };
            writeln!(out, "  {mark} {} ({}): {}ms", step.step_id, step.node_type, step.duration_ms())?;
            if let Some(error) = &step.error {
                writeln!(out, "    Error: {}", with_hint(error, step.hint.as_deref()))?;
            }
        }
        Ok(())
    }

    /// Returns the trace as JSON.
    pub fn to_dict(&self) -> Value {
        json!({
            "graph_id": self.graph_id, "state": self.status.as_str(),
            "started_at": TsMs::from(self.start_time), "ended_at": self.end_time.map(TsMs::from),
            "duration_ms": self.end_time.map(|end| millis(self.start_time, end)),
            "steps": self.steps.iter().map(StepTrace::to_value).collect::<Vec<_>>(),
            "total_tokens": self.total_tokens, "total_cost_usd": self.total_cost,
            "error": self.error, "error_type": self.error_type, "hint": self.hint,
        })
    }
}

impl Tracer {
    /// Creates a tracer for a run that starts now.
    pub fn new(graph_id: impl Into<String>) -> Tracer {
        Tracer { trace: Arc::new(Mutex::new(ExecutionTrace::new(graph_id, Clock::start().now()))) }
    }

    /// Adds the trace of a step.
    pub fn record(&self, step: StepTrace) {
        self.trace.lock().steps.push(step);
    }

    /// Reserves memory for further steps.
    pub fn reserve(&self, steps: usize) {
        self.trace.lock().steps.reserve(steps);
    }

    /// Records the end of the run.
    pub fn end(&self, at: TsNs, status: TraceStatus, tokens: u64, cost: f64, error: Option<&EngineError>) {
        let mut trace = self.trace.lock();
        trace.end_time = Some(at);
        trace.status = status;
        trace.total_tokens = tokens;
        trace.total_cost = cost;
        trace.error = error.map(|error| error.message.clone());
        trace.error_type = error.map(|error| error.kind);
        trace.hint = error.and_then(|error| error.hint.clone());
    }

    /// Returns the trace so far.
    pub fn snapshot(&self) -> ExecutionTrace {
        self.trace.lock().clone()
    }
}

/// Returns an error message with its hint, for people.
fn with_hint(error: &str, hint: Option<&str>) -> String {
    hint.map_or_else(|| error.to_string(), |hint| format!("{error} ({hint})"))
}

fn millis(start: TsNs, end: TsNs) -> u64 {
    (end.0.saturating_sub(start.0) + 500_000) / 1_000_000
}
