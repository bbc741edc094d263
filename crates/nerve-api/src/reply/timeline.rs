//! Replies to GET_TIMELINE and READ_RECORDING. Times are in milliseconds from the start of the recording.

use serde::{Deserialize, Serialize};

/// An overview of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct RecordingTimeline {
    /// Id of the recording.
    pub recording_id: String,
    /// Node whose terminal it is; null if unknown.
    pub node_id: Option<String>,
    /// Session of the node; null if unknown.
    pub session_id: Option<String>,
    /// Start of the recording (RFC 3339, UTC): the zero of all times; null without output.
    pub started_at: Option<String>,
    /// Time of the latest output, input or resize.
    pub duration_ms: u64,
    /// Bytes of output.
    pub end_offset: u64,
    /// True while it is being recorded.
    pub live: bool,
    /// False if the rest of a long recording has not been read yet: a further request continues.
    pub is_complete: bool,
    /// Bytes of the file that have been read.
    pub read_bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Duration of a slice of `activity` in milliseconds.
    pub slice_ms: u64,
    /// Bytes of output in each slice, at most 500 slices.
    pub activity: Vec<u64>,
    /// The turns that began while it was recorded and whose time is known, oldest first: the newest 2000.
    pub turns: Vec<TimelineTurn>,
    /// The snapshots, in the order in which they were taken: the newest 2000.
    pub snapshots: Vec<TimelineSnapshot>,
    /// The dialogs that were answered, oldest first: the newest 2000.
    pub dialogs: Vec<TimelineDialog>,
    /// The sizes of the terminal: the first 1000.
    pub sizes: Vec<TimelineSize>,
    /// The damaged parts of the file: the first 1000.
    pub damage: Vec<RecordingDamage>,
    /// Reasons why something is missing.
    pub notes: Vec<String>,
    /// Changes with everything else in the reply: the `since` of a request that waits for a change.
    pub version: String,
}

/// A turn in a `RecordingTimeline`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TimelineTurn {
    /// Number of the turn in the transcript of the node, or of the recording if that was requested.
    pub turn: u64,
    /// Time of the prompt.
    pub at_ms: u64,
    /// Beginning of the prompt, at most 200 characters.
    pub prompt: String,
}

/// A snapshot in a `RecordingTimeline`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TimelineSnapshot {
    /// Number of the snapshot.
    pub snapshot_id: u64,
    /// Time of the snapshot.
    pub at_ms: u64,
    /// Output bytes before it.
    pub anchor_byte: u64,
    /// Label.
    pub label: Option<String>,
    /// True if its files are stored.
    pub has_files: bool,
}

/// A dialog in a `RecordingTimeline`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TimelineDialog {
    /// Time of the answer.
    pub at_ms: u64,
    /// Kind of the dialog.
    pub dialog: String,
    /// The choice; null if the dialog was closed without one.
    pub choice: Option<String>,
}

/// A size of the terminal in a `RecordingTimeline`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TimelineSize {
    /// Time from which on it applies.
    pub at_ms: u64,
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
}

/// A damaged part of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct RecordingDamage {
    /// Time of the last record before it; null if unknown.
    pub at_ms: Option<u64>,
    /// Output bytes before it; null if unknown.
    pub offset: Option<u64>,
    /// Missing bytes of output; null if unknown.
    pub missing: Option<u64>,
    /// The kind of damage, with the range of the file.
    pub reason: String,
}

/// The terminal of a recording at a position, and the output that follows.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct RecordedOutput {
    /// Id of the recording.
    pub recording_id: String,
    /// False if a long recording has to be indexed first: the same request continues, and has no output yet.
    pub is_ready: bool,
    /// Part of the file that is indexed, from 0 to 1, if `is_ready` is false.
    pub indexed: Option<f64>,
    /// The terminal at the position; null with `output_only`.
    pub terminal: Option<RecordedTerminal>,
    /// The output after the position, and the resizes between it, in order.
    pub chunks: Vec<RecordedChunk>,
    /// Offset of the next page.
    pub next_offset: u64,
    /// True if the recording ends with this page. A live one continues.
    pub is_end: bool,
    /// The damaged parts of the file in this page.
    pub damage: Vec<RecordingDamage>,
}

/// A recorded terminal at a position.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct RecordedTerminal {
    /// Output bytes before the position.
    pub offset: u64,
    /// Time of the last record before the position.
    pub at_ms: u64,
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
    /// Bytes that recreate the terminal in a new one of this size, in Base64 (RFC 4648, section 4).
    pub dump: String,
}

/// Output or a resize: it has `data`, or `cols` and `rows`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct RecordedChunk {
    /// Time, which never decreases.
    pub at_ms: u64,
    /// Output bytes before it.
    pub offset: u64,
    /// The output in Base64 (RFC 4648, section 4).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// Columns of the resized terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cols: Option<u16>,
    /// Rows of the resized terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u16>,
}
