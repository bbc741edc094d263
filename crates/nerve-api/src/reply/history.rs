//! The result of GET_HISTORY.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Entries of a node's audit log.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeHistory {
    /// The node.
    pub node_id: String,
    /// The same, under its older name (seed channel-history §8.3).
    #[serde(default)]
    pub channel_id: String,
    /// The server whose log it is.
    #[serde(default)]
    pub server_name: String,
    /// Oldest first, fields in the order of the file.
    pub entries: Vec<Value>,
    /// How many entries that is.
    pub total: usize,
    /// Why there are none, or not all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
