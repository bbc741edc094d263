//! `nerve notify`: notifications about nodes and graphs.

use clap::Args;
use nerve_api::value::Occasion;

#[derive(Debug, Args)]
#[command(after_long_help = "\
Follows a server until it ends and notifies when a node or a gate needs an answer, a long turn or graph has ended, something has
failed, or a usage limit was reached. Each notification is also printed; with --json as the object that a webhook receives, one a line.
Options override [notify] in the settings.

A command finds the notification in NERVE_NOTIFY_OCCASION, NERVE_NOTIFY_TEXT, and the event in NERVE_EVENT_TYPE, NERVE_EVENT_NODE,
NERVE_EVENT_SESSION and, as JSON, on its standard input. A webhook receives {occasion, text, event}.

SETTINGS, in the file that 'nerve config path' prints
  [notify]
  on = [\"blocked\", \"failed\"]
  min-turn = 60
  ntfy = \"https://ntfy.sh/my-topic\"

EXAMPLES
  nerve notify --test                       check that notifications arrive
  nerve notify --on blocked,failed --desktop
  nerve notify --command 'say \"$NERVE_NOTIFY_TEXT\"'")]
pub struct NotifyArgs {
    /// Server name, tcp://HOST:PORT or tls://HOST:PORT
    #[arg(short, long, default_value = "default", env = "NERVE_SERVER", value_name = "NAME")]
    pub server: String,
    /// Occasions: blocked, done, failed, suspended [default: all]
    #[arg(long, value_name = "OCCASION", value_delimiter = ',', value_parser = occasion)]
    pub on: Option<Vec<Occasion>>,
    /// Seconds that a turn must take for its end to be an occasion [default: 30]
    #[arg(long, value_name = "SECONDS")]
    pub min_turn: Option<u64>,
    /// Notify through notify-send
    #[arg(long)]
    pub desktop: bool,
    /// Run a shell command
    #[arg(long, value_name = "COMMAND")]
    pub command: Option<String>,
    /// Send a POST request with JSON
    #[arg(long, value_name = "URL")]
    pub webhook: Option<String>,
    /// Publish to an ntfy topic
    #[arg(long, value_name = "URL")]
    pub ntfy: Option<String>,
    /// Send one notification without a server, and exit
    #[arg(long)]
    pub test: bool,
    /// Print as JSON
    #[arg(short, long)]
    pub json: bool,
}

fn occasion(text: &str) -> Result<Occasion, String> {
    text.parse().map_err(|_| "expected blocked, done, failed or suspended".to_string())
}
