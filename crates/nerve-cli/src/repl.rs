//! `nerve repl` and `nerve server repl`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Options of both commands.
#[derive(Debug, Args)]
pub struct ReplOptions {
    /// Command script, or graph (.yaml, .yml, .json), to run first
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// Continue after script errors; the exit code is still 1
    #[arg(long, short_alias = 'k')]
    pub keep_going: bool,
    /// Initial session [default: the default session]
    #[arg(long, value_name = "NAME")]
    pub session: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Nodes run in this process and end with it. On a terminal there is line editing with history and completion, and events appear above the
prompt; 'help' lists the commands. Elsewhere commands are read line by line, and the first error ends the REPL with exit code 1. Ctrl+C
interrupts the running command, a second one exits. Exiting stops what was started. See docs/repl.md.

EXAMPLES
  nerve repl
  nerve repl review.yaml                       load a graph first
  nerve repl commands.nerve                    run a script first
  printf 'node create sh -b bash\\n@sh date\\n' | nerve repl")]
pub struct ReplArgs {
    #[command(flatten)]
    pub options: ReplOptions,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Like 'nerve repl', with the nodes of a server. An argument that is no file is the name of the server. Exiting stops the nodes and cancels the runs that were started here; 'exit --keep' leaves
them running.

EXAMPLES
  nerve server repl
  nerve server repl work                       like --server work
  nerve server repl --server work --session tests
  nerve server repl commands.nerve")]
pub struct ServerReplArgs {
    /// Server name
    #[arg(short, long, default_value = "default", env = "NERVE_SERVER", value_name = "NAME")]
    pub server: String,
    #[command(flatten)]
    pub options: ReplOptions,
}
