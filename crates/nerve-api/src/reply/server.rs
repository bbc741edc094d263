//! Replies of the commands for server, sessions and connection; details of errors.

use nerve_types::activity::TsMs;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::BudgetStatus;
use super::run::RunEnded;
use crate::ErrorKind;
use crate::value::Delivery;

/// Details of an error: the `data` of a failed result.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorDetails {
    /// Kind of error.
    #[serde(default)]
    pub error_type: ErrorKind,
    /// Hint on how to solve the problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Text on the terminal's screen, if it explains the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
    /// Choices of the dialog that blocks the node, if there is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// Delivery of the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
    /// The part of the answer that arrived before the turn failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The budget that stopped a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exceeded: Option<BudgetExceeded>,
    /// The run of a graph that failed or was cancelled. Its fields are on the same level as the others.
    #[serde(flatten)]
    pub run: Option<Box<RunEnded>>,
}

/// An exhausted budget.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BudgetExceeded {
    /// Description, for example `Token limit exceeded: 12/10`.
    pub reason: String,
    /// Limits that are set: `max_tokens`, `max_time_ms`, `max_steps`, `max_api_calls`, `max_cost_usd`.
    #[serde(default)]
    pub budget: Map<String, Value>,
    /// Usage: `tokens_used`, `steps_executed`, `api_calls`, `cost_usd`, `started_at`, `elapsed_ms`.
    #[serde(default)]
    pub usage: Map<String, Value>,
}

impl ErrorDetails {
    /// Creates an error of a kind, without further details.
    pub fn of(error_type: ErrorKind) -> ErrorDetails {
        ErrorDetails { error_type, ..ErrorDetails::default() }
    }
}

/// Description of a session.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionInfo {
    /// Name of the session, unique on the server.
    pub name: String,
    /// Description for users.
    #[serde(default)]
    pub description: String,
    /// Labels of the session.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Ids of its nodes, including those that are not running.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// Ids of those nodes that are stopped and can be started again.
    #[serde(default)]
    pub stopped: Vec<String>,
    /// Ids of its graphs.
    #[serde(default)]
    pub graphs: Vec<String>,
    /// Time of creation.
    #[serde(default)]
    pub created_at: TsMs,
    /// Limits of all its nodes together, and their usage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetStatus>,
}

/// Reply to LIST_SESSIONS.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionList {
    /// All sessions.
    pub sessions: Vec<SessionInfo>,
    /// Cursor of the next page; null on the last page.
    #[serde(default)]
    pub next: Option<String>,
}

/// Reply to START_SESSION and STOP_SESSION.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodesChanged {
    /// Ids of the nodes that were started or stopped.
    pub nodes: Vec<String>,
    /// Nodes that could not be started or stopped.
    #[serde(default)]
    pub failed: Vec<NodeFailure>,
}

/// A node that could not be started or stopped.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeFailure {
    /// Id of the node.
    pub node_id: String,
    /// Error message.
    pub error: String,
    /// Kind of error.
    #[serde(default)]
    pub error_type: ErrorKind,
    /// Hint on how to solve the problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Reply to SUBSCRIBE.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Subscribed {
    /// Always true.
    pub subscribed: bool,
    /// Sequence number of the newest event. Use it as `since` to resume later.
    #[serde(default)]
    pub seq: u64,
    /// Id of the server instance, which changes with each start. A `seq` is valid only for the same instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
}

/// Reply to PING.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pong {
    /// Always true.
    pub pong: bool,
    /// Number of nodes.
    #[serde(default)]
    pub nodes: usize,
    /// Number of graphs.
    #[serde(default)]
    pub graphs: usize,
    /// Number of sessions.
    #[serde(default)]
    pub sessions: usize,
    /// Version of the server.
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
