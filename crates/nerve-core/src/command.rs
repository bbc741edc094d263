//! What the engine can be asked, and what it answers. `nerve-server` maps these to and from the wire; nothing here is
//! serialised.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nerve_record::activity::Activity;
use nerve_term::event::{Size, TsNs};
use nerve_term::parse::{ParserKind, Section, Tokens};
use serde_json::{Value, json};

pub use crate::backend::pane::{PanePlace, TerminalKind};
use crate::chat::ChatSpec;
use crate::conversation::{Conversation, ConversationId};
use crate::error::EngineError;
use crate::proxy::{ProxySpec, TurnUsage};
use crate::results::ResultRecord;
use crate::telemetry::TraceContext;
use crate::trace::ExecutionTrace;
use crate::webhook::Webhook;

/// A request to the engine. `session: None` is the server's default session.
#[derive(Debug, Clone)]
pub enum Command {
    /// Start a node and wait until its program runs (not until it is ready).
    CreateNode(NodeSpec),
    /// Stop a node and release what it holds.
    StopNode(NodeRef),
    /// All nodes of a session.
    ListNodes { session: Option<String> },
    /// One node.
    GetNode(NodeRef),
    /// Type a command and do not wait for its end (seed: fire and forget).
    RunCommand { node: NodeRef, command: String, trace: Option<TraceContext> },
    /// Send a prompt and wait for the finished turn; with [`Execute::background`], answer at once with the id of its result.
    ExecuteInput(Execute),
    /// What came of an execution that nobody waited for. With `wait`, the answer comes when it has ended; Timeout if that is not within
    /// `timeout`.
    GetResult { result: String, wait: bool, timeout: Option<Duration> },
    /// Results, newest first: of a session, of a node, at most `last`.
    ListResults { session: Option<String>, node: Option<String>, last: Option<usize> },
    /// Take back the prompt of such an execution, or interrupt its turn.
    CancelResult { result: String },
    /// Interrupt what the node does now, in the way its profile says.
    SendInterrupt(NodeRef),
    /// Write bytes as they are.
    WriteData { node: NodeRef, data: Vec<u8> },
    /// Give the terminal another size.
    ResizeNode { node: NodeRef, size: Size },
    /// The last `lines` lines of text (all if `None`), scrollback included.
    GetBuffer { node: NodeRef, lines: Option<usize> },
    /// Forget the text so far (seed: clear_buffer); the screen stays.
    ClearBuffer(NodeRef),
    /// Read the audit log.
    GetHistory(HistoryQuery),
    /// Why the node is in its state.
    ExplainNode(NodeRef),
    /// Wait until a node is in one of these states; answers at once when it is.
    WaitNode { node: NodeRef, until: Vec<StateName>, timeout: Option<Duration> },
    /// Choose an answer of the dialog a blocked node shows. With `wait`, the answer is the response of the turn the dialog
    /// interrupted ([`Reply::Response`]), if there is one; else [`Reply::Done`] as soon as the dialog is gone.
    AnswerNode { node: NodeRef, choice: Choice, wait: bool, timeout: Option<Duration> },
    /// Make a session.
    CreateSession { name: String, description: String, tags: Vec<String> },
    /// One session.
    GetSession { name: String },
    /// All sessions.
    ListSessions,
    /// Stop a session's nodes and forget it.
    DeleteSession { name: String },
    /// Make a node that goes on from where another one is, on its own (seed claude-fork). `at`: the turn after which it goes on,
    /// 1-based; the present if `None`.
    ForkNode { source: NodeRef, target: String, at: Option<u64> },
    /// Start a node again from its definition: one that a server that is gone had, or whose program has ended.
    StartNode(NodeRef),
    /// Start all nodes of a session that are defined and do not run.
    StartSession { name: String },
    /// Stop all nodes of a session and keep their definitions.
    StopSession { name: String },
    /// Register a graph in a session, under its own id.
    CreateGraph { session: Option<String>, graph: Value },
    /// One registered graph.
    GetGraph(NodeRef),
    /// All graphs of a session.
    ListGraphs { session: Option<String> },
    /// Forget a graph; its runs go on.
    DeleteGraph(NodeRef),
    /// Run a graph.
    RunGraph(Box<RunGraph>),
    /// Cancel a run by its id, or all runs of a graph by the graph's id.
    CancelGraph { id: String },
    /// Runs of this server, newest first; those that have ended too.
    ListRuns,
    /// One run.
    GetRun { run: String },
    /// Go on with a run whose server died: only what is not finished is run.
    ResumeRun(Box<ResumeRun>),
    /// Answer a gate that a run waits at.
    AnswerGate { run: String, step: Option<String>, choice: String },
    /// Stop everything. `keep_nodes` leaves hosted nodes running.
    Shutdown { keep_nodes: bool },
    /// Is anybody there?
    Ping,
}

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

/// A command as given: one string (split like a shell would, without running one) or a list of arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandLine {
    /// To be split into words.
    Text(String),
    /// Already split.
    Argv(Vec<String>),
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

/// A prompt for a node.
#[derive(Debug, Clone)]
pub struct Execute {
    /// To whom.
    pub node: NodeRef,
    /// The prompt, any bytes that are UTF-8.
    pub text: String,
    /// Parser of this turn; the node's if `None`.
    pub parser: Option<ParserKind>,
    /// Publish [`EventKind::OutputChunk`] while the answer grows, and log `send_stream` instead of `send`.
    pub stream: bool,
    /// Given back in each [`EventKind::OutputChunk`] of the turn: whoever asked knows its own chunks by it.
    pub tag: Option<u64>,
    /// Limit of the whole turn, waiting included; the node's `response_timeout` if `None`.
    pub timeout: Option<Duration>,
    /// Fail at once when another turn runs instead of queueing.
    pub fail_if_busy: bool,
    /// On timeout leave the turn running (it ends in the history) instead of interrupting it.
    pub detach_on_timeout: bool,
    /// What was said before, and where the turn is kept; the node's own conversation if `None`.
    pub conversation: Option<Conversation>,
    /// Do not wait: answer with the id of the result ([`Reply::Accepted`]).
    pub background: Option<Background>,
    /// What it is part of, where the caller says so.
    pub trace: Option<TraceContext>,
}

impl Execute {
    /// A prompt with all defaults.
    pub fn new(node: NodeRef, text: impl Into<String>) -> Execute {
        Execute {
            node,
            text: text.into(),
            parser: None,
            stream: false,
            tag: None,
            timeout: None,
            fail_if_busy: false,
            detach_on_timeout: false,
            conversation: None,
            background: None,
            trace: None,
        }
    }
}

/// How an execution that nobody waits for is done.
#[derive(Debug, Clone, Default)]
pub struct Background {
    /// Who is told of its end.
    pub webhook: Option<Webhook>,
}

/// A graph to be run.
#[derive(Debug, Clone)]
pub struct RunGraph {
    /// Which.
    pub graph: GraphSource,
    /// Where steps that name a node find it; the default session if `None`.
    pub session: Option<String>,
    /// The graph's input.
    pub input: Value,
    /// Id of the run: 1–32 of `a-z 0-9 -`; made up if `None`.
    pub run: Option<String>,
    /// Answer with the trace too.
    pub trace: bool,
    /// Answer as soon as the run has begun.
    pub detach: bool,
    /// Leave the graph's own nodes running when it ends.
    pub keep_nodes: bool,
    /// What it is part of, where the caller says so.
    pub parent: Option<TraceContext>,
}

/// Where a graph to be run comes from.
#[derive(Debug, Clone)]
pub enum GraphSource {
    /// As a graph file has it.
    Whole(Value),
    /// Registered in the session of the run.
    Named(String),
}

/// A run to be gone on with.
#[derive(Debug, Clone)]
pub struct ResumeRun {
    /// Its id.
    pub run: String,
    /// An edited graph in place of the run's own: what is unchanged is not run again.
    pub graph: Option<Value>,
    /// As in [`RunGraph`].
    pub trace: bool,
    /// As in [`RunGraph`].
    pub detach: bool,
}

/// Which entries of an audit log.
#[derive(Debug, Clone, Default)]
pub struct HistoryQuery {
    /// The node; it need not exist any more.
    pub node: String,
    /// Session the node is or was in.
    pub session: Option<String>,
    /// Another server's log; this server's if `None`.
    pub server: Option<String>,
    /// Only the last N of what the other filters let through.
    pub last: Option<usize>,
    /// Only this operation.
    pub op: Option<String>,
    /// Only this sequence number.
    pub seq: Option<u64>,
    /// Only send, send_stream, write and run.
    pub inputs_only: bool,
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

/// What the engine answers.
#[derive(Debug, Clone)]
pub enum Reply {
    /// The node that was made.
    Created(NodeInfo),
    /// The node that was forked, and from which.
    Forked { info: NodeInfo, from: String },
    /// The node is stopped.
    Stopped { node: String },
    /// Nodes, by id.
    Nodes(Vec<NodeInfo>),
    /// One node.
    Node(Box<NodeInfo>),
    /// The command was typed.
    Ran { node: String },
    /// The finished turn.
    Response(Box<Response>),
    /// The execution goes on by itself; this is the id of its result.
    Accepted { result: String, node: String },
    /// What is known of such an execution.
    Result(Arc<ResultRecord>),
    /// Such executions, newest first, without their responses.
    Results(Vec<ResultRecord>),
    /// The interrupt was sent.
    Interrupted { node: String },
    /// So many bytes were written.
    Written { bytes: usize },
    /// Done, nothing to say.
    Done,
    /// Text of the terminal.
    Buffer { text: String },
    /// Entries as they stand in the log, each one JSON object's text.
    History { node: String, server: String, entries: Vec<String>, total: usize, note: Option<String> },
    /// State and evidence.
    Explained(Box<Explanation>),
    /// The state a wait ended in.
    State(StateName),
    /// One session.
    Session(SessionInfo),
    /// All sessions.
    Sessions(Vec<SessionInfo>),
    /// A session's nodes were started or stopped: those that were, and what failed for the others.
    Lifecycle { done: Vec<String>, failed: Vec<(String, String)> },
    /// One graph.
    Graph(Box<GraphInfo>),
    /// All graphs of a session, by id.
    Graphs(Vec<GraphInfo>),
    /// A run as it is now.
    Run(Box<RunInfo>),
    /// Runs, newest first.
    Runs(Vec<RunInfo>),
    /// A run that has ended, with what came of it.
    RunEnded(Box<RunEnded>),
    /// So many runs were told to stop: their ids.
    Cancelled { runs: Vec<String> },
    /// The server goes down.
    ShuttingDown,
    /// Here.
    Pong { nodes: usize, graphs: usize, sessions: usize },
}

/// What is known of a registered graph.
#[derive(Debug, Clone)]
pub struct GraphInfo {
    /// Its id.
    pub id: String,
    /// Its session.
    pub session: String,
    /// Ids of its steps, in the order in which they can run.
    pub steps: Vec<String>,
    /// As a graph file has it.
    pub definition: Value,
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

/// What is known of a run.
#[derive(Debug, Clone)]
pub struct RunInfo {
    /// Its id.
    pub run: String,
    /// The graph's id.
    pub graph: String,
    /// The session it takes nodes from that the graph does not define.
    pub session: String,
    /// Where it is in its life.
    pub status: RunStatus,
    /// When it began.
    pub started: TsNs,
    /// When it ended.
    pub ended: Option<TsNs>,
    /// Steps that have begun, in that order; nested ones by path (`outer/inner`).
    pub steps: Vec<RunStep>,
    /// Steps of the graph itself.
    pub total: usize,
    /// How many of them are done.
    pub done: usize,
    /// Gates that wait for an answer.
    pub gates: Vec<GateInfo>,
    /// Tokens used so far.
    pub tokens: u64,
    /// Why it failed.
    pub error: Option<String>,
    /// Where its journal is.
    pub journal: Option<PathBuf>,
    /// What is wrong with it that does not stop it: a journal that cannot be written.
    pub faults: Vec<String>,
}

/// A step of a run.
#[derive(Debug, Clone)]
pub struct RunStep {
    /// Its path.
    pub step: String,
    /// Its node.
    pub node: String,
    /// `queued`, `running`, `waiting`, `completed`, `reused`, `skipped`, `failed` or `cancelled`.
    pub state: &'static str,
    /// When it began.
    pub started: TsNs,
    /// When it ended.
    pub ended: Option<TsNs>,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// Tokens it used.
    pub tokens: u64,
    /// Why it failed.
    pub error: Option<String>,
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

/// A run that has ended.
#[derive(Debug, Clone)]
pub struct RunEnded {
    /// What is known of it.
    pub info: RunInfo,
    /// Results of the steps by id, nested as the graphs are; those that are there, if it failed.
    pub results: serde_json::Map<String, Value>,
    /// The error of a run that failed or was cancelled.
    pub error: Option<EngineError>,
    /// What was done, if it was asked for.
    pub trace: Option<Box<ExecutionTrace>>,
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
    /// More of an answer (only of turns that stream). `tag` is that of the [`Execute`].
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

/// The engine's answer to a command.
pub type Outcome = Result<Reply, EngineError>;
