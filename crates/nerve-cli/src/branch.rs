//! `nerve branch`: continues from a snapshot of a recorded session in a new node.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use nerve_commands::node_command::{DurationArg, EnvPair, ProxyOptions};

use super::node::ServerOption;

#[derive(Debug, Args)]
#[command(override_usage = "nerve branch [OPTIONS] [RECORDING] <INSTRUCTION>")]
#[command(after_long_help = "\
The files of the snapshot are restored to a new folder: a git work tree on a new branch, or a copy of any other directory. The agent's
conversation continues from the snapshot (Claude Code, Gemini CLI, opencode, Kilo), continues with all its messages (agents that can only
be forked, such as Codex), or starts empty; the output says which. The recording is not changed.

The node inherits the recorded node's variables and proxy if its server still knows them; the output lists what is missing.

EXAMPLES
  nerve branch 'Try it without the cache'
  nerve branch 0195e3a1-77aa --at 3 'Make the test pass first'
  nerve branch run.ahr --at 'tests pass' 'The other one' --node other --no-wait
  nerve branch run.ahr --at end --dry-run 'Continue'
  nerve branch run.ahr --env API_TOKEN=\"$API_TOKEN\" 'Continue'")]
pub struct BranchArgs {
    /// Recording or session (node, id or file; as for 'nerve view') [default: the newest recording], then the
    /// instruction; '-' reads it from standard input
    #[arg(value_name = "[RECORDING] INSTRUCTION", value_hint = ValueHint::FilePath, required = true)]
    pub words: Vec<String>,
    /// Snapshot number, label, or 'end'
    #[arg(long, value_name = "SNAPSHOT", default_value = "end")]
    pub at: String,
    /// Name of the new node [default: derived from the recorded one]
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// Target directory for the files; must be empty or not exist
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub to: Option<PathBuf>,
    /// Work in the recorded directory, with its current files
    #[arg(long, conflicts_with = "to")]
    pub in_place: bool,
    /// Git work tree that has the snapshots [default: where they were taken]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "in_place")]
    pub dir: Option<PathBuf>,
    /// Environment variable; repeatable
    #[arg(short, long, value_name = "KEY=VALUE")]
    pub env: Vec<EnvPair>,
    #[command(flatten)]
    pub proxy: ProxyOptions,
    /// Do not use the recorded agent's proxy
    #[arg(long, conflicts_with = "proxy")]
    pub no_proxy: bool,
    /// Print the plan without executing it
    #[arg(long)]
    pub dry_run: bool,
    /// Print the node's name and return once the agent has accepted the instruction
    #[arg(long)]
    pub no_wait: bool,
    /// Time limit for the answer in seconds [default: the node's limit]
    #[arg(short, long, value_name = "SECONDS", allow_negative_numbers = true, conflicts_with = "no_wait")]
    pub timeout: Option<DurationArg>,
    /// Session of the new node [default: the server's default session]
    #[arg(long, value_name = "NAME")]
    pub session: Option<String>,
    #[command(flatten)]
    pub server: ServerOption,
}

impl BranchArgs {
    /// Returns the recording, if given, and the instruction; `None` if there are too many arguments.
    pub fn positionals(&self) -> Option<(Option<&str>, &str)> {
        match &self.words[..] {
            [instruction] => Some((None, instruction)),
            [recording, instruction] => Some((Some(recording), instruction)),
            _ => None,
        }
    }
}
