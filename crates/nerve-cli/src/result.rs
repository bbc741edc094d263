//! `nerve result`.

use clap::{ArgGroup, Args};
use nerve_commands::node_command::DurationArg;

use super::node::ServerOption;

#[derive(Debug, Args)]
#[command(after_long_help = "\
'nerve send --no-wait' prints a result id immediately. Results are kept for a week. A result is 'cancelled' after --cancel or an interrupt of
its turn, and 'lost' if its server ended before the turn did.

Exits like 'nerve send': with 1 if the turn failed or is lost, 3 if the result does not exist, 4 if it is pending or timed out, 5 if a
dialog blocked the node, 130 if it was cancelled.

EXAMPLES
  id=$(nerve send me 'Fix the test' --no-wait)
  nerve result $id --wait
  nerve result $id --wait --timeout 600 --json | jq -r .response.text
  nerve result $id --cancel
  nerve result --list")]
#[command(group(ArgGroup::new("which").required(true)))]
#[command(override_usage = "nerve result [OPTIONS] <ID|--list>")]
pub struct ResultArgs {
    #[command(flatten)]
    pub server: ServerOption,
    /// Result id
    #[arg(group = "which")]
    pub id: Option<String>,
    /// List results, newest first
    #[arg(long, short_alias = 'l', group = "which")]
    pub list: bool,
    /// Wait for the result
    #[arg(short, long, conflicts_with_all = ["list", "cancel"])]
    pub wait: bool,
    /// Time limit in seconds [default: none]
    #[arg(short, long, value_name = "SECONDS", allow_negative_numbers = true, requires = "wait")]
    pub timeout: Option<DurationArg>,
    /// Withdraw the prompt or interrupt its turn
    #[arg(long, conflicts_with = "list")]
    pub cancel: bool,
    /// With --list: only results of this node
    #[arg(long, value_name = "NODE", requires = "list")]
    pub node: Option<String>,
    /// With --list: the newest N
    #[arg(short = 'n', long = "lines", alias = "last", value_name = "N", requires = "list")]
    pub last: Option<u64>,
}
