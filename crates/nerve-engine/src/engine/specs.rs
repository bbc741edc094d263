//! Converts parameters of requests to domain types. Errors name the parameter.

use nerve_api::request::{
    ConversationMessage, ConversationOptions, CreateNode, NodeChoice, ProxyOption, ProxySettings,
    WebhookTarget,
};
use nerve_node::command::{BackendKind, Choice, CommandLine, NodeRef, NodeSpec, PanePlace};
use nerve_node::error::{EngineError, ErrorKind};
use nerve_types::Size;

use crate::conversation::{Conversation, ConversationId, Message};
use crate::webhook::Webhook;

pub(super) fn node_ref(node: String, session: Option<String>) -> NodeRef {
    NodeRef { session, node }
}

/// Returns the definition of the node that a CREATE_NODE creates, without inherited settings.
pub(super) fn node_spec(request: CreateNode) -> Result<NodeSpec, EngineError> {
    let backend = request.backend;
    if request.chat.is_some() && backend != BackendKind::Chat {
        return Err(invalid(format!("params.chat is for backend chat, not {}", backend.as_str())));
    }
    let command = request.command.unwrap_or(CommandLine::Argv(Vec::new()));
    let default = Size::default();
    Ok(NodeSpec {
        cwd: request.cwd.map(Into::into),
        env: request.env,
        size: size(request.cols.unwrap_or(default.cols), request.rows.unwrap_or(default.rows))?,
        profile: request.profile,
        parser: request.parser,
        history: request.history,
        record: request.record,
        ready_timeout: request.ready_timeout.duration(),
        response_timeout: request.response_timeout.duration(),
        place: PanePlace { pane: request.pane_id, session: request.tmux_session, socket: request.socket },
        agent_session: request.claude_session_id,
        chat: request.chat.map(Box::new),
        conversation: request.conversation.map(node_conversation).transpose()?.flatten().map(Box::new),
        proxy: request.proxy.map(proxy).transpose()?.map(Box::new),
        ..NodeSpec::new(node_ref(request.node_id, request.session_id), backend, command)
    })
}

/// Returns the size of a terminal.
pub(super) fn size(cols: u16, rows: u16) -> Result<Size, EngineError> {
    let size = Size::new(cols, rows);
    if (size.cols, size.rows) == (cols, rows) {
        return Ok(size);
    }
    let (min, max) = (Size::MIN, Size::MAX);
    Err(invalid(format!("invalid terminal size: {cols} columns, {rows} rows"))
        .hint(format!("{}-{} columns, {}-{} rows", min.cols, max.cols, min.rows, max.rows)))
}

/// Returns the choice of an ANSWER_NODE.
pub(super) fn choice(choice: Option<NodeChoice>, cancel: bool) -> Result<Choice, EngineError> {
    match (choice, cancel) {
        (Some(NodeChoice::Number(number)), false) => Ok(Choice::Number(number)),
        (Some(NodeChoice::Label(label)), false) => Ok(Choice::Label(label)),
        (None, true) => Ok(Choice::Cancel),
        (Some(_), true) | (None, false) => Err(invalid("give either params.choice or params.cancel = true")),
    }
}

/// Returns the conversation of a prompt.
pub(super) fn conversation(options: ConversationOptions) -> Result<Conversation, EngineError> {
    let id = conversation_id(&options)?;
    let message = |ConversationMessage { role, content, timestamp }| Message::new(role, content, timestamp);
    let history = options.history.into_iter().map(message).collect();
    Ok(Conversation { id, history, context: options.context.unwrap_or_default() })
}

/// Returns the conversation of a node.
fn node_conversation(options: ConversationOptions) -> Result<Option<ConversationId>, EngineError> {
    if !options.history.is_empty() || options.context.is_some() {
        return Err(invalid("params.conversation: a node's conversation has a workspace and a chat only")
            .hint("history and context belong to a prompt"));
    }
    conversation_id(&options)
}

/// Returns the id of a stored conversation.
pub(super) fn conversation_id(options: &ConversationOptions) -> Result<Option<ConversationId>, EngineError> {
    match (options.workspace.as_deref(), options.chat.as_deref()) {
        (None, None) => Ok(None),
        (Some(workspace), Some(chat)) => {
            let id = ConversationId::new(workspace, chat);
            id.check()?;
            Ok(Some(id))
        }
        _ => Err(invalid("params.conversation: give workspace and chat, or neither")),
    }
}

/// Returns the webhook of an asynchronous execution.
pub(super) fn webhook(is_async: bool, target: Option<WebhookTarget>) -> Result<Option<Webhook>, EngineError> {
    match (is_async, target) {
        (_, None) => Ok(None),
        (false, Some(_)) => {
            Err(invalid("params.webhook: only for asynchronous executions").hint("set async = true"))
        }
        (true, Some(WebhookTarget { url, secret })) => Webhook::new(&url, secret).map(Some),
    }
}

/// Returns the settings of a node's proxy, checked as far as possible without the node's program.
fn proxy(option: ProxyOption) -> Result<ProxySettings, EngineError> {
    let settings = ProxySettings::from(option);
    nerve_node::proxy::check(&settings).map_err(|mut error| {
        error.message = format!("params.{}", error.message);
        error
    })?;
    Ok(settings)
}

fn invalid(message: impl Into<String>) -> EngineError {
    EngineError::new(ErrorKind::InvalidRequest, message)
}

#[cfg(test)]
mod tests {
    use nerve_node::proxy::Provider;
    use serde_json::{Value, from_value, json};

    use super::*;

    fn proxied(proxy: Value) -> Result<NodeSpec, EngineError> {
        let request: CreateNode = from_value(json!({ "node_id": "a", "proxy": proxy })).unwrap();
        node_spec(request)
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
