//! Results that concern server, sessions and connection, and what an error carries.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::run::RunEnded;

/// The `data` of a result that is a failure.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorDetails {
    /// Which kind: `invalid_request_error`, `not_found_error`, `timeout`, `blocked` …
    #[serde(default)]
    pub error_type: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// What the terminal showed, where that explains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
    /// The choices of the dialog that blocks, if one does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// How far a prompt came: `typed`, `submitted`, `started`, `unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<String>,
    /// The budget that stopped a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exceeded: Option<BudgetExceeded>,
    /// The run of a graph that failed or was cancelled: its fields stand beside the others.
    #[serde(flatten)]
    pub run: Option<Box<RunEnded>>,
}

/// A budget that is used up.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BudgetExceeded {
    /// `Token limit exceeded: 12/10` …
    pub reason: String,
    /// Its limits: `max_tokens`, `max_time_seconds`, `max_steps`, `max_api_calls`, `max_cost_dollars`; those that are set.
    #[serde(default)]
    pub budget: Map<String, Value>,
    /// What was used of it: `tokens_used`, `steps_executed`, `api_calls`, `cost_dollars`, `start_time`, `elapsed_seconds`.
    #[serde(default)]
    pub usage: Map<String, Value>,
}

impl ErrorDetails {
    /// The `error_type` of a request that could not be understood.
    pub const INVALID_REQUEST: &'static str = "invalid_request_error";

    /// An error of a kind, with nothing more known.
    pub fn of(error_type: impl Into<String>) -> ErrorDetails {
        ErrorDetails { error_type: error_type.into(), ..ErrorDetails::default() }
    }
}

/// What is known of a session.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionInfo {
    /// Its name, unique on the server.
    pub name: String,
    /// In words.
    #[serde(default)]
    pub description: String,
    /// Labels.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Ids of its nodes, those that do not run too.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// Ids of its graphs.
    #[serde(default)]
    pub graphs: Vec<String>,
    /// When it was made: seconds since the Unix epoch.
    #[serde(default)]
    pub created_at: f64,
}

/// Of LIST_SESSIONS.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionList {
    /// All sessions.
    pub sessions: Vec<SessionInfo>,
}

/// Of START_SESSION and STOP_SESSION.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodesChanged {
    /// Nodes that were started or stopped.
    pub nodes: Vec<String>,
    /// Those that could not be.
    #[serde(default)]
    pub failed: Vec<NodeFailure>,
}

/// A node that could not be started or stopped with the others.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeFailure {
    /// The node.
    pub node_id: String,
    /// Why not.
    pub error: String,
}

/// Of SUBSCRIBE.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Subscribed {
    /// Always true.
    pub subscribed: bool,
    /// The `seq` of the newest event so far: what to give as `since` later.
    #[serde(default)]
    pub seq: u64,
    /// Which server says so: any text, another one each time a server is started. `seq` of another server says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
}

/// Of PING.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pong {
    /// Always true.
    pub pong: bool,
    /// How many nodes there are.
    #[serde(default)]
    pub nodes: usize,
    /// How many graphs there are.
    #[serde(default)]
    pub graphs: usize,
    /// How many sessions there are.
    #[serde(default)]
    pub sessions: usize,
    /// Of the server.
    #[serde(default)]
    pub version: String,
}

/// Reply to AUTHENTICATE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Authenticated {
    /// Always true.
    pub authenticated: bool,
}
