//! `nerve mcp`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::listen::address;

#[derive(Debug, Args)]
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
    /// Also offer the tools of the first nerve (nerve_create_channel, nerve_send, …)
    #[arg(long)]
    pub legacy_tools: bool,
    #[command(flatten)]
    pub listen: McpListenArgs,
}

/// HTTP listener of `nerve mcp`.
#[derive(Debug, Args)]
pub struct McpListenArgs {
    /// Accepted host name, in addition to localhost and addresses; repeatable
    #[arg(long, value_name = "NAME", requires = "http")]
    pub http_name: Vec<String>,
    /// TLS certificate chain (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key", requires = "http")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM, not encrypted)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// File with the access token; created if missing
    #[arg(long, value_name = "FILE", requires = "http")]
    pub token_file: Option<PathBuf>,
    /// Allow a non-loopback address without TLS: others on the network can read the token
    #[arg(long, requires = "http")]
    pub insecure: bool,
    /// Print the listen address as JSON
    #[arg(short, long, requires = "http")]
    pub json: bool,
}
