//! `nerve machine` and `nerve connect`: the servers of other machines.

use clap::{Args, Subcommand};
use nerve_commands::machine_command::MachineCommand;
use nerve_commands::node_command::DurationArg;

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
    pub command: MachineSubcommand,
    /// Print as JSON
    #[arg(short, long, global = true)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum MachineSubcommand {
    #[command(flatten)]
    Remote(MachineCommand),
    /// Let a machine of the cluster end its steps and begin no other, before maintenance
    #[command(after_long_help = "\
Steps of runs that were offered to the machine go to other members. Waits until the steps that run there have ended. The drain stays after
a restart of the machine, until 'nerve machine undrain'. A machine that is away can be drained too. Needs '--features cluster'.

EXAMPLES
  nerve machine drain build
  nerve machine drain build --timeout 600 && ssh build sudo reboot")]
    Drain(DrainArgs),
    /// Let a drained machine of the cluster begin steps again
    #[command(after_long_help = "Needs '--features cluster'.\n\nEXAMPLES\n  nerve machine undrain build")]
    Undrain(UndrainArgs),
}

/// Arguments of `nerve machine drain`.
#[derive(Debug, Args)]
pub struct DrainArgs {
    /// Name in 'nerve cluster status' [default: this machine]
    pub name: Option<String>,
    /// Return at once, while steps run
    #[arg(long = "no-wait", conflicts_with = "timeout")]
    pub no_wait: bool,
    /// Seconds to wait for the steps; the drain stays [default: no limit]
    #[arg(short, long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub timeout: Option<DurationArg>,
}

/// Arguments of `nerve machine undrain`.
#[derive(Debug, Args)]
pub struct UndrainArgs {
    /// Name in 'nerve cluster status' [default: this machine]
    pub name: Option<String>,
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
