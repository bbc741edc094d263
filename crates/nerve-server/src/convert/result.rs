//! Conversations and executions that nobody waits for: the engine's words and the wire's.

use nerve_api::{data, params};
use nerve_core::command::{Background, Command};
use nerve_core::conversation::{Conversation, ConversationId, Message, Role, UseContext};
use nerve_core::error::{EngineError, ErrorKind};
use nerve_core::results::{RecordedError, ResultRecord, WebhookRecord};
use nerve_core::webhook::Webhook;
use serde_json::Value;

/// The conversation of a prompt.
pub(super) fn conversation(params: params::ConversationOptions) -> Result<Conversation, EngineError> {
    let params::ConversationOptions { workspace, chat, history, context } = params;
    let context = match context {
        None => UseContext::default(),
        Some(name) => UseContext::parse(&name).ok_or_else(|| {
            let known = UseContext::ALL.map(UseContext::as_str).join(", ");
            invalid(format!("params.conversation.context: unknown {name:?}"))
                .hint(format!("there are {known}"))
        })?,
    };
    let history = history.into_iter().enumerate().map(|(index, message)| {
        let params::ConversationMessage { role, content, timestamp } = message;
        let role = Role::parse(&role).ok_or_else(|| {
            invalid(format!("params.conversation.history[{index}]: unknown role {role:?}"))
                .hint("a role is user or assistant")
        })?;
        Ok(Message::new(role, content, timestamp))
    });
    let history = history.collect::<Result<_, EngineError>>()?;
    Ok(Conversation { id: id(workspace, chat)?, history, context })
}

/// The conversation of a node.
pub(super) fn conversation_id(
    params: params::ConversationOptions,
) -> Result<Option<ConversationId>, EngineError> {
    if !params.history.is_empty() || params.context.is_some() {
        return Err(invalid("params.conversation: a node's conversation has a workspace and a chat only")
            .hint("history and context belong to a prompt"));
    }
    id(params.workspace, params.chat)
}

fn id(workspace: Option<String>, chat: Option<String>) -> Result<Option<ConversationId>, EngineError> {
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

/// How a prompt that nobody waits for is done.
pub(super) fn background(
    is_async: bool,
    webhook: Option<params::WebhookTarget>,
) -> Result<Option<Background>, EngineError> {
    match (is_async, webhook) {
        (false, None) => Ok(None),
        (false, Some(_)) => {
            Err(invalid("params.webhook: there is nobody to tell").hint("it goes with async = true"))
        }
        (true, None) => Ok(Some(Background::default())),
        (true, Some(params::WebhookTarget { url, secret })) => {
            Ok(Some(Background { webhook: Some(Webhook::new(&url, secret)?) }))
        }
    }
}

pub(super) fn get(params: params::GetResult) -> Command {
    let timeout = params.timeout.map(params::Seconds::duration);
    Command::GetResult { result: params.result_id, wait: params.wait, timeout }
}

pub(super) fn list(params: params::ListResults) -> Command {
    Command::ListResults { session: params.session_id, node: params.node_id, last: params.last }
}

/// What is known of an execution.
pub(super) fn result(record: ResultRecord) -> data::ResultInfo {
    let error = record.error.unwrap_or_default();
    let RecordedError { message, error_type, hint, screen, choices, delivery } = error;
    let turn = record.response.as_ref().and_then(|response| response.get("turn")).and_then(Value::as_u64);
    data::ResultInfo {
        result_id: record.result_id,
        node_id: record.node_id,
        session_id: record.session_id,
        status: record.status.as_str().to_string(),
        prompt: record.prompt,
        created_at: record.created_at,
        started_at: record.started_at,
        ended_at: record.ended_at,
        turn,
        // Its fields are those of the wire.
        response: record.response.and_then(|response| serde_json::from_value(response).ok()),
        error: Some(message).filter(|message| !message.is_empty()),
        error_type: Some(error_type).filter(|error_type| !error_type.is_empty()),
        hint,
        screen,
        choices,
        delivery,
        webhook: record.webhook.map(webhook),
    }
}

fn webhook(record: WebhookRecord) -> data::WebhookStatus {
    let WebhookRecord { origin, signed, delivered, attempts, gave_up } = record;
    let attempts = attempts.into_iter().map(|attempt| data::WebhookAttempt {
        at: attempt.at,
        status: attempt.status,
        error: attempt.error,
    });
    data::WebhookStatus { origin, signed, delivered, attempts: attempts.collect(), gave_up }
}

fn invalid(message: impl Into<String>) -> EngineError {
    EngineError::new(ErrorKind::InvalidRequest, message)
}
