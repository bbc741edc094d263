//! Parameters of GET_TRANSCRIPT.

use serde::{Deserialize, Serialize};

/// GET_TRANSCRIPT: returns the prompts and answers of a node or of a recording. Requires `node_id` or `recording`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GetTranscript {
    /// Id of the node, which need not exist any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// Session of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Recording: an id, a unique prefix of one, or an absolute path. Instead of `node_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<String>,
    /// Returns only this turn, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
    /// Returns only turns before this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    /// Maximum number of turns, from 1 to 1000: the newest of them. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}
