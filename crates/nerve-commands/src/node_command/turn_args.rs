//! The options of `execute` for asynchronous results and conversations.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueHint};
use nerve_api::request::{ConversationMessage, ConversationOptions, WebhookTarget};
use nerve_api::value::UseContext;

use super::values::one_of;
use crate::failure::{Failure, USAGE};

/// Result delivery and conversation of an execution.
#[derive(Debug, Default, Args)]
pub struct TurnOptions {
    /// Print the id for 'nerve result' and return at once
    #[arg(long = "no-wait", alias = "async", conflicts_with = "stream")]
    pub is_async: bool,
    /// With --no-wait: POST the result to this URL
    #[arg(long, value_name = "URL", requires = "is_async")]
    pub webhook: Option<String>,
    /// With --webhook: sign with the secret in this environment variable
    #[arg(long, value_name = "NAME", requires = "webhook")]
    pub webhook_secret_env: Option<String>,
    /// Workspace of the turn's conversation
    #[arg(long, value_name = "NAME", requires = "chat")]
    pub workspace: Option<String>,
    /// Chat in the workspace
    #[arg(long, value_name = "NAME", requires = "workspace")]
    pub chat: Option<String>,
    /// Earlier messages for this prompt only: file with a JSON list of {role, content, timestamp}
    #[arg(long = "messages", alias = "history", value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub history: Option<PathBuf>,
    /// Put earlier messages before the prompt: those unknown to the node (auto), all, or none
    #[arg(long, value_parser = one_of::<UseContext>(UseContext::names()))]
    pub context: Option<UseContext>,
}

/// Conversation of a node.
#[derive(Debug, Default, Args)]
pub struct ConversationArgs {
    /// Workspace of the node's conversation
    #[arg(long, value_name = "NAME", requires = "chat")]
    pub workspace: Option<String>,
    /// Chat in the workspace
    #[arg(long, value_name = "NAME", requires = "workspace")]
    pub chat: Option<String>,
}

/// Returns the conversation selected by the options.
pub(super) fn conversation(args: &TurnOptions) -> anyhow::Result<Option<ConversationOptions>> {
    let history = args.history.as_deref().map(history).transpose()?;
    if args.workspace.is_none() && history.is_none() && args.context.is_none() {
        return Ok(None);
    }
    Ok(Some(ConversationOptions {
        workspace: args.workspace.clone(),
        chat: args.chat.clone(),
        history: history.unwrap_or_default(),
        context: args.context,
    }))
}

/// Returns the webhook selected by the options.
pub(super) fn webhook(args: &TurnOptions) -> anyhow::Result<Option<WebhookTarget>> {
    let secret = args.webhook_secret_env.as_ref().map(|name| {
        std::env::var(name).map_err(|_| {
            Failure::new(USAGE, format!("environment variable {name} is not set"))
                .hint("set it, or omit --webhook-secret-env")
        })
    });
    let secret = secret.transpose()?;
    Ok(args.webhook.clone().map(|url| WebhookTarget { url, secret }))
}

fn history(path: &Path) -> anyhow::Result<Vec<ConversationMessage>> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let list: Vec<serde_json::Value> = serde_json::from_slice(&bytes)
        .map_err(|error| Failure::new(USAGE, format!("{} is not a JSON list: {error}", path.display())))?;
    let read = |(index, message): (usize, serde_json::Value)| {
        serde_json::from_value(message).map_err(|error| {
            let message = format!("{}: message {index}: {error}", path.display());
            Failure::new(USAGE, message)
                .hint("a message has role (user or assistant), content and timestamp")
                .into()
        })
    };
    list.into_iter().enumerate().map(read).collect()
}
