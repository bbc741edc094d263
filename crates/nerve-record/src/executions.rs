//! What an agent ran in a session, beside its recording: `<stem>.executions.jsonl` lists it, and `<stem>.executions/<id>.ahr` is the
//! terminal of what had one of its own (seed agent-record §3, `show-sandbox-execution`).

mod list;
mod list_file;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use self::list::Executions;
pub use self::list_file::{ClaimError, append, claim, find, read};
use crate::store::{self, StoreError, check_id};

/// A list that is longer gets no more lines: 64 MiB.
pub const MAX_LIST: u64 = 64 << 20;
/// Executions of a session that are remembered at once: the newest.
pub const MAX_EXECUTIONS: usize = 16_384;
/// The most bytes of a command and of an output that go into a line; the rest is cut off.
pub const MAX_TEXT: usize = 64 << 10;

/// The input of an execution that reads nothing: `/dev/null`.
pub const NULL_INPUT: &str = "null";
/// The input of an execution that reads a file, a pipe or another terminal.
pub const OTHER_INPUT: &str = "other";

/// What is told of one execution. A later line of the same id says what was not known before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExecutionLine {
    /// Its id: the agent's own for the use of a tool, or the one `nerve exec` was given.
    pub id: String,
    /// The agent's tool, if an agent ran it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// What was run, as the agent wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// When it began; nanoseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_ns: Option<u64>,
    /// When it ended; nanoseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_ns: Option<u64>,
    /// Its exit code, as a shell gives it: 128 and the signal's number, if one ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// How it went, in the words of [`crate::activity::Status`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Output bytes in the session's recording before it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anchor_byte: Option<u64>,
    /// The host of its own terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Where its standard input comes from, if that is not its terminal: [`NULL_INPUT`] or [`OTHER_INPUT`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// What it gave back to the agent, where it had no terminal of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

impl ExecutionLine {
    /// It has a terminal of its own, recorded as [`recording_of`] says.
    pub fn has_terminal(&self) -> bool {
        self.host.is_some()
    }

    /// It is over.
    pub fn has_ended(&self) -> bool {
        self.ended_ns.is_some()
    }

    /// Takes on what `later` says. When it began is what the first said.
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

/// The list beside `recording`.
pub fn path_of(recording: &Path) -> PathBuf {
    store::sidecar_path(recording, "executions.jsonl")
}

/// The folder of recordings beside `recording`.
pub fn folder_of(recording: &Path) -> PathBuf {
    store::sidecar_path(recording, "executions")
}

/// Where the terminal of an execution is recorded.
///
/// # Errors
/// [`StoreError::Id`] when `id` cannot be part of a path.
pub fn recording_of(recording: &Path, id: &str) -> Result<PathBuf, StoreError> {
    check_id(id)?;
    Ok(folder_of(recording).join(format!("{id}.{}", store::EXTENSION)))
}

/// At most `most` bytes of it, whole characters.
fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        let end = (0..=most).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
        text.push('…');
    }
    text
}
