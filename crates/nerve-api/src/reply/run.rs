//! Replies of the commands for runs of graphs. Steps are identified by their path: `outer/inner`, items of a list `each[3]`, rounds
//! `loop#2`.

use nerve_types::activity::TsMs;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ErrorKind;
use crate::value::{RunStatus, StepState};

/// Current state of a run. Reply to GET_RUN and ANSWER_GATE, and to EXECUTE_GRAPH, RUN_GRAPH and RESUME_RUN with `detach`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunInfo {
    /// Id of the run.
    pub run_id: String,
    /// Id of the graph.
    pub graph_id: String,
    /// Session that provides the nodes not defined by the graph.
    #[serde(default)]
    pub session_id: String,
    /// State of the run.
    #[serde(rename = "state", alias = "status")]
    pub status: RunStatus,
    /// Start time.
    #[serde(default)]
    pub started_at: TsMs,
    /// End time.
    #[serde(default)]
    pub ended_at: Option<TsMs>,
    /// Number of steps in the graph itself, without subgraphs.
    #[serde(default)]
    pub total_steps: usize,
    /// Number of those steps that are completed or skipped.
    #[serde(default)]
    pub done_steps: usize,
    /// Started steps in the order of their start; in large runs only the latest. Absent in lists of runs and for interrupted runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<RunStep>,
    /// Gates that wait for an answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<GateInfo>,
    /// Tokens used so far.
    #[serde(default)]
    pub tokens_used: u64,
    /// Error message, if the run failed.
    #[serde(default)]
    pub error: Option<String>,
    /// Kind of error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_type: Option<ErrorKind>,
    /// Hint on how to solve the problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Path of the journal on the server's machine.
    #[serde(default)]
    pub journal: Option<String>,
    /// Problems that do not stop the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// Steps of the graph itself, in the order of its file, if `plan` was requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<PlannedStep>,
    /// Result of the step `result_of`; absent while it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
}

/// A step as the graph defines it, started or not.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannedStep {
    /// Id of the step.
    pub step_id: String,
    /// Id of its node; empty for a gate.
    #[serde(default)]
    pub node_id: String,
    /// Steps that must be done before this one.
    #[serde(default)]
    pub depends_on: Vec<String>,
}

/// A step of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunStep {
    /// Path of the step.
    pub step_id: String,
    /// Id of its node; empty if it has none.
    #[serde(default)]
    pub node_id: String,
    /// State of the step.
    pub state: StepState,
    /// Start time.
    #[serde(default)]
    pub started_at: TsMs,
    /// End time.
    #[serde(default)]
    pub ended_at: Option<TsMs>,
    /// Number of the attempt, from 1.
    #[serde(default)]
    pub attempt: u32,
    /// Tokens used by the step.
    #[serde(default)]
    pub tokens_used: u64,
    /// Error message, if the step failed.
    #[serde(default)]
    pub error: Option<String>,
    /// Kind of error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_type: Option<ErrorKind>,
    /// Hint on how to solve the problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// A gate that waits for an answer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GateInfo {
    /// Path of the step.
    pub step_id: String,
    /// Question to the user.
    pub question: String,
    /// Accepted answers; any text if empty.
    #[serde(default)]
    pub choices: Vec<String>,
    /// Answer that is used after the deadline.
    #[serde(default)]
    pub default: Option<String>,
    /// Deadline for the answer.
    #[serde(default)]
    pub deadline_at: Option<TsMs>,
}

/// Reply to LIST_RUNS.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunList {
    /// Runs, newest first, without their steps.
    pub runs: Vec<RunInfo>,
    /// Cursor of the next page; null on the last page.
    #[serde(default)]
    pub next: Option<String>,
}

/// A finished run with its results. Reply to EXECUTE_GRAPH, RUN_GRAPH and RESUME_RUN. If the run failed or was cancelled, the `data` of the
/// error contains it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunEnded {
    /// Id of the graph.
    pub graph_id: String,
    /// Id of the run.
    pub run_id: String,
    /// State: `completed`, `failed` or `cancelled`.
    #[serde(rename = "state", alias = "status")]
    pub status: RunStatus,
    /// Results of the steps by id, nested like the graphs. A run that failed contains partial results.
    #[serde(default)]
    pub results: Map<String, Value>,
    /// Start time.
    #[serde(default)]
    pub started_at: TsMs,
    /// End time.
    #[serde(default)]
    pub ended_at: Option<TsMs>,
    /// Tokens used by all steps.
    #[serde(default)]
    pub tokens_used: u64,
    /// Path of the journal on the server's machine.
    #[serde(default)]
    pub journal: Option<String>,
    /// Problems that did not stop the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// Trace, if requested: `graph_id`, `state`, `started_at`, `ended_at`, `duration_ms`, `steps`, `total_tokens`, `total_cost_usd`, `error`, `error_type`, `hint`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Value>,
}

/// Reply to CANCEL_GRAPH.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunsCancelled {
    /// True if at least one run was cancelled.
    pub cancelled: bool,
    /// Ids of the cancelled runs.
    #[serde(default)]
    pub runs: Vec<String>,
}
