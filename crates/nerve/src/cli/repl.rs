//! `nerve repl` and `nerve server repl`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// What both take.
#[derive(Debug, Args)]
pub(crate) struct ReplOptions {
    /// Commands to do first, or a graph (.yaml, .yml, .json) to begin with
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
    /// Go on after errors of a script; the exit code is 1 all the same
    #[arg(short, long)]
    pub(crate) keep_going: bool,
    /// The session to begin in; the default session if not given
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Nodes run in this process and end with it. On a terminal lines are edited, with a history, completion and events above the prompt; 'help'
lists the commands. Elsewhere commands are read line by line, and the first error ends it with exit code 1. Ctrl+C interrupts what runs,
twice it leaves. Leaving stops what was started. docs/repl.md has more.

EXAMPLES
  nerve repl
  nerve repl review.yaml                       with a graph to begin with
  nerve repl commands.nerve                    commands of a file, then yours
  printf 'node create sh -b bash\\n@sh date\\n' | nerve repl")]
pub(crate) struct ReplArgs {
    #[command(flatten)]
    pub(crate) options: ReplOptions,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
As 'nerve repl', with the nodes of a server. Leaving stops the nodes and cancels the runs that were started here, and no others; 'exit --keep'
leaves them running.

EXAMPLES
  nerve server repl
  nerve server repl --server work --session tests
  nerve server repl commands.nerve")]
pub(crate) struct ServerReplArgs {
    /// The server to talk to
    #[arg(short, long, default_value = "default", env = "NERVE_SERVER", value_name = "NAME")]
    pub(crate) server: String,
    #[command(flatten)]
    pub(crate) options: ReplOptions,
}
