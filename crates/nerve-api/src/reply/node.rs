//! Replies of the commands for nodes.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use nerve_types::ExitStatus;
use nerve_types::activity::TsMs;
use nerve_types::cost::format_cost;
use nerve_types::token_usage::TokenUsage;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::BudgetStatus;
use super::recording::RecordedExit;
use crate::value::{Delivery, NodeState, SignalSource};
use crate::{DEFAULT_SESSION, ErrorKind};

/// Description of a node. Reply to GET_NODE and START_NODE.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeInfo {
    /// Id of the node.
    pub node_id: String,
    /// Kind of node: `pty`, `bash` …
    #[serde(rename = "type")]
    pub kind: String,
    /// State of the node.
    pub state: NodeState,
    /// True if the node keeps its state between executions.
    #[serde(default)]
    pub persistent: bool,
    /// True for a node in an existing pane: nerve did not start the program, so state and answers are derived from the pane's content.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approximate: bool,
    /// Current work; absent for nodes that do not report it.
    #[serde(default, skip_serializing_if = "NodeProgress::is_empty")]
    pub progress: NodeProgress,
    /// Details for display.
    #[serde(default)]
    pub metadata: NodeMetadata,
}

/// Current work of a node, for overviews.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeProgress {
    /// Time of the last change of the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_changed_at: Option<TsMs>,
    /// Time at which the prompt of the running turn was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_started_at: Option<TsMs>,
    /// First line of the last prompt, at most 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_prompt: Option<String>,
    /// Last line of the last answer, at most 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_line: Option<String>,
    /// Tokens of all responses to this node: input, output and cached ones. For an agent in a terminal, those since
    /// this server began to drive it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// The same tokens by model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<ModelTokens>,
    /// Cost of the tokens that have a price, in US dollars; null if none has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// True if some of the tokens have no price.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_unpriced: bool,
    /// Limits of the node, and the usage that counts; absent without limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetStatus>,
}

/// Tokens of the responses of one model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ModelTokens {
    /// Name of the model; `null` if it is not known.
    pub model: Option<String>,
    /// Tokens.
    #[serde(flatten)]
    pub tokens: TokenUsage,
}

impl NodeProgress {
    /// Returns true if nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == NodeProgress::default()
    }

    /// Returns the cost for display; empty if no tokens are known.
    pub fn cost_text(&self) -> String {
        format_cost(self.cost_usd, self.has_unpriced)
    }
}

/// Details of a node for display: texts, numbers, booleans and the exit status by name, with the node's session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeMetadata {
    /// Command, cwd, pid, profile, size, title, exit, blocked kind …
    #[serde(flatten)]
    details: BTreeMap<String, Value>,
    /// Session of the node.
    #[serde(default = "default_session")]
    pub session_id: String,
}

fn default_session() -> String {
    DEFAULT_SESSION.to_string()
}

impl Default for NodeMetadata {
    fn default() -> NodeMetadata {
        NodeMetadata { details: BTreeMap::new(), session_id: default_session() }
    }
}

impl NodeMetadata {
    /// Creates metadata without details. `session`: `None` for the default session.
    pub fn new(session: Option<String>) -> NodeMetadata {
        NodeMetadata { details: BTreeMap::new(), session_id: session.unwrap_or_else(default_session) }
    }

    /// Sets a detail.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.details.insert(name.to_string(), value.into());
    }

    /// Sets a detail that is known; otherwise it stays as it is.
    pub fn set_some(&mut self, name: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    /// Sets the exit status of the program.
    pub fn set_exit(&mut self, exit: ExitStatus) {
        self.set("exit", RecordedExit::from(exit).to_value());
    }

    /// Returns the exit status of the program, if it has ended.
    pub fn exit(&self) -> Option<ExitStatus> {
        RecordedExit::deserialize(self.get("exit")?).ok().map(ExitStatus::from)
    }

    /// Formats the state for people, with its reason: `blocked: permission`, `stopped: exit code 1`. A node that was stopped by request
    /// has no reason.
    pub fn state_text(&self, state: NodeState) -> String {
        let reason = match state {
            NodeState::Blocked => self.text("blocked").to_string(),
            NodeState::Suspended => self.text("until_at").to_string(),
            NodeState::Stopped if self.text("end") != "requested" => self.display("exit"),
            _ => String::new(),
        };
        if reason.is_empty() { state.to_string() } else { format!("{state}: {reason}") }
    }

    /// Returns a text; empty if it is absent.
    pub fn text(&self, name: &str) -> &str {
        self.known_text(name).unwrap_or_default()
    }

    /// Returns a text, if it is there.
    pub fn known_text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
    }

    /// Returns a count, if it is there.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.as_u64()
    }

    /// Returns a detail as text for people; empty if it is absent.
    pub fn display(&self, name: &str) -> String {
        match self.get(name) {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(_) if name == "exit" => self.exit().map(|exit| exit.to_string()).unwrap_or_default(),
            Some(value) => value.to_string(),
        }
    }
}

impl Deref for NodeMetadata {
    type Target = BTreeMap<String, Value>;

    fn deref(&self) -> &BTreeMap<String, Value> {
        &self.details
    }
}

impl DerefMut for NodeMetadata {
    fn deref_mut(&mut self) -> &mut BTreeMap<String, Value> {
        &mut self.details
    }
}

/// Reply to CREATE_NODE.
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
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeList {
    /// Ids of the nodes, sorted.
    pub nodes: Vec<String>,
    /// The nodes in the same order, with their descriptions.
    #[serde(default)]
    pub nodes_info: Vec<NodeInfo>,
    /// Stopped nodes that can be started again, on the last page. Their metadata has `reason`, and `exit` and `conversation_id` if they
    /// are known; `state_changed_at` is the time of the end.
    #[serde(default)]
    pub stopped: Vec<NodeInfo>,
    /// Cursor of the next page; null on the last page.
    #[serde(default)]
    pub next: Option<String>,
}

/// Reply to PRUNE_NODES.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodesPruned {
    /// Ids of the removed nodes.
    pub removed: Vec<String>,
}

/// Reply to RESTORE_NODES.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodesRestored {
    /// The nodes that ran when the server or the machine went down.
    pub nodes: Vec<RestoredNode>,
}

/// A node that was started again after its server or its machine went down, or could not be.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RestoredNode {
    /// Id of the node.
    pub node_id: String,
    /// Session of the node.
    pub session_id: String,
    /// Error message of a node that could not be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Kind of error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_type: Option<ErrorKind>,
    /// Hint on how to solve the problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
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

/// Reply to SHOW_NODE.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeShown {
    /// Id of the node.
    pub node_id: String,
    /// The pane: `%3` in tmux, a number in WezTerm.
    pub pane_id: String,
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
    pub state: NodeState,
}

/// A node's state and the evidence for it. Reply to EXPLAIN_NODE.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeExplanation {
    /// Id of the node.
    pub node_id: String,
    /// State of the node.
    pub state: NodeState,
    /// Description of the evidence for the state.
    pub evidence: String,
    /// Kind of the signal.
    pub source: SignalSource,
    /// Offset of the signal in the node's output, in bytes.
    pub offset: u64,
    /// Choices of the dialog, if the node is blocked.
    #[serde(default)]
    pub choices: Vec<String>,
    /// Id of the dialog, if the node is blocked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dialog_id: Option<String>,
    /// Text on the terminal's screen.
    #[serde(default)]
    pub screen: String,
    /// The running turn, if there is one.
    #[serde(default)]
    pub turn: Option<RunningTurn>,
    /// Details for display.
    #[serde(default)]
    pub metadata: NodeMetadata,
}

/// A running turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunningTurn {
    /// Number of the turn on the node, from 1.
    pub turn: u64,
    /// Delivery of the prompt so far.
    pub delivery: Delivery,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_has_its_reason() {
        let mut metadata = NodeMetadata::default();
        assert_eq!(metadata.state_text(NodeState::Stopped), "stopped");
        metadata.set("blocked", "permission");
        metadata.set_exit(ExitStatus::Code(7));
        assert_eq!(metadata.state_text(NodeState::Blocked), "blocked: permission");
        assert_eq!(metadata.state_text(NodeState::Busy), "busy");
        assert_eq!(metadata.state_text(NodeState::Stopped), "stopped: exit code 7");
        metadata.set("end", "requested");
        assert_eq!(metadata.state_text(NodeState::Stopped), "stopped");
    }
}
