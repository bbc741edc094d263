//! `nerve server node`: nodes and their turns.

use clap::Args;
use nerve_repl::node_command::NodeCommand;

/// Server to contact and output format.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerOption {
    /// Server name, tcp://HOST:PORT or tls://HOST:PORT
    #[arg(short, long, global = true, default_value = "default", env = "NERVE_SERVER", value_name = "NAME")]
    pub(crate) server: String,
    /// Print as JSON
    #[arg(short, long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct NodeArgs {
    #[command(flatten)]
    pub(crate) server: ServerOption,
    /// Session of the node [default: the server's default session]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) session: Option<String>,
    #[command(subcommand)]
    pub(crate) command: NodeCommand,
}
