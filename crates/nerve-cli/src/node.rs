//! `nerve node`: nodes and their turns; and the frequent ones of its commands under names of their own.

use clap::Args;
use nerve_commands::node_command::NodeCommand;

/// Server to contact and output format.
#[derive(Debug, Clone, Args)]
pub struct ServerOption {
    /// Server name, machine://NAME, ssh://HOST, tls://HOST:PORT or tcp://HOST:PORT
    #[arg(short, long, global = true, default_value = "default", env = "NERVE_SERVER", value_name = "NAME")]
    pub server: String,
    /// Print as JSON
    #[arg(short, long, global = true)]
    pub json: bool,
}

/// Server and session of a node.
#[derive(Debug, Clone, Args)]
pub struct NodeTarget {
    #[command(flatten)]
    pub server: ServerOption,
    /// Session of the node, unless it is SESSION/NODE or MACHINE/SESSION/NODE [default: the server's default session]
    #[arg(long, global = true, value_name = "NAME")]
    pub session: Option<String>,
}

#[derive(Debug, Args)]
pub struct NodeArgs {
    #[command(flatten)]
    pub target: NodeTarget,
    #[command(subcommand)]
    pub command: NodeCommand,
}

/// A command of `nerve node` at the top level: `nerve send` is `nerve node execute`.
#[derive(Debug, Args)]
pub struct NodeShortcut<T: Args> {
    #[command(flatten)]
    pub args: T,
    #[command(flatten)]
    pub target: NodeTarget,
}

impl<T: Args> NodeShortcut<T> {
    /// Returns the command of `nerve node`.
    pub fn expand(self, command: impl FnOnce(T) -> NodeCommand) -> NodeArgs {
        NodeArgs { target: self.target, command: command(self.args) }
    }
}
