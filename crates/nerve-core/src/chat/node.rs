//! A conversation with a model as a node (seed: StatefulLLMNode).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nerve_record::history::HISTORY_BUFFER_LINES;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

use super::answer::Usage;
use super::file;
use super::message::Message;
use super::setup::Setup;
use super::spec::ChatSpec;
use super::turn_queue::WIND_DOWN;
use crate::clock::{Clock, FAR};
use crate::command::{EventKind, NodeInfo, NodeRef, Response, StateName};
use crate::context::ExecutionContext;
use crate::error::{EngineError, ErrorKind};
use crate::node::factory::named;
use crate::node::terminal::{Journal, Prompt, prompt_of};
use crate::node::{Node, NodeFuture, NodeHandle, Quiet};

/// Evidence of a busy node.
pub(super) const ASKS: &str = "input: the model is asked";
/// Evidence of a ready node.
pub(super) const ENDED: &str = "api: the turn ended";

/// A conversation with a model. Cheap to clone; all clones are the same node.
#[derive(Debug, Clone)]
pub struct ChatNode {
    pub(super) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) node: NodeRef,
    pub(super) setup: Setup,
    pub(super) clock: Clock,
    pub(super) journal: Mutex<Journal>,
    pub(super) state: watch::Sender<StateName>,
    pub(super) turns: AtomicU64,
    /// Who has it takes a turn, or changes the conversation.
    pub(super) turn: tokio::sync::Mutex<()>,
    pub(super) waiting: AtomicUsize,
    pub(super) interrupt: Notify,
    pub(super) talk: Mutex<Talk>,
}

/// The conversation, as it was after the last turn that came to its end.
#[derive(Debug, Clone, Default)]
pub(super) struct Talk {
    pub(super) messages: Vec<Message>,
    pub(super) usage: Usage,
    pub(super) requests: u64,
}

impl Node for ChatNode {
    fn id(&self) -> &str {
        &self.inner.node.node
    }

    fn kind(&self) -> &'static str {
        "chat"
    }

    fn persistent(&self) -> bool {
        true
    }

    fn execute<'a>(&'a self, context: &'a ExecutionContext) -> NodeFuture<'a> {
        Box::pin(async move {
            let prompt = Prompt {
                text: prompt_of(&context.input),
                parser: None,
                stream: context.chunks().is_some(),
                tag: None,
                timeout: context.timeout,
                fail_if_busy: false,
                detach_on_timeout: false,
                trace: None,
            };
            Ok(self.turn(prompt, context.clone()).await?.into_value())
        })
    }

    fn info(&self) -> NodeInfo {
        ChatNode::info(self)
    }

    fn winds_down(&self) -> Duration {
        WIND_DOWN + Duration::from_secs(1)
    }

    fn stop<'a>(&'a self, reason: &'a str) -> Quiet<'a> {
        Box::pin(ChatNode::stop(self, reason))
    }

    /// Forgets the conversation, after the turn that runs.
    fn reset(&self) -> NodeFuture<'_, ()> {
        Box::pin(async {
            self.clear().await;
            Ok(())
        })
    }

    fn interrupt(&self) -> NodeFuture<'_, ()> {
        self.inner.interrupt.notify_waiters();
        Box::pin(async { Ok(()) })
    }

    fn fork(&self, at: &NodeRef) -> Option<Result<NodeHandle, EngineError>> {
        let journal = match &self.inner.setup.journals {
            Some(factory) => factory.journal(at, true),
            None => Ok(Journal::off()),
        };
        Some(journal.map(|journal| Arc::new(self.forked(named(at), journal)) as NodeHandle))
    }

    fn as_chat(&self) -> Option<&ChatNode> {
        Some(self)
    }
}

impl ChatNode {
    /// A node that is ready at once. A conversation that is kept goes on.
    ///
    /// # Errors
    /// InvalidRequest: the spec cannot be, there is no key, or what was kept is no conversation; Process: it cannot be read.
    pub(crate) fn new(node: NodeRef, setup: Setup, journal: Journal) -> Result<ChatNode, EngineError> {
        // Said now, not with the first prompt; the key is looked up again with each.
        setup.check()?;
        let mut talk = Talk::default();
        if let Some(path) = setup.keep() {
            talk.messages = match file::load(&path) {
                Err(error) if error.kind == ErrorKind::NotFound => Vec::new(),
                loaded => loaded?,
            };
        }
        Ok(ChatNode::with(node, setup, journal, talk))
    }

    fn with(node: NodeRef, setup: Setup, journal: Journal, talk: Talk) -> ChatNode {
        let inner = Inner {
            node,
            setup,
            clock: Clock::start(),
            journal: Mutex::new(journal),
            state: watch::Sender::new(StateName::Ready),
            turns: AtomicU64::new(0),
            turn: tokio::sync::Mutex::default(),
            waiting: AtomicUsize::new(0),
            interrupt: Notify::new(),
            talk: Mutex::new(talk),
        };
        ChatNode { inner: Arc::new(inner) }
    }

    /// A node of its own with a copy of the conversation as it was after the last turn. It keeps it in no file.
    fn forked(&self, at: NodeRef, journal: Journal) -> ChatNode {
        let mut setup = self.inner.setup.clone();
        setup.spec = setup.spec.for_a_fork();
        let messages = self.messages();
        ChatNode::with(at, setup, journal, Talk { messages, ..Talk::default() })
    }

    /// What it was made with.
    pub fn spec(&self) -> &ChatSpec {
        &self.inner.setup.spec
    }

    /// The conversation as it was after the last turn that came to its end.
    pub fn messages(&self) -> Vec<Message> {
        self.talk().messages.clone()
    }

    /// The conversation as text: who said what, the last `lines` lines of it.
    pub fn read(&self, lines: Option<usize>) -> String {
        let mut text = String::new();
        for message in &self.talk().messages {
            let (who, said) = match message {
                Message::User { text } => ("user", text.clone()),
                Message::Assistant { text, tool_calls } => {
                    let calls = tool_calls.iter().map(|call| format!("{}({})", call.name, call.arguments));
                    let said = Some(text.clone()).filter(|text| !text.is_empty());
                    ("assistant", said.into_iter().chain(calls).collect::<Vec<_>>().join("\n"))
                }
                Message::Tools { results } => {
                    let said: Vec<&str> = results.iter().map(|result| result.content.as_str()).collect();
                    ("tools", said.join("\n"))
                }
            };
            text.push_str(&format!("{who}: {said}\n"));
        }
        tail(text.trim_end(), lines)
    }

    /// Forgets the conversation, after the turn that runs and those that wait.
    pub async fn clear(&self) {
        let _turn = self.inner.turn.lock().await;
        self.replace(Vec::new()).await;
    }

    /// Writes the conversation to a file, which only its owner can read.
    ///
    /// # Errors
    /// Process: the file cannot be written.
    pub async fn save(&self, path: &Path) -> Result<(), EngineError> {
        let (path, messages) = (self.inner.setup.absolute(path), self.messages());
        blocking(move || file::save(&path, &messages)).await
    }

    /// Goes on with the conversation in a file, after the turn that runs and those that wait.
    ///
    /// # Errors
    /// NotFound, Process, InvalidRequest: what is in it is no conversation. The one there is stays.
    pub async fn load(&self, path: &Path) -> Result<(), EngineError> {
        let path = self.inner.setup.absolute(path);
        let messages = blocking(move || file::load(&path)).await?;
        let _turn = self.inner.turn.lock().await;
        self.replace(messages).await;
        Ok(())
    }

    /// Asks the model and returns its answer; the nodes that are its tools are found in the session of `context`.
    ///
    /// A turn that fails leaves the conversation as it was.
    ///
    /// # Errors
    /// Timeout, Interrupted, Cancelled, Busy, NodeStopped, InvalidRequest, NotFound (a tool), Budget, and what the API says:
    /// Authentication, Permission, RateLimit, Network, Api.
    pub async fn turn(&self, prompt: Prompt, context: ExecutionContext) -> Result<Response, EngineError> {
        if !prompt.detach_on_timeout {
            let limit = prompt.timeout.unwrap_or(self.inner.setup.timeout);
            return self.turn_within(&prompt, &context, Instant::now() + limit.min(FAR)).await;
        }
        // It goes on when nobody waits any more, to the node's own limit.
        let (node, limit) = (self.clone(), prompt.timeout);
        let far = Instant::now() + self.inner.setup.timeout.max(limit.unwrap_or_default()).min(FAR);
        let turn = tokio::spawn(async move { node.turn_within(&prompt, &context, far).await });
        let done = match limit {
            None => turn.await,
            Some(limit) => match timeout(limit.min(FAR), turn).await {
                Ok(done) => done,
                Err(_) => {
                    let error = self.error(ErrorKind::Timeout, &format!("no answer within {limit:?}"));
                    return Err(error.hint("the turn goes on; its end is in the history"));
                }
            },
        };
        done.unwrap_or_else(|error| Err(self.error(ErrorKind::Internal, &error.to_string())))
    }

    /// Waits until the node is in one of `states`; answers at once when it is.
    ///
    /// # Errors
    /// Timeout; NodeStopped when it can no longer come to that.
    pub async fn wait(
        &self,
        states: &[StateName],
        limit: Option<Duration>,
    ) -> Result<StateName, EngineError> {
        let mut state = self.inner.state.subscribe();
        let reached = async {
            let found = state.wait_for(|state| states.contains(state) || *state == StateName::Stopped).await;
            found.map_or(StateName::Stopped, |state| *state)
        };
        let state = match limit {
            Some(limit) => timeout(limit.min(FAR), reached).await.map_err(|_| self.still(states, limit))?,
            None => reached.await,
        };
        if states.contains(&state) { Ok(state) } else { Err(self.gone()) }
    }

    /// Stops the node; the turn that runs is ended. Returns when it is gone, whoever stopped it first.
    pub async fn stop(&self, reason: &str) {
        let inner = &self.inner;
        inner.state.send_if_modified(|state| {
            let lives = matches!(state, StateName::Ready | StateName::Busy);
            if lives {
                *state = StateName::Stopping;
            }
            lives
        });
        let _turn = inner.turn.lock().await;
        if self.state() == StateName::Stopped {
            return;
        }
        self.journal().closed(inner.clock.now(), Some(reason), || self.read(Some(HISTORY_BUFFER_LINES)));
        inner.state.send_replace(StateName::Stopped);
        inner.setup.events.publish(Some(&inner.node), EventKind::NodeStopped { reason: reason.to_string() });
    }

    /// What is known of it. No key is in it.
    pub fn info(&self) -> NodeInfo {
        let inner = &self.inner;
        let spec = &inner.setup.spec;
        let (messages, usage, requests) = {
            let talk = self.talk();
            (talk.messages.len(), talk.usage, talk.requests)
        };
        let mut metadata = BTreeMap::new();
        let mut tell = |name: &str, fact: String| drop(metadata.insert(name.to_string(), fact));
        tell("provider", spec.provider.as_str().to_string());
        tell("model", spec.model.clone());
        tell("base_url", spec.base_url().to_string());
        tell("turns", inner.turns.load(Ordering::Relaxed).to_string());
        tell("queued", inner.waiting.load(Ordering::Relaxed).to_string());
        tell("messages", messages.to_string());
        tell("tokens", usage.total().to_string());
        tell("api_calls", requests.to_string());
        if !spec.tools.is_empty() {
            tell("tools", spec.tools.join(", "));
        }
        if let Some(path) = inner.setup.keep() {
            tell("keep", path.display().to_string());
        }
        NodeInfo {
            id: inner.node.node.clone(),
            session: inner.node.session.clone().unwrap_or_default(),
            kind: "chat",
            state: self.state(),
            persistent: true,
            metadata,
        }
    }

    fn state(&self) -> StateName {
        *self.inner.state.borrow()
    }

    pub(super) fn talk(&self) -> MutexGuard<'_, Talk> {
        self.inner.talk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn journal(&self) -> MutexGuard<'_, Journal> {
        self.inner.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn gone(&self) -> EngineError {
        self.error(ErrorKind::NodeStopped, "is stopped")
    }

    /// In the words of the other nodes.
    fn still(&self, states: &[StateName], limit: Duration) -> EngineError {
        let wanted: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
        let (id, now) = (&self.inner.node.node, self.state());
        let message =
            format!("node '{id}' is still {}, not {}, after {limit:?}", now.as_str(), wanted.join(" or "));
        let why = if now == StateName::Ready { ENDED } else { ASKS };
        EngineError::new(ErrorKind::Timeout, message).hint(why)
    }

    pub(super) fn of_mine(&self, mut error: EngineError) -> EngineError {
        error.message = format!("node '{}': {}", self.inner.node.node, error.message);
        error
    }

    pub(super) fn error(&self, kind: ErrorKind, what: &str) -> EngineError {
        self.of_mine(EngineError::new(kind, what))
    }
}

/// The last `lines` lines.
pub(super) fn tail(text: &str, lines: Option<usize>) -> String {
    let Some(lines) = lines else { return text.to_string() };
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, EngineError> + Send + 'static,
) -> Result<T, EngineError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(EngineError::new(ErrorKind::Internal, error.to_string())))
}
