//! Parameters of the commands for asynchronous executions.

use serde::{Deserialize, Serialize};

use super::PageRequest;
use super::value::Seconds;

/// Webhook: a URL that receives a POST request when an execution has ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WebhookTarget {
    /// URL, with `http://` or `https://`.
    pub url: String,
    /// Secret that signs the request. Default: no signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// GET_RESULT: returns the result of an asynchronous execution.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GetResult {
    /// Id of the result.
    pub result_id: String,
    /// Waits for the end of the execution.
    #[serde(default)]
    pub wait: bool,
    /// Time limit of that wait, in seconds. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Seconds>,
}

/// LIST_RESULTS: lists results of asynchronous executions, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListResults {
    /// Returns only results of this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Returns only results of this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// Returns only the newest results, at most this many. Default: 100 without paging, otherwise all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<usize>,
    /// Part of the list.
    #[serde(flatten)]
    pub page: PageRequest,
}

/// CANCEL_RESULT: cancels an asynchronous execution.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CancelResult {
    /// Id of the result.
    pub result_id: String,
}
