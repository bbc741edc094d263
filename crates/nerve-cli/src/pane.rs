//! `nerve tmux` and `nerve wezterm`: panes without a nerve server. Both have the same commands.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueHint};

use nerve_commands::node_command::{COLS, EnvPair, ROWS};

#[derive(Debug, Args)]
pub struct PanesArgs {
    /// Multiplexer server: socket path, or for tmux a name as for 'tmux -L'
    #[arg(short = 'L', long, global = true, value_name = "SOCKET")]
    pub socket: Option<String>,
    /// Print as JSON
    #[arg(short, long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub command: PaneCommand,
}

#[derive(Debug, Subcommand)]
pub enum PaneCommand {
    /// List the panes
    #[command(after_long_help = "\
EXAMPLES
  nerve tmux list
  nerve wezterm list --json | jq -r '.panes[].pane'
  nerve tmux -L work list")]
    List,
    /// Create a pane in a new window and print its id
    Spawn(SpawnArgs),
    /// Type text into a pane, then Enter
    Send(SendArgs),
    /// Print the text of a pane
    Read(ReadArgs),
    /// Close a pane; its program ends with it
    #[command(after_long_help = "\
EXAMPLES
  nerve tmux kill %3
  nerve wezterm kill 7")]
    Kill(PaneArg),
}

#[derive(Debug, Args)]
pub struct PaneArg {
    /// Pane: '%3' or 'session:window.pane' in tmux, a number in WezTerm
    pub pane: String,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
tmux is started if it does not run. WezTerm must run: its windows are on a screen, or in 'wezterm-mux-server'.

EXAMPLES
  nerve tmux spawn -c claude --cwd ~/project --name agent
  nerve tmux spawn -c 'bash --norc' --tmux-session work
  pane=$(nerve wezterm spawn -c codex)")]
pub struct SpawnArgs {
    /// Program and arguments [default: your shell]
    #[arg(short, long, value_name = "COMMAND")]
    pub command: Option<String>,
    /// Working directory [default: the current one]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub cwd: Option<PathBuf>,
    /// Name of the window (tmux only)
    #[arg(long, short_alias = 'n', value_name = "NAME")]
    pub name: Option<String>,
    /// Session (tmux) or workspace (WezTerm) of the pane; created if missing
    #[arg(long = "tmux-session", alias = "session", value_name = "NAME")]
    pub session: Option<String>,
    /// Environment variable; repeatable
    #[arg(short, long, value_name = "KEY=VALUE")]
    pub env: Vec<EnvPair>,
    /// Columns, 2-1000, until a client attaches
    #[arg(long, default_value = "120", value_parser = clap::value_parser!(u16).range(COLS))]
    pub cols: u16,
    /// Rows, 1-1000, until a client attaches
    #[arg(long, default_value = "40", value_parser = clap::value_parser!(u16).range(ROWS))]
    pub rows: u16,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
TEXT is pasted unchanged; Enter is sent separately once the pane shows it, unless --no-submit or --key is given. The command does not
observe the program: to wait for an answer, use a node ('nerve new -b tmux --pane-id %3'). Keys are named as in
'nerve node write'.

EXAMPLES
  nerve tmux send %3 'cargo test'
  nerve wezterm send 7 - < prompt.md
  nerve tmux send %3 'half a line' --no-submit
  nerve tmux send %3 --key C-c")]
#[command(group(ArgGroup::new("what").required(true).multiple(true)))]
#[command(override_usage = "nerve <tmux|wezterm> send [OPTIONS] <PANE> <TEXT|--key <KEY>>")]
pub struct SendArgs {
    /// Pane
    pub pane: String,
    /// Text to type; '-' reads standard input
    #[arg(value_name = "TEXT", group = "what")]
    pub text: Option<String>,
    /// Do not press Enter after TEXT
    #[arg(long, requires = "text")]
    pub no_submit: bool,
    /// Key to press after TEXT; repeatable
    #[arg(short, long = "key", value_name = "KEY", group = "what")]
    pub keys: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve tmux read %3
  nerve tmux read %3 -n 50
  nerve wezterm read 7 --full | less")]
pub struct ReadArgs {
    /// Pane
    pub pane: String,
    /// Print the last N lines, including scrollback [default: the screen]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub lines: Option<u32>,
    /// Include the scrollback
    #[arg(long, short_alias = 'f', conflicts_with = "lines")]
    pub full: bool,
}
