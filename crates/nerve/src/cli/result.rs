//! `nerve result`, and what 'execute' says of conversations and of results that nobody waits for.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum, ValueHint};

use super::node::{Seconds, ServerOption};

#[derive(Debug, Args)]
#[command(after_long_help = "\
'execute --async' prints an id at once; what came of it is asked for here, for a week. A result whose server ended before it did is 'lost'.

Exits as 'execute' does: with 1 when the turn failed or is lost, 3 when there is no such result, 4 when it is not there yet or timed out,
5 when a dialog blocked the node.

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
    /// The result
    #[arg(group = "which")]
    pub(crate) id: Option<String>,
    /// List results, newest first
    #[arg(short, long, group = "which")]
    pub(crate) list: bool,
    /// Wait until it is there
    #[arg(short, long, conflicts_with_all = ["list", "cancel"])]
    pub(crate) wait: bool,
    /// Seconds to wait; without end if not given
    #[arg(short, long, value_name = "SECONDS", allow_negative_numbers = true, requires = "wait")]
    pub(crate) timeout: Option<Seconds>,
    /// Take the prompt back, or interrupt its turn
    #[arg(long, conflicts_with = "list")]
    pub(crate) cancel: bool,
    /// With --list: only of this node
    #[arg(long, value_name = "NODE", requires = "list")]
    pub(crate) node: Option<String>,
    /// With --list: at most so many
    #[arg(short = 'n', long, value_name = "N", requires = "list")]
    pub(crate) last: Option<u64>,
}

/// Who waits for an execution, and what was said before.
#[derive(Debug, Default, Args)]
pub(crate) struct TalkArgs {
    /// Do not wait: print the id of the result, for 'nerve result'
    #[arg(long = "async", conflicts_with = "stream")]
    pub(crate) is_async: bool,
    /// With --async: POST the result to this URL when it is there
    #[arg(long, value_name = "URL", requires = "is_async")]
    pub(crate) webhook: Option<String>,
    /// With --webhook: sign with the secret in this environment variable
    #[arg(long, value_name = "NAME", requires = "webhook")]
    pub(crate) webhook_secret_env: Option<String>,
    /// The workspace of the conversation the turn belongs to
    #[arg(long, value_name = "NAME", requires = "chat")]
    pub(crate) workspace: Option<String>,
    /// The chat in the workspace
    #[arg(long, value_name = "NAME", requires = "workspace")]
    pub(crate) chat: Option<String>,
    /// What was said before, for this prompt only: a file with a JSON list of {role, content, timestamp}
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) history: Option<PathBuf>,
    /// Put what was said before in front of the prompt: as far as the node does not know it (auto), all, or nothing
    #[arg(long, value_enum)]
    pub(crate) context: Option<Context>,
}

/// The conversation of a node.
#[derive(Debug, Default, Args)]
pub(crate) struct ConversationArgs {
    /// The workspace of the conversation that its prompts belong to
    #[arg(long, value_name = "NAME", requires = "chat")]
    pub(crate) workspace: Option<String>,
    /// The chat in the workspace
    #[arg(long, value_name = "NAME", requires = "workspace")]
    pub(crate) chat: Option<String>,
}

/// Is what was said before put in front of a prompt?
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Context {
    Auto,
    Always,
    Never,
}
