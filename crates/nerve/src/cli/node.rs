//! `nerve server node`: nodes and their turns.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args, Subcommand, ValueEnum, ValueHint};

use nerve_api::value::{BackendKind, NodeState, ParserKind};
use strum::EnumMessage as _;

use super::chat::ChatOptions;
use super::local::Prompt;
use super::node_proxy::ProxyOptions;
use super::result::{ConversationArgs, TurnOptions};

/// Server to contact and output format.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerOption {
    /// Server name, tcp://HOST:PORT or tls://HOST:PORT
    #[arg(short, long, global = true, default_value = "default", env = "NERVE_SERVER", value_name = "NAME")]
    pub(crate) server: String,
    /// Print as JSON
    #[arg(short, long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct NodeArgs {
    #[command(flatten)]
    pub(crate) server: ServerOption,
    /// Session of the node [default: the server's default session]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) session: Option<String>,
    #[command(subcommand)]
    pub(crate) command: NodeCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// Start a program in a terminal as a node
    Create(Box<CreateArgs>),
    /// Start a defined node that is not running
    #[command(after_long_help = "\
Works for nodes in state 'created': stopped by 'session stop', or not recovered when their server restarted.

EXAMPLES
  nerve server node start me")]
    Start(NodeArg),
    /// Create a node that continues another node's conversation
    Fork(ForkArgs),
    /// List the nodes
    #[command(after_long_help = "\
EXAMPLES
  nerve server node list
  nerve server node list --json | jq -r '.nodes[]'")]
    List,
    /// Show one node
    #[command(after_long_help = "\
EXAMPLES
  nerve server node info me")]
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
    /// Interrupt a node's turn in the way its program expects
    #[command(after_long_help = "\
EXAMPLES
  nerve server node interrupt me")]
    Interrupt(NodeArg),
    /// Resize a terminal
    Resize(ResizeArgs),
    /// Wait until a node is in one of the given states
    Wait(WaitArgs),
    /// Explain a node's state: the evidence and the screen
    #[command(after_long_help = "\
EXAMPLES
  nerve server node why me")]
    Why(NodeArg),
    /// Answer the dialog that blocks a node
    Answer(AnswerArgs),
    /// Show the audit log of a node
    History(HistoryArgs),
    /// Stop a node
    #[command(after_long_help = "\
EXAMPLES
  nerve server node stop me")]
    Stop(NodeArg),
    /// Stop a node (older name of 'stop')
    #[command(hide = true)]
    Delete(NodeArg),
    /// Stop a node (older name of 'stop')
    #[command(hide = true)]
    Close(NodeArg),
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
The new node starts with the source's conversation so far; afterwards the two are independent. A terminal agent is started like its
source, on a copy of the conversation: Claude Code, Codex, and Gemini CLI and opencode if the conversation's id is known. A chat node is
copied. The source must be ready and is not changed.

EXAMPLES
  nerve server node fork me              as me-fork, or me-fork-2 if taken
  nerve server node fork me other
  nerve server node fork me back --at 2  after its second turn (Claude Code)")]
pub(crate) struct ForkArgs {
    /// Node to fork
    #[arg(id = "node", value_name = "SRC")]
    pub(crate) node: String,
    /// Name of the new node [default: derived from SRC]
    #[arg(value_name = "DST")]
    pub(crate) target: Option<String>,
    /// Fork after this turn, counted from 1 [default: the latest]
    #[arg(long, value_name = "TURN", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) at: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct NodeArg {
    /// Node
    pub(crate) node: String,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
The command returns when the program has started; 'node wait' waits until the node is ready, and 'node execute' does so itself.

EXAMPLES
  nerve server node create me -c claude --cwd ~/project
  nerve server node create sh -c 'bash --norc' --env PS1='$ ' --no-history
  nerve server node create tests --backend bash
  nerve server node create me -b claude-tmux --tmux-session work
  nerve server node create seen -b tmux --pane-id %3 --profile claude
  nerve server node create ask -b chat --model claude-sonnet-4-5 --tool tests
  nerve server node create me -c claude --proxy anthropic \\
      --proxy-max-tokens 2000000
  nerve server node create me -c claude --proxy openai \\
      --proxy-base-url http://127.0.0.1:11434 --proxy-model qwen3")]
pub(crate) struct CreateArgs {
    /// Name: 1-32 of a-z, 0-9 and '-'
    pub(crate) name: String,
    /// Program and arguments [default: 'claude' for Claude Code backends, otherwise your shell]
    #[arg(short, long, value_name = "COMMAND")]
    pub(crate) command: Option<String>,
    /// Working directory [default: the current one]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) cwd: Option<PathBuf>,
    /// Backend of the node
    #[arg(short, long, value_parser = one_of::<BackendKind>(backends()), default_value_t = BackendKind::Pty)]
    pub(crate) backend: BackendKind,
    #[command(flatten)]
    pub(crate) pane: PaneOptions,
    #[command(flatten)]
    pub(crate) model: ChatOptions,
    #[command(flatten)]
    pub(crate) proxy: ProxyOptions,
    /// Claude Code session id [default: from the command, otherwise generated]
    #[arg(long, value_name = "UUID")]
    pub(crate) claude_session_id: Option<String>,
    /// Environment variable; repeatable
    #[arg(short, long, value_name = "KEY=VALUE")]
    pub(crate) env: Vec<EnvPair>,
    /// Run the commands of Claude Code's shell tool in their own recorded terminals; see 'nerve
    /// show-sandbox-execution'
    #[arg(long)]
    pub(crate) trace_tools: bool,
    /// Keep an audit log (the default)
    #[arg(long, overrides_with = "no_history")]
    pub(crate) history: bool,
    /// Keep no audit log
    #[arg(long)]
    pub(crate) no_history: bool,
    /// Record the terminal (the default)
    #[arg(long, overrides_with = "no_record")]
    pub(crate) record: bool,
    /// Do not record: the terminal's output is lost with the server
    #[arg(long)]
    pub(crate) no_record: bool,
    /// Agent profile [default: detected from the command]
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Answer parser [default: from the profile]
    #[arg(short, long, value_parser = one_of::<ParserKind>(ParserKind::names()))]
    pub(crate) parser: Option<ParserKind>,
    /// Terminal columns, 2-4096
    #[arg(long, default_value = "120", value_parser = clap::value_parser!(u16).range(2..=4096))]
    pub(crate) cols: u16,
    /// Terminal rows, 1-4096
    #[arg(long, default_value = "40", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) rows: u16,
    /// Time limit for the program's start in seconds
    #[arg(long, default_value = "60", value_name = "SECONDS", allow_negative_numbers = true)]
    pub(crate) ready_timeout: Seconds,
    /// Time limit of a turn in seconds, unless 'execute' sets --timeout
    #[arg(long, default_value = "1800", value_name = "SECONDS", allow_negative_numbers = true)]
    pub(crate) response_timeout: Seconds,
    #[command(flatten)]
    pub(crate) conversation: ConversationArgs,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
A node runs one turn at a time; further prompts are queued. Exits with 1 if the turn failed, 4 if it timed out, 5 if a dialog blocks the
node.

EXAMPLES
  nerve server node execute me 'What does main.rs do?'
  git diff | nerve server node execute me - --timeout 300
  nerve server node execute me --file task.md --stream
  nerve server node execute me 'Now the tests' --json | jq -r .response.text
  nerve server node execute me 'Fix the test' --async
  nerve server node execute me 'And now?' --workspace site --chat search")]
#[command(override_usage = "nerve server node execute [OPTIONS] <NODE> <TEXT|--file <PATH>>")]
pub(crate) struct ExecuteArgs {
    /// Node
    pub(crate) node: String,
    #[command(flatten)]
    pub(crate) prompt: Prompt,
    /// Answer parser [default: the node's]
    #[arg(short, long, value_parser = one_of::<ParserKind>(ParserKind::names()))]
    pub(crate) parser: Option<ParserKind>,
    /// Time limit in seconds, including the wait for the node [default: the node's limit]
    #[arg(short, long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub(crate) timeout: Option<Seconds>,
    /// Print the terminal's text as the answer grows; with --json one object per line
    #[arg(long)]
    pub(crate) stream: bool,
    /// Fail immediately if the node is busy
    #[arg(long)]
    pub(crate) fail_if_busy: bool,
    /// On timeout, let the turn continue instead of interrupting it; the history records its end
    #[arg(long)]
    pub(crate) detach: bool,
    #[command(flatten)]
    pub(crate) talk: TurnOptions,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve server node run sh 'make watch'")]
pub(crate) struct RunArgs {
    /// Node
    pub(crate) node: String,
    /// Command to type, followed by Enter
    pub(crate) command: String,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve server node read me
  nerve server node read me -n 50")]
pub(crate) struct ReadArgs {
    /// Node
    pub(crate) node: String,
    /// Print the last N lines [default: all, including scrollback]
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) lines: Option<u64>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Without --escape DATA is written unchanged. With it, \\r \\n \\t \\e \\0 \\\\ \\xHH and \\u{HHHH} are interpreted.
Keys: enter, esc, tab, S-tab, space, backspace, up, down, left, right, home, end, pageup, pagedown, insert, delete, f1 to f20,
C-c or ctrl+c, M-x or alt+x, or one character.

EXAMPLES
  nerve server node write sh 'ls' --key enter
  nerve server node write sh --escape 'ls\\r'
  nerve server node write me --key C-c
  printf 'a\\tb' | nerve server node write sh -")]
#[command(group(ArgGroup::new("what").required(true).multiple(true)))]
#[command(override_usage = "nerve server node write [OPTIONS] <NODE> [DATA] [--key <KEY>]...")]
pub(crate) struct WriteArgs {
    /// Node
    pub(crate) node: String,
    /// Data to write; '-' reads standard input
    #[arg(value_name = "DATA", group = "what")]
    pub(crate) data: Option<String>,
    /// Interpret escapes in DATA
    #[arg(long, requires = "data")]
    pub(crate) escape: bool,
    /// Key to press after DATA; repeatable
    #[arg(short, long = "key", value_name = "KEY", group = "what")]
    pub(crate) keys: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve server node resize me --cols 100 --rows 30")]
pub(crate) struct ResizeArgs {
    /// Node
    pub(crate) node: String,
    /// Columns, 2-4096
    #[arg(long, value_parser = clap::value_parser!(u16).range(2..=4096))]
    pub(crate) cols: u16,
    /// Rows, 1-4096
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) rows: u16,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Prints the state that ended the wait. Exits with 4 on timeout, 5 if the node is blocked or suspended and --until does not name that state.

EXAMPLES
  nerve server node wait me
  nerve server node wait me --until ready --until blocked --timeout 600")]
pub(crate) struct WaitArgs {
    /// Node
    pub(crate) node: String,
    /// State to wait for; repeatable
    #[arg(short, long, value_parser = one_of::<NodeState>(waitable_states()), default_value = "ready")]
    pub(crate) until: Vec<NodeState>,
    /// Time limit in seconds
    #[arg(short, long, default_value = "60", value_name = "SECONDS", allow_negative_numbers = true)]
    pub(crate) timeout: Seconds,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve server node answer me 1
  nerve server node answer me 'yes, proceed' --wait
  nerve server node answer me --cancel")]
#[command(group(ArgGroup::new("choices").required(true)))]
#[command(override_usage = "nerve server node answer [OPTIONS] <NODE> <CHOICE|--cancel>")]
pub(crate) struct AnswerArgs {
    /// Node
    pub(crate) node: String,
    /// Number of the choice, counted from 1, or a unique part of its text
    #[arg(group = "choices")]
    pub(crate) choice: Option<String>,
    /// Cancel the dialog
    #[arg(long, group = "choices")]
    pub(crate) cancel: bool,
    /// Wait for the end of the blocked turn and print its answer
    #[arg(short, long)]
    pub(crate) wait: bool,
    /// Time limit in seconds [default: the node's limit]
    #[arg(short, long, value_name = "SECONDS", allow_negative_numbers = true, requires = "wait")]
    pub(crate) timeout: Option<Seconds>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Also works without a running server: the log is then read from .nerve/history under the current directory, or under NERVE_HOME.

EXAMPLES
  nerve server node history me
  nerve server node history me --last 10
  nerve server node history me --inputs-only --json
  nerve server node history me --summary")]
pub(crate) struct HistoryArgs {
    /// Node; may no longer exist
    pub(crate) node: String,
    /// Show the last N matching entries
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) last: Option<u64>,
    /// Show only this operation
    #[arg(long, value_enum)]
    pub(crate) op: Option<Operation>,
    /// Show only the entry with this number
    #[arg(long, value_name = "N")]
    pub(crate) seq: Option<u64>,
    /// Show only inputs: send, send_stream, write and run
    #[arg(long)]
    pub(crate) inputs_only: bool,
    /// Print counts instead of entries
    #[arg(long)]
    pub(crate) summary: bool,
}

/// Pane of a tmux or WezTerm node.
#[derive(Debug, Args)]
pub(crate) struct PaneOptions {
    /// Existing pane to use, never closed: '%3' or 'session:window.pane' in tmux, a number in WezTerm
    #[arg(long, value_name = "PANE")]
    pub(crate) pane_id: Option<String>,
    /// tmux session for a new pane; created if missing [default: nerve]
    #[arg(long, value_name = "NAME")]
    pub(crate) tmux_session: Option<String>,
    /// tmux or WezTerm server: socket path, or for tmux a name as for 'tmux -L'
    #[arg(long, value_name = "SOCKET")]
    pub(crate) socket: Option<String>,
}

/// Returns a parser for values of the protocol. The help lists the values.
pub(crate) fn one_of<T>(
    values: impl IntoIterator<Item = impl Into<PossibleValue>>,
) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err: std::error::Error + Send + Sync> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(values).try_map(|name| name.parse::<T>())
}

/// Returns the kinds of nodes with their descriptions.
fn backends() -> impl Iterator<Item = PossibleValue> {
    BackendKind::names().map(|name| {
        let kind = name.parse::<BackendKind>().unwrap_or_default();
        let description = kind.get_documentation().unwrap_or_default();
        PossibleValue::new(name).help(description.trim_end_matches('.'))
    })
}

/// Returns the states that a node can reach by itself.
pub(crate) fn waitable_states() -> impl Iterator<Item = &'static str> {
    NodeState::names().filter(|name| !["created", "stopping"].contains(name))
}

/// Operations in an audit log. `delete` occurs only in logs of older versions.
#[derive(Debug, Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Operation {
    Send,
    SendStream,
    Write,
    Run,
    Interrupt,
    Read,
    Close,
    Delete,
}

/// Returns the name of a value on the command line and on the wire.
pub(crate) fn name_of(value: impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_string()).unwrap_or_default()
}

/// A duration in seconds, fractions allowed: more than 0, at most a year.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seconds(pub(crate) Duration);

impl FromStr for Seconds {
    type Err = String;
    fn from_str(text: &str) -> Result<Seconds, String> {
        let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds".to_string())?;
        if seconds > 0.0 && seconds <= 31_536_000.0 {
            return Ok(Seconds(Duration::from_secs_f64(seconds)));
        }
        Err("must be more than 0 and at most a year".to_string())
    }
}

/// An environment variable, written as `KEY=VALUE`.
#[derive(Debug, Clone)]
pub(crate) struct EnvPair {
    pub(crate) key: String,
    pub(crate) value: String,
}

impl FromStr for EnvPair {
    type Err = String;
    fn from_str(text: &str) -> Result<EnvPair, String> {
        match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => {
                Ok(EnvPair { key: key.to_string(), value: value.to_string() })
            }
            _ => Err("expected KEY=VALUE".to_string()),
        }
    }
}
