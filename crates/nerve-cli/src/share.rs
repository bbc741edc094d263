//! `nerve share`.

use std::time::Duration;

use clap::Args;
use http::Uri;

use crate::node::NodeTarget;
use crate::recording::Age;
use crate::web::base_url;

/// Maximum lifetime of a share.
const MAX_LIFETIME: Duration = Duration::from_secs(30 * 24 * 60 * 60);

#[derive(Debug, Args)]
#[command(after_long_help = "\
Prints a link to the web console. Anyone with the link can read this node until the share ends: its terminal, conversation, dialogs, command
line, folder and cost, with all secrets in them. It cannot be used to type, answer or read anything else. The share is of the name: a new
node with this name is shown too. Starts the server if it does not run, with HTTP on loopback.

With --url, the link leads through a tunnel or proxy, and is printed as a QR code too.

'nerve web shares list' lists the links, 'nerve web shares revoke' ends one; its pages are disconnected within seconds.

EXAMPLES
  nerve share me
  nerve share me --for 30m --url https://host.tailnet.ts.net
  nerve web shares list
  nerve web shares revoke 1f0c9a27b3d4")]
pub struct ShareArgs {
    /// Node, or SESSION/NODE
    #[arg(value_name = "NODE")]
    pub node: String,
    /// Time after which the link ends, at most 30d
    #[arg(long = "for", value_name = "TIME", default_value = "2h", value_parser = lifetime)]
    pub lifetime: Age,
    /// Base URL of the link, such as that of a tunnel [default: loopback]
    #[arg(long, value_name = "URL", value_parser = base_url)]
    pub url: Option<Uri>,
    #[command(flatten)]
    pub target: NodeTarget,
}

fn lifetime(text: &str) -> Result<Age, String> {
    let age: Age = text.parse()?;
    match !age.0.is_zero() && age.0 <= MAX_LIFETIME {
        true => Ok(age),
        false => Err("must be more than zero and at most 30d".to_string()),
    }
}
