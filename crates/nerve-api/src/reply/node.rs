//! Replies of the commands for nodes.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Description of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeInfo {
    /// Id of the node.
    pub id: String,
    /// Kind of node: `pty`, `bash` …
    #[serde(rename = "type")]
    pub kind: String,
    /// State: `created` (defined but not started), `starting`, `ready`, `busy`, `blocked`, `suspended`, `stopping` or `stopped`.
    pub state: String,
    /// True if the node keeps its state between executions.
    #[serde(default)]
    pub persistent: bool,
    /// Details for display: command, cwd, pid, profile, size …
    #[serde(default)]
    pub metadata: Map<String, Value>,
}

/// Reply to GET_NODE: a [`NodeInfo`] with `node_id` instead of `id`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeDetails {
    /// Id of the node.
    pub node_id: String,
    /// Kind of node: `pty`, `bash` …
    #[serde(rename = "type")]
    pub kind: String,
    /// State, as in [`NodeInfo`].
    pub state: String,
    /// True if the node keeps its state between executions.
    #[serde(default)]
    pub persistent: bool,
    /// Details for display: command, cwd, pid, profile, size …
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

/// Reply to CREATE_NODE and START_NODE.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeCreated {
    /// Id of the node.
    pub node_id: String,
}

/// Reply to FORK_NODE.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeForked {
    /// Id of the new node.
    pub node_id: String,
    /// Id of the node that was forked.
    pub forked_from: String,
}

/// Reply to LIST_NODES.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeList {
    /// Ids of the nodes, sorted.
    pub nodes: Vec<String>,
    /// The nodes in the same order, with their descriptions.
    #[serde(default)]
    pub nodes_info: Vec<NodeInfo>,
}

/// Reply to STOP_NODE and SHUTDOWN.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stopped {
    /// True if the node or the server was stopped.
    pub stopped: bool,
}

/// Reply to RUN_COMMAND.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommandTyped {
    /// True if the command was typed.
    pub executed: bool,
}

/// Reply to SEND_INTERRUPT.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interrupted {
    /// True if the interrupt was sent.
    pub interrupted: bool,
}

/// Reply to WRITE_DATA.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Written {
    /// Number of bytes written.
    pub written: u64,
}

/// Reply to GET_BUFFER.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeText {
    /// Text of the terminal.
    pub buffer: String,
}

/// Reply to WAIT_NODE.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReachedState {
    /// State that ended the wait.
    pub state: String,
}

/// A node's state and the evidence for it. Reply to EXPLAIN_NODE.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeExplanation {
    /// Id of the node.
    pub node_id: String,
    /// State, as in [`NodeInfo`].
    pub state: String,
    /// Description of the evidence for the state.
    pub evidence: String,
    /// Kind of the signal: `hook`, `mark`, `title`, `foreground`, `screen`, `quiet` or `exit`.
    pub source: String,
    /// Offset of the signal in the node's output, in bytes.
    pub offset: u64,
    /// Choices of the dialog, if the node is blocked.
    #[serde(default)]
    pub choices: Vec<String>,
    /// Text on the terminal's screen.
    #[serde(default)]
    pub screen: String,
    /// The running turn, if there is one.
    #[serde(default)]
    pub turn: Option<RunningTurn>,
    /// Details for display: command, cwd, pid, profile, size …
    #[serde(default)]
    pub metadata: Map<String, Value>,
}

/// A running turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunningTurn {
    /// Number of the turn on the node, from 1.
    pub turn: u64,
    /// Delivery of the prompt so far: `typed`, `submitted`, `started` or `unknown`.
    pub delivery: String,
}
