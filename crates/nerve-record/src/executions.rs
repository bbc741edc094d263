//! Tool executions of a recorded session: `<stem>.executions.jsonl` lists them, and `<stem>.executions/<id>.ahr`
//! records the terminal of each execution that had its own.

mod list;
mod list_file;
pub mod log;
pub mod trace;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use self::list::Executions;
pub use self::list_file::{ClaimError, append, claim, find, read};
use crate::store::{self, StoreError, check_id};

/// Maximum length of a list: 64 MiB. Further lines are rejected.
pub const MAX_LIST: u64 = 64 << 20;
/// Executions of a session kept in memory; the oldest are dropped.
pub const MAX_EXECUTIONS: usize = 16_384;
/// Maximum bytes of a command and of an output in a line; longer texts are truncated.
pub const MAX_TEXT: usize = 64 << 10;

/// `input` of an execution that reads `/dev/null`.
pub const NULL_INPUT: &str = "null";
/// `input` of an execution that reads a file, a pipe or another terminal.
pub const OTHER_INPUT: &str = "other";

/// One line of the list. A later line with the same id adds what was unknown before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExecutionLine {
    /// Id: the agent's own for a tool use, or the one given to `nerve exec`.
    pub id: String,
    /// The agent's tool, if an agent ran it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The command, as the agent wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Start; nanoseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_ns: Option<u64>,
    /// End; nanoseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_ns: Option<u64>,
    /// Exit code as in a shell: 128 plus the signal number if a signal ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Final state, a name of [`crate::activity::Status`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Output bytes in the session's recording before the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anchor_byte: Option<u64>,
    /// Host of the execution's own terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Source of standard input unless it is its terminal: [`NULL_INPUT`] or [`OTHER_INPUT`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// Output returned to the agent, if the execution had no terminal of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

impl ExecutionLine {
    /// Returns true if the execution has its own terminal, recorded at [`recording_path`].
    pub fn has_terminal(&self) -> bool {
        self.host.is_some()
    }

    /// Returns true if the execution has ended.
    pub fn has_ended(&self) -> bool {
        self.ended_ns.is_some()
    }

    /// Merges a later line. Start, tool and command stay as first reported.
    fn amend(&mut self, later: ExecutionLine) {
        *self = ExecutionLine {
            id: later.id,
            tool: self.tool.take().or(later.tool),
            command: self.command.take().or(later.command),
            started_ns: self.started_ns.or(later.started_ns),
            ended_ns: later.ended_ns.or(self.ended_ns),
            exit_code: later.exit_code.or(self.exit_code),
            status: later.status.or(self.status.take()),
            anchor_byte: self.anchor_byte.or(later.anchor_byte),
            host: later.host.or(self.host.take()),
            input: self.input.take().or(later.input),
            output: later.output.or(self.output.take()),
        };
    }
}

/// Returns the path of the list of `recording`.
pub fn list_path(recording: &Path) -> PathBuf {
    store::sidecar_path(recording, "executions.jsonl")
}

/// Returns the folder with the execution recordings of `recording`.
pub fn folder_path(recording: &Path) -> PathBuf {
    store::sidecar_path(recording, "executions")
}

/// Returns the path of an execution's recording.
///
/// # Errors
/// [`StoreError::Id`] if `id` cannot be part of a path.
pub fn recording_path(recording: &Path, id: &str) -> Result<PathBuf, StoreError> {
    check_id(id)?;
    Ok(folder_path(recording).join(format!("{id}.{}", store::EXTENSION)))
}

/// Truncates `text` to at most `limit` bytes at a character boundary and appends `…`.
fn truncate(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        text.truncate(text.floor_char_boundary(limit));
        text.push('…');
    }
    text
}
