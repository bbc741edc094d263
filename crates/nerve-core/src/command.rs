//! Domain types of the engine: nodes, their definitions, states, turns, sessions and events. Requests and replies are those of
//! [`nerve_api`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use nerve_agent::parse::{ParserKind, Section, Tokens};
pub use nerve_api::request::CommandLine;
use nerve_record::activity::Activity;
use nerve_types::{Size, TsNs};
use serde_json::{Value, json};

use crate::chat::ChatSpec;
use crate::conversation::ConversationId;
use crate::proxy::{ProxySpec, TurnUsage};
pub use nerve_mux::pane::{PanePlace, TerminalKind};

/// A node in a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeRef {
    /// `None` is the default session.
    pub session: Option<String>,
    /// The node's id.
    pub node: String,
}

/// How a node is to be made.
#[derive(Debug, Clone)]
pub struct NodeSpec {
    /// Session and id; the id follows the name rule.
    pub node: NodeRef,
    /// What to run; empty takes the user's shell.
    pub command: CommandLine,
    /// Kind of node.
    pub backend: BackendKind,
    /// Working directory; the server's own if `None`.
    pub cwd: Option<PathBuf>,
    /// Variables set on top of the server's environment.
    pub env: BTreeMap<String, String>,
    /// Size of the terminal.
    pub size: Size,
    /// Profile by name; found from the command if `None`.
    pub profile: Option<String>,
    /// Parser of this node; the profile's if `None`.
    pub parser: Option<ParserKind>,
    /// Keep an audit log.
    pub history: bool,
    /// Record the terminal, where nodes run in hosts.
    pub record: bool,
    /// How long a start may take until the first ready state.
    pub ready_timeout: Duration,
    /// How long a turn may take where the caller sets nothing.
    pub response_timeout: Duration,
    /// Where its pane is, for nodes in tmux or WezTerm.
    pub place: PanePlace,
    /// Id of the agent's own conversation, for agents that can be given one; made up, or taken from the command, if `None`.
    pub agent_session: Option<String>,
    /// The model of a chat node; `None` for all others.
    pub chat: Option<Box<ChatSpec>>,
    /// The conversation its prompts belong to where they name none.
    pub conversation: Option<Box<ConversationId>>,
    /// A proxy of its own, between its agent and the API of its model.
    pub proxy: Option<Box<ProxySpec>>,
    /// What else it gets of another node. Not part of how it was made, once that is known.
    pub like: Option<Box<Like>>,
}

/// A node whose variables another one gets, where nothing is said of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Like {
    /// The node.
    pub node: NodeRef,
    /// A proxy with its settings too.
    pub proxy: bool,
}

impl NodeSpec {
    /// A node with all defaults.
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
            like: None,
        }
    }

    /// How long a start may take where nobody says (facts: the wire).
    pub const READY_TIMEOUT: Duration = Duration::from_secs(60);
    /// How long a turn may take where nobody says.
    pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1800);
}

/// Kinds of nodes the engine can make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BackendKind {
    /// A program on a terminal of our own.
    Pty,
    /// Claude Code on a terminal of our own.
    Claude,
    /// A program in a pane of tmux.
    Tmux,
    /// Claude Code in a pane of tmux.
    ClaudeTmux,
    /// A program in a pane of WezTerm.
    Wezterm,
    /// Claude Code in a pane of WezTerm (seed: ClaudeWezTermNode).
    ClaudeWezterm,
    /// One-shot `bash -c`, no terminal.
    Bash,
    /// A conversation with a model's API, no terminal.
    Chat,
}

impl BackendKind {
    /// All of them.
    pub const ALL: [BackendKind; 8] = [
        BackendKind::Pty,
        BackendKind::Claude,
        BackendKind::Tmux,
        BackendKind::ClaudeTmux,
        BackendKind::Wezterm,
        BackendKind::ClaudeWezterm,
        BackendKind::Bash,
        BackendKind::Chat,
    ];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            BackendKind::Pty => "pty",
            BackendKind::Claude => "claude",
            BackendKind::Tmux => "tmux",
            BackendKind::ClaudeTmux => "claude-tmux",
            BackendKind::Wezterm => "wezterm",
            BackendKind::ClaudeWezterm => "claude-wezterm",
            BackendKind::Bash => "bash",
            BackendKind::Chat => "chat",
        }
    }

    /// The kind of that name.
    pub fn parse(name: &str) -> Option<BackendKind> {
        BackendKind::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Whose terminal it is on; `None` where there is none.
    pub fn terminal(self) -> Option<TerminalKind> {
        match self {
            BackendKind::Pty | BackendKind::Claude => Some(TerminalKind::Pty),
            BackendKind::Tmux | BackendKind::ClaudeTmux => Some(TerminalKind::Tmux),
            BackendKind::Wezterm | BackendKind::ClaudeWezterm => Some(TerminalKind::Wezterm),
            BackendKind::Bash | BackendKind::Chat => None,
        }
    }

    /// Its program must be Claude Code.
    pub fn is_claude(self) -> bool {
        matches!(self, BackendKind::Claude | BackendKind::ClaudeTmux | BackendKind::ClaudeWezterm)
    }
}

/// Which answer of a dialog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// The choice that stands at this place, 1-based.
    Number(usize),
    /// The choice whose label contains this, without regard to case; it must be the only one.
    Label(String),
    /// Leave the dialog without choosing (Escape).
    Cancel,
}

/// States a node can be in, without their details.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StateName {
    /// Defined, and not started.
    Created,
    /// The program runs and has not been ready yet.
    Starting,
    /// Waiting for a prompt.
    Ready,
    /// Working.
    Busy,
    /// Asking something a prompt must not answer.
    Blocked,
    /// Waiting for the end of a usage limit.
    Suspended,
    /// Being stopped.
    Stopping,
    /// Gone.
    Stopped,
}

impl StateName {
    /// The name on the wire, lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            StateName::Created => "created",
            StateName::Starting => "starting",
            StateName::Ready => "ready",
            StateName::Busy => "busy",
            StateName::Blocked => "blocked",
            StateName::Suspended => "suspended",
            StateName::Stopping => "stopping",
            StateName::Stopped => "stopped",
        }
    }
}

/// Where a run is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunStatus {
    /// Steps run.
    Running,
    /// Nothing runs until somebody answers a gate.
    Waiting,
    /// All steps are done.
    Completed,
    /// A step failed, or a budget is used up.
    Failed,
    /// Somebody cancelled it.
    Cancelled,
    /// Its server is gone: it can be resumed.
    Interrupted,
}

impl RunStatus {
    /// The name on the wire and in journals.
    pub fn as_str(self) -> &'static str {
        match self {
            RunStatus::Running => "running",
            RunStatus::Waiting => "waiting",
            RunStatus::Completed => "completed",
            RunStatus::Failed => "failed",
            RunStatus::Cancelled => "cancelled",
            RunStatus::Interrupted => "interrupted",
        }
    }

    /// Nothing comes after it.
    pub fn is_end(self) -> bool {
        matches!(self, RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled)
    }
}

/// A gate that waits for an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateInfo {
    /// The step's path.
    pub step: String,
    /// What is asked.
    pub question: String,
    /// What may be answered; anything if empty.
    pub choices: Vec<String>,
    /// The answer when nobody gives one in time.
    pub default: Option<String>,
    /// Until when.
    pub deadline: Option<TsNs>,
}

/// What is known of a node (seed REQ-N0).
#[derive(Debug, Clone)]
pub struct NodeInfo {
    /// Its id.
    pub id: String,
    /// Its session.
    pub session: String,
    /// `pty` or `bash`.
    pub kind: &'static str,
    /// Where it is in its life.
    pub state: StateName,
    /// Keeps state between executions.
    pub persistent: bool,
    /// Facts for people: command, cwd, pid, profile, size, title, exit, blocked kind …
    pub metadata: BTreeMap<String, String>,
}

impl NodeInfo {
    /// As an object: id, type, state, persistent, metadata (seed REQ-N0).
    pub fn to_dict(&self) -> Value {
        json!({
            "id": self.id, "type": self.kind, "state": self.state.as_str(), "persistent": self.persistent,
            "metadata": self.metadata,
        })
    }
}

/// A finished turn.
#[derive(Debug, Clone)]
pub struct Response {
    /// The node.
    pub node: String,
    /// Number of the turn on this node, from 1.
    pub turn: u64,
    /// All text of the turn as the terminal showed it.
    pub raw: String,
    /// What the agent said.
    pub text: String,
    /// The parts of the answer.
    pub sections: Vec<Section>,
    /// Tokens, where known.
    pub tokens: Option<Tokens>,
    /// What the node's proxy counted, where it has one.
    pub usage: Option<TurnUsage>,
    /// The end of the turn was seen.
    pub is_complete: bool,
    /// The node waits for the next prompt.
    pub is_ready: bool,
    /// Where sections and text come from: `transcript`, `screen`, `process` or `api`.
    pub source: &'static str,
    /// How far the prompt is proved to have come.
    pub delivery: &'static str,
    /// Which evidence ended the turn.
    pub ended_by: String,
    /// Output bytes of the turn: first and one past the last.
    pub bytes: (u64, u64),
    /// When it was taken up and when it ended.
    pub time: (TsNs, TsNs),
    /// More facts: `exit_code`, `stdout`, `stderr` of a bash node; `content`, `model`, `finish_reason`, `usage` … of a chat node; [`Response::WARNINGS`].
    pub attributes: BTreeMap<String, String>,
}

impl Response {
    /// The attribute that says what went wrong beside the turn, a sentence on each line.
    pub const WARNINGS: &'static str = "warnings";
}

/// A node's state in words.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// The node.
    pub info: NodeInfo,
    /// What the state rests on.
    pub evidence: String,
    /// Which kind of signal that is: `hook`, `mark`, `title`, `foreground`, `screen`, `quiet`, `exit`.
    pub source: &'static str,
    /// The byte offset at which it was seen.
    pub offset: u64,
    /// The choices of the dialog, if blocked.
    pub choices: Vec<String>,
    /// What the terminal shows.
    pub screen: String,
    /// The turn that runs, if one does, and how far its prompt came.
    pub turn: Option<(u64, &'static str)>,
}

/// What is known of a session.
#[derive(Debug, Clone)]
pub struct SessionInfo {
    /// Its name, unique on the server.
    pub name: String,
    /// In words.
    pub description: String,
    /// Labels.
    pub tags: Vec<String>,
    /// Ids of its nodes, those that are only defined included.
    pub nodes: Vec<String>,
    /// Ids of its graphs.
    pub graphs: Vec<String>,
    /// When it was made.
    pub created: TsNs,
}

/// Something that happened, for subscribers.
#[derive(Debug, Clone)]
pub struct EngineEvent {
    /// Counts up by one for each event of this server, from 1.
    pub seq: u64,
    /// When.
    pub at: TsNs,
    /// Whose, if a node's.
    pub node: Option<String>,
    /// Which session's, if a node's.
    pub session: Option<String>,
    /// What.
    pub kind: EventKind,
}

/// Kinds of events (facts: the wire).
#[derive(Debug, Clone)]
pub enum EventKind {
    /// A node was made.
    NodeCreated { kind: &'static str, forked_from: Option<String> },
    /// It waits for a prompt.
    NodeReady { evidence: String },
    /// It works.
    NodeBusy { evidence: String },
    /// It asks something.
    NodeBlocked { kind: &'static str, choices: Vec<String>, evidence: String },
    /// It waits for the end of a usage limit; `until` where it names it.
    NodeSuspended { until: Option<TsNs>, evidence: String },
    /// It is gone.
    NodeStopped { reason: String },
    /// More of an answer (only of turns that stream). `tag` is that of the request's context.
    OutputChunk { turn: u64, tag: Option<u64>, chunk: String },
    /// A turn ended and was parsed.
    OutputParsed { turn: u64, sections: usize, is_complete: bool },
    /// The node's agent did something.
    Activity(Box<Activity>),
    /// Something happened in a run of a graph.
    Graph(Box<GraphEvent>),
    /// An execution that nobody waited for has ended; `status` is `done`, `failed` or `lost`.
    ResultReady { result: String, success: bool, status: &'static str },
    /// Something went wrong that no caller was told.
    Error { message: String },
    /// The server goes down.
    ServerShutdown,
}

/// An event of a run.
#[derive(Debug, Clone)]
pub struct GraphEvent {
    /// The run.
    pub run: String,
    /// The graph.
    pub graph: String,
    /// What.
    pub kind: GraphEventKind,
}

/// What happened in a run. Steps are named by path.
#[derive(Debug, Clone)]
pub enum GraphEventKind {
    /// The run began; `steps` in the graph itself. `resumed`: not for the first time.
    Started { steps: usize, resumed: bool },
    /// A step began. `queued`: its node does something else first.
    StepStarted { step: String, node: String, attempt: u32, queued: bool },
    /// A step is done: `how` is `completed`, `skipped` or `reused`.
    StepCompleted { step: String, node: String, how: &'static str, ms: u64, tokens: u64 },
    /// A step failed for good, or one attempt of it did and `retry_in` follows.
    StepFailed {
        step: String,
        node: String,
        error: String,
        error_type: &'static str,
        retry_in: Option<Duration>,
    },
    /// A gate asks.
    GateAsked(GateInfo),
    /// A gate was answered, `by` a `person` or with its `default`.
    GateAnswered { step: String, choice: String, by: &'static str },
    /// The run ended.
    Ended { status: RunStatus, ms: u64, tokens: u64, error: Option<String> },
}
