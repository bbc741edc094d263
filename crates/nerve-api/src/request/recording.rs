//! Parameters of the commands for the recordings on the server's machine.

use serde::{Deserialize, Serialize};

use super::PageRequest;
use super::value::Seconds;

/// LIST_RECORDINGS: lists the recordings on the server's machine, last written first, whichever server made them. Pages
/// are ordered by start time, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListRecordings {
    /// Returns only the recordings that were written last, at most this many. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<usize>,
    /// Part of the list.
    #[serde(flatten)]
    pub page: PageRequest,
}

/// PRUNE_RECORDINGS: removes old recordings, and folders of branches that are no longer needed. Requires `older_than`,
/// `max_size` or `branches`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PruneRecordings {
    /// Removes recordings that ended longer ago, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub older_than: Option<Seconds>,
    /// Removes the oldest recordings until the rest fits into this many bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_size: Option<u64>,
    /// Also removes folders of branches that no node uses, even if their recordings exist.
    #[serde(default)]
    pub branches: bool,
    /// Also removes folders of branches with unsaved changes.
    #[serde(default)]
    pub force: bool,
    /// Returns what would be removed and removes nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// GET_TIMELINE: returns an overview of a recording: its activity, turns, snapshots, dialogs, sizes and damage. Requires
/// `node_id`, for the node's newest recording, or `recording`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GetTimeline {
    /// Id of the recorded node, which need not exist any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// Session of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Recording: an id, a unique prefix of one, or an absolute path. Instead of `node_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<String>,
    /// The `version` of an earlier reply: waits for a change of the overview. A change is reported after one second at the
    /// earliest, unless `timeout` is shorter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Time limit of that wait, in seconds; then the same overview is returned. Default: 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Seconds>,
}

/// GET_RECORDING_FILE: returns a range of a recording's file, to copy it to another machine. A recording only grows. Requires `recording`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GetRecordingFile {
    /// Recording: an id, a unique prefix of one, or an absolute path.
    pub recording: String,
    /// Bytes of the file before the range. Default: 0.
    #[serde(default)]
    pub offset: u64,
    /// Maximum bytes of the range, from 1 to 1048576. Default: 262144.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// READ_RECORDING: returns the terminal of a recording at a position, and the output that follows. Requires `recording`.
/// The position is the start unless `at` or `offset` is given.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReadRecording {
    /// Recording: an id, a unique prefix of one, or an absolute path.
    pub recording: String,
    /// Position: seconds from the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Seconds>,
    /// Position: output bytes before it. Instead of `at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Returns only the output after `offset`, without the terminal: the next page.
    #[serde(default)]
    pub output_only: bool,
    /// Maximum bytes of output, from 1 to 1048576. Default: 262144.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}
