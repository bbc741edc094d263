//! Parameters of the commands for nodes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::conversation::ConversationOptions;
use super::result::WebhookTarget;
use super::value::{NodeChoice, Seconds, States};
use super::{PageRequest, id_requests};
use crate::value::{Multiplexer, ParserKind};

id_requests! {
    node_id: "Id of the node.";
    /// STOP_NODE: stops a node. It stays in the list of stopped nodes until it is started again, replaced or removed.
    StopNode;
    /// REMOVE_NODE: removes a stopped node, so that it cannot be started again.
    RemoveNode;
    /// GET_NODE: returns the description of a node.
    GetNode;
    /// SEND_INTERRUPT: interrupts the current work of a node. The reply arrives when the node is not busy any more.
    SendInterrupt;
    /// EXPLAIN_NODE: returns a node's state with the evidence for it.
    ExplainNode;
    /// CLEAR_BUFFER: clears the text buffer of a node. The screen stays.
    ClearBuffer;
}

/// START_NODE: starts a stopped node again. An agent resumes its conversation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StartNode {
    /// Id of the node.
    pub node_id: String,
    /// Session of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Starts a new conversation instead of resuming the last one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fresh: bool,
    /// Environment of the calling shell, as in CREATE_NODE. Default: that of the last start on this server, otherwise the server's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell_env: Option<BTreeMap<String, String>>,
}

impl StartNode {
    /// Creates a request that resumes the conversation. `session_id`: `None` for the default session.
    pub fn new(node_id: impl Into<String>, session_id: Option<String>) -> StartNode {
        StartNode { node_id: node_id.into(), session_id, fresh: false, shell_env: None }
    }
}

/// PRUNE_NODES: removes the stopped nodes of a session, so that they cannot be started again.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PruneNodes {
    /// Session of the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Also remove those that were lost, which RESTORE_NODES would start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
    /// Only remove those that stopped longer ago, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub older_than: Option<Seconds>,
    /// Only return what would be removed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// FORK_NODE: creates a node that continues from the state of another node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ForkNode {
    /// Id of the node to fork.
    pub source_id: String,
    /// Id of the new node.
    pub target_id: String,
    /// Number of the turn, from 1, after which the new node continues. Default: the current state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// Session of both nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// RUN_COMMAND: types a command and does not wait for its end.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunCommand {
    /// Id of the node.
    pub node_id: String,
    /// Session of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Command to type.
    pub command: String,
    /// Span of the caller, in the format of the `traceparent` header (W3C Trace Context). An invalid one is ignored with a warning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// Vendor-specific trace data, in the format of the `tracestate` header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
}

/// EXECUTE_INPUT: sends a prompt and waits for the end of the turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExecuteInput {
    /// Id of the node.
    pub node_id: String,
    /// Session of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Text of the prompt.
    pub text: String,
    /// Parser of the answer. Default: the node's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parser: Option<ParserKind>,
    /// Sends OUTPUT_CHUNK events while the answer grows.
    #[serde(default)]
    pub stream: bool,
    /// Time limit of the whole turn, including the time in the queue, in seconds. Default: the node's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Seconds>,
    /// Fails at once if another turn is running, instead of queueing.
    #[serde(default)]
    pub fail_if_busy: bool,
    /// Fails at a dialog of the agent, instead of waiting until it is answered: behind the turn of another prompt, and with `async`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fail_if_blocked: bool,
    /// Lets the turn continue after `timeout`, instead of interrupting it.
    #[serde(default)]
    pub detach_on_timeout: bool,
    /// Earlier messages, and where the turn is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationOptions>,
    /// Replies at once with a `result_id`.
    #[serde(default, rename = "async", skip_serializing_if = "std::ops::Not::not")]
    pub is_async: bool,
    /// Webhook that is called after the end of the execution. Requires `async`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookTarget>,
    /// Span of the caller, in the format of the `traceparent` header (W3C Trace Context). An invalid one is ignored with a warning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// Vendor-specific trace data, in the format of the `tracestate` header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
}

impl From<&str> for ExecuteInput {
    /// Creates a prompt for a node that the recipient knows: `node_id` is empty.
    fn from(text: &str) -> ExecuteInput {
        ExecuteInput::new("", text)
    }
}

impl From<String> for ExecuteInput {
    /// Creates a prompt for a node that the recipient knows: `node_id` is empty.
    fn from(text: String) -> ExecuteInput {
        ExecuteInput::new("", text)
    }
}

impl ExecuteInput {
    /// Creates a request with all defaults.
    pub fn new(node_id: impl Into<String>, text: impl Into<String>) -> ExecuteInput {
        ExecuteInput {
            node_id: node_id.into(),
            session_id: None,
            text: text.into(),
            parser: None,
            stream: false,
            timeout: None,
            fail_if_busy: false,
            fail_if_blocked: false,
            detach_on_timeout: false,
            conversation: None,
            is_async: false,
            webhook: None,
            traceparent: None,
            tracestate: None,
        }
    }
}

/// WRITE_DATA: writes raw data to a terminal.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WriteData {
    /// Id of the node.
    pub node_id: String,
    /// Session of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Data to write, as UTF-8.
    pub data: String,
}

/// RESIZE_NODE: changes the size of a terminal.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResizeNode {
    /// Id of the node.
    pub node_id: String,
    /// Session of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Columns of the terminal.
    pub cols: u16,
    /// Rows of the terminal.
    pub rows: u16,
}

/// SHOW_NODE: opens a pane that shows a terminal, or focuses the one that does. The pane shows a program in a host and can be closed
/// and opened again without effect on the program.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShowNode {
    /// Id of the node.
    pub node_id: String,
    /// Session of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The multiplexer.
    pub multiplexer: Multiplexer,
    /// Pane to split; the new pane appears to its right. Default: a new window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// tmux session for the pane, created if missing, or WezTerm workspace. Default: `nerve` in tmux.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tmux_session: Option<String>,
    /// Server of the multiplexer: path of a socket, or a name as for `tmux -L`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<String>,
}

/// GET_BUFFER: returns the text of a terminal.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GetBuffer {
    /// Id of the node.
    pub node_id: String,
    /// Session of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Returns only the last lines, at most this many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<usize>,
}

/// WAIT_NODE: waits until a node reaches one of some states.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitNode {
    /// Id of the node.
    pub node_id: String,
    /// Session of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// States that end the wait. Default: `ready`.
    #[serde(default)]
    pub until: States,
    /// Time limit in seconds. Default: the node's response timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Seconds>,
}

/// ANSWER_NODE: answers the dialog of a blocked node. Requires `choice`, or `cancel` to close the dialog without an answer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AnswerNode {
    /// Id of the node.
    pub node_id: String,
    /// Session of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Choice to select.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<NodeChoice>,
    /// Id from EXPLAIN_NODE. The answer fails with `blocked` if another dialog is open. Default: any dialog.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dialog_id: Option<String>,
    /// Closes the dialog without an answer.
    #[serde(default)]
    pub cancel: bool,
    /// Waits for the end of the interrupted turn, and returns it if there is one.
    #[serde(default)]
    pub wait: bool,
    /// Time limit of that wait, in seconds. Default: the node's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Seconds>,
}

/// LIST_NODES: lists the nodes of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListNodes {
    /// Session to list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Part of the list.
    #[serde(flatten)]
    pub page: PageRequest,
}
