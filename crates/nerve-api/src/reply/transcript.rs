//! Reply to GET_TRANSCRIPT.

use nerve_types::{Section, Tokens};
use serde::{Deserialize, Serialize};

/// The conversation of a node or a recording. Null stands for what is not known.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Transcript {
    /// Id of the node.
    pub node_id: Option<String>,
    /// Session of the node.
    pub session_id: Option<String>,
    /// Server of the node.
    pub server_name: Option<String>,
    /// Id of the node's newest recording, or of the selected one.
    pub recording_id: Option<String>,
    /// Profile of the agent.
    pub profile: Option<String>,
    /// Id of the agent's conversation.
    pub conversation_id: Option<String>,
    /// Working directory of the program.
    pub cwd: Option<String>,
    /// The agent's own session file, if the turns were read from it.
    pub session_file: Option<String>,
    /// Number of all turns, also of those that were not requested.
    pub turn_count: u64,
    /// The turns, oldest first.
    pub turns: Vec<TranscriptTurn>,
    /// Reasons why something may be missing.
    pub notes: Vec<String>,
}

/// One turn of a [`Transcript`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TranscriptTurn {
    /// Number of the turn, from 1.
    pub turn: u64,
    /// The prompt; empty if it is not known.
    pub prompt: String,
    /// Time of the prompt (RFC 3339, UTC).
    pub started_at: Option<String>,
    /// Time of the end of the answer.
    pub ended_at: Option<String>,
    /// The answer: text, thoughts, tool calls with their results, errors.
    pub sections: Vec<Section>,
    /// Tokens of the turn.
    pub tokens: Option<Tokens>,
    /// True if the end of the answer is known.
    pub is_complete: bool,
    /// Source of the turn.
    pub source: TranscriptSource,
    /// The dialogs of the turn and their answers.
    pub dialogs: Vec<TranscriptDialog>,
}

/// Source from which a turn was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TranscriptSource {
    /// The agent's own session file.
    Agent,
    /// The node's history.
    #[default]
    History,
    /// The recorded screen.
    Screen,
}

/// A dialog of the agent, and who answered it through nerve.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TranscriptDialog {
    /// Time of the answer (RFC 3339, UTC).
    pub answered_at: Option<String>,
    /// Kind of the dialog.
    pub dialog: String,
    /// The choice; null if the dialog was closed without one.
    pub choice: Option<String>,
    /// The client: its user and process, or its address.
    pub client: String,
    /// The transport of the client.
    pub transport: String,
}
