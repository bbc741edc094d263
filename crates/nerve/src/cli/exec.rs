//! `nerve exec` and `nerve show-sandbox-execution`: a command in a terminal of its own, and somebody who looks at it.

use clap::{Args, ValueHint};

#[derive(Debug, Args)]
#[command(after_long_help = "\
The command runs on a terminal of its own, recorded beside the session it is run in (NERVE_RECORDING says which, --session another);
outside of a session it is recorded where 'nerve recordings list' finds it. Its output goes to standard output: as it is on a terminal,
else with plain line ends. Input that is no terminal is the command's own. Signals and the exit code pass through.

EXAMPLES
  nerve exec -- make test
  nerve exec --id build-1 -c 'make test 2>&1 | tee log'
  nerve show-sandbox-execution 'make test' --id build-1")]
pub(crate) struct ExecArgs {
    /// Its id, 1 to 64 of A-Z a-z 0-9 _ -; a new one if not given. It must be free in the session
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
    /// The session or its recording, instead of the one this runs in
    #[arg(short, long, value_name = "SESSION|FILE", value_hint = ValueHint::FilePath)]
    pub(crate) session: Option<String>,
    /// A line for the shell, instead of a command
    #[arg(short = 'c', long = "shell", value_name = "LINE", conflicts_with = "command")]
    pub(crate) line: Option<String>,
    /// The command reads its terminal even where standard input is none: whoever shows it can answer it
    #[arg(short, long)]
    pub(crate) interactive: bool,
    /// Columns of its terminal; this window's, else 120, if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=4096))]
    pub(crate) cols: Option<u16>,
    /// Rows of its terminal; this window's, else 40, if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) rows: Option<u16>,
    /// The command and its arguments
    #[arg(last = true, required_unless_present = "line", value_name = "CMD")]
    #[arg(value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<String>,
    /// What an agent announced: the command as it wrote it, where `command` is what runs it.
    #[arg(skip)]
    pub(crate) announced: Option<String>,
    /// The agent's shell gives the command no input.
    #[arg(skip)]
    pub(crate) reads_nothing: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
What runs is shown live, and keys go into it, recorded as injected; it ends when the command does. What has ended shows what it wrote.
With --follow it stays open to scroll in, and shows the next run under the id, whatever session that is in, unless --session says in
which. Without a terminal of its own, the output that the agent was given is shown, and keys go to
the agent's terminal. Where standard output is no terminal, the recorded bytes are written.

EXAMPLES
  nerve show-sandbox-execution 'make test' --id build-1
  nerve show-sandbox-execution 'sudo true' --id toolu_01A --follow \\
      --session 0195e3a1-77aa
  nerve show-sandbox-execution --id build-1 > log")]
pub(crate) struct ShowArgs {
    /// What was run; a warning is given if it was something else
    #[arg(value_name = "CMD")]
    pub(crate) command: Option<String>,
    /// Its id
    #[arg(long, value_name = "ID")]
    pub(crate) id: String,
    /// The session or its recording, instead of the one this runs in, else the newest that has it
    #[arg(short, long, value_name = "SESSION|FILE", value_hint = ValueHint::FilePath)]
    pub(crate) session: Option<String>,
    /// Stay open when it has ended; without --session, for the next run under the id
    #[arg(short, long)]
    pub(crate) follow: bool,
}
