//! Replies of the commands for recordings.

use nerve_types::ExitStatus;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::value::PruneReason;

/// A recording on the server's machine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct RecordingInfo {
    /// Id: the file name without extension.
    pub recording_id: String,
    /// Path of the recording.
    pub path: String,
    /// Time of the last write to the file (RFC 3339); null if unknown.
    pub written_at: Option<String>,
    /// Start time (RFC 3339); null if unknown.
    pub started_at: Option<String>,
    /// Duration in milliseconds; null if unknown.
    pub duration_ms: Option<u64>,
    /// Size on disk in bytes, with the files that belong to the recording.
    pub bytes: u64,
    /// Columns of the terminal at the start; null if unknown.
    pub cols: Option<u16>,
    /// Rows of the terminal at the start; null if unknown.
    pub rows: Option<u16>,
    /// Program and arguments; empty if unknown.
    pub command: Vec<String>,
    /// Working directory of the program; null if unknown.
    pub cwd: Option<String>,
    /// Node whose terminal it is; null if unknown.
    pub node_id: Option<String>,
    /// Session of the node; null if unknown.
    pub session_id: Option<String>,
    /// Server that created the node; null if unknown.
    pub server_name: Option<String>,
    /// Profile of the agent; null if unknown.
    pub profile: Option<String>,
    /// Id of the agent's conversation, as last reported; null if unknown.
    pub conversation_id: Option<String>,
    /// Exit status of the program; null while it runs, or if unknown.
    pub exit: Option<RecordedExit>,
    /// Number of snapshots.
    pub snapshots: u64,
    /// True while it is being recorded.
    pub live: bool,
    /// True if it contains nothing yet: it has just begun, or its recorder died at once.
    pub empty: bool,
}

/// Exit status of a program: `code` or `signal`, or neither if the status is not available.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecordedExit {
    /// Exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Number of the signal that terminated the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
}

impl From<ExitStatus> for RecordedExit {
    fn from(status: ExitStatus) -> RecordedExit {
        let none = RecordedExit::default();
        match status {
            ExitStatus::Code(code) => RecordedExit { code: Some(code), ..none },
            ExitStatus::Signal(signal) => RecordedExit { signal: Some(signal), ..none },
            ExitStatus::Unknown => none,
        }
    }
}

impl From<RecordedExit> for ExitStatus {
    fn from(exit: RecordedExit) -> ExitStatus {
        match exit {
            RecordedExit { code: Some(code), .. } => ExitStatus::Code(code),
            RecordedExit { signal: Some(signal), .. } => ExitStatus::Signal(signal),
            RecordedExit { code: None, signal: None } => ExitStatus::Unknown,
        }
    }
}

impl RecordedExit {
    /// Converts the status to JSON.
    pub(super) fn to_value(self) -> Value {
        // Numbers cannot fail.
        serde_json::to_value(self).unwrap_or_default()
    }
}

/// Reply to LIST_RECORDINGS.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecordingList {
    /// Recordings, last written first; on a page, last started first, since that order does not change between pages.
    pub recordings: Vec<RecordingInfo>,
    /// Cursor of the next page; null on the last page.
    #[serde(default)]
    pub next: Option<String>,
}

/// A range of a recording's file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct RecordingFile {
    /// Id of the recording.
    pub recording_id: String,
    /// Length of the whole file in bytes.
    pub file_bytes: u64,
    /// Bytes of the file before the range.
    pub offset: u64,
    /// The bytes in Base64 (RFC 4648, section 4); empty behind the end of the file.
    pub data: String,
    /// CRC-32C (RFC 3720, appendix B.4) of the bytes.
    pub checksum: u32,
    /// True while it is being recorded.
    pub live: bool,
    /// Text of the file with its metadata (JSON), if the range reaches the end; null if there is none.
    pub metadata: Option<String>,
    /// Text of the file with its snapshots (a line of JSON each), if the range reaches the end; null if there is none.
    pub snapshots: Option<String>,
}

/// Reply to PRUNE_RECORDINGS: what was removed, or with `dry_run` what would be.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct RecordingsPruned {
    /// Recordings that were removed.
    pub removed: Vec<PrunedRecording>,
    /// Their total size in bytes.
    pub bytes: u64,
    /// Folders of branches, also those that were kept.
    pub branches: Vec<PrunedBranch>,
    /// Number of recordings before.
    pub total: u64,
    /// True if nothing was removed because the request was a dry run.
    pub dry_run: bool,
}

/// A recording that was removed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PrunedRecording {
    /// Id of the recording.
    pub recording_id: String,
    /// Path of the recording.
    pub path: String,
    /// Size on disk in bytes.
    pub bytes: u64,
    /// Rule that selected it.
    pub reason: PruneReason,
}

/// The folder of a branch after PRUNE_RECORDINGS.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PrunedBranch {
    /// Path of the folder.
    pub path: String,
    /// True if it was removed, or with `dry_run` would be.
    pub removed: bool,
    /// Reason why the folder was kept, or a note on its removal.
    #[serde(rename = "why")]
    pub reason: Option<String>,
    /// True if the folder was kept because a node or a recording needs it.
    pub needed: bool,
    /// True if the folder was kept although nothing needs it; `force` removes it.
    pub orphaned: bool,
}
