//! `nerve token`: what clients over TCP and HTTP must know.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
#[command(after_long_help = "\
Clients over TCP and HTTP show the token to be let in; on the Unix socket nobody is asked for it. It is made when it is first needed and
is in a file that only you can read. Whoever knows it can do with the servers what you can.

EXAMPLES
  nerve token show
  curl -H \"Authorization: Bearer $(nerve token show)\" \\
      http://127.0.0.1:7071/nodes
  nerve token rotate")]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    pub(crate) command: TokenCommand,
    /// The file it is in, if a server was started with --token-file
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) token_file: Option<PathBuf>,
    /// Print as JSON
    #[arg(short, long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Print the token; it is made if there is none
    #[command(after_long_help = "EXAMPLES\n  nerve token show\n  nerve token show --json")]
    Show,
    /// Make a new token; the old one lets nobody in from now on
    #[command(after_long_help = "\
Servers that run take the new token at once. Clients that came in with the old one are told so, and their connections are closed within
seconds.

EXAMPLES
  nerve token rotate")]
    Rotate,
    /// Print where the token is kept
    #[command(after_long_help = "EXAMPLES\n  nerve token path")]
    Path,
}
