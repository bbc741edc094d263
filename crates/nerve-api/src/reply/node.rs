//! Results of the commands that concern nodes.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What is known of a node (seed node-refactoring REQ-N0).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeInfo {
    /// Its id.
    pub id: String,
    /// `pty`, `bash` …
    #[serde(rename = "type")]
    pub kind: String,
    /// `created` (defined, and not started), `starting`, `ready`, `busy`, `blocked`, `suspended`, `stopping`, `stopped`.
    pub state: String,
    /// Keeps state between executions.
    #[serde(default)]
    pub persistent: bool,
    /// Facts for people: command, cwd, pid, profile, size …
    #[serde(default)]
    pub metadata: Map<String, Value>,
}

/// Of GET_NODE: a [`NodeInfo`] whose id is called `node_id`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeDetails {
    /// Its id.
    pub node_id: String,
    /// `pty`, `bash` …
    #[serde(rename = "type")]
    pub kind: String,
    /// As in [`NodeInfo`].
    pub state: String,
    /// Keeps state between executions.
    #[serde(default)]
    pub persistent: bool,
    /// Facts for people.
    #[serde(default)]
    pub metadata: Map<String, Value>,
}

impl From<NodeInfo> for NodeDetails {
    fn from(info: NodeInfo) -> NodeDetails {
        let NodeInfo { id, kind, state, persistent, metadata } = info;
        NodeDetails { node_id: id, kind, state, persistent, metadata }
    }
}

impl From<NodeDetails> for NodeInfo {
    fn from(data: NodeDetails) -> NodeInfo {
        let NodeDetails { node_id, kind, state, persistent, metadata } = data;
        NodeInfo { id: node_id, kind, state, persistent, metadata }
    }
}

/// Of CREATE_NODE.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeCreated {
    /// The new node.
    pub node_id: String,
}

/// Of FORK_NODE.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeForked {
    /// The new node.
    pub node_id: String,
    /// The node it goes on from.
    pub forked_from: String,
}

/// Of LIST_NODES.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeList {
    /// Ids, sorted.
    pub nodes: Vec<String>,
    /// The same nodes with what is known of them.
    #[serde(default)]
    pub nodes_info: Vec<NodeInfo>,
}

/// Of STOP_NODE and SHUTDOWN.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stopped {
    /// Done.
    pub stopped: bool,
}

/// Of RUN_COMMAND.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommandTyped {
    /// The command was typed.
    pub executed: bool,
}

/// Of SEND_INTERRUPT.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interrupted {
    /// The interrupt was sent.
    pub interrupted: bool,
}

/// Of WRITE_DATA.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Written {
    /// Bytes.
    pub written: u64,
}

/// Of GET_BUFFER.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeText {
    /// Text of the terminal.
    pub buffer: String,
}

/// Of WAIT_NODE.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReachedState {
    /// The state the wait ended in.
    pub state: String,
}

/// Of EXPLAIN_NODE: a node's state, and what it rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeExplanation {
    /// Its id.
    pub node_id: String,
    /// As in [`NodeInfo`].
    pub state: String,
    /// In words.
    pub evidence: String,
    /// Kind of signal: `hook`, `mark`, `title`, `foreground`, `screen`, `quiet`, `exit`.
    pub source: String,
    /// The byte offset at which it was seen.
    pub offset: u64,
    /// Choices of the dialog, if blocked.
    #[serde(default)]
    pub choices: Vec<String>,
    /// What the terminal shows.
    #[serde(default)]
    pub screen: String,
    /// The turn that runs, if one does.
    #[serde(default)]
    pub turn: Option<RunningTurn>,
    /// Facts for people.
    #[serde(default)]
    pub metadata: Map<String, Value>,
}

/// A turn that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunningTurn {
    /// Its number on the node, from 1.
    pub turn: u64,
    /// How far its prompt came: `typed`, `submitted`, `started`, `unknown`.
    pub delivery: String,
}
