//! `nerve exec` and `nerve tools`: runs a command in its own terminal, and shows one.

use clap::{Args, ValueHint};
use nerve_commands::node_command::{COLS, ROWS};

#[derive(Debug, Args)]
#[command(after_long_help = "\
The command runs in its own terminal. Its recording is linked to the enclosing session ($NERVE_RECORDING, or --recording); outside
a session it is stored where 'nerve recording list' finds it. The output goes to standard output: unchanged to a terminal, with plain
line ends elsewhere. Standard input is passed to the command unless it is a terminal. Signals and the exit code pass through.

EXAMPLES
  nerve exec -- make test
  nerve exec --id build-1 -c 'make test 2>&1 | tee log'
  nerve tools 'make test' --id build-1")]
pub struct ExecArgs {
    /// Execution id: 1-64 of A-Z a-z 0-9 _ -, unused in the session [default: generated]
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// Session: node, id or file of its recording [default: the enclosing session]
    #[arg(long = "recording", alias = "session", short_alias = 's', value_name = "RECORDING", value_hint = ValueHint::FilePath)]
    pub session: Option<String>,
    /// Shell command line, instead of CMD
    #[arg(short = 'c', long = "command", alias = "shell", value_name = "LINE", conflicts_with = "command")]
    pub line: Option<String>,
    /// Let the command read its terminal even if standard input is not one; a viewer can then type into it
    #[arg(short, long)]
    pub interactive: bool,
    /// Terminal columns [default: this terminal's, otherwise 120]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(COLS))]
    pub cols: Option<u16>,
    /// Terminal rows [default: this terminal's, otherwise 40]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(ROWS))]
    pub rows: Option<u16>,
    /// Command and arguments
    #[arg(last = true, required_unless_present = "line", value_name = "CMD")]
    #[arg(value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<String>,
    /// Command as the agent wrote it; `command` is the wrapper that runs it.
    #[arg(skip)]
    pub announced: Option<String>,
    /// The agent's shell gives the command no input.
    #[arg(skip)]
    pub reads_nothing: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Shows a running command live until it ends and forwards your keys to it; the recording marks them as injected. Shows the output of a
command that has ended. With --follow it stays open for scrolling and shows the next run with this id, in any session unless
--recording is given. For a command without its own terminal, it shows the output as the agent received it, and keys go to the agent's
terminal. If standard output is not a terminal, it writes the recorded bytes.

EXAMPLES
  nerve tools 'make test' --id build-1
  nerve tools 'sudo true' --id toolu_01A --follow \\
      --recording 0195e3a1-77aa
  nerve tools --id build-1 > log")]
pub struct ShowArgs {
    /// Expected command; a different one causes a warning
    #[arg(value_name = "CMD")]
    pub command: Option<String>,
    /// Execution id
    #[arg(long, value_name = "ID")]
    pub id: String,
    /// Session to search: node, id or file of its recording [default: the enclosing session, otherwise the newest that contains ID]
    #[arg(long = "recording", alias = "session", short_alias = 's', value_name = "RECORDING", value_hint = ValueHint::FilePath)]
    pub session: Option<String>,
    /// Stay open after the end; without --recording, also show later runs with this id
    #[arg(short, long)]
    pub follow: bool,
}
