//! `nerve mcp`.

use std::net::SocketAddr;

use clap::{ArgGroup, Args};

use super::listen::{AccessArgs, address};

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("network").args(["http"]))]
#[command(after_long_help = "\
MCP clients (Claude Code, Claude Desktop, IDEs) start this command and communicate over standard input and output; it logs to standard
error. It exits with its client. Nodes of a server keep running, those of --in-process are stopped.

With --http it serves many clients at http://ADDR/mcp until it is stopped. A server with HTTP ('nerve server start --http ADDR') serves
the same path itself. Clients need the access token ('nerve token show'). See docs/mcp.md.

EXAMPLES
  claude mcp add nerve -- nerve mcp
  claude --mcp-config \\
      '{\"mcpServers\":{\"nerve\":{\"command\":\"nerve\",\"args\":[\"mcp\"]}}}'
  nerve mcp --server work
  nerve mcp --in-process                       without a server
  nerve mcp --machines                         with the nodes of other machines
  nerve mcp --http 7071                        for many clients, over HTTP
  claude mcp add --transport http nerve http://127.0.0.1:7071/mcp \\
      --header \"Authorization: Bearer $(nerve token show)\"")]
pub struct McpArgs {
    /// Server name, tcp://HOST:PORT or tls://HOST:PORT; may be started later
    #[arg(short, long, default_value = "default", env = "NERVE_SERVER", value_name = "NAME")]
    pub server: String,
    /// Run nodes in this process instead; they end with it and are not recorded
    #[arg(long, conflicts_with = "server")]
    pub in_process: bool,
    /// Serve many clients over HTTP instead: PORT or IP:PORT; port 0 picks a free one
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub http: Option<SocketAddr>,
    /// Let clients use the nodes of all machines in 'nerve machine list': MACHINE/SESSION/NODE
    #[arg(long)]
    pub machines: bool,
    /// Also offer the tools of the first nerve (nerve_create_channel, nerve_send, …)
    #[arg(long)]
    pub legacy_tools: bool,
    #[command(flatten)]
    pub access: AccessArgs,
    /// Print the listen address as JSON
    #[arg(short, long, requires = "http")]
    pub json: bool,
}
