//! Domain types of the engine: nodes, their definitions, states, turns, sessions and events. Requests and replies are those of
//! [`nerve_api`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use nerve_agent::parse::{ParserKind, Section, Tokens};
use nerve_api::ErrorKind;
pub use nerve_api::reply::{GateInfo, NodeInfo, SessionInfo};
pub use nerve_api::request::CommandLine;
use nerve_api::request::{ClearBuffer, ExplainNode, GetNode, SendInterrupt, StartNode, StopNode};
pub use nerve_api::value::{BackendKind, NodeState as StateName, RunStatus};
use nerve_api::value::{BlockKind, Delivery, ResponseSource, ResultStatus, StepState};
use nerve_record::activity::Activity;
use nerve_types::{Size, TsNs};

use crate::chat::ChatSpec;
use crate::conversation_id::ConversationId;
use crate::proxy::{ProxySpec, TurnUsage};
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
    pub chat: Option<Box<ChatSpec>>,
    /// Default conversation of the node's prompts.
    pub conversation: Option<Box<ConversationId>>,
    /// Proxy of this node, between its agent and the API of its model.
    pub proxy: Option<Box<ProxySpec>>,
    /// Existing node from which settings are inherited. Removed from the definition once they are resolved.
    pub inherit: Option<Box<InheritedNode>>,
}

/// An existing node whose environment variables another node inherits, unless they are set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InheritedNode {
    /// Id and session of the node.
    pub node: NodeRef,
    /// Inherits the proxy with its settings too.
    pub proxy: bool,
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
            inherit: None,
        }
    }

    /// Default of [`NodeSpec::ready_timeout`].
    pub const READY_TIMEOUT: Duration = Duration::from_secs(60);
    /// Default of [`NodeSpec::response_timeout`].
    pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1800);
}

/// Returns the owner of the terminal of nodes of this kind; `None` for kinds without a terminal.
pub fn terminal_of(kind: BackendKind) -> Option<TerminalKind> {
    match kind {
        BackendKind::Pty | BackendKind::Claude => Some(TerminalKind::Pty),
        BackendKind::Tmux | BackendKind::ClaudeTmux => Some(TerminalKind::Tmux),
        BackendKind::Wezterm | BackendKind::ClaudeWezterm => Some(TerminalKind::Wezterm),
        BackendKind::Bash | BackendKind::Chat => None,
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
    pub usage: Option<TurnUsage>,
    /// True if the end of the turn was detected.
    pub is_complete: bool,
    /// True if the node is ready for the next prompt.
    pub is_ready: bool,
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

/// An event for subscribers.
#[derive(Debug, Clone)]
pub struct EngineEvent {
    /// Sequence number of the event on this server, from 1.
    pub seq: u64,
    /// Time of the event.
    pub at: TsNs,
    /// Id of the node, if the event concerns one.
    pub node: Option<String>,
    /// Session of the node.
    pub session: Option<String>,
    /// Kind and details of the event.
    pub kind: EventKind,
}

/// Kinds of events.
#[derive(Debug, Clone)]
pub enum EventKind {
    /// The node was created.
    NodeCreated { kind: String, forked_from: Option<String> },
    /// The node is ready for a prompt.
    NodeReady { evidence: String },
    /// The node is working.
    NodeBusy { evidence: String },
    /// The node shows a dialog and waits for its answer.
    NodeBlocked { kind: BlockKind, choices: Vec<String>, evidence: String },
    /// The node waits until a usage limit is reset, at `until` if the time is known.
    NodeSuspended { until: Option<TsNs>, evidence: String },
    /// The node has stopped.
    NodeStopped { reason: String },
    /// A further part of an answer, only of turns that are streamed. `tag` is that of the request's context.
    OutputChunk { turn: u64, tag: Option<u64>, chunk: String },
    /// A turn has ended and was parsed.
    OutputParsed { turn: u64, sections: usize, is_complete: bool },
    /// Activity of the node's agent.
    Activity(Box<Activity>),
    /// An event of a run.
    Graph(Box<GraphEvent>),
    /// A snapshot of a recorded session was taken: its number, the session's id, the output offset in bytes, the label, and whether
    /// its files were stored.
    SnapshotTaken { id: u64, session: String, anchor: u64, label: Option<String>, has_files: bool },
    /// An asynchronous execution has ended.
    ResultReady { result: String, success: bool, status: ResultStatus },
    /// An error that could not be reported to any caller.
    Error { message: String },
    /// The server is shutting down.
    ServerShutdown,
}

/// An event of a run.
#[derive(Debug, Clone)]
pub struct GraphEvent {
    /// Id of the run.
    pub run: String,
    /// Id of the graph.
    pub graph: String,
    /// Kind and details of the event.
    pub kind: GraphEventKind,
}

/// Kinds of events of a run. Steps are identified by their path.
#[derive(Debug, Clone)]
pub enum GraphEventKind {
    /// The run has started. `steps`: number of steps in the graph itself. `resumed`: false for the first start.
    Started { steps: usize, resumed: bool },
    /// A step has started. `queued`: its node is still busy with something else.
    StepStarted { step: String, node: String, attempt: u32, queued: bool },
    /// A step has completed. `how` is completed, skipped or reused.
    StepCompleted { step: String, node: String, how: StepState, ms: u64, tokens: u64 },
    /// A step has failed for good, or an attempt has failed and another one follows after `retry_in`.
    StepFailed {
        step: String,
        node: String,
        error: String,
        error_type: ErrorKind,
        retry_in: Option<Duration>,
    },
    /// A gate waits for an answer.
    GateAsked(GateInfo),
    /// A gate was answered, `by` a `person` or with its `default`.
    GateAnswered { step: String, choice: String, by: &'static str },
    /// The run has ended.
    Ended { status: RunStatus, ms: u64, tokens: u64, error: Option<String> },
}
