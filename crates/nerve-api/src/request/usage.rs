//! Parameters of GET_USAGE.

use serde::{Deserialize, Serialize};

use crate::value::UsageGrouping;

/// GET_USAGE: sums up the tokens and costs of the nodes and recordings on the server's machine, also of those that ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GetUsage {
    /// Counts only these nodes, each as NODE or SESSION/NODE. They need not exist any more. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Counts only nodes of this session. Default: all sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Counts only what is not older than this time (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Has a row for each of these. Default: `node`.
    #[serde(default)]
    pub by: UsageGrouping,
}
