//! Replies of the commands for snapshots.

use nerve_types::activity::TsMs;
use serde::{Deserialize, Serialize};

use crate::value::FileProvider;

/// Reference to the files of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SnapshotFiles {
    /// Provider: `git`, `copy` or `reflink`.
    pub provider: FileProvider,
    /// Directory whose files were stored; null if only the copy is known, because its recording is gone.
    pub source: Option<String>,
    /// Reference of the provider: a git reference, or the name of the copy.
    pub reference: String,
}

/// A snapshot of a recorded session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SnapshotInfo {
    /// Number of the snapshot in its recording.
    pub snapshot_id: u64,
    /// Id of the recording.
    pub recording_id: String,
    /// Time of the snapshot; null if its recording is gone.
    pub taken_at: Option<TsMs>,
    /// Output offset of the snapshot, in bytes; null if its recording is gone.
    pub anchor_byte: Option<u64>,
    /// Label.
    pub label: Option<String>,
    /// Stored files, if any.
    pub files: Option<SnapshotFiles>,
}

/// Reply to LIST_SNAPSHOTS.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SnapshotList {
    /// Snapshots, in the order in which they were taken.
    pub snapshots: Vec<SnapshotInfo>,
}

/// Reply to TAKE_SNAPSHOT.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SnapshotTaken {
    /// Number of the snapshot in its recording.
    pub snapshot_id: u64,
    /// Id of the recording.
    pub recording_id: String,
    /// Label.
    pub label: Option<String>,
    /// Output offset of the snapshot, in bytes.
    pub anchor_byte: u64,
    /// Time of the snapshot.
    pub taken_at: TsMs,
    /// Stored files; null with `no_files`.
    pub files: Option<SnapshotFiles>,
    /// Files that could not be stored, with the reason.
    pub left_out: Vec<String>,
}

/// Reply to RESTORE_SNAPSHOT.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SnapshotRestored {
    /// Number of the snapshot in its recording.
    pub snapshot_id: u64,
    /// Id of the recording.
    pub recording_id: String,
    /// Directory that has the files.
    pub to: String,
    /// Stored files of the snapshot.
    pub files: SnapshotFiles,
    /// Files that could not be restored, with the reason.
    pub left_out: Vec<String>,
}
