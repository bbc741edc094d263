//! Prompts with what was said before in front of them, and turns that are added to what was said.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use nerve_agent::profile::ContextKind;

use super::Engine;
use super::turns::NodePrompt;
use crate::command::{EventKind, NodeRef, Response};
use crate::conversation::{
    ConversationId, ConversationStore, Loaded, Message, ProgramSession, Role, UseContext, prompt_with_context,
};
use crate::error::{EngineError, ErrorKind};
use crate::node::NodeHandle;
use crate::session::DEFAULT;

/// A prompt of a conversation, on its way.
#[derive(Debug)]
pub(super) struct Talk {
    at: NodeRef,
    /// Where it is kept, if it is.
    kept: Option<(ConversationId, ConversationStore)>,
    /// As the caller has it.
    text: String,
    /// Milliseconds since the Unix epoch.
    asked_at: u64,
    /// What of the conversation the node was told now.
    given: Vec<Message>,
    /// What is wrong and does not stop the turn.
    problems: Vec<String>,
}

/// Tells programs that were started from each other, whatever their nodes are called.
#[derive(Debug)]
pub(super) struct Programs {
    engine: String,
    seen: Mutex<Seen>,
}

/// Node objects that were seen, each with its number.
#[derive(Debug, Default)]
struct Seen {
    last: u64,
    nodes: HashMap<NodeRef, (Weak<dyn crate::node::Node>, u64)>,
}

impl Programs {
    pub(super) fn new() -> Programs {
        Programs { engine: uuid::Uuid::new_v4().to_string(), seen: Mutex::default() }
    }

    /// The program of a node as somebody who is told things. One in a host is the same for the next server too.
    fn listener(&self, at: &NodeRef, node: &NodeHandle) -> ProgramSession {
        let facts = node.info().metadata;
        let session = facts.get("agent_session").map(String::as_str);
        match facts.get("host") {
            Some(host) => ProgramSession::new(&format!("host {host}"), session),
            None => ProgramSession::new(&format!("{}/{}", self.engine, self.number(at, node)), session),
        }
    }

    /// What the node was told is forgotten there.
    pub(super) fn forget(&self, at: NodeRef) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.nodes.remove(&without_default(at));
    }

    /// Returns a number that is unique to this node object.
    fn number(&self, at: &NodeRef, node: &NodeHandle) -> u64 {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // A weak reference keeps the address from being reused.
        if let Some((same, number)) = seen.nodes.get(at)
            && std::ptr::addr_eq(same.as_ptr(), Arc::as_ptr(node))
        {
            return *number;
        }
        seen.nodes.retain(|_, (node, _)| node.strong_count() > 0);
        seen.last += 1;
        let number = seen.last;
        seen.nodes.insert(at.clone(), (Arc::downgrade(node), number));
        number
    }
}

impl Engine {
    /// Puts earlier messages in front of a prompt. Returns `None` if the prompt belongs to no conversation.
    ///
    /// # Errors
    /// InvalidRequest: invalid names; conversations are not kept; the node would run the messages as commands.
    pub(super) async fn begin_talk(
        &self,
        node: &NodeHandle,
        asked: &mut NodePrompt,
    ) -> Result<Option<Talk>, EngineError> {
        let at = without_default(asked.at.clone());
        let options = asked.conversation.take();
        let own = || {
            let session = self.inner.sessions.get(at.session.as_deref()).ok()?;
            session.definition(&at.node)?.conversation.map(|id| *id)
        };
        let id = options.as_ref().and_then(|options| options.id.clone()).or_else(own);
        if id.is_none() && options.is_none() {
            return Ok(None);
        }
        let options = options.unwrap_or_default();
        let kind = context_of(node);
        if kind == ContextKind::Commands && options.context == UseContext::Always {
            let message = format!("node '{}' would run what was said before as commands", at.node);
            return Err(EngineError::new(ErrorKind::InvalidRequest, message)
                .hint("with context 'auto' or 'never' only the prompt is sent"));
        }
        let mut problems = Vec::new();
        let kept = match id {
            Some(id) => Some((id.clone(), self.conversation_store(&id)?)),
            None => None,
        };
        let persisted = match &kept {
            Some((id, store)) => {
                let loaded = load(store.clone(), id.clone()).await;
                problems.extend(loaded.problem);
                loaded.messages
            }
            None => Vec::new(),
        };
        let listener = self.inner.programs.listener(&at, node);
        // The node refuses an empty prompt.
        let tells = kind != ContextKind::Commands
            && options.context != UseContext::Never
            && !asked.prompt.text.trim().is_empty();
        if !tells && !options.history.is_empty() && options.context != UseContext::Never {
            problems
                .push(format!("the history was not told to '{}', which would run it as commands", at.node));
        }
        let knows_itself = kind == ContextKind::Own && options.context == UseContext::Auto;
        let given: Vec<Message> = persisted
            .into_iter()
            .filter(|message| tells && !(knows_itself && listener.has_seen(message)))
            .collect();
        let history: &[Message] = if tells { &options.history } else { &[] };
        let (prompt, left_out) = prompt_with_context(given.iter().chain(history), &asked.prompt.text);
        if left_out > 0 {
            problems.push(format!(
                "{left_out} messages of the conversation are too long to be told, the oldest first"
            ));
        }
        let text = std::mem::replace(&mut asked.prompt.text, prompt);
        for problem in &problems {
            self.complain(&at, problem);
        }
        Ok(Some(Talk { at, kept, text, asked_at: self.milliseconds(), given, problems }))
    }

    /// Adds a successful turn to its conversation. Problems become warnings of the response.
    pub(super) async fn end_talk(&self, talk: Talk, node: &NodeHandle, response: &mut Response) {
        let Talk { at, kept, text, asked_at, given, mut problems } = talk;
        if let Some((id, store)) = kept.filter(|_| response.succeeded()) {
            let new = [
                Message::new(Role::User, text, asked_at),
                Message::new(Role::Assistant, response.text.as_str(), self.milliseconds().max(asked_at + 1)),
            ];
            // The session of the agent may be known only after the turn.
            let listener = self.inner.programs.listener(&at, node);
            let added = tokio::task::spawn_blocking(move || store.append(&id, &new, &listener, &given)).await;
            let problem = match added {
                Ok(Ok(problem)) => problem,
                Ok(Err(problem)) => Some(problem),
                Err(error) => Some(error.to_string()),
            };
            if let Some(problem) = problem {
                self.complain(&at, &problem);
                problems.push(problem);
            }
        }
        if !problems.is_empty() {
            // The node may have added warnings.
            problems.extend(response.attributes.remove(Response::WARNINGS));
            response.attributes.insert(Response::WARNINGS.to_string(), problems.join("\n"));
        }
    }

    /// Returns the store of conversations.
    ///
    /// # Errors
    /// InvalidRequest.
    pub(super) fn conversation_store(&self, id: &ConversationId) -> Result<ConversationStore, EngineError> {
        id.check()?;
        self.inner.conversations.clone().ok_or_else(|| {
            EngineError::new(ErrorKind::InvalidRequest, "conversations are not kept here")
                .hint("a server keeps them; without one, give a history alone")
        })
    }

    fn complain(&self, at: &NodeRef, problem: &str) {
        tracing::warn!(node = %at.node, "{problem}");
        self.inner.events.publish(Some(at), EventKind::Error { message: problem.to_string() });
    }

    fn milliseconds(&self) -> u64 {
        self.inner.clock.now().0 / 1_000_000
    }
}

/// Removes the name of the default session, so that both forms are equal.
pub(super) fn without_default(mut at: NodeRef) -> NodeRef {
    at.session = at.session.filter(|session| session != DEFAULT);
    at
}

/// Returns what a node does with earlier messages.
fn context_of(node: &NodeHandle) -> ContextKind {
    match node.as_terminal() {
        Some(terminal) => terminal.context_kind(),
        None if node.as_bash().is_some() => ContextKind::Commands,
        // A chat node keeps its own conversation.
        None => ContextKind::Own,
    }
}

async fn load(store: ConversationStore, id: ConversationId) -> Loaded {
    let loaded = tokio::task::spawn_blocking(move || store.load(&id)).await;
    loaded.unwrap_or_else(|error| Loaded { messages: Vec::new(), problem: Some(error.to_string()) })
}
