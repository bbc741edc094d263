//! Converts parameters of requests to domain types. Errors name the parameter.

use nerve_api::request::{
    ChatSettings, ConversationMessage, ConversationOptions, CreateNode, NodeChoice, ProxyOption,
    ProxySettings, WebhookTarget,
};
use nerve_types::Size;
use strum::VariantNames as _;

use crate::conversation::{Conversation, ConversationId, Message, Role, UseContext};
use crate::webhook::Webhook;
use nerve_node::chat::{ChatSpec, Provider, ToolChoice};
use nerve_node::command::{BackendKind, Choice, CommandLine, InheritedNode, NodeRef, NodeSpec, PanePlace};
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::proxy::{ProxyBudget, ProxyKind, ProxyPrices, ProxySpec};

pub(super) fn node_ref(node: String, session: Option<String>) -> NodeRef {
    NodeRef { session, node }
}

/// Returns the definition of the node that a CREATE_NODE creates.
pub(super) fn node_spec(request: CreateNode) -> Result<NodeSpec, EngineError> {
    let backend = request.backend;
    if request.chat.is_some() && backend != BackendKind::Chat {
        return Err(invalid(format!("params.chat is for backend chat, not {}", backend.as_str())));
    }
    let command = request.command.unwrap_or(CommandLine::Argv(Vec::new()));
    let default = Size::default();
    let inherit = request.inherit.map(|from| {
        Box::new(InheritedNode { node: node_ref(from.node_id, from.session_id), proxy: from.proxy })
    });
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
        chat: request.chat.map(chat).transpose()?.map(Box::new),
        conversation: request.conversation.map(node_conversation).transpose()?.flatten().map(Box::new),
        proxy: request.proxy.map(proxy).transpose()?.map(Box::new),
        inherit,
        ..NodeSpec::new(node_ref(request.node_id, request.session_id), backend, command)
    })
}

/// Returns the size of a terminal.
pub(super) fn size(cols: u16, rows: u16) -> Result<Size, EngineError> {
    let size = Size::new(cols, rows);
    if (size.cols, size.rows) == (cols, rows) {
        return Ok(size);
    }
    Err(invalid(format!("invalid terminal size: {cols} columns, {rows} rows"))
        .hint("2-4096 columns, 1-4096 rows"))
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
    let ConversationOptions { workspace, chat, history, context } = options;
    let context = match context {
        None => UseContext::default(),
        Some(name) => UseContext::parse(&name).ok_or_else(|| {
            let known = UseContext::VARIANTS.join(", ");
            invalid(format!("params.conversation.context: unknown {name:?}"))
                .hint(format!("there are {known}"))
        })?,
    };
    let history = history.into_iter().enumerate().map(|(index, message)| {
        let ConversationMessage { role, content, timestamp } = message;
        let role = Role::parse(&role).ok_or_else(|| {
            invalid(format!("params.conversation.history[{index}]: unknown role {role:?}"))
                .hint("a role is user or assistant")
        })?;
        Ok(Message::new(role, content, timestamp))
    });
    let history = history.collect::<Result<_, EngineError>>()?;
    Ok(Conversation { id: conversation_id(workspace, chat)?, history, context })
}

/// Returns the conversation of a node.
fn node_conversation(options: ConversationOptions) -> Result<Option<ConversationId>, EngineError> {
    if !options.history.is_empty() || options.context.is_some() {
        return Err(invalid("params.conversation: a node's conversation has a workspace and a chat only")
            .hint("history and context belong to a prompt"));
    }
    conversation_id(options.workspace, options.chat)
}

fn conversation_id(
    workspace: Option<String>,
    chat: Option<String>,
) -> Result<Option<ConversationId>, EngineError> {
    match (workspace, chat) {
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

/// Returns the model of a chat node. The node checks it.
fn chat(settings: ChatSettings) -> Result<ChatSpec, EngineError> {
    let provider = match settings.provider {
        None => Provider::default(),
        Some(name) => name.parse().map_err(|mut error: EngineError| {
            error.message = format!("params.chat.provider: {}", error.message);
            error
        })?,
    };
    let default = ChatSpec::new(provider, settings.model);
    Ok(ChatSpec {
        base_url: settings.base_url,
        api_key_env: settings.api_key_env,
        system: settings.system,
        max_tokens: settings.max_tokens.unwrap_or(default.max_tokens),
        temperature: settings.temperature,
        tools: settings.tools,
        tool_choice: settings.tool_choice.map_or(ToolChoice::Auto, ToolChoice::from),
        parallel_tool_calls: settings.parallel_tool_calls.unwrap_or(default.parallel_tool_calls),
        max_tool_rounds: settings.max_tool_rounds.unwrap_or(default.max_tool_rounds),
        retries: settings.retries.unwrap_or(default.retries),
        keep: settings.keep.map(Into::into),
        ..default
    })
}

/// Returns the proxy of a node, checked as far as possible without the node's program.
fn proxy(option: ProxyOption) -> Result<ProxySpec, EngineError> {
    let of_params = |mut error: EngineError| {
        error.message = format!("params.{}", error.message);
        error
    };
    let settings = ProxySettings::from(option);
    let kind = ProxyKind::parse(&settings.kind).map_err(of_params)?;
    let budget = settings.budget.unwrap_or_default();
    let spec = ProxySpec {
        base_url: settings.base_url,
        upstream_ca: settings.upstream_ca.map(Into::into),
        model: settings.model,
        api_key_env: settings.api_key_env,
        prices: settings.prices.map(|prices| ProxyPrices { input: prices.input, output: prices.output }),
        budget: ProxyBudget {
            max_tokens: budget.max_tokens,
            max_requests: budget.max_requests,
            max_cost_usd: budget.max_cost_usd,
        },
        max_output: settings.max_output,
        reasoning: settings.reasoning,
        log: settings.log.unwrap_or(true),
        log_bodies: settings.log_bodies,
        ..ProxySpec::new(kind)
    };
    spec.check().map_err(of_params)?;
    Ok(spec)
}

fn invalid(message: impl Into<String>) -> EngineError {
    EngineError::new(ErrorKind::InvalidRequest, message)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    #[test]
    fn names_on_the_wire() {
        assert_eq!(UseContext::VARIANTS.join(" "), "auto always never");
    }

    fn proxied(proxy: Value) -> Result<NodeSpec, EngineError> {
        let request: CreateNode = from_value(json!({ "node_id": "a", "proxy": proxy })).unwrap();
        node_spec(request)
    }

    #[test]
    fn proxies_have_a_kind_or_settings() {
        assert_eq!(*proxied(json!("openai")).unwrap().proxy.unwrap(), ProxySpec::new(ProxyKind::Openai));
        let settings = json!({ "kind": "anthropic", "prices": { "input": 3, "output": 15 }, "budget": { "max_cost_usd": 2 } });
        assert_eq!(proxied(settings).unwrap().proxy.unwrap().budget.max_cost_usd, Some(2.0));
        for (bad, says) in [
            (json!("gemini"), "params.proxy.kind: unknown kind"),
            (json!({ "kind": "anthropic", "base_url": "host" }), "params.proxy.base_url"),
            (json!({ "kind": "anthropic", "base_url": "http://far.example" }), "unencrypted"),
            (json!({ "kind": "anthropic", "api_key_env": "sk-ant-x" }), "params.proxy.api_key_env"),
        ] {
            let error = proxied(bad).unwrap_err().message;
            assert!(error.contains(says), "{error}");
        }
    }
}
