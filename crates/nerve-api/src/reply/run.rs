//! Results of the commands that concern runs of graphs. Steps are named by path: `outer/inner`, items of a list `each[3]`,
//! rounds `loop#2`. Times are seconds since the Unix epoch.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Of GET_RUN, and of EXECUTE_GRAPH, RUN_GRAPH and RESUME_RUN with `detach`: a run as it is now.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunInfo {
    /// Its id.
    pub run_id: String,
    /// The graph's id.
    pub graph_id: String,
    /// The session it takes nodes from that the graph does not define.
    #[serde(default)]
    pub session_id: String,
    /// `running`, `waiting` (for the answer of a gate), `completed`, `failed`, `cancelled`, or `interrupted` (its server is gone: it
    /// can be resumed).
    pub status: String,
    /// When it began.
    #[serde(default)]
    pub started_at: f64,
    /// When it ended.
    #[serde(default)]
    pub ended_at: Option<f64>,
    /// How many steps the graph itself has.
    #[serde(default)]
    pub total_steps: usize,
    /// How many of those are done or skipped.
    #[serde(default)]
    pub done_steps: usize,
    /// Steps that have begun, in that order; of thousands the latest. Not in lists of runs, nor of a run whose server is
    /// gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<RunStep>,
    /// Gates that wait for an answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<GateInfo>,
    /// Tokens used so far.
    #[serde(default)]
    pub tokens_used: u64,
    /// Why it failed.
    #[serde(default)]
    pub error: Option<String>,
    /// The file of its journal, on the server's machine.
    #[serde(default)]
    pub journal: Option<String>,
    /// What is wrong with it that does not stop it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
}

/// A step of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunStep {
    /// Its path.
    pub step_id: String,
    /// Its node; empty where it has none.
    #[serde(default)]
    pub node_id: String,
    /// `queued`, `running`, `waiting`, `completed`, `reused`, `skipped`, `failed` or `cancelled`.
    pub state: String,
    /// When it began.
    #[serde(default)]
    pub started_at: f64,
    /// When it ended.
    #[serde(default)]
    pub ended_at: Option<f64>,
    /// Which attempt, from 1.
    #[serde(default)]
    pub attempt: u32,
    /// Tokens it used.
    #[serde(default)]
    pub tokens_used: u64,
    /// Why it failed.
    #[serde(default)]
    pub error: Option<String>,
}

/// A gate that waits for an answer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GateInfo {
    /// The step's path.
    pub step_id: String,
    /// What is asked.
    pub question: String,
    /// What may be answered; anything if empty.
    #[serde(default)]
    pub choices: Vec<String>,
    /// The answer when nobody gives one in time.
    #[serde(default)]
    pub default: Option<String>,
    /// Until when.
    #[serde(default)]
    pub deadline: Option<f64>,
}

/// Of LIST_RUNS.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunList {
    /// Newest first, without their steps.
    pub runs: Vec<RunInfo>,
}

/// Of EXECUTE_GRAPH, RUN_GRAPH and RESUME_RUN: a run that has ended, with what came of it. Of one that failed or was cancelled it stands
/// in the `data` of the error.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunEnded {
    /// The graph's id.
    pub graph_id: String,
    /// The run's id.
    pub run_id: String,
    /// `completed`, `failed` or `cancelled`.
    pub status: String,
    /// Results of the steps by id, nested as the graphs are; those that are there, if the run failed.
    #[serde(default)]
    pub results: Map<String, Value>,
    /// When it began.
    #[serde(default)]
    pub started_at: f64,
    /// When it ended.
    #[serde(default)]
    pub ended_at: Option<f64>,
    /// Tokens of all steps.
    #[serde(default)]
    pub tokens_used: u64,
    /// The file of its journal, on the server's machine.
    #[serde(default)]
    pub journal: Option<String>,
    /// What is wrong with it that did not stop it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// What was done, if it was asked for: `graph_id`, `status`, `start_time`, `end_time`, `duration_ms`, `steps`, `total_tokens`,
    /// `total_cost`, `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Value>,
}

/// Of CANCEL_GRAPH.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunsCancelled {
    /// At least one run was told to stop.
    pub cancelled: bool,
    /// Which.
    #[serde(default)]
    pub runs: Vec<String>,
}
