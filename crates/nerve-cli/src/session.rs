//! `nerve session`: named groups of nodes.

use clap::{Args, Subcommand};
use nerve_commands::node_command::BudgetOptions;

use super::node::ServerOption;

#[derive(Debug, Args)]
pub struct SessionArgs {
    #[command(flatten)]
    pub server: ServerOption,
    #[command(subcommand)]
    pub command: SessionCommand,
}

#[derive(Debug, Subcommand)]
pub enum SessionCommand {
    /// List the sessions of a server
    #[command(
        alias = "ls",
        after_long_help = "\
EXAMPLES
  nerve session list
  nerve session list --json"
    )]
    List,
    /// Create a session
    #[command(after_long_help = "\
EXAMPLES
  nerve session create review --description 'Code review' --tag ci
  nerve new critic -c claude --session review")]
    Create(CreateArgs),
    /// Show one session
    #[command(after_long_help = "\
EXAMPLES
  nerve session info review")]
    Info(NameArg),
    /// Start the stopped nodes of a session again
    #[command(after_long_help = "\
Agents resume their conversations. Nodes whose programs exited by themselves stay stopped, unless --all is given. Exits with 1 if a node
could not be started.

EXAMPLES
  nerve session start review
  nerve session start review --all")]
    Start(StartArgs),
    /// Stop all nodes of a session and keep their definitions
    #[command(after_long_help = "\
'session start' starts them again.

EXAMPLES
  nerve session stop review")]
    Stop(NameArg),
    /// Stop the nodes of a session and delete it
    #[command(after_long_help = "\
EXAMPLES
  nerve session delete review")]
    Delete(NameArg),
}

#[derive(Debug, Args)]
pub struct CreateArgs {
    /// Name: 1-32 of a-z, 0-9 and '-'
    pub name: String,
    /// Description
    #[arg(long, short_alias = 'd', default_value = "", value_name = "TEXT", hide_default_value = true)]
    pub description: String,
    /// Tag; repeatable
    #[arg(long = "tag", short_alias = 't', value_name = "TAG")]
    pub tags: Vec<String>,
    /// Limits of the usage of all its nodes together.
    #[command(flatten)]
    pub budget: BudgetOptions,
}

#[derive(Debug, Args)]
pub struct StartArgs {
    #[command(flatten)]
    pub session: NameArg,
    /// Also start nodes whose programs exited by themselves
    #[arg(long)]
    pub all: bool,
}

#[derive(Debug, Args)]
pub struct NameArg {
    /// Session
    #[arg(value_name = "SESSION")]
    pub name: String,
}
