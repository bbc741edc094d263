//! `nerve branch`: a new node that goes on from a snapshot of a recorded session.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::node::{EnvPair, Seconds, ServerOption};
use super::node_proxy::ProxyOptions;

#[derive(Debug, Args)]
#[command(override_usage = "nerve branch [OPTIONS] [RECORDING] <INSTRUCTION>")]
#[command(after_long_help = "\
The files of the snapshot go to a folder of their own: of a git repository a work tree on a new branch, of another directory a copy. The
agent's conversation goes on as it was at the snapshot where it can be cut there (Claude Code, Gemini CLI, opencode), else with all that was
said in it (Codex), else it begins anew: which of them, is said. What was recorded stays as it is.

The node has the variables and the proxy of the recorded one, as long as the server that made it knows them; what it lacks, is said.

EXAMPLES
  nerve branch 'Try it without the cache'
  nerve branch 0195e3a1-77aa --at 3 'Make the test pass first'
  nerve branch run.ahr --at 'tests pass' 'The other one' --node other --no-wait
  nerve branch run.ahr --at end --dry-run 'Go on'
  nerve branch run.ahr --env API_TOKEN=\"$API_TOKEN\" 'Go on'")]
pub(crate) struct BranchArgs {
    /// The recording (a file, an id or the beginning of an id; the newest if none is given) or a session that runs and is not recorded (its
    /// id, or its host's), and what the agent is to do: '-' reads standard input
    #[arg(value_name = "[RECORDING] INSTRUCTION", value_hint = ValueHint::FilePath, required = true)]
    pub(crate) words: Vec<String>,
    /// The snapshot: its number, its label, or 'end'
    #[arg(long, value_name = "SNAPSHOT", default_value = "end")]
    pub(crate) at: String,
    /// Name of the new node; made of the recorded one's if not given
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// Where the files go: an empty directory, or none yet
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) to: Option<PathBuf>,
    /// Go on in the recorded directory, with its files as they are now
    #[arg(long, conflicts_with = "to")]
    pub(crate) in_place: bool,
    /// The git work tree that has the snapshots, instead of where they were taken
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "in_place")]
    pub(crate) dir: Option<PathBuf>,
    /// A variable of its environment; may be given more than once
    #[arg(short, long, value_name = "KEY=VALUE")]
    pub(crate) env: Vec<EnvPair>,
    #[command(flatten)]
    pub(crate) proxy: ProxyOptions,
    /// Let it go past the proxy that the recorded agent had
    #[arg(long, conflicts_with = "proxy")]
    pub(crate) no_proxy: bool,
    /// Only print what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Return when the agent has taken the instruction, and print the node's name
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Seconds until the answer must be there; the node's limit if not given
    #[arg(short, long, value_name = "SECONDS", allow_negative_numbers = true, conflicts_with = "no_wait")]
    pub(crate) timeout: Option<Seconds>,
    /// The session of the new node; the server's default session if not given
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) server: ServerOption,
}

impl BranchArgs {
    /// The recording, if one is named, and the instruction. `None`: there are more words.
    pub(crate) fn named(&self) -> Option<(Option<&str>, &str)> {
        match &self.words[..] {
            [instruction] => Some((None, instruction)),
            [recording, instruction] => Some((Some(recording), instruction)),
            _ => None,
        }
    }
}
