//! Converts parameters of requests to domain types. Errors name the parameter.

use std::collections::BTreeMap;

use nerve_api::request::{
    CommandLine, ConversationMessage, ConversationOptions, NodeChoice, NodeSpec, WebhookTarget,
};
use nerve_api::value::BackendKind;
use nerve_node::dialog_answer::Choice;
use nerve_node::error::EngineError;
use nerve_types::Size;
use serde_json::Value;

use super::budgets;
use crate::conversation::{ConversationId, ConversationRequest, Message};
use crate::webhook::Webhook;

/// Maximum size of a shell's environment in bytes.
const MAX_SHELL_ENV: usize = 1 << 20;

/// Validates the specification of a node as far as possible without starting it.
pub(super) fn check_spec(spec: &NodeSpec) -> Result<(), EngineError> {
    if spec.chat.is_some() && spec.backend != BackendKind::Chat {
        return Err(EngineError::invalid_request(format!(
            "params.chat is for backend chat, not {}",
            spec.backend.as_str()
        )));
    }
    let default = Size::default();
    parse_size(spec.cols.unwrap_or(default.cols), spec.rows.unwrap_or(default.rows))?;
    if let Some(options) = &spec.conversation {
        if !options.history.is_empty() || options.context.is_some() {
            let message = "params.conversation: a node's conversation has a workspace and a chat only";
            return Err(EngineError::invalid_request(message).hint("history and context belong to a prompt"));
        }
        parse_conversation_id(options)?;
    }
    check_shell_env(spec.shell_env.as_ref())?;
    budgets::check(spec.budget.as_ref())?;
    let Some(proxy) = &spec.proxy else { return Ok(()) };
    nerve_node::proxy::check(proxy).map_err(|mut error| {
        error.message = format!("params.{}", error.message);
        error
    })
}

/// Checks the size of a shell's environment: Linux starts no program with much more.
pub(super) fn check_shell_env(env: Option<&BTreeMap<String, String>>) -> Result<(), EngineError> {
    let size: usize = env.into_iter().flatten().map(|(name, value)| name.len() + value.len()).sum();
    if size <= MAX_SHELL_ENV {
        return Ok(());
    }
    Err(EngineError::invalid_request(format!("params.shell_env has {size} bytes, more than {MAX_SHELL_ENV}"))
        .hint("unset what the program does not need"))
}

/// Returns the size of a terminal.
pub(super) fn parse_size(cols: u16, rows: u16) -> Result<Size, EngineError> {
    let size = Size::new(cols, rows);
    if (size.cols, size.rows) == (cols, rows) {
        return Ok(size);
    }
    let (min, max) = (Size::MIN, Size::MAX);
    Err(EngineError::invalid_request(format!("invalid terminal size: {cols} columns, {rows} rows"))
        .hint(format!("{}-{} columns, {}-{} rows", min.cols, max.cols, min.rows, max.rows)))
}

/// Returns the choice of an ANSWER_NODE.
pub(super) fn parse_choice(choice: Option<NodeChoice>, cancel: bool) -> Result<Choice, EngineError> {
    match (choice, cancel) {
        (Some(NodeChoice::Number(number)), false) => Ok(Choice::Number(number)),
        (Some(NodeChoice::Label(label)), false) => Ok(Choice::Label(label)),
        (None, true) => Ok(Choice::Cancel),
        (Some(_), true) | (None, false) => {
            Err(EngineError::invalid_request("give either params.choice or params.cancel = true"))
        }
    }
}

/// Returns the conversation of a prompt.
pub(super) fn parse_conversation(options: ConversationOptions) -> Result<ConversationRequest, EngineError> {
    let id = parse_conversation_id(&options)?;
    let message = |ConversationMessage { role, content, timestamp }| Message::new(role, content, timestamp);
    let history = options.history.into_iter().map(message).collect();
    Ok(ConversationRequest { id, history, context: options.context.unwrap_or_default() })
}

/// Returns the id of a stored conversation.
pub(super) fn parse_conversation_id(
    options: &ConversationOptions,
) -> Result<Option<ConversationId>, EngineError> {
    match (options.workspace.as_deref(), options.chat.as_deref()) {
        (None, None) => Ok(None),
        (Some(workspace), Some(chat)) => {
            let id = ConversationId::new(workspace, chat);
            id.check()?;
            Ok(Some(id))
        }
        _ => Err(EngineError::invalid_request("params.conversation: give workspace and chat, or neither")),
    }
}

/// Returns the webhook of an asynchronous execution.
pub(super) fn parse_webhook(
    is_async: bool,
    target: Option<WebhookTarget>,
) -> Result<Option<Webhook>, EngineError> {
    match (is_async, target) {
        (_, None) => Ok(None),
        (false, Some(_)) => {
            Err(EngineError::invalid_request("params.webhook: only for asynchronous executions")
                .hint("set async = true"))
        }
        (true, Some(WebhookTarget { url, secret })) => Webhook::new(&url, secret).map(Some),
    }
}

/// Returns the command as it was given, without the arguments that nerve adds for its program.
pub(super) fn requested_command(spec: &NodeSpec) -> Option<String> {
    match spec.command.as_ref()? {
        CommandLine::Text(text) => Some(text.clone()),
        CommandLine::Argv(argv) => Some(shell_words::join(argv)).filter(|command| !command.is_empty()),
    }
}

/// Returns metadata that only the definition has: the command as it was given, the names of variables, never their values, and the kind
/// of proxy.
pub(super) fn definition_metadata(spec: &NodeSpec) -> impl Iterator<Item = (String, Value)> {
    let command = requested_command(spec).map(|command| ("requested_command".to_string(), command.into()));
    let names: Vec<&str> = spec.env.keys().map(String::as_str).collect();
    let env = (!names.is_empty()).then(|| ("env".to_string(), names.join(" ").into()));
    let proxy = spec.proxy.as_ref().map(|proxy| ("proxy".to_string(), proxy.kind.as_str().into()));
    command.into_iter().chain(env).chain(proxy)
}

#[cfg(test)]
mod tests {
    use nerve_node::proxy::{Provider, ProxySettings};
    use serde_json::{Value, from_value, json};

    use super::*;

    fn proxied(proxy: Value) -> Result<NodeSpec, EngineError> {
        let spec = from_value(json!({ "node_id": "a", "proxy": proxy })).unwrap();
        check_spec(&spec).map(|()| spec)
    }

    #[test]
    fn proxies_have_a_kind_or_settings() {
        assert_eq!(*proxied(json!("openai")).unwrap().proxy.unwrap(), ProxySettings::new(Provider::Openai));
        let settings = json!({ "kind": "anthropic", "prices": { "input": 3, "output": 15 }, "budget": { "max_cost_usd": 2 } });
        assert_eq!(proxied(settings).unwrap().proxy.unwrap().budget.max_cost_usd, Some(2.0));
        for (bad, says) in [
            (json!({ "kind": "anthropic", "base_url": "host" }), "params.proxy.base_url"),
            (json!({ "kind": "anthropic", "base_url": "http://far.example" }), "unencrypted"),
            (json!({ "kind": "anthropic", "api_key_env": "sk-ant-x" }), "params.proxy.api_key_env"),
        ] {
            let error = proxied(bad).unwrap_err().message;
            assert!(error.contains(says), "{error}");
        }
    }
}
