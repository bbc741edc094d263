//! Parameters of the commands that concern runs of graphs.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// CANCEL_GRAPH: one run by its id, or all runs of a graph.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CancelGraph {
    /// The run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The graph; not looked at where `run_id` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph_id: Option<String>,
}

/// GET_RUN.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GetRun {
    /// The run.
    pub run_id: String,
    /// Only the last so many of its steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<usize>,
}

/// RESUME_RUN: goes on with a run whose server died.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResumeRun {
    /// The run.
    pub run_id: String,
    /// An edited graph in place of the run's own: what is unchanged is not run again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<Map<String, Value>>,
    /// Answer with the trace too.
    #[serde(default)]
    pub trace: bool,
    /// Answer as soon as the run goes on.
    #[serde(default)]
    pub detach: bool,
}

/// ANSWER_GATE.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AnswerGate {
    /// The run.
    pub run_id: String,
    /// The gate's step, by path; need not be given where only one gate waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_id: Option<String>,
    /// The answer.
    pub choice: String,
}

/// LIST_RUNS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListRuns {}
