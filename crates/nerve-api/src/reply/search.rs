//! Reply to SEARCH.

use nerve_types::activity::TsMs;
use serde::{Deserialize, Serialize};

use crate::value::DocumentKind;

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SearchResult {
    /// The hits, newest first.
    pub hits: Vec<SearchHit>,
    /// Files that are not searched completely: at most 10 of them.
    pub unsearched: Vec<UnsearchedFile>,
    /// Number of all such files.
    pub unsearched_count: usize,
    /// True if the index was damaged or of an older version and was built again.
    pub was_rebuilt: bool,
}

/// A text that matches. Null stands for what is not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SearchHit {
    /// Kind of the text.
    pub kind: DocumentKind,
    /// Id of the node.
    #[serde(default)]
    pub node_id: Option<String>,
    /// Session of the node.
    #[serde(default)]
    pub session_id: Option<String>,
    /// Server of the node.
    #[serde(default)]
    pub server_name: Option<String>,
    /// Id of the recording; null for a node without one.
    #[serde(default)]
    pub recording_id: Option<String>,
    /// Number of the turn in the transcript of the recording, or of the node without one, from 1; null for text of the screen and for
    /// turns that no transcript has.
    #[serde(default)]
    pub turn: Option<u64>,
    /// Time (RFC 3339, UTC): of the prompt, of the end of the answer, or of the moment on the screen.
    pub happened_at: TsMs,
    /// Time since the start of the recording, in milliseconds.
    pub offset_ms: u64,
    /// The text around the match, at most about 1000 characters.
    pub text: String,
    /// The matched parts of `text`, each as the bytes of its UTF-8 form from the first up to the second number.
    pub matches: Vec<[usize; 2]>,
}

/// A file that is not searched completely.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnsearchedFile {
    /// Path of the file.
    pub path: String,
    /// Reason.
    pub reason: String,
}
