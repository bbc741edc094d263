//! `nerve host`: the processes that own terminals.

use clap::{Args, Subcommand};

use nerve_commands::node_command::DurationArg;

#[derive(Debug, Args)]
pub struct HostArgs {
    #[command(subcommand)]
    pub command: HostCommand,
}

#[derive(Debug, Subcommand)]
pub enum HostCommand {
    /// List this user's hosts, with or without a server
    List(ListArgs),
    /// Stop hosts and their programs
    Stop(StopArgs),
    /// Type into a host's program, bypassing any server
    Write(WriteArgs),
    /// Run a host process; reads its specification from standard input (run by servers)
    #[command(hide = true)]
    Run,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
A host owns one terminal and its recording. It survives its server; 'nerve server start' reconnects to it. Programs of 'nerve record' run
in hosts too, listed as 'record' with their session id. Use 'nerve attach ID' to attach to a host's program and
'nerve snapshot --recording ID' to take a snapshot of it.

EXAMPLES
  nerve host list
  nerve host list --json | jq -r '.hosts[] | select(.alive) | .host_id'")]
pub struct ListArgs {
    /// Print as JSON
    #[arg(short, long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true).multiple(false))]
#[command(after_long_help = "\
The program gets SIGHUP, then SIGTERM, then SIGKILL. Hosts that no longer exist are removed from the list.

EXAMPLES
  nerve host stop 3f9a0c1b2d4e
  nerve host stop --all")]
pub struct StopArgs {
    /// Host ids from 'nerve host list', or ids of their sessions
    #[arg(value_name = "ID", group = "which")]
    pub ids: Vec<String>,
    /// Stop all hosts of this user
    #[arg(long, group = "which")]
    pub all: bool,
    /// Time limit in seconds
    #[arg(short, long, default_value = "10", value_name = "SECONDS", allow_negative_numbers = true)]
    pub timeout: DurationArg,
    /// Print as JSON
    #[arg(short, long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
The program receives the bytes as typed input; the recording marks them as injected.

EXAMPLES
  nerve host write 3f9a0c1b2d4e 'y'
  nerve host write 3f9a0c1b2d4e --escape 'ls\\r'")]
pub struct WriteArgs {
    /// Host id, or id of its session
    #[arg(value_name = "ID")]
    pub id: String,
    /// Text to type
    #[arg(value_name = "TEXT", allow_hyphen_values = true)]
    pub text: String,
    /// Interpret \r, \n, \t, \e, \xHH and \\ in TEXT
    #[arg(long)]
    pub escape: bool,
    /// Print as JSON
    #[arg(short, long)]
    pub json: bool,
}
