//! `nerve server`: starts, stops and lists servers.

use clap::{Args, Subcommand};
use nerve_commands::node_command::DurationArg;

use super::graph::GraphArgs;
use super::listen::ListenArgs;
use super::node::NodeArgs;
use super::repl::ServerReplArgs;
use super::session::SessionArgs;

#[derive(Debug, Args)]
pub struct ServerArgs {
    #[command(subcommand)]
    pub command: ServerCommand,
}

#[derive(Debug, Subcommand)]
pub enum ServerCommand {
    /// Start a server in the background and wait until it is ready
    Start(StartArgs),
    /// Stop a server and its nodes
    Stop(StopArgs),
    /// Restart a server with the same options; its nodes keep running
    Restart(RestartArgs),
    /// Show whether a server is running, and its nodes and listeners
    Status(StatusArgs),
    /// List this user's running servers
    #[command(alias = "ls")]
    List(ListArgs),
    /// Print the log of a server
    Logs(LogsArgs),
    /// Create and use nodes (older spelling of 'nerve node')
    #[command(hide = true)]
    Node(NodeArgs),
    /// Create and use nodes (older spelling of 'nerve node')
    #[command(hide = true)]
    Channel(NodeArgs),
    /// Create and use sessions (older spelling of 'nerve session')
    #[command(hide = true)]
    Session(SessionArgs),
    /// Run graphs (older spelling of 'nerve graph')
    #[command(hide = true)]
    Graph(GraphArgs),
    /// Run graphs (older spelling of 'nerve graph')
    #[command(hide = true)]
    Dag(GraphArgs),
    /// Use the nodes and graphs of a server interactively
    Repl(ServerReplArgs),
}

/// Name of a server, as an argument or an option.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub struct NameArgs {
    /// Server name [default: NERVE_SERVER, otherwise 'default']
    #[arg(value_name = "NAME")]
    pub positional: Option<String>,
    /// Server name, as an option
    #[arg(long, short_alias = 'n', value_name = "NAME")]
    pub name: Option<String>,
}

impl NameArgs {
    /// Returns the name from the command line or the environment. clap's `env` does not work here: its value would
    /// conflict with --name.
    pub fn get(&self) -> String {
        or_default_name(self.name.as_deref().or(self.positional.as_deref()))
    }
}

/// Returns the given name, otherwise that of the environment or the default.
pub fn or_default_name(given: Option<&str>) -> String {
    let from_env = || std::env::var("NERVE_SERVER").ok().filter(|name| !name.is_empty());
    given.map(str::to_string).or_else(from_env).unwrap_or_else(|| "default".to_string())
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
The server listens on a Unix socket that only you can use. Succeeds without effect if the server already runs and listens on the addresses that are given. 'nerve server logs' prints its log.
With --tcp and --http it also listens on the network, for clients with the access token ('nerve token show'). Addresses other than
loopback need TLS. 'nerve server status' lists the addresses.
Histories go to 'history' in the state directory, or under NERVE_HOME.

EXAMPLES
  nerve server start
  nerve server start work
  nerve server start --foreground
  nerve server start --restore
  nerve server start --tcp 7070 --http 7071
  nerve server start --tcp 0.0.0.0:7070 --tls-cert cert.pem --tls-key key.pem")]
pub struct StartArgs {
    #[command(flatten)]
    pub name: NameArgs,
    #[command(flatten)]
    pub listen: ListenArgs,
    /// Stay in the foreground and log to stderr; Ctrl+C stops the server
    #[arg(long)]
    pub foreground: bool,
    /// Start the nodes that ran when the server or the machine went down
    #[arg(long)]
    pub restore: bool,
    /// Print as JSON
    #[arg(short, long, conflicts_with = "foreground")]
    pub json: bool,
    /// Set by 'server start' for its background process
    #[arg(long, hide = true, requires = "foreground")]
    pub daemon: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
All nodes are stopped. Succeeds without effect if the server does not run; fails with 3 if no server ever had the name. --force kills a server that does not respond: only the process that holds the server's lock, never one that
merely has the process id from a file.

EXAMPLES
  nerve server stop
  nerve server stop work --timeout 30
  nerve server stop --all --force")]
pub struct StopArgs {
    #[command(flatten)]
    pub name: NameArgs,
    /// Stop all servers of this user
    #[arg(long, conflicts_with_all = ["positional", "name"])]
    pub all: bool,
    /// Kill a server that does not respond
    #[arg(long, short_alias = 'f')]
    pub force: bool,
    /// Time limit in seconds
    #[arg(short, long, default_value = "10", value_name = "SECONDS", allow_negative_numbers = true)]
    pub timeout: DurationArg,
    /// Keep nodes running that can outlive the server
    #[arg(long)]
    pub keep_nodes: bool,
    /// Print as JSON
    #[arg(short, long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Like 'nerve server stop --keep-nodes' and then 'nerve server start' in the same directory, with the same addresses and files. The
environment is that of this command. Turns continue, and the new server reconnects to its nodes. Nodes without a host end, with a
warning: chats and one-shot bash nodes. Starts the server if it does not run.

EXAMPLES
  nerve server restart
  nerve server restart work --timeout 30")]
pub struct RestartArgs {
    #[command(flatten)]
    pub name: NameArgs,
    /// Time limit for the stop in seconds
    #[arg(short, long, default_value = "10", value_name = "SECONDS", allow_negative_numbers = true)]
    pub timeout: DurationArg,
    /// Print as JSON
    #[arg(short, long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Prints the log of a server in the background, also after its end. A server in the foreground logs to its terminal. The log of a node is
printed by 'nerve logs NODE'.

EXAMPLES
  nerve server logs
  nerve server logs work --lines 20
  nerve server logs --follow")]
pub struct LogsArgs {
    /// Server name [default: NERVE_SERVER, otherwise 'default']
    pub name: Option<String>,
    /// Print the last N lines [default: all]
    #[arg(short = 'n', long, value_name = "N")]
    pub lines: Option<usize>,
    /// Print new lines until interrupted
    #[arg(short, long)]
    pub follow: bool,
    /// Print as JSON: the path and the lines of the log
    #[arg(short, long, conflicts_with = "follow")]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Exits with 3 if the server is not running.

EXAMPLES
  nerve server status
  nerve server status work --json
  nerve server status --all")]
pub struct StatusArgs {
    #[command(flatten)]
    pub name: NameArgs,
    /// Show all servers of this user
    #[arg(long, conflicts_with_all = ["positional", "name"])]
    pub all: bool,
    /// Print as JSON
    #[arg(short, long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve server list
  nerve server list --json")]
pub struct ListArgs {
    /// Print as JSON
    #[arg(short, long)]
    pub json: bool,
}
