//! Domain types of the engine: nodes, their definitions, states, turns and sessions. Requests, replies and events are those of
//! [`nerve_api`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nerve_agent::parse::{ParserKind, Section, Tokens};
pub use nerve_api::event::{Event, EventKind};
use nerve_api::reply::ModelUsage;
pub use nerve_api::reply::{GateInfo, NodeInfo, SessionInfo};
pub use nerve_api::request::CommandLine;
use nerve_api::request::{ClearBuffer, ExplainNode, GetNode, SendInterrupt, StartNode, StopNode};
pub use nerve_api::value::{BackendKind, NodeState as StateName, RunStatus};
use nerve_api::value::{Delivery, ResponseSource};
use nerve_types::{Size, TsNs};

use crate::chat::ChatSettings;
use crate::conversation_id::ConversationId;
use crate::proxy::ProxySettings;
pub use nerve_mux::pane::{PanePlace, TerminalKind};

/// A node in a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeRef {
    /// Name of the session; `None` for the default session.
    pub session: Option<String>,
    /// Id of the node.
    pub node: String,
}

/// Implements conversions for requests that have a node as their only parameter.
macro_rules! from_node {
    ($($request:ident)*) => {$(
        impl From<NodeRef> for $request {
            fn from(at: NodeRef) -> $request {
                $request::new(at.node, at.session)
            }
        }
    )*};
}

from_node! { ClearBuffer ExplainNode GetNode SendInterrupt StartNode StopNode }

/// Definition of a node.
#[derive(Debug, Clone)]
pub struct NodeSpec {
    /// Session and id; the id follows the name rule.
    pub node: NodeRef,
    /// Command to run; empty for the user's shell.
    pub command: CommandLine,
    /// Kind of node.
    pub backend: BackendKind,
    /// Working directory; `None` for the server's.
    pub cwd: Option<PathBuf>,
    /// Environment variables in addition to the server's.
    pub env: BTreeMap<String, String>,
    /// Size of the terminal.
    pub size: Size,
    /// Name of the profile; `None` to detect it from the command.
    pub profile: Option<String>,
    /// Parser of this node; `None` for the profile's.
    pub parser: Option<ParserKind>,
    /// Writes an audit log.
    pub history: bool,
    /// Records the terminal, if nodes run in hosts.
    pub record: bool,
    /// Time limit for the start until the first ready state.
    pub ready_timeout: Duration,
    /// Default time limit of a turn.
    pub response_timeout: Duration,
    /// Place of the pane, for nodes in tmux or WezTerm.
    pub place: PanePlace,
    /// Id of the agent's own conversation, if the agent accepts one. `None`: taken from the command, or generated.
    pub agent_session: Option<String>,
    /// Model of a chat node; `None` for all others.
    pub chat: Option<Box<ChatSettings>>,
    /// Default conversation of the node's prompts.
    pub conversation: Option<Box<ConversationId>>,
    /// Proxy of this node, between its agent and the API of its model.
    pub proxy: Option<Box<ProxySettings>>,
}

impl NodeSpec {
    /// Creates a definition with all defaults.
    pub fn new(node: NodeRef, backend: BackendKind, command: CommandLine) -> NodeSpec {
        NodeSpec {
            node,
            command,
            backend,
            cwd: None,
            env: BTreeMap::new(),
            size: Size::default(),
            profile: None,
            parser: None,
            history: true,
            record: true,
            ready_timeout: NodeSpec::READY_TIMEOUT,
            response_timeout: NodeSpec::RESPONSE_TIMEOUT,
            place: PanePlace::default(),
            agent_session: None,
            chat: None,
            conversation: None,
            proxy: None,
        }
    }

    /// Default of [`NodeSpec::ready_timeout`].
    pub const READY_TIMEOUT: Duration = Duration::from_secs(60);
    /// Default of [`NodeSpec::response_timeout`].
    pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1800);
}

/// Returns the owner of the terminal of nodes of this kind; `None` for kinds without a terminal.
pub fn terminal_kind(kind: BackendKind) -> Option<TerminalKind> {
    match kind {
        BackendKind::Pty | BackendKind::Claude => Some(TerminalKind::Pty),
        BackendKind::Tmux | BackendKind::ClaudeTmux => Some(TerminalKind::Tmux),
        BackendKind::Wezterm | BackendKind::ClaudeWezterm => Some(TerminalKind::Wezterm),
        BackendKind::Bash | BackendKind::Chat => None,
    }
}

/// The client that sent a request, as audit logs name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientOrigin {
    /// Transport of its connection: `unix`, `tcp`, `http`, `websocket`; `process` for a request of this process.
    pub transport: &'static str,
    /// User and process of a local client, address of another one.
    pub client: Arc<str>,
}

impl ClientOrigin {
    /// Creates the origin of a client.
    pub fn new(transport: &'static str, client: impl Into<Arc<str>>) -> ClientOrigin {
        ClientOrigin { transport, client: client.into() }
    }
}

impl Default for ClientOrigin {
    /// A request of this process.
    fn default() -> ClientOrigin {
        ClientOrigin::new("process", "nerve")
    }
}

/// A choice of a dialog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// Position of the choice, from 1.
    Number(usize),
    /// A part of the choice's label, ignoring case. Only one choice may match.
    Label(String),
    /// Closes the dialog without an answer (Escape).
    Cancel,
}

/// The answer to a dialog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DialogAnswer {
    /// The choice.
    pub choice: Choice,
    /// Wait for the turn that the dialog interrupted.
    pub wait: bool,
    /// Time limit of that turn.
    pub timeout: Option<Duration>,
    /// The client that answers.
    pub origin: ClientOrigin,
}

/// A finished turn.
#[derive(Debug, Clone)]
pub struct Response {
    /// Id of the node.
    pub node: String,
    /// Number of the turn on this node, from 1.
    pub turn: u64,
    /// All text of the turn as shown on the terminal.
    pub raw: String,
    /// Text of the agent's answer.
    pub text: String,
    /// Sections of the answer.
    pub sections: Vec<Section>,
    /// Number of tokens, if known.
    pub tokens: Option<Tokens>,
    /// Usage as counted by the node's proxy, if it has one.
    pub usage: Option<ModelUsage>,
    /// True if the end of the turn was detected.
    pub is_complete: bool,
    /// True if the node is ready for the next prompt.
    pub is_ready: bool,
    /// True for a program with a composer: an agent, as opposed to a shell.
    pub is_agent: bool,
    /// Why text is missing from the answer, or may be missing.
    pub incomplete: Option<String>,
    /// Source of sections and text.
    pub source: ResponseSource,
    /// Confirmed delivery of the prompt.
    pub delivery: Delivery,
    /// Evidence that ended the turn.
    pub ended_by: String,
    /// Output range of the turn in bytes: first, and one past the last.
    pub bytes: (u64, u64),
    /// Start and end of the turn.
    pub time: (TsNs, TsNs),
    /// Additional attributes: `exit_code`, `stdout`, `stderr` of a bash node; `content`, `model`, `finish_reason`, `usage` … of a chat
    /// node; [`Response::WARNINGS`].
    pub attributes: BTreeMap<String, String>,
}

impl Response {
    /// Attribute for problems that do not affect the turn, one sentence per line.
    pub const WARNINGS: &'static str = "warnings";
}
