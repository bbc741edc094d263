//! `nerve host`: the processes that own terminals.

use clap::{Args, Subcommand};

use super::node::Seconds;

#[derive(Debug, Args)]
pub(crate) struct HostArgs {
    #[command(subcommand)]
    pub(crate) command: HostCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HostCommand {
    /// List the hosts of this user, with or without a server
    List(ListArgs),
    /// End hosts and the programs in them
    Stop(StopArgs),
    /// Type into a host's program, past any server
    Write(WriteArgs),
    /// Be a host: reads what to run from standard input (servers start this)
    #[command(hide = true)]
    Run,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
A host owns one terminal and its recording. It goes on when its server dies; 'nerve server start' takes it back. What 'nerve record' runs
is a host too, and says 'record' and its session's id. 'nerve attach ID' shows what runs in a host, 'nerve snapshot --session ID' takes a
snapshot of it.

EXAMPLES
  nerve host list
  nerve host list --json | jq -r '.hosts[] | select(.alive) | .id'")]
pub(crate) struct ListArgs {
    /// Print the hosts as JSON
    #[arg(short, long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true).multiple(false))]
#[command(after_long_help = "\
The program gets SIGHUP, then SIGTERM, then SIGKILL. A host that is gone already is taken off the list.

EXAMPLES
  nerve host stop 3f9a0c1b2d4e
  nerve host stop --all")]
pub(crate) struct StopArgs {
    /// Ids, as 'nerve host list' shows them, or ids of the sessions that they run
    #[arg(value_name = "ID", group = "which")]
    pub(crate) ids: Vec<String>,
    /// All hosts of this user
    #[arg(long, group = "which")]
    pub(crate) all: bool,
    /// Seconds until they must be gone
    #[arg(short, long, default_value = "10", value_name = "SECONDS", allow_negative_numbers = true)]
    pub(crate) timeout: Seconds,
    /// Print what was stopped as JSON
    #[arg(short, long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
The bytes reach the program as if they were typed, and are in the recording as injected input.

EXAMPLES
  nerve host write 3f9a0c1b2d4e 'y'
  nerve host write 3f9a0c1b2d4e --escape 'ls\\r'")]
pub(crate) struct WriteArgs {
    /// The host, or the session that it runs
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// What to type
    #[arg(value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) text: String,
    /// Understand \r, \n, \t, \e, \xHH and \\ in the text
    #[arg(long)]
    pub(crate) escape: bool,
}
