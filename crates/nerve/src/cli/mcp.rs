//! `nerve mcp`.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_long_help = "\
MCP clients (Claude Code, Claude Desktop, IDEs) start this by themselves and talk with it over standard input and output; standard error
is a log. It ends when its client does. The nodes of a server go on then, those of --in-process are stopped. docs/mcp.md has more.

EXAMPLES
  claude mcp add nerve -- nerve mcp
  claude --mcp-config '{\"mcpServers\":{\"nerve\":{\"command\":\"nerve\",\"args\":[\"mcp\"]}}}'
  nerve mcp --server work
  nerve mcp --in-process                       without a server")]
pub(crate) struct McpArgs {
    /// The server to talk to, by name or as tcp://HOST:PORT or tls://HOST:PORT; it may be started later
    #[arg(short, long, default_value = "default", env = "NERVE_SERVER", value_name = "NAME")]
    pub(crate) server: String,
    /// Keep nodes in this process instead; they end with it, and are not recorded
    #[arg(long, conflicts_with = "server")]
    pub(crate) in_process: bool,
}
