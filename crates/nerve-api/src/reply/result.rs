//! Results of the commands that concern executions that nobody waits for.

use serde::{Deserialize, Serialize};

use super::response::TurnResponse;

/// Of EXECUTE_INPUT with `async`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TurnAccepted {
    /// What GET_RESULT is asked for.
    pub result_id: String,
    /// The node.
    pub node_id: String,
}

/// Of GET_RESULT and CANCEL_RESULT. Times are seconds since the Unix epoch.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ResultInfo {
    /// Its id.
    pub result_id: String,
    /// The node.
    pub node_id: String,
    /// The node's session.
    pub session_id: String,
    /// `queued`, `running`, `done`, `failed`, or `lost`: its server ended before it did.
    pub status: String,
    /// How the prompt begins.
    pub prompt: String,
    /// When it was asked for.
    pub created_at: f64,
    /// When its turn came.
    pub started_at: Option<f64>,
    /// When it ended.
    pub ended_at: Option<f64>,
    /// Number of the turn on the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
    /// The answer. Not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<TurnResponse>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Which kind of error: `lost`, or as in an error's data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_type: Option<String>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// What the terminal showed, where that explains it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
    /// The choices of the dialog that blocks, if one does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// How far the prompt came, where it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<String>,
    /// Who is told, and what came of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookStatus>,
}

/// Who is told of an execution's end, and what came of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct WebhookStatus {
    /// Scheme, host and port of the URL.
    pub origin: String,
    /// There is a secret.
    pub signed: bool,
    /// Somebody has taken it.
    pub delivered: bool,
    /// All tries so far.
    pub attempts: Vec<WebhookAttempt>,
    /// Why it is not tried any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gave_up: Option<String>,
}

/// A try to deliver.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct WebhookAttempt {
    /// When it began.
    pub at: f64,
    /// The status of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Of LIST_RESULTS.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResultList {
    /// Newest first, without their responses.
    pub results: Vec<ResultInfo>,
}
