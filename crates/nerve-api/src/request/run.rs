//! Parameters of the commands for runs of graphs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::PageRequest;

/// CANCEL_GRAPH: cancels one run by its id, or all runs of a graph.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CancelGraph {
    /// Id of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Id of the graph. Ignored if `run_id` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph_id: Option<String>,
}

/// GET_RUN: returns the current state of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GetRun {
    /// Id of the run.
    pub run_id: String,
    /// Returns only the last steps, at most this many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<usize>,
    /// Includes the plan: all steps of the graph with their dependencies.
    #[serde(default)]
    pub plan: bool,
    /// Path of a step whose result is included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_of: Option<String>,
}

/// RESUME_RUN: resumes a run whose server ended.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResumeRun {
    /// Id of the run.
    pub run_id: String,
    /// Edited graph that replaces the run's own. Unchanged steps are not run again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<Map<String, Value>>,
    /// Includes the trace in the reply.
    #[serde(default)]
    pub trace: bool,
    /// Replies as soon as the run has resumed.
    #[serde(default)]
    pub detach: bool,
    /// Environment of the shell that resumes the run, for the graph's own nodes, instead of the server's. See `shell_env` of CREATE_NODE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell_env: Option<BTreeMap<String, String>>,
}

/// ANSWER_GATE: answers a gate at which a run waits.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AnswerGate {
    /// Id of the run.
    pub run_id: String,
    /// Path of the gate's step. Optional if only one gate waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_id: Option<String>,
    /// The answer.
    pub choice: String,
}

/// LIST_RUNS: lists all runs, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListRuns {
    /// Part of the list.
    #[serde(flatten)]
    pub page: PageRequest,
}
