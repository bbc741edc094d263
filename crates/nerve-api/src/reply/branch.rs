//! Replies of the commands for branches.

use nerve_types::activity::TsMs;
use serde::{Deserialize, Serialize};

use super::response::TurnResponse;
use crate::value::{BranchProxy, ConversationKind, FileProvider};

/// Reply to CREATE_BRANCH: the branch, or with `dry_run` its plan.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BranchCreated {
    /// Id of the recording that is continued; null for an unrecorded session.
    pub recording_id: Option<String>,
    /// Snapshot that is continued; null at the end of a recording without a snapshot.
    pub snapshot: Option<BranchSnapshot>,
    /// Restored files; null with `in_place`.
    pub files: Option<BranchFiles>,
    /// Conversation of the new node.
    pub conversation: BranchConversation,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Working directory of the new node.
    pub cwd: String,
    /// Id of the new node.
    pub node_id: String,
    /// Session of the new node; null for the default session.
    pub session_id: Option<String>,
    /// Name of the server.
    pub server_name: String,
    /// Environment of the new node.
    pub environment: BranchEnvironment,
    /// Proxy of the new node: `given` in the request, or the kind of the inherited one.
    pub proxy: Option<BranchProxy>,
    /// Git branch of the files, if any.
    pub git_branch: Option<String>,
    /// Files that could not be restored, with the reason.
    pub left_out: Vec<String>,
    /// True if nothing was created.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// Instruction of the request, with `dry_run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instruction: Option<String>,
    /// Response of the agent, if it was awaited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<TurnResponse>,
}

/// The snapshot that a branch continues.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BranchSnapshot {
    /// Number of the snapshot in its recording.
    pub snapshot_id: u64,
    /// Label.
    pub label: Option<String>,
    /// Time of the snapshot.
    pub taken_at: TsMs,
    /// Output offset of the snapshot, in bytes.
    pub anchor_byte: u64,
}

/// The files of a branch.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BranchFiles {
    /// Provider: `git`, `copy` or `reflink`.
    pub provider: FileProvider,
    /// Directory whose files were stored.
    pub source: String,
    /// Reference of the provider.
    pub reference: String,
    /// Directory that has the files now.
    pub to: String,
}

/// The conversation of a branch's node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BranchConversation {
    /// `cut` at the snapshot, `whole` with later messages, or `new`.
    pub kind: ConversationKind,
    /// Description for people.
    pub about: String,
    /// Reason for a new conversation.
    #[serde(rename = "why")]
    pub reason: Option<String>,
    /// Transcript or id of the recorded conversation, if it was cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Transcript or id of the copy, if it was cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Turns in the copy, if it was cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// Turns in the recorded conversation, if it was cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
}

/// Names of the variables of a branch's node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BranchEnvironment {
    /// Variables of the request.
    pub given: Vec<String>,
    /// Variables inherited from the recorded node; null if unknown.
    pub taken_over: Option<Vec<String>>,
    /// Variables of the recorded node whose values are unknown; null if unknown.
    pub missing: Option<Vec<String>>,
}

/// A folder with the files of a branch.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BranchInfo {
    /// Path of the folder.
    pub path: String,
    /// Time of creation; null if unknown.
    pub created_at: Option<TsMs>,
    /// Id of the recording that the branch continues; null if unknown.
    pub recording_id: Option<String>,
    /// Number of the snapshot, if any.
    pub snapshot_id: Option<u64>,
    /// Directory whose files were stored; null if unknown.
    pub source: Option<String>,
    /// Git branch of the files, if any.
    pub git_branch: Option<String>,
    /// Node or host that works in the folder.
    pub used_by: Option<String>,
    /// Recordings that need the folder: its source, and those made in it.
    pub recordings: Vec<String>,
    /// True if files have changed since the branch was created; null if unknown.
    pub changed: Option<bool>,
    /// Description of the changes, or why they are unknown.
    pub changes: Option<String>,
}

/// Reply to LIST_BRANCHES.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BranchList {
    /// Folders of branches.
    pub branches: Vec<BranchInfo>,
}

/// Reply to DELETE_BRANCH.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BranchDeleted {
    /// Path of the folder that was removed.
    pub path: String,
    /// Note on the removal: a git branch with commits of its own is kept.
    pub note: Option<String>,
}
