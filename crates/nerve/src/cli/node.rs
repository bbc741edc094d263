//! `nerve server node`: nodes and their turns.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand, ValueEnum, ValueHint};

use super::chat::ChatOptions;
use super::local::Prompt;
use super::node_proxy::ProxyOptions;
use super::result::{ConversationArgs, TalkArgs};

/// Which server, and how to print.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerOption {
    /// The server to talk to: its name, or tcp://HOST:PORT, or tls://HOST:PORT
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
    /// The session the node is in; the server's default session if not given
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) session: Option<String>,
    #[command(subcommand)]
    pub(crate) command: NodeCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// Start a program in a terminal as a node
    Create(Box<CreateArgs>),
    /// Start a node again that is defined and does not run
    #[command(after_long_help = "\
A node that was there when its server ended, and could not be taken back, is shown as 'created': its definition is known. So is a node
that 'session stop' stopped.

EXAMPLES
  nerve server node start me")]
    Start(NodeArg),
    /// Make a node that goes on from where another one is
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
    /// Type a command and do not wait
    Run(RunArgs),
    /// Print the text of a terminal
    Read(ReadArgs),
    /// Write bytes or keys to a terminal
    Write(WriteArgs),
    /// Interrupt what a node does, the way its program expects it
    #[command(after_long_help = "\
EXAMPLES
  nerve server node interrupt me")]
    Interrupt(NodeArg),
    /// Give a terminal another size
    Resize(ResizeArgs),
    /// Wait until a node is in a state; answers at once when it is
    Wait(WaitArgs),
    /// Say why a node is in its state: the evidence and the screen
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
The new node knows what was said so far; from then on both go on apart. An agent in a terminal is started as its source was, on a
copy of the conversation: Claude Code, Codex, and where the conversation's id is known Gemini CLI and opencode. A chat node is copied.
The source has to be ready, and is left as it is.

EXAMPLES
  nerve server node fork me              as me-fork, else me-fork-2
  nerve server node fork me other
  nerve server node fork me back --at 2  after its second turn (Claude Code)")]
pub(crate) struct ForkArgs {
    /// The node to go on from
    #[arg(id = "node", value_name = "SRC")]
    pub(crate) node: String,
    /// The new node's name; made of the other's if not given
    #[arg(value_name = "DST")]
    pub(crate) target: Option<String>,
    /// The turn after which it goes on, from 1; the present if not given
    #[arg(long, value_name = "TURN", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) at: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct NodeArg {
    /// The node
    pub(crate) node: String,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
The node is there as soon as its program runs; 'node wait' waits until it is ready. An execute waits by itself.

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
    /// Its name: 1-32 of a-z, 0-9 and '-'
    pub(crate) name: String,
    /// The program and its arguments; 'claude' for Claude Code's backends, else your shell if not given
    #[arg(short, long, value_name = "COMMAND")]
    pub(crate) command: Option<String>,
    /// Where it works; the directory of this command if not given
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) cwd: Option<PathBuf>,
    /// What the node is made of
    #[arg(short, long, value_enum, default_value_t = Backend::Pty)]
    pub(crate) backend: Backend,
    #[command(flatten)]
    pub(crate) pane: PaneOptions,
    #[command(flatten)]
    pub(crate) model: ChatOptions,
    #[command(flatten)]
    pub(crate) proxy: ProxyOptions,
    /// Id of Claude Code's own conversation, a UUID; taken from the command or made up if not given
    #[arg(long, value_name = "UUID")]
    pub(crate) claude_session_id: Option<String>,
    /// A variable of its environment; may be given more than once
    #[arg(short, long, value_name = "KEY=VALUE")]
    pub(crate) env: Vec<EnvPair>,
    /// Run the commands of Claude Code's shell tool in recorded terminals of their own: see 'nerve show-sandbox-execution'
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
    /// Record nothing: what was on the terminal is lost with the server
    #[arg(long)]
    pub(crate) no_record: bool,
    /// What is known of the program; found from the command if not given
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// How answers are taken apart; the profile's way if not given
    #[arg(short, long, value_enum)]
    pub(crate) parser: Option<ParserName>,
    /// Columns of the terminal, 2-4096
    #[arg(long, default_value = "120", value_parser = clap::value_parser!(u16).range(2..=4096))]
    pub(crate) cols: u16,
    /// Rows of the terminal, 1-4096
    #[arg(long, default_value = "40", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) rows: u16,
    /// Seconds until the program must be ready
    #[arg(long, default_value = "60", value_name = "SECONDS", allow_negative_numbers = true)]
    pub(crate) ready_timeout: Seconds,
    /// Seconds a turn may take where 'execute' sets no --timeout
    #[arg(long, default_value = "1800", value_name = "SECONDS", allow_negative_numbers = true)]
    pub(crate) response_timeout: Seconds,
    #[command(flatten)]
    pub(crate) conversation: ConversationArgs,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
A node does one turn at a time; others wait for their turn. Exits with 1 when the turn failed, 4 when it timed out, 5 when a dialog
blocks the node.

EXAMPLES
  nerve server node execute me 'What does main.rs do?'
  git diff | nerve server node execute me - --timeout 300
  nerve server node execute me --file task.md --stream
  nerve server node execute me 'Now the tests' --json | jq -r .response.text
  nerve server node execute me 'Fix the test' --async
  nerve server node execute me 'And now?' --workspace site --chat search")]
#[command(override_usage = "nerve server node execute [OPTIONS] <NODE> <TEXT|--file <PATH>>")]
pub(crate) struct ExecuteArgs {
    /// The node
    pub(crate) node: String,
    #[command(flatten)]
    pub(crate) prompt: Prompt,
    /// How the answer is taken apart; the node's way if not given
    #[arg(short, long, value_enum)]
    pub(crate) parser: Option<ParserName>,
    /// Seconds the turn may take, waiting included; the node's limit if not given
    #[arg(short, long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub(crate) timeout: Option<Seconds>,
    /// Print what the terminal shows while the answer grows; with --json one object a line
    #[arg(long)]
    pub(crate) stream: bool,
    /// Fail at once when the node does another turn
    #[arg(long)]
    pub(crate) fail_if_busy: bool,
    /// When the time is over, let the turn go on instead of interrupting it; it ends in the history
    #[arg(long)]
    pub(crate) detach: bool,
    #[command(flatten)]
    pub(crate) talk: TalkArgs,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve server node run sh 'make watch'")]
pub(crate) struct RunArgs {
    /// The node
    pub(crate) node: String,
    /// What to type; Enter follows
    pub(crate) command: String,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve server node read me
  nerve server node read me -n 50")]
pub(crate) struct ReadArgs {
    /// The node
    pub(crate) node: String,
    /// Only the last N lines; all if not given, scrollback included
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) lines: Option<u64>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Without --escape the bytes go out as they are given. With it, \\r \\n \\t \\e \\0 \\\\ \\xHH and \\u{HHHH} are understood.
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
    /// The node
    pub(crate) node: String,
    /// What to write; '-' reads standard input
    #[arg(value_name = "DATA", group = "what")]
    pub(crate) data: Option<String>,
    /// Understand escapes in DATA
    #[arg(long, requires = "data")]
    pub(crate) escape: bool,
    /// A key to press after DATA; may be given more than once
    #[arg(short, long = "key", value_name = "KEY", group = "what")]
    pub(crate) keys: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve server node resize me --cols 100 --rows 30")]
pub(crate) struct ResizeArgs {
    /// The node
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
Prints the state the wait ended in. Exits with 4 when the time is over, 5 when the node is blocked or suspended and that was not waited for.

EXAMPLES
  nerve server node wait me
  nerve server node wait me --until ready --until blocked --timeout 600")]
pub(crate) struct WaitArgs {
    /// The node
    pub(crate) node: String,
    /// A state to wait for; may be given more than once
    #[arg(short, long, value_enum, default_value = "ready")]
    pub(crate) until: Vec<State>,
    /// Seconds to wait
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
    /// The node
    pub(crate) node: String,
    /// The number of the choice, from 1, or a part of its text that no other choice has
    #[arg(group = "choices")]
    pub(crate) choice: Option<String>,
    /// Leave the dialog without choosing
    #[arg(long, group = "choices")]
    pub(crate) cancel: bool,
    /// Wait for the end of the turn the dialog interrupted, and print its answer
    #[arg(short, long)]
    pub(crate) wait: bool,
    /// Seconds to wait; the node's limit if not given
    #[arg(short, long, value_name = "SECONDS", allow_negative_numbers = true, requires = "wait")]
    pub(crate) timeout: Option<Seconds>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Works without a running server too: the log is then read from .nerve/history under this directory, or under NERVE_HOME.

EXAMPLES
  nerve server node history me
  nerve server node history me --last 10
  nerve server node history me --inputs-only --json
  nerve server node history me --summary")]
pub(crate) struct HistoryArgs {
    /// The node; it need not exist any more
    pub(crate) node: String,
    /// Only the last N of what the other filters let through
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) last: Option<u64>,
    /// Only this operation
    #[arg(long, value_enum)]
    pub(crate) op: Option<Operation>,
    /// Only the entry with this number
    #[arg(long, value_name = "N")]
    pub(crate) seq: Option<u64>,
    /// Only what was put in: send, send_stream, write and run
    #[arg(long)]
    pub(crate) inputs_only: bool,
    /// Count instead of showing
    #[arg(long)]
    pub(crate) summary: bool,
}

/// Where a node's pane is, for nodes in tmux and WezTerm.
#[derive(Debug, Args)]
pub(crate) struct PaneOptions {
    /// A pane that is there already, used as it is and never closed: '%3' or 'session:window.pane' of tmux, a number of WezTerm
    #[arg(long, value_name = "PANE")]
    pub(crate) pane_id: Option<String>,
    /// The tmux session a new pane goes to; made if it is not there [default: nerve]
    #[arg(long, value_name = "NAME")]
    pub(crate) tmux_session: Option<String>,
    /// The server of tmux or WezTerm: a socket's path, or for tmux a name as 'tmux -L' takes it
    #[arg(long, value_name = "SOCKET")]
    pub(crate) socket: Option<String>,
}

/// What nodes can be made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    /// A terminal
    Pty,
    /// A terminal with Claude Code in it
    Claude,
    /// A pane of tmux
    Tmux,
    /// A pane of tmux with Claude Code in it
    ClaudeTmux,
    /// A pane of WezTerm
    Wezterm,
    /// A pane of WezTerm with Claude Code in it
    ClaudeWezterm,
    /// No terminal: each execute runs 'bash -c'
    Bash,
    /// No terminal: a conversation with a model's API
    Chat,
}

/// How answers are taken apart.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ParserName {
    Claude,
    Codex,
    Gemini,
    Opencode,
    None,
}

/// States of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum State {
    Starting,
    Ready,
    Busy,
    Blocked,
    Suspended,
    Stopped,
}

/// Operations in an audit log (seed channel-history §4.1; `delete` is in logs of the first nerve).
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

/// The name of an enum's value, as it is typed and as it is on the wire.
pub(crate) fn name_of(value: impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_string()).unwrap_or_default()
}

/// Seconds, whole or not: more than 0, at most a year.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seconds(pub(crate) Duration);

impl FromStr for Seconds {
    type Err = String;
    fn from_str(text: &str) -> Result<Seconds, String> {
        let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_string())?;
        if seconds > 0.0 && seconds <= 31_536_000.0 {
            return Ok(Seconds(Duration::from_secs_f64(seconds)));
        }
        Err("must be more than 0 and at most a year".to_string())
    }
}

/// `KEY=VALUE`.
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
            _ => Err("write it as KEY=VALUE".to_string()),
        }
    }
}
