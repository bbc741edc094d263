//! `nerve web`: the console in a browser.

use clap::{Args, Subcommand};
use http::Uri;
use nerve_commands::node_command::one_of;
use nerve_server::web::Role;

use super::node::ServerOption;

#[derive(Debug, Args)]
#[command(after_long_help = "\
Prints a link to the web console, and opens it on a desktop. Starts the server if it does not run, with HTTP on loopback. The link works
once, within 60 seconds, and logs the browser in for 30 days.

With --url, the link leads through a tunnel or proxy, and is printed as a QR code too. A server that this starts accepts the URL's host
name; a running server needs --http-name.

With --machines, the page also shows the nodes of other machines: the server that this starts relays to them. A running server needs
'nerve server start --machines'.

Roles: 'view' reads, 'answer' also answers dialogs and gates, 'full' does everything.

The browser gets the link as an argument, which other users of the machine may see: use --no-open there.

EXAMPLES
  nerve web
  nerve web --role view --no-open
  nerve web --url https://host.tailnet.ts.net
  nerve web --machines
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
    /// Show the nodes of all machines in 'nerve machine list'
    #[arg(long)]
    pub machines: bool,
    /// Base URL of the link, such as that of a tunnel [default: loopback]
    #[arg(long, value_name = "URL", value_parser = base_url)]
    pub url: Option<Uri>,
}

/// Parses the beginning of a link: a scheme and a host, and a port if needed.
pub(crate) fn base_url(text: &str) -> Result<Uri, String> {
    let url: Uri = text.parse().map_err(|_| "expected a URL such as https://host.example".to_string())?;
    let is_http = matches!(url.scheme_str(), Some("http" | "https"));
    match is_http && url.path() == "/" && url.query().is_none() {
        true => Ok(url),
        false => Err("expected http:// or https:// and a host, without a path".to_string()),
    }
}

#[derive(Debug, Subcommand)]
pub enum WebCommand {
    /// List and end web sessions
    Sessions(WebSessionsArgs),
    /// List and end the links of 'nerve share'
    Shares(WebSharesArgs),
}

#[derive(Debug, Args)]
pub struct WebSharesArgs {
    #[command(subcommand)]
    pub command: WebSharesCommand,
}

#[derive(Debug, Subcommand)]
pub enum WebSharesCommand {
    /// List the links, the newest first
    #[command(alias = "ls", after_long_help = "EXAMPLES\n  nerve web shares list --json")]
    List,
    /// End a link; its pages are disconnected within seconds
    #[command(after_long_help = "EXAMPLES\n  nerve web shares revoke 1f0c9a27b3d4")]
    Revoke {
        /// Share id, or its beginning
        #[arg(value_name = "ID")]
        id: String,
    },
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
