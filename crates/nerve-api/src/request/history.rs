//! Parameters of GET_HISTORY.

use serde::{Deserialize, Serialize};

use crate::value::HistoryOp;

/// GET_HISTORY: returns entries of a node's audit log that match all given filters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GetHistory {
    /// Id of the node, which need not exist any more.
    pub node_id: String,
    /// Session of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Server that wrote the log. Default: this server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// Returns only the last of the matching entries, at most this many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<usize>,
    /// Returns only this operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<HistoryOp>,
    /// Returns only the entry with this sequence number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Returns only `send`, `send_stream`, `write` and `run`.
    #[serde(default)]
    pub inputs_only: bool,
    /// Leaves out `read`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_reads: bool,
}
