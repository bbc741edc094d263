//! Parameters of the commands for snapshots of recorded sessions.

use serde::{Deserialize, Serialize};

use super::value::Seconds;

/// LIST_SNAPSHOTS: lists the snapshots of a node's recording or of any recorded session on the server's machine. Without
/// both, lists all snapshots with files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListSnapshots {
    /// Id of the node whose recording is searched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// Session of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Recording: an id, a unique prefix of one, or an absolute path. Instead of `node_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<String>,
    /// Git work tree to search, as an absolute path. Default: where the snapshot was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
    /// Returns only the last snapshots, at most this many. Default: 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<usize>,
}

/// TAKE_SNAPSHOT: marks the present in a recording and stores the files of that moment. Requires `node_id` or `recording`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TakeSnapshot {
    /// Id of the recorded node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// Session of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Running recorded session: its id or that of its host, a unique prefix of one, or its recording. Instead of `node_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<String>,
    /// Label of the snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Number of the snapshot. Default: the next free one in the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<u64>,
    /// Directory to store, as an absolute path. Default: the start directory of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
    /// Limit for the bytes to copy or to add to a git repository. Default: 1 GiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Marks the recording without storing files.
    #[serde(default)]
    pub no_files: bool,
    /// Time limit for the recorder's confirmation, in seconds. Default: 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Seconds>,
}

/// RESTORE_SNAPSHOT: restores the files of a snapshot to a directory that is empty or does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RestoreSnapshot {
    /// Number of the snapshot.
    pub snapshot_id: u64,
    /// Target directory on the server's machine, as an absolute path.
    pub to: String,
    /// Id of the node whose recording is searched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// Session of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Recording: an id, a unique prefix of one, or an absolute path. Instead of `node_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<String>,
    /// Git work tree that has the snapshot, as an absolute path. Default: where the snapshot was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
}
