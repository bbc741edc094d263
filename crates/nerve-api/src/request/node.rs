//! Parameters of the commands that concern nodes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::chat::ChatSettings;
use super::conversation::ConversationOptions;
use super::id_requests;
use super::proxy::ProxyOption;
use super::result::WebhookTarget;
use super::value::{CommandLine, NodeChoice, Seconds, States};

/// CREATE_NODE.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreateNode {
    /// The new node's id: 1–32 of `a-z 0-9 -`.
    pub node_id: String,
    /// The session it is to be in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// What to run; the user's shell if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<CommandLine>,
    /// `pty`, `claude`, `tmux`, `claude-tmux`, `wezterm`, `claude-wezterm`, `bash`, `chat`.
    #[serde(default = "pty")]
    pub backend: String,
    /// The working directory; the server's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Variables on top of the server's environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// A pane of tmux (`%3`, `session:window.pane`) or WezTerm (a number) to take over instead of starting something. It is never
    /// killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pane_id: Option<String>,
    /// The tmux session a new pane goes to; `nerve` if absent. Made if it is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tmux_session: Option<String>,
    /// The tmux or WezTerm server: a socket's path, or for tmux a name as `tmux -L` takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<String>,
    /// Columns of the terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cols: Option<u16>,
    /// Rows of the terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u16>,
    /// Profile by name; found from the command if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// `claude`, `codex`, `gemini`, `none`; the profile's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parser: Option<String>,
    /// Keep an audit log.
    #[serde(default = "yes")]
    pub history: bool,
    /// Keep a recording.
    #[serde(default = "yes")]
    pub record: bool,
    /// How long the start may take until the node is ready; 60 s if absent.
    #[serde(default = "a_minute")]
    pub ready_timeout: Seconds,
    /// How long a turn may take where it does not say itself; 1800 s if absent.
    #[serde(default = "half_an_hour")]
    pub response_timeout: Seconds,
    /// The Claude Code session to go on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claude_session_id: Option<String>,
    /// The model of a chat node; only and always with `backend` = `chat`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat: Option<ChatSettings>,
    /// A proxy of its own between agent and model: `anthropic`, `openai`, or settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<ProxyOption>,
    /// The conversation its prompts belong to where they name none: `workspace` and `chat`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationOptions>,
    /// A node whose variables it gets too, and whose proxy, where these parameters say nothing of them. No value of theirs is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub like: Option<LikeNode>,
}

/// In CREATE_NODE: another node of the same server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LikeNode {
    /// The node.
    pub node_id: String,
    /// Its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// A proxy with its settings too.
    #[serde(default = "yes")]
    pub proxy: bool,
}

fn pty() -> String {
    "pty".to_string()
}

fn yes() -> bool {
    true
}

fn a_minute() -> Seconds {
    Seconds::from(std::time::Duration::from_secs(60))
}

fn half_an_hour() -> Seconds {
    Seconds::from(std::time::Duration::from_secs(1800))
}

impl CreateNode {
    /// A node with all defaults.
    pub fn new(node_id: impl Into<String>) -> CreateNode {
        CreateNode {
            node_id: node_id.into(),
            session_id: None,
            command: None,
            backend: pty(),
            cwd: None,
            env: BTreeMap::new(),
            pane_id: None,
            tmux_session: None,
            socket: None,
            cols: None,
            rows: None,
            profile: None,
            parser: None,
            history: true,
            record: true,
            ready_timeout: a_minute(),
            response_timeout: half_an_hour(),
            claude_session_id: None,
            chat: None,
            proxy: None,
            conversation: None,
            like: None,
        }
    }
}

id_requests! {
    node_id: "The node.";
    /// START_NODE.
    StartNode;
    /// STOP_NODE.
    StopNode;
    /// GET_NODE.
    GetNode;
    /// SEND_INTERRUPT.
    SendInterrupt;
    /// EXPLAIN_NODE.
    ExplainNode;
    /// CLEAR_BUFFER.
    ClearBuffer;
}

/// FORK_NODE.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ForkNode {
    /// The node to start from.
    pub source_id: String,
    /// The new node's id.
    pub target_id: String,
    /// The turn after which the new node goes on, 1-based; the present if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// The session of both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// RUN_COMMAND.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunCommand {
    /// The node.
    pub node_id: String,
    /// Its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// What to type.
    pub command: String,
    /// The caller's span, as its header `traceparent` has it (W3C Trace Context). What is none is left out, with a warning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// What vendors say of that trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
}

/// EXECUTE_INPUT.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExecuteInput {
    /// The node.
    pub node_id: String,
    /// Its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The prompt.
    pub text: String,
    /// `claude`, `codex`, `gemini`, `none`; the node's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parser: Option<String>,
    /// Send OUTPUT_CHUNK events while the answer grows.
    #[serde(default)]
    pub stream: bool,
    /// Limit of the whole turn, waiting included; the node's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Seconds>,
    /// Fail at once when another turn runs instead of queueing.
    #[serde(default)]
    pub fail_if_busy: bool,
    /// When the time is over, let the turn go on to its end instead of interrupting it.
    #[serde(default)]
    pub detach_on_timeout: bool,
    /// What was said before, and where the turn is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationOptions>,
    /// Do not wait: answer at once with a `result_id`.
    #[serde(default, rename = "async", skip_serializing_if = "std::ops::Not::not")]
    pub is_async: bool,
    /// Who is told when it has ended; with `async` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookTarget>,
    /// The caller's span, as its header `traceparent` has it (W3C Trace Context). What is none is left out, with a warning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// What vendors say of that trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
}

impl ExecuteInput {
    /// A prompt with all defaults.
    pub fn new(node_id: impl Into<String>, text: impl Into<String>) -> ExecuteInput {
        ExecuteInput {
            node_id: node_id.into(),
            session_id: None,
            text: text.into(),
            parser: None,
            stream: false,
            timeout: None,
            fail_if_busy: false,
            detach_on_timeout: false,
            conversation: None,
            is_async: false,
            webhook: None,
            traceparent: None,
            tracestate: None,
        }
    }
}

/// WRITE_DATA.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WriteData {
    /// The node.
    pub node_id: String,
    /// Its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// What to write, as UTF-8.
    pub data: String,
}

/// RESIZE_NODE.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResizeNode {
    /// The node.
    pub node_id: String,
    /// Its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
}

/// GET_BUFFER.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GetBuffer {
    /// The node.
    pub node_id: String,
    /// Its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Only the last so many lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<usize>,
}

/// WAIT_NODE.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitNode {
    /// The node.
    pub node_id: String,
    /// Its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// States that end the wait; `ready` if absent.
    #[serde(default)]
    pub until: States,
    /// How long; the node's response timeout if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Seconds>,
}

/// ANSWER_NODE: a choice, or `cancel` to leave the dialog without one.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AnswerNode {
    /// The node.
    pub node_id: String,
    /// Its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Which answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<NodeChoice>,
    /// Leave the dialog.
    #[serde(default)]
    pub cancel: bool,
    /// Wait for the end of the turn the dialog interrupted, and answer with its response if there is one.
    #[serde(default)]
    pub wait: bool,
    /// Limit of that wait; the node's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Seconds>,
}

/// LIST_NODES: all of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListNodes {
    /// The session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}
