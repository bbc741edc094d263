//! `nerve usage`.

use clap::{Args, ValueEnum};
use nerve_api::value::UsageGrouping as Grouping;

const EXAMPLES: &str = "\
EXAMPLES
  nerve usage
  nerve usage --by day --since 30d
  nerve usage me review/critic --by model
  nerve usage laptop/default/me            a node of another machine
  nerve usage --prices                     the prices, and where to change them";

/// Arguments of `nerve usage`.
#[derive(Debug, Args)]
#[command(
    long_about = "\
Prints the tokens and the cost of the nodes and recordings on this machine, also of those that ended.

The counts come from the log of a node's proxy if it has one, otherwise from the agent's own session files, otherwise from the node's history. The costs are estimates by list prices; '?' stands for tokens whose model has no price.",
    after_long_help = EXAMPLES
)]
pub struct UsageArgs {
    /// NODE, SESSION/NODE or MACHINE/SESSION/NODE; repeatable [default: all on this machine]
    #[arg(value_name = "NODE")]
    pub nodes: Vec<String>,
    /// Sum up by this
    #[arg(long, value_name = "GROUP", default_value = "node")]
    pub by: UsageGrouping,
    /// Only what is newer: today, yesterday, 12h, 30d, 2026-01-31 or a time (RFC 3339)
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Only the nodes of this session
    #[arg(long, value_name = "SESSION")]
    pub session: Option<String>,
    /// Print the prices and the path of your own price file
    #[arg(long, conflicts_with_all = ["nodes", "by", "since", "session"])]
    pub prices: bool,
    /// Print as JSON
    #[arg(short, long)]
    pub json: bool,
}

/// Grouping of the usage into rows of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum UsageGrouping {
    /// Nodes, and recordings without a node
    Node,
    /// Sessions
    Session,
    /// Days, in local time
    Day,
    /// Models
    Model,
}

impl UsageGrouping {
    /// Returns the grouping of the request.
    pub fn grouping(self) -> Grouping {
        match self {
            UsageGrouping::Node => Grouping::Node,
            UsageGrouping::Session => Grouping::Session,
            UsageGrouping::Day => Grouping::Day,
            UsageGrouping::Model => Grouping::Model,
        }
    }
}
