//! Parameters of GET_HISTORY.

use serde::{Deserialize, Serialize};

/// GET_HISTORY. What is set must all hold.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GetHistory {
    /// The node; it need not exist any more.
    pub node_id: String,
    /// The session it is or was in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Another server's log; this server's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// Only the last so many of what the rest lets through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<usize>,
    /// Only this operation: `send`, `send_stream`, `write`, `run`, `read`, `interrupt`, `close`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<String>,
    /// Only the entry with this sequence number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Only `send`, `send_stream`, `write` and `run`.
    #[serde(default)]
    pub inputs_only: bool,
}
