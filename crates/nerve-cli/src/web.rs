//! `nerve web`: the console in a browser.

use clap::{Args, Subcommand};
use nerve_repl::node_command::one_of;
use nerve_server::web::Role;

use super::node::ServerOption;

#[derive(Debug, Args)]
#[command(after_long_help = "\
Prints a link to the web console, and opens it on a desktop. Starts the server if it does not run, with HTTP on loopback. The link works
once, within 60 seconds, and logs the browser in for 30 days.

Roles: 'view' reads, 'answer' also answers dialogs and gates, 'full' does everything.

The browser gets the link as an argument, which other users of the machine may see: use --no-open there.

EXAMPLES
  nerve web
  nerve web --role view --no-open
  nerve web sessions list
  nerve web sessions revoke 1f0c9a27b3d4")]
pub struct WebArgs {
    #[command(flatten)]
    pub server: ServerOption,
    #[command(subcommand)]
    pub command: Option<WebCommand>,
    /// Permissions of the browser
    #[arg(long, default_value = "full", value_parser = one_of::<Role>(Role::names()))]
    pub role: Role,
    /// Print the link only
    #[arg(long)]
    pub no_open: bool,
}

#[derive(Debug, Subcommand)]
pub enum WebCommand {
    /// List and end web sessions
    Sessions(WebSessionsArgs),
}

#[derive(Debug, Args)]
pub struct WebSessionsArgs {
    #[command(subcommand)]
    pub command: WebSessionsCommand,
}

#[derive(Debug, Subcommand)]
pub enum WebSessionsCommand {
    /// List the sessions, the last used first
    #[command(alias = "ls", after_long_help = "EXAMPLES\n  nerve web sessions list --json")]
    List,
    /// End a session; its pages are disconnected within seconds
    #[command(after_long_help = "\
'nerve token rotate' ends all sessions.

EXAMPLES
  nerve web sessions revoke 1f0c9a27b3d4")]
    Revoke {
        /// Session id, or its beginning
        #[arg(value_name = "ID")]
        id: String,
    },
}
