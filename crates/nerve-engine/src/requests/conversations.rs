//! Prepends earlier messages of a conversation to prompts, and appends turns to it.

use nerve_agent::profile::ContextKind;
use nerve_api::event::EventKind;
use nerve_api::request::NodeRef;
use nerve_node::NodeHandle;
use nerve_node::error::EngineError;
use nerve_node::response::Response;

use super::params;
use crate::conversation::{
    ConversationId, ConversationRequest, ConversationStore, Message, Role, StoredConversation, UseContext,
    prompt_with_context,
};
use crate::engine::Engine;

/// A turn in progress that belongs to a conversation.
#[derive(Debug)]
pub(super) struct ConversationTurn {
    at: NodeRef,
    /// Conversation to which the turn is appended.
    target: Option<(ConversationId, ConversationStore)>,
    /// The caller's prompt.
    text: String,
    /// Milliseconds since the Unix epoch.
    started_ms: u64,
    /// Earlier messages that this prompt included.
    sent: Vec<Message>,
    /// Problems that do not fail the turn.
    problems: Vec<String>,
}

impl Engine {
    /// Puts earlier messages in front of a prompt. Returns `None` if the prompt belongs to no conversation.
    ///
    /// # Errors
    /// InvalidRequest: invalid names; conversations are not persisted; the node would run the messages as commands.
    pub(super) async fn begin_conversation_turn(
        &self,
        node: &NodeHandle,
        at: &NodeRef,
        options: Option<ConversationRequest>,
        text: &mut String,
    ) -> Result<Option<ConversationTurn>, EngineError> {
        let at = at.clone().without_default_session();
        let own_conversation = || {
            let session = self.inner.sessions.get(at.session.as_deref()).ok()?;
            params::parse_conversation_id(&session.definition(&at.node)?.conversation?).ok()?
        };
        let id = options.as_ref().and_then(|options| options.id.clone()).or_else(own_conversation);
        if id.is_none() && options.is_none() {
            return Ok(None);
        }
        let options = options.unwrap_or_default();
        let kind = node.context_kind();
        if kind == ContextKind::Commands && options.context == UseContext::Always {
            let message = format!("node '{}' would run the earlier messages as commands", at.node);
            return Err(EngineError::invalid_request(message)
                .hint("with context 'auto' or 'never' only the prompt is sent"));
        }
        let mut problems = Vec::new();
        let target = match id {
            Some(id) => Some((id.clone(), self.conversation_store(&id)?)),
            None => None,
        };
        let persisted = match &target {
            Some((id, store)) => {
                let loaded = load(store.clone(), id.clone()).await;
                problems.extend(loaded.problem);
                loaded.messages
            }
            None => Vec::new(),
        };
        let program = self.inner.programs.session(&at, node);
        // The node rejects an empty prompt.
        let sends_context =
            kind != ContextKind::Commands && options.context != UseContext::Never && !text.trim().is_empty();
        if !sends_context && !options.history.is_empty() && options.context != UseContext::Never {
            problems
                .push(format!("the history was not sent to '{}', which would run it as commands", at.node));
        }
        let remembers = kind == ContextKind::Own && options.context == UseContext::Auto;
        let sent: Vec<Message> = persisted
            .into_iter()
            .filter(|message| sends_context && !(remembers && program.has_seen(message)))
            .collect();
        let history: &[Message] = if sends_context { &options.history } else { &[] };
        let (prompt, left_out) = prompt_with_context(sent.iter().chain(history), text);
        if left_out > 0 {
            problems
                .push(format!("the conversation is too long: its {left_out} oldest messages were left out"));
        }
        let text = std::mem::replace(text, prompt);
        for problem in &problems {
            self.report(&at, problem);
        }
        Ok(Some(ConversationTurn { at, target, text, started_ms: self.milliseconds(), sent, problems }))
    }

    /// Adds a successful turn to its conversation. Problems become warnings of the response.
    pub(super) async fn end_conversation_turn(
        &self,
        turn: ConversationTurn,
        node: &NodeHandle,
        response: &mut Response,
    ) {
        let ConversationTurn { at, target, text, started_ms, sent, mut problems } = turn;
        if let Some((id, store)) = target.filter(|_| response.is_success()) {
            let new = [
                Message::new(Role::User, text, started_ms),
                Message::new(
                    Role::Assistant,
                    response.text.as_str(),
                    self.milliseconds().max(started_ms + 1),
                ),
            ];
            // The session of the agent may be known only after the turn.
            let program = self.inner.programs.session(&at, node);
            let appended =
                tokio::task::spawn_blocking(move || store.append(&id, &new, &program, &sent)).await;
            let problem = match appended {
                Ok(Ok(problem)) => problem,
                Ok(Err(problem)) => Some(problem),
                Err(error) => Some(error.to_string()),
            };
            if let Some(problem) = problem {
                self.report(&at, &problem);
                problems.push(problem);
            }
        }
        // The node may have added warnings.
        response.warnings.splice(0..0, problems);
    }

    /// Returns the store of conversations.
    ///
    /// # Errors
    /// InvalidRequest.
    pub(super) fn conversation_store(&self, id: &ConversationId) -> Result<ConversationStore, EngineError> {
        id.check()?;
        self.inner.conversations.clone().ok_or_else(|| {
            EngineError::invalid_request("conversations are not persisted here")
                .hint("use a server, or send only a history")
        })
    }

    fn report(&self, at: &NodeRef, problem: &str) {
        tracing::warn!(node = %at.node, "{problem}");
        self.inner.events.publish(Some(at), EventKind::machine_failure(problem.to_string()));
    }

    fn milliseconds(&self) -> u64 {
        self.inner.clock.now().0 / 1_000_000
    }
}

async fn load(store: ConversationStore, id: ConversationId) -> StoredConversation {
    let loaded = tokio::task::spawn_blocking(move || store.load(&id)).await;
    loaded
        .unwrap_or_else(|error| StoredConversation { messages: Vec::new(), problem: Some(error.to_string()) })
}
