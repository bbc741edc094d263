//! `nerve tmux` and `nerve wezterm`: panes without a server of ours. The same commands for both.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueHint};

use super::node::EnvPair;

#[derive(Debug, Args)]
pub(crate) struct PanesArgs {
    /// The multiplexer's own server: a socket's path, or for tmux a name as 'tmux -L' takes it
    #[arg(short = 'L', long, global = true, value_name = "SOCKET")]
    pub(crate) socket: Option<String>,
    /// Print as JSON
    #[arg(short, long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: PaneCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PaneCommand {
    /// List the panes
    #[command(after_long_help = "\
EXAMPLES
  nerve tmux list
  nerve wezterm list --json | jq -r '.panes[].pane'
  nerve tmux -L work list")]
    List,
    /// Make a pane in a window of its own and print its id
    Spawn(SpawnArgs),
    /// Type text into a pane, then Enter
    Send(SendArgs),
    /// Print what a pane shows
    Read(ReadArgs),
    /// Close a pane; its program ends with it
    #[command(after_long_help = "\
EXAMPLES
  nerve tmux kill %3
  nerve wezterm kill 7")]
    Kill(PaneArg),
}

#[derive(Debug, Args)]
pub(crate) struct PaneArg {
    /// The pane: '%3' or 'session:window.pane' of tmux, a number of WezTerm
    pub(crate) pane: String,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
tmux is started if it does not run. WezTerm must run: its windows are on a screen, or in 'wezterm-mux-server'.

EXAMPLES
  nerve tmux spawn -c claude --cwd ~/project -n agent
  nerve tmux spawn -c 'bash --norc' --session work
  pane=$(nerve wezterm spawn -c codex)")]
pub(crate) struct SpawnArgs {
    /// The program and its arguments; your shell if not given
    #[arg(short, long, value_name = "COMMAND")]
    pub(crate) command: Option<String>,
    /// Where it works; the directory of this command if not given
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) cwd: Option<PathBuf>,
    /// Name of its window, where windows have one (tmux)
    #[arg(short, long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// The session (tmux) or workspace (WezTerm) it goes to; made if it is not there
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    /// A variable of its environment; may be given more than once
    #[arg(short, long, value_name = "KEY=VALUE")]
    pub(crate) env: Vec<EnvPair>,
    /// Columns, 2-4096, where nobody looks at it yet
    #[arg(long, default_value = "120", value_parser = clap::value_parser!(u16).range(2..=4096))]
    pub(crate) cols: u16,
    /// Rows, 1-4096, where nobody looks at it yet
    #[arg(long, default_value = "40", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) rows: u16,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
TEXT is pasted, whole and as it is; Enter follows on its own when the pane has shown it, unless --no-submit or --key is given. Nothing is
known of what the program does with it: a node ('nerve server node create -b tmux --pane-id %3') knows, and waits for the answer.
Keys are those of 'nerve server node write'.

EXAMPLES
  nerve tmux send %3 'cargo test'
  nerve wezterm send 7 - < prompt.md
  nerve tmux send %3 'half a line' --no-submit
  nerve tmux send %3 --key C-c")]
#[command(group(ArgGroup::new("what").required(true).multiple(true)))]
#[command(override_usage = "nerve <tmux|wezterm> send [OPTIONS] <PANE> <TEXT|--key <KEY>>")]
pub(crate) struct SendArgs {
    /// The pane
    pub(crate) pane: String,
    /// What to type; '-' reads standard input
    #[arg(value_name = "TEXT", group = "what")]
    pub(crate) text: Option<String>,
    /// No Enter after TEXT
    #[arg(long, requires = "text")]
    pub(crate) no_submit: bool,
    /// A key to press after TEXT; may be given more than once
    #[arg(short, long = "key", value_name = "KEY", group = "what")]
    pub(crate) keys: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve tmux read %3
  nerve tmux read %3 -n 50
  nerve wezterm read 7 --full | less")]
pub(crate) struct ReadArgs {
    /// The pane
    pub(crate) pane: String,
    /// Only the last N lines, scrollback included; what is on the screen if not given
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) lines: Option<u32>,
    /// The scrollback too
    #[arg(short, long, conflicts_with = "lines")]
    pub(crate) full: bool,
}
