//! Replies of the commands for asynchronous executions.

use nerve_types::activity::TsMs;
use serde::{Deserialize, Serialize};

use super::response::TurnResponse;
use crate::ErrorKind;
use crate::value::{Delivery, ResultStatus};

/// Reply to EXECUTE_INPUT with `async`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TurnAccepted {
    /// Id of the result, for GET_RESULT.
    pub result_id: String,
    /// Id of the node.
    pub node_id: String,
}

/// Result of an asynchronous execution. Reply to GET_RESULT and CANCEL_RESULT.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ResultInfo {
    /// Id of the result.
    pub result_id: String,
    /// Id of the node.
    pub node_id: String,
    /// Session of the node.
    pub session_id: String,
    /// State of the execution.
    #[serde(rename = "state", alias = "status")]
    pub status: ResultStatus,
    /// Beginning of the prompt.
    pub prompt: String,
    /// Time of the request.
    pub created_at: TsMs,
    /// Time at which the turn started.
    pub started_at: Option<TsMs>,
    /// Time at which the execution ended.
    pub ended_at: Option<TsMs>,
    /// Number of the turn on the node, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
    /// Response of the node. Absent in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<TurnResponse>,
    /// Error message, if the execution failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Kind of error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_type: Option<ErrorKind>,
    /// Hint on how to solve the problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Text on the terminal's screen, if it explains the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
    /// Choices of the dialog that blocks the node, if there is one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// Delivery of the prompt, if the execution failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
    /// The part of the answer that arrived before the execution failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Delivery of the webhook, if one was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookStatus>,
}

/// Delivery of a webhook.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct WebhookStatus {
    /// Scheme, host and port of the URL.
    pub origin: String,
    /// True if the request is signed.
    pub signed: bool,
    /// True if the receiver accepted the request.
    pub delivered: bool,
    /// All attempts so far.
    pub attempts: Vec<WebhookAttempt>,
    /// Reason why no further attempt is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gave_up: Option<String>,
}

/// An attempt to deliver a webhook.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct WebhookAttempt {
    /// Start of the attempt.
    pub attempted_at: TsMs,
    /// HTTP status of the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Reason why there is no response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Kind of error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_type: Option<ErrorKind>,
}

/// Reply to LIST_RESULTS.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResultList {
    /// Results, newest first, without their responses.
    pub results: Vec<ResultInfo>,
    /// Cursor of the next page; null on the last page.
    #[serde(default)]
    pub next: Option<String>,
}
