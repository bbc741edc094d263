//! The arguments of node commands.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueHint};

use nerve_api::value::{BackendKind, HistoryOp, Multiplexer, NodeState, ParserKind};

use super::budget::{BudgetArgs, BudgetOptions};
use super::chat_args::ChatOptions;
use super::proxy_args::ProxyOptions;
use super::turn_args::{ConversationArgs, TurnOptions};
use super::values::{COLS, DurationArg, EnvPair, ROWS, described_values, one_of};
use crate::prompt::Prompt;

#[expect(missing_docs, reason = "clap would print it as the help of the command")]
#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// Start a program in a terminal as a node
    #[command(alias = "new")]
    Create(Box<CreateArgs>),
    /// Start a stopped node again: an agent resumes its conversation
    Start(StartArgs),
    /// Create a node that continues another node's conversation
    Fork(ForkArgs),
    /// List the nodes
    #[command(alias = "ls")]
    List(ListArgs),
    /// Show one node
    #[command(after_long_help = "\
EXAMPLES
  nerve node info me")]
    Info(NodeArg),
    /// Send a prompt and wait for the answer
    Execute(ExecuteArgs),
    /// Send a prompt and wait for the answer (older name of 'execute')
    #[command(hide = true)]
    Send(ExecuteArgs),
    /// Type a command without waiting
    Run(RunArgs),
    /// Print the text of a terminal
    Read(ReadArgs),
    /// Write bytes or keys to a terminal
    Write(WriteArgs),
    /// Interrupt a node's turn in the way its program expects, and wait until it has ended
    #[command(after_long_help = "\
EXAMPLES
  nerve node interrupt me && nerve send me 'Retry'")]
    Interrupt(NodeArg),
    /// Resize a terminal
    Resize(ResizeArgs),
    /// Show a terminal in a pane of tmux or WezTerm
    Show(ShowArgs),
    /// Wait until a node is in one of the given states
    Wait(WaitArgs),
    /// Explain a node's state: the evidence and the screen
    #[command(after_long_help = "\
EXAMPLES
  nerve node why me")]
    Why(NodeArg),
    /// Answer the dialog that blocks a node
    Answer(AnswerArgs),
    /// Show or set the budget of a node or a session
    Budget(BudgetArgs),
    /// Show the audit log of a node
    #[command(alias = "logs")]
    History(HistoryArgs),
    /// Stop a node
    Stop(StopArgs),
    /// Remove a stopped node, so that it cannot be started again
    #[command(visible_alias = "rm")]
    Remove(RemoveArgs),
    /// Remove the stopped nodes of a session
    Prune(PruneArgs),
    /// Stop a node (older name of 'stop')
    #[command(hide = true)]
    Delete(StopArgs),
    /// Stop a node (older name of 'stop')
    #[command(hide = true)]
    Close(StopArgs),
}

/// Arguments of `nerve ls`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve ls
  nerve ls --all
  nerve ls --all-machines
  nerve ls --json | jq -r '.nodes[]'
  nerve ls --watch
  nerve ls --watch --all")]
pub struct ListArgs {
    /// List the nodes of all sessions of all servers on this machine
    #[arg(long)]
    pub all: bool,
    /// List the nodes of all servers on this machine and of the servers on the user's other machines
    #[arg(long, conflicts_with = "all")]
    pub all_machines: bool,
    /// Stay, and print the row of each node that changes [with --json: one object per line; with --all: what 'nerve top' shows]
    #[arg(long, short_alias = 'w')]
    pub watch: bool,
}

/// Arguments of `nerve start`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Starts the program of a stopped node in its directory, with its settings. An agent with a built-in profile resumes its
conversation by its id; if it cannot, the command fails. Variables that look secret are not stored: they come from the server's
environment. 'nerve ls' lists the stopped nodes.

EXAMPLES
  nerve start me
  nerve start me --fresh")]
pub struct StartArgs {
    /// Node
    pub node: String,
    /// Start a new conversation instead of resuming the last one
    #[arg(long)]
    pub fresh: bool,
}

/// Arguments of `nerve rm`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Its recordings, its audit log and the agent's conversation stay.

EXAMPLES
  nerve rm me")]
pub struct RemoveArgs {
    /// Node
    pub node: String,
}

/// Arguments of `nerve prune`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Nodes that ran when the server or the machine went down stay, because 'nerve server start --restore' starts them; --all removes them,
too. Recordings, audit logs and the agents' conversations stay. 'nerve recording prune' removes recordings.

EXAMPLES
  nerve prune
  nerve prune --all --dry-run
  nerve prune --session review")]
pub struct PruneArgs {
    /// Also remove nodes that ran when the server or the machine went down
    #[arg(long)]
    pub all: bool,
    /// Print what would be removed
    #[arg(long, short_alias = 'n')]
    pub dry_run: bool,
}

/// Arguments of `nerve stop`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
'nerve start' starts the node again, 'nerve rm' removes it.

EXAMPLES
  nerve stop me")]
pub struct StopArgs {
    /// Node
    pub node: String,
}

/// Arguments of `nerve node fork`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
The new node starts with the source's conversation so far; afterwards the two are independent. A terminal agent is started like its
source, on a copy of the conversation: Claude Code, Codex, and Gemini CLI and opencode if the conversation's id is known. A chat node is
copied. The source must be ready and is not changed.

EXAMPLES
  nerve node fork me              as me-fork, or me-fork-2 if taken
  nerve node fork me other
  nerve node fork me back --at 2  after its second turn (Claude Code)")]
pub struct ForkArgs {
    /// Node to fork
    #[arg(id = "node", value_name = "SRC")]
    pub node: String,
    /// Name of the new node [default: derived from SRC]
    #[arg(value_name = "DST")]
    pub target: Option<String>,
    /// Fork after this turn, counted from 1 [default: the latest]
    #[arg(long, value_name = "TURN", value_parser = clap::value_parser!(u64).range(1..))]
    pub at: Option<u64>,
}

/// A node.
#[derive(Debug, Args)]
pub struct NodeArg {
    /// Node
    pub node: String,
}

/// Arguments of `nerve new`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
The command returns when the program has started; 'nerve wait' waits until the node is ready, and 'nerve send' does so itself.

EXAMPLES
  nerve new me -c claude --cwd ~/project
  nerve new sh -c 'bash --norc' --env PS1='$ ' --no-history
  nerve new tests --backend bash
  nerve new me -b claude-tmux --tmux-session work
  nerve new seen -b tmux --pane-id %3 --profile claude
  nerve new ask -b chat --model claude-sonnet-4-5 --tool tests
  nerve new oc -b acp -c 'opencode acp'
  nerve new me -c claude --budget-cost 5 --at-limit stop
  nerve new me -c claude --proxy anthropic \\
      --proxy-max-tokens 2000000
  nerve new me -c claude --proxy openai \\
      --proxy-base-url http://127.0.0.1:11434 --proxy-model qwen3")]
pub struct CreateArgs {
    /// Name: 1-32 of a-z, 0-9 and '-'
    pub name: String,
    /// Program and arguments [default: 'claude' for Claude Code backends, otherwise your shell]
    #[arg(short, long, value_name = "COMMAND")]
    pub command: Option<String>,
    /// Working directory [default: the current one]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub cwd: Option<PathBuf>,
    /// Backend of the node
    #[arg(short, long, value_parser = one_of::<BackendKind>(described_values::<BackendKind>()), default_value_t = BackendKind::Pty)]
    pub backend: BackendKind,
    /// Pane of the node.
    #[command(flatten)]
    pub pane: PaneOptions,
    /// Options of a chat node.
    #[command(flatten)]
    pub model: ChatOptions,
    /// Proxy of the agent.
    #[command(flatten)]
    pub proxy: ProxyOptions,
    /// Limits of the agent's usage.
    #[command(flatten)]
    pub budget: BudgetOptions,
    /// Id of the agent's conversation [default: from the command, otherwise generated]
    #[arg(long, alias = "claude-session-id", value_name = "ID")]
    pub conversation_id: Option<String>,
    /// Start the agent even if nerve was not tested with its version or options
    #[arg(long)]
    pub force: bool,
    /// Environment variable; repeatable
    #[arg(short, long, value_name = "KEY=VALUE")]
    pub env: Vec<EnvPair>,
    /// Run the commands of Claude Code's shell tool in their own recorded terminals; see 'nerve tools'
    #[arg(long)]
    pub trace_tools: bool,
    /// Keep an audit log (the default)
    #[arg(long, overrides_with = "no_history")]
    pub history: bool,
    /// Keep no audit log
    #[arg(long)]
    pub no_history: bool,
    /// Record the terminal (the default)
    #[arg(long, overrides_with = "no_record")]
    pub record: bool,
    /// Do not record: the terminal's output is lost with the server
    #[arg(long)]
    pub no_record: bool,
    /// Agent profile [default: detected from the command]
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// Answer parser [default: from the profile]
    #[arg(short, long, value_parser = one_of::<ParserKind>(ParserKind::names()))]
    pub parser: Option<ParserKind>,
    /// Terminal columns, 2-1000; existing panes keep theirs [default: 120]
    #[arg(long, value_parser = clap::value_parser!(u16).range(COLS))]
    pub cols: Option<u16>,
    /// Terminal rows, 1-1000; existing panes keep theirs [default: 40]
    #[arg(long, value_parser = clap::value_parser!(u16).range(ROWS))]
    pub rows: Option<u16>,
    /// Time limit for the program's start in seconds
    #[arg(long, default_value = "60", value_name = "SECONDS", allow_negative_numbers = true)]
    pub ready_timeout: DurationArg,
    /// Time limit of a turn in seconds, unless 'send' sets --timeout
    #[arg(long, default_value = "1800", value_name = "SECONDS", allow_negative_numbers = true)]
    pub response_timeout: DurationArg,
    /// Conversation of the node.
    #[command(flatten)]
    pub conversation: ConversationArgs,
}

/// Arguments of `nerve send`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
A node runs one turn at a time; further prompts are queued. Exits with 1 if the turn failed, 4 if it timed out, 5 if a dialog blocks the
node.

EXAMPLES
  nerve send me 'What does main.rs do?'
  git diff | nerve send me - --timeout 300
  nerve send me --file task.md --stream
  nerve send me 'Now the tests' --json | jq -r .response.text
  nerve send me 'Fix the test' --no-wait
  nerve send me 'And now?' --workspace site --chat search")]
#[command(override_usage = "nerve send [OPTIONS] <NODE> <TEXT|--file <PATH>>")]
pub struct ExecuteArgs {
    /// Node
    pub node: String,
    /// Prompt.
    #[command(flatten)]
    pub prompt: Prompt,
    /// Answer parser [default: the node's]
    #[arg(short, long, value_parser = one_of::<ParserKind>(ParserKind::names()))]
    pub parser: Option<ParserKind>,
    /// Time limit in seconds, including the wait for the node [default: the node's limit]
    #[arg(short, long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub timeout: Option<DurationArg>,
    /// Print the terminal's text as the answer grows; with --json one object per line
    #[arg(long)]
    pub stream: bool,
    /// Fail immediately if the node is busy
    #[arg(long)]
    pub fail_if_busy: bool,
    /// Fail at a dialog instead of waiting behind it, also with --no-wait
    #[arg(long)]
    pub fail_if_blocked: bool,
    /// On timeout, let the turn continue instead of interrupting it; the history records its end
    #[arg(long = "continue-on-timeout", alias = "detach")]
    pub detach: bool,
    /// Delivery of the answer, and conversation.
    #[command(flatten)]
    pub turn_options: TurnOptions,
}

/// Arguments of `nerve node run`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve node run sh 'make watch'")]
pub struct RunArgs {
    /// Node
    pub node: String,
    /// Command to type, followed by Enter
    pub command: String,
}

/// Arguments of `nerve node read`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve node read me
  nerve node read me -n 50")]
pub struct ReadArgs {
    /// Node
    pub node: String,
    /// Print the last N lines [default: all, including scrollback]
    #[arg(short = 'n', long, value_name = "N")]
    pub lines: Option<u64>,
}

/// Arguments of `nerve node write`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Without --escape DATA is written unchanged. With it, \\r \\n \\t \\e \\0 \\\\ \\xHH and \\u{HHHH} are interpreted.
Keys: enter, esc, tab, S-tab, space, backspace, up, down, left, right, home, end, pageup, pagedown, insert, delete, f1 to f20,
C-c or ctrl+c, M-x or alt+x, or one character.

EXAMPLES
  nerve node write sh 'ls' --key enter
  nerve node write sh --escape 'ls\\r'
  nerve node write me --key C-c
  printf 'a\\tb' | nerve node write sh -")]
#[command(group(ArgGroup::new("what").required(true).multiple(true)))]
#[command(override_usage = "nerve node write [OPTIONS] <NODE> [DATA] [--key <KEY>]...")]
pub struct WriteArgs {
    /// Node
    pub node: String,
    /// Data to write; '-' reads standard input
    #[arg(value_name = "DATA", group = "what")]
    pub data: Option<String>,
    /// Interpret escapes in DATA
    #[arg(long, requires = "data")]
    pub escape: bool,
    /// Key to press after DATA; repeatable
    #[arg(short, long = "key", value_name = "KEY", group = "what")]
    pub keys: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve node resize me --cols 100 --rows 30")]
pub struct ResizeArgs {
    /// Node
    pub node: String,
    /// Columns, 2-1000
    #[arg(long, value_parser = clap::value_parser!(u16).range(COLS))]
    pub cols: u16,
    /// Rows, 1-1000
    #[arg(long, value_parser = clap::value_parser!(u16).range(ROWS))]
    pub rows: u16,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Opens a pane that runs 'nerve attach' on the node, or focuses the pane that does, and prints its id. The node does not depend on the
pane: close it and open it again at any time.

EXAMPLES
  nerve node show me --in tmux
  nerve node show me --in tmux --tmux-session work
  nerve node show me --in tmux --split %3
  nerve node show me --in wezterm")]
pub struct ShowArgs {
    /// Node
    pub node: String,
    /// Multiplexer
    #[arg(id = "in", long = "in", value_parser = one_of::<Multiplexer>(described_values::<Multiplexer>()))]
    pub multiplexer: Multiplexer,
    /// Split this pane and use its right side [default: a new window]
    #[arg(long, value_name = "PANE")]
    pub split: Option<String>,
    /// tmux session, created if missing, or WezTerm workspace [default: nerve in tmux]
    #[arg(long, value_name = "NAME")]
    pub tmux_session: Option<String>,
    /// tmux or WezTerm server: socket path, or for tmux a name as for 'tmux -L'
    #[arg(long, value_name = "SOCKET")]
    pub socket: Option<String>,
}

/// Arguments of `nerve wait`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Prints the state that ended the wait. Exits with 4 on timeout, 5 if the node is blocked or suspended and --until does not name that state.

EXAMPLES
  nerve wait me
  nerve wait me --until ready --until blocked --timeout 600")]
pub struct WaitArgs {
    /// Node
    pub node: String,
    /// State to wait for; repeatable
    #[arg(short, long, value_parser = one_of::<NodeState>(waitable_states()), default_value = "ready")]
    pub until: Vec<NodeState>,
    /// Time limit in seconds
    #[arg(short, long, default_value = "60", value_name = "SECONDS", allow_negative_numbers = true)]
    pub timeout: DurationArg,
}

/// Arguments of `nerve answer`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve answer me 1
  nerve answer me 'yes, proceed' --wait
  nerve answer me --cancel")]
#[command(group(ArgGroup::new("choices").required(true)))]
#[command(override_usage = "nerve answer [OPTIONS] <NODE> <CHOICE|--cancel>")]
pub struct AnswerArgs {
    /// Node
    pub node: String,
    /// Number of the choice, counted from 1, or a unique part of its text
    #[arg(group = "choices")]
    pub choice: Option<String>,
    /// Cancel the dialog
    #[arg(long, group = "choices")]
    pub cancel: bool,
    /// Wait for the end of the blocked turn and print its answer
    #[arg(short, long)]
    pub wait: bool,
    /// Time limit in seconds [default: the node's limit]
    #[arg(short, long, value_name = "SECONDS", allow_negative_numbers = true, requires = "wait")]
    pub timeout: Option<DurationArg>,
}

/// Arguments of `nerve logs`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
The log has what was typed into the node, and its answers. 'nerve node read NODE' prints the text of its terminal.
Also works without a running server: the log is then read from its file.

EXAMPLES
  nerve logs me
  nerve logs me --lines 10
  nerve logs me --all
  nerve logs me --inputs-only --json
  nerve logs me --summary")]
pub struct HistoryArgs {
    /// Node; may no longer exist
    pub node: String,
    /// Show the last N matching entries
    #[arg(short = 'n', long = "lines", alias = "last", value_name = "N")]
    pub last: Option<u64>,
    /// Show only this operation
    #[arg(long, value_parser = one_of::<HistoryOp>(HistoryOp::names()))]
    pub op: Option<HistoryOp>,
    /// Show only the entry with this number
    #[arg(long, value_name = "N")]
    pub seq: Option<u64>,
    /// Show only inputs: send, send_stream, write and run
    #[arg(long)]
    pub inputs_only: bool,
    /// Show READ entries, too; JSON, counts, '--op' and '--seq' always have them
    #[arg(long)]
    pub all: bool,
    /// Print counts instead of entries
    #[arg(long)]
    pub summary: bool,
}

/// Pane of a tmux or WezTerm node.
#[derive(Debug, Args)]
pub struct PaneOptions {
    /// Existing pane to use, never closed: '%3' or 'session:window.pane' in tmux, a number in WezTerm
    #[arg(long, value_name = "PANE")]
    pub pane_id: Option<String>,
    /// tmux session for a new pane; created if missing [default: nerve]
    #[arg(long, value_name = "NAME")]
    pub tmux_session: Option<String>,
    /// tmux or WezTerm server: socket path, or for tmux a name as for 'tmux -L'
    #[arg(long, value_name = "SOCKET")]
    pub socket: Option<String>,
}

/// Returns the states that a node can reach by itself.
pub fn waitable_states() -> impl Iterator<Item = &'static str> {
    NodeState::names().filter(|name| !["created", "stopping"].contains(name))
}
