//! `nerve result`, and the options of 'execute' for asynchronous results and conversations.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum, ValueHint};

use super::node::{Seconds, ServerOption};

#[derive(Debug, Args)]
#[command(after_long_help = "\
'execute --async' prints a result id immediately. Results are kept for a week. A result is 'lost' if its server ended before the turn did.

Exits like 'execute': with 1 if the turn failed or is lost, 3 if the result does not exist, 4 if it is pending or timed out, 5 if a
dialog blocked the node.

EXAMPLES
  id=$(nerve server node execute me 'Fix the test' --async)
  nerve result $id --wait
  nerve result $id --wait --timeout 600 --json | jq -r .response.text
  nerve result $id --cancel
  nerve result --list")]
#[command(group(ArgGroup::new("which").required(true)))]
#[command(override_usage = "nerve result [OPTIONS] <ID|--list>")]
pub(crate) struct ResultArgs {
    #[command(flatten)]
    pub(crate) server: ServerOption,
    /// Result id
    #[arg(group = "which")]
    pub(crate) id: Option<String>,
    /// List results, newest first
    #[arg(short, long, group = "which")]
    pub(crate) list: bool,
    /// Wait for the result
    #[arg(short, long, conflicts_with_all = ["list", "cancel"])]
    pub(crate) wait: bool,
    /// Time limit in seconds [default: none]
    #[arg(short, long, value_name = "SECONDS", allow_negative_numbers = true, requires = "wait")]
    pub(crate) timeout: Option<Seconds>,
    /// Withdraw the prompt or interrupt its turn
    #[arg(long, conflicts_with = "list")]
    pub(crate) cancel: bool,
    /// With --list: only results of this node
    #[arg(long, value_name = "NODE", requires = "list")]
    pub(crate) node: Option<String>,
    /// With --list: at most N results
    #[arg(short = 'n', long, value_name = "N", requires = "list")]
    pub(crate) last: Option<u64>,
}

/// Result delivery and conversation of an execution.
#[derive(Debug, Default, Args)]
pub(crate) struct TurnOptions {
    /// Print the result id for 'nerve result' instead of waiting
    #[arg(long = "async", conflicts_with = "stream")]
    pub(crate) is_async: bool,
    /// With --async: POST the result to this URL
    #[arg(long, value_name = "URL", requires = "is_async")]
    pub(crate) webhook: Option<String>,
    /// With --webhook: sign with the secret in this environment variable
    #[arg(long, value_name = "NAME", requires = "webhook")]
    pub(crate) webhook_secret_env: Option<String>,
    /// Workspace of the turn's conversation
    #[arg(long, value_name = "NAME", requires = "chat")]
    pub(crate) workspace: Option<String>,
    /// Chat in the workspace
    #[arg(long, value_name = "NAME", requires = "workspace")]
    pub(crate) chat: Option<String>,
    /// Earlier messages for this prompt only: file with a JSON list of {role, content, timestamp}
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) history: Option<PathBuf>,
    /// Put earlier messages before the prompt: those unknown to the node (auto), all, or none
    #[arg(long, value_enum)]
    pub(crate) context: Option<Context>,
}

/// Conversation of a node.
#[derive(Debug, Default, Args)]
pub(crate) struct ConversationArgs {
    /// Workspace of the node's conversation
    #[arg(long, value_name = "NAME", requires = "chat")]
    pub(crate) workspace: Option<String>,
    /// Chat in the workspace
    #[arg(long, value_name = "NAME", requires = "workspace")]
    pub(crate) chat: Option<String>,
}

/// Selects the earlier messages that are put before a prompt.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Context {
    Auto,
    Always,
    Never,
}
