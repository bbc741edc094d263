//! A node that holds a conversation with a model.

use std::future::ready;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nerve_api::reply::{ModelTokens, NodeExplanation, NodeInfo, NodeMetadata, NodeProgress};
use nerve_api::request::NodeRef;
use nerve_api::value::{NodeState, SignalSource, StopCause};
use nerve_host::clock::{Clock, MAX_TIMEOUT};
use nerve_llm::answer::Usage;
use nerve_llm::message::Message;
use nerve_record::history::HISTORY_BUFFER_LINES;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use super::file;
use super::setup::Setup;
use super::{ChatSettings, settings};
use crate::audit_log::AuditLog;
use crate::context::TurnContext;
use crate::dialog_answer::DialogAnswer;
use crate::error::{EngineError, ErrorKind};
use crate::prompt::Prompt;
use crate::response::Response;
use crate::turn_queue::TurnQueue;
use crate::turn_state::{StateEvidence, TurnState};
use crate::usage_ledger::UsageLedger;
use crate::{BoxFuture, Node, NodeFuture, NodeHandle, ToolKind};

/// Time to wait for running tools when a turn is ended early.
pub(super) const CANCEL_GRACE: Duration = Duration::from_secs(6);
/// Evidence of the node's states.
const EVIDENCE: StateEvidence = StateEvidence {
    busy: (SignalSource::Input, "input: waiting for the model"),
    ready: (SignalSource::Unknown, "api: the turn ended"),
};

/// A conversation with a model. Cheap to clone; clones are the same node.
#[derive(Debug, Clone)]
pub struct ChatNode {
    pub(super) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) state: Arc<TurnState>,
    pub(super) setup: Setup,
    pub(super) clock: Clock,
    pub(super) audit_log: Mutex<AuditLog>,
    /// Held during a turn, and while the conversation is replaced.
    pub(super) turn: TurnQueue,
    pub(super) conversation: Mutex<ChatLog>,
}

/// The conversation after the last completed turn.
#[derive(Debug, Clone, Default)]
pub(super) struct ChatLog {
    pub(super) messages: Vec<Message>,
    pub(super) usage: Usage,
    pub(super) requests: u64,
}

impl Node for ChatNode {
    fn id(&self) -> &str {
        &self.inner.state.node.node
    }

    fn kind(&self) -> &'static str {
        "chat"
    }

    fn is_persistent(&self) -> bool {
        true
    }

    fn execute<'a>(&'a self, context: &'a TurnContext) -> NodeFuture<'a> {
        Box::pin(
            async move { Ok(self.turn(Prompt::from_context(context), context.clone()).await?.into_value()) },
        )
    }

    fn turn(&self, prompt: Prompt, context: TurnContext) -> NodeFuture<'_, Response> {
        Box::pin(self.run_or_detach(prompt, context))
    }

    fn wait<'a>(&'a self, states: &'a [NodeState], limit: Option<Duration>) -> NodeFuture<'a, NodeState> {
        Box::pin(self.inner.state.wait(states, limit))
    }

    fn read(&self, lines: Option<usize>) -> NodeFuture<'_, String> {
        Box::pin(ready(Ok(self.text(lines))))
    }

    /// Returns `None`: two models that call each other would wait for each other.
    fn tool_kind(&self) -> Option<ToolKind> {
        None
    }

    /// Describes the node without the key.
    fn info(&self) -> NodeInfo {
        let inner = &self.inner;
        let settings = &inner.setup.settings;
        let (messages, usage, requests) = {
            let conversation = self.inner.conversation.lock();
            (conversation.messages.len(), conversation.usage, conversation.requests)
        };
        let tokens = ModelTokens { model: Some(settings.model.clone()), tokens: usage.into() };
        let mut metadata = NodeMetadata::new(inner.state.node.session.clone());
        metadata.set("provider", settings.provider.as_str());
        metadata.set("model", settings.model.as_str());
        metadata.set("base_url", settings::base_url(settings).to_string());
        metadata.set("turns", inner.state.turns());
        metadata.set("queued", inner.turn.waiting());
        metadata.set("messages", messages);
        metadata.set_some("blocked", inner.state.block_kind());
        metadata.set("tokens", usage.total());
        metadata.set("api_calls", requests);
        metadata.set_some("tools", Some(settings.tools.as_slice()).filter(|tools| !tools.is_empty()));
        metadata.set_some("keep", inner.setup.store_path().map(|path| path.display().to_string()));
        NodeInfo {
            node_id: self.id().to_string(),
            kind: self.kind().to_string(),
            state: inner.state.current(),
            persistent: true,
            approximate: false,
            progress: NodeProgress {
                tokens: Some(usage.total()),
                models: Some(tokens).filter(|tokens| tokens.tokens.total() > 0).into_iter().collect(),
                budget: inner.setup.ledger.limits().map(|_| inner.setup.ledger.status()),
                ..NodeProgress::default()
            },
            metadata,
        }
    }

    fn answer(&self, answer: DialogAnswer) -> NodeFuture<'_, Option<Response>> {
        let Inner { state, clock, audit_log, .. } = &*self.inner;
        Box::pin(ready(state.answer_budget(&answer, clock.now(), audit_log).map(|()| None)))
    }

    fn explain(&self) -> NodeFuture<'_, NodeExplanation> {
        let screen = self.text(Some(HISTORY_BUFFER_LINES));
        Box::pin(ready(Ok(self.inner.state.explain(self.info(), screen))))
    }

    fn ledger(&self) -> Option<&UsageLedger> {
        Some(&self.inner.setup.ledger)
    }

    fn cancel_grace(&self) -> Duration {
        CANCEL_GRACE + Duration::from_secs(1)
    }

    /// Ends the current turn. Returns when the node is gone, even if another caller stopped it.
    fn stop<'a>(&'a self, reason: &'a str) -> BoxFuture<'a> {
        Box::pin(async move {
            let inner = &self.inner;
            inner.state.begin_stop();
            let _turn = inner.turn.lock().await;
            if inner.state.current() != NodeState::Stopped {
                let text = || self.text(Some(HISTORY_BUFFER_LINES));
                inner.audit_log.lock().close(inner.clock.now(), Some(reason), text);
                inner.state.end_stop(reason, StopCause::Requested);
            }
        })
    }

    /// Clears the conversation after the current turn.
    fn reset(&self) -> NodeFuture<'_, bool> {
        Box::pin(async {
            self.clear().await;
            Ok(true)
        })
    }

    fn interrupt(&self) -> NodeFuture<'_, ()> {
        Box::pin(self.inner.state.interrupt())
    }

    fn fork(&self, at: &NodeRef) -> Option<NodeFuture<'_, NodeHandle>> {
        let audit_log = match &self.inner.setup.fork_audit_logs {
            Some(audit_logs) => audit_logs.open(at),
            None => Ok(AuditLog::disabled()),
        };
        let copy = audit_log.map(|log| Arc::new(self.copy_as(at.with_session(), log)) as NodeHandle);
        Some(Box::pin(ready(copy)))
    }

    fn unsupported(&self) -> EngineError {
        EngineError::invalid_request(format!("node '{}' has no terminal", self.id()))
            .hint("a chat node can be executed, read, answered, cleared, interrupted, stopped")
    }
}

impl ChatNode {
    /// Creates a node that is ready at once. Continues the stored conversation, if there is one.
    ///
    /// # Errors
    /// InvalidRequest: the settings are invalid, there is no key, or the file holds no conversation. Process: the file cannot be
    /// read.
    pub(crate) fn new(node: NodeRef, setup: Setup, audit_log: AuditLog) -> Result<ChatNode, EngineError> {
        // Fails now instead of with the first prompt. The key is looked up again for each turn.
        setup.check()?;
        let mut conversation = ChatLog::default();
        if let Some(path) = setup.store_path() {
            conversation.messages = match file::load(&path) {
                Err(error) if error.kind == ErrorKind::NotFound => Vec::new(),
                loaded => loaded?,
            };
        }
        Ok(ChatNode::with_conversation(node, setup, audit_log, conversation))
    }

    fn with_conversation(
        node: NodeRef,
        setup: Setup,
        audit_log: AuditLog,
        conversation: ChatLog,
    ) -> ChatNode {
        let state = TurnState::new(node, setup.events.clone(), EVIDENCE, setup.ledger.clone());
        let inner = Inner {
            state,
            setup,
            clock: Clock::start(),
            audit_log: Mutex::new(audit_log),
            turn: TurnQueue::default(),
            conversation: Mutex::new(conversation),
        };
        ChatNode { inner: Arc::new(inner) }
    }

    /// Creates an independent node with a copy of the conversation after the last turn. The copy is not stored in a file.
    fn copy_as(&self, at: NodeRef, audit_log: AuditLog) -> ChatNode {
        let mut setup = self.inner.setup.clone();
        setup.settings = settings::fork_settings(setup.settings);
        setup.ledger = setup.ledger.sibling(&at.node, None);
        let messages = self.messages();
        ChatNode::with_conversation(at, setup, audit_log, ChatLog { messages, ..ChatLog::default() })
    }

    /// Returns the node's settings.
    pub fn settings(&self) -> &ChatSettings {
        &self.inner.setup.settings
    }

    /// Returns the conversation after the last completed turn.
    pub fn messages(&self) -> Vec<Message> {
        self.inner.conversation.lock().messages.clone()
    }

    /// Returns the last `lines` lines of the conversation as text, with the role before each message.
    fn text(&self, lines: Option<usize>) -> String {
        let mut text = String::new();
        for message in &self.inner.conversation.lock().messages {
            let (role, content) = match message {
                Message::User { text } => ("user", text.clone()),
                Message::Assistant { text, tool_calls } => {
                    let calls = tool_calls.iter().map(|call| format!("{}({})", call.name, call.arguments));
                    let content = Some(text.clone()).filter(|text| !text.is_empty());
                    ("assistant", content.into_iter().chain(calls).collect::<Vec<_>>().join("\n"))
                }
                Message::Tools { results } => {
                    let contents: Vec<&str> = results.iter().map(|result| result.content.as_str()).collect();
                    ("tools", contents.join("\n"))
                }
            };
            text.push_str(&format!("{role}: {content}\n"));
        }
        tail(text.trim_end(), lines)
    }

    /// Clears the conversation after the current turn and those in the queue.
    pub async fn clear(&self) {
        let _turn = self.inner.turn.lock().await;
        self.replace(Vec::new()).await;
    }

    /// Writes the conversation to a file that only its owner can read.
    ///
    /// # Errors
    /// Process: the file cannot be written.
    pub async fn save(&self, path: &Path) -> Result<(), EngineError> {
        let (path, messages) = (self.inner.setup.absolute(path), self.messages());
        run_blocking(move || file::save(&path, &messages)).await
    }

    /// Replaces the conversation with that in a file, after the current turn and those in the queue.
    ///
    /// # Errors
    /// NotFound, Process, InvalidRequest: the file holds no conversation. The current one is kept.
    pub async fn load(&self, path: &Path) -> Result<(), EngineError> {
        let path = self.inner.setup.absolute(path);
        let messages = run_blocking(move || file::load(&path)).await?;
        let _turn = self.inner.turn.lock().await;
        self.replace(messages).await;
        Ok(())
    }

    /// Runs a turn and returns the model's answer. The nodes that are its tools are looked up in `context`.
    ///
    /// A failed turn leaves the conversation unchanged.
    ///
    /// # Errors
    /// Timeout, Interrupted, Cancelled, Busy, NodeStopped, InvalidRequest, NotFound (a tool), Budget, and the API's errors:
    /// Authentication, Permission, RateLimit, Network, Api.
    async fn run_or_detach(&self, prompt: Prompt, context: TurnContext) -> Result<Response, EngineError> {
        if !prompt.detach_on_timeout {
            let limit = prompt.timeout.unwrap_or(self.inner.setup.timeout);
            return self.run_turn(&prompt, &context, Instant::now() + limit.min(MAX_TIMEOUT)).await;
        }
        // The turn continues up to the node's own timeout after the caller has stopped waiting.
        let (node, limit) = (self.clone(), prompt.timeout);
        let until = Instant::now() + self.inner.setup.timeout.max(limit.unwrap_or_default()).min(MAX_TIMEOUT);
        let turn = tokio::spawn(async move { node.run_turn(&prompt, &context, until).await });
        let result = match limit {
            None => turn.await,
            Some(limit) => match timeout(limit.min(MAX_TIMEOUT), turn).await {
                Ok(result) => result,
                Err(_) => {
                    let error = self.error(ErrorKind::Timeout, &format!("no answer within {limit:?}"));
                    return Err(error.hint("the turn continues; its end is in the history"));
                }
            },
        };
        result.unwrap_or_else(|error| Err(self.error(ErrorKind::Internal, &error.to_string())))
    }

    pub(super) fn with_node_name(&self, error: EngineError) -> EngineError {
        error.in_context(format_args!("node '{}'", self.id()))
    }

    pub(super) fn error(&self, kind: ErrorKind, what: &str) -> EngineError {
        self.with_node_name(EngineError::new(kind, what))
    }
}

/// Returns the last `lines` lines.
fn tail(text: &str, lines: Option<usize>) -> String {
    let Some(lines) = lines else { return text.to_string() };
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

pub(super) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, EngineError> + Send + 'static,
) -> Result<T, EngineError> {
    tokio::task::spawn_blocking(work).await?
}
