//! Reply to GET_HISTORY.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Entries of a node's audit log.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeHistory {
    /// Id of the node.
    pub node_id: String,
    /// Server that wrote the log.
    #[serde(default)]
    pub server_name: String,
    /// Entries, oldest first; their fields are in the order of the file.
    pub entries: Vec<Value>,
    /// Number of entries.
    pub total: usize,
    /// Reason why entries are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
