//! Parameters of the commands that concern executions that nobody waits for.

use serde::{Deserialize, Serialize};

use super::value::Seconds;

/// Who is told over HTTP when an execution has ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WebhookTarget {
    /// Where to POST: `http://` or `https://`.
    pub url: String,
    /// What the signature is made with; no signature if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// GET_RESULT.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GetResult {
    /// The result.
    pub result_id: String,
    /// Answer when it is there.
    #[serde(default)]
    pub wait: bool,
    /// Limit of that wait; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Seconds>,
}

/// LIST_RESULTS.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListResults {
    /// Only of this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Only of this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// At most so many, the newest; 100 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<usize>,
}

/// CANCEL_RESULT.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CancelResult {
    /// The result.
    pub result_id: String,
}
