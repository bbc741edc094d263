//! `nerve machine` and `nerve connect`: the servers of other machines.

use clap::Args;
use nerve_commands::machine_command::MachineCommand;

/// Arguments of `nerve machine`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve machine add work ssh://me@work.example.com
  nerve ls --all-machines
  nerve send work/default/me 'Run the tests'
  nerve session list --server machine://work")]
pub struct MachineArgs {
    #[command(subcommand)]
    pub command: MachineCommand,
    /// Print as JSON
    #[arg(short, long, global = true)]
    pub json: bool,
}

/// Arguments of `nerve connect`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Copies standard input to the server's socket, and its output to standard output: the wire protocol, as 'ssh HOST nerve connect' carries it
for 'nerve machine'. Ends when the server closes the connection. Exits with 3 if the server is not running.

EXAMPLES
  echo '{\"command_type\":\"PING\"}' | nerve connect
  echo '{\"command_type\":\"PING\"}' | ssh work nerve connect")]
pub struct ConnectArgs {
    /// Server on this machine
    #[arg(short, long, default_value = "default", env = "NERVE_SERVER", value_name = "NAME")]
    pub server: String,
}
