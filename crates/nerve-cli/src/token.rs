//! `nerve token`: the access token for TCP and HTTP clients.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
#[command(after_long_help = "\
Clients over TCP and HTTP must send the access token; the Unix socket needs none. The token is created on first use, in a file that only
you can read. It grants full access to your servers.

EXAMPLES
  nerve token show
  curl -H \"Authorization: Bearer $(nerve token show)\" \\
      http://127.0.0.1:7071/nodes
  nerve token rotate")]
pub struct TokenArgs {
    #[command(subcommand)]
    pub command: TokenCommand,
    /// Token file, for servers started with --token-file
    #[arg(long, value_name = "FILE", global = true)]
    pub token_file: Option<PathBuf>,
    /// Print as JSON
    #[arg(short, long, global = true)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Print the token; created if missing
    #[command(after_long_help = "EXAMPLES\n  nerve token show\n  nerve token show --json")]
    Show,
    /// Replace the token; the old one becomes invalid
    #[command(after_long_help = "\
Running servers accept the new token immediately. Clients that connected with the old one are notified, and their connections are closed
within seconds.

EXAMPLES
  nerve token rotate")]
    Rotate,
    /// Print the path of the token file
    #[command(after_long_help = "EXAMPLES\n  nerve token path")]
    Path,
}
