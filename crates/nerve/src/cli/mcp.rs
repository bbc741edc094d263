//! `nerve mcp`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::listen::address;

#[derive(Debug, Args)]
#[command(after_long_help = "\
MCP clients (Claude Code, Claude Desktop, IDEs) start this by themselves and talk with it over standard input and output; standard error
is a log. It ends when its client does. The nodes of a server go on then, those of --in-process are stopped.

With --http it serves many clients until it is told to stop, at http://ADDR/mcp. A server with HTTP ('nerve server start --http ADDR')
does so by itself, at the same path. Clients must know the token ('nerve token show'). docs/mcp.md has more.

EXAMPLES
  claude mcp add nerve -- nerve mcp
  claude --mcp-config \\
      '{\"mcpServers\":{\"nerve\":{\"command\":\"nerve\",\"args\":[\"mcp\"]}}}'
  nerve mcp --server work
  nerve mcp --in-process                       without a server
  nerve mcp --http 7071                        for many clients, over HTTP
  claude mcp add --transport http nerve http://127.0.0.1:7071/mcp \\
      --header \"Authorization: Bearer $(nerve token show)\"")]
pub(crate) struct McpArgs {
    /// The server to talk to, by name or as tcp://HOST:PORT or tls://HOST:PORT; it may be started later
    #[arg(short, long, default_value = "default", env = "NERVE_SERVER", value_name = "NAME")]
    pub(crate) server: String,
    /// Keep nodes in this process instead; they end with it, and are not recorded
    #[arg(long, conflicts_with = "server")]
    pub(crate) in_process: bool,
    /// Serve many clients over HTTP instead: PORT, IP:PORT; port 0 is any
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub(crate) http: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) listen: McpListenArgs,
}

/// How it listens for HTTP.
#[derive(Debug, Args)]
pub(crate) struct McpListenArgs {
    /// Name by which clients may call it, beside localhost and addresses; may be given again
    #[arg(long, value_name = "NAME", requires = "http")]
    pub(crate) http_name: Vec<String>,
    /// Certificate for TLS, with those that lead to an authority (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key", requires = "http")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM, not encrypted)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// File with the token that clients must know; made if it is not there
    #[arg(long, value_name = "FILE", requires = "http")]
    pub(crate) token_file: Option<PathBuf>,
    /// Allow an address that is not loopback without TLS: others on the network can read the token
    #[arg(long, requires = "http")]
    pub(crate) insecure: bool,
    /// Say as JSON where it listens
    #[arg(long, requires = "http")]
    pub(crate) json: bool,
}
