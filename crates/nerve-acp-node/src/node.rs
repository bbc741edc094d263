//! A node for an agent that speaks the protocol.

mod turn;

use std::future::ready;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nerve_acp_protocol::types::Implementation;
use nerve_api::reply::{ModelTokens, NodeExplanation, NodeInfo, NodeMetadata, NodeProgress};
use nerve_api::request::{NodeRef, NodeSpec};
use nerve_api::value::{BlockKind, NodeState, SignalSource, StopCause};
use nerve_host::backend::Program;
use nerve_host::clock::{Clock, MAX_TIMEOUT};
use nerve_host::environment::{self, Environment};
use nerve_node::context::TurnContext;
use nerve_node::dialog_answer::{DialogAnswer, check_dialog, no_dialog_error, resolve_choice};
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::factory::{NodeFactory, check_without_terminal, split_command, start_error};
use nerve_node::response::Response;
use nerve_node::terminal::{AuditLog, DialogPolicy, Prompt};
use nerve_node::turn_queue::TurnQueue;
use nerve_node::turn_state::{StateEvidence, TurnState};
use nerve_node::usage_ledger::UsageLedger;
use nerve_node::{BoxFuture, Node, NodeFuture, NodeHandle, ToolKind};
use nerve_record::history::HISTORY_BUFFER_LINES;
use nerve_types::token_usage::TokenUsage;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::DropGuard;

use self::turn::{CANCEL_TIME, TurnResult};
use crate::handshake::{Opening, open_session, timeout_error};
use crate::link::Link;

/// Maximum size of the text of earlier turns, in bytes.
const MAX_TEXT: usize = 256 << 10;
/// Evidence of the node's states.
const EVIDENCE: StateEvidence = StateEvidence {
    busy: (SignalSource::Acp, "session/prompt: the agent has not responded yet"),
    ready: (SignalSource::Acp, "session: no prompt is running"),
};

/// An agent that speaks the protocol. Cheap to clone; clones are the same node.
#[derive(Debug, Clone)]
pub(crate) struct AcpNode {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) state: Arc<TurnState>,
    pub(crate) link: Arc<Link>,
    pub(crate) clock: Clock,
    pub(crate) audit_log: Mutex<AuditLog>,
    pub(crate) turn: TurnQueue,
    /// The result of the last turn.
    pub(crate) last_turn: Mutex<Option<watch::Receiver<TurnResult>>>,
    /// Time limit of turns that set none.
    pub(crate) timeout: Duration,
    /// Tokens of all turns.
    pub(crate) tokens: Mutex<TokenUsage>,
    factory: NodeFactory,
    /// The request for the node.
    spec: NodeSpec,
    program: Program,
    agent: Option<Implementation>,
    /// The session is an earlier one, which has turns.
    is_resumed: bool,
    /// Earlier turns as text.
    text: Mutex<String>,
    /// Ends the agent with the node.
    _stop: DropGuard,
}

impl Node for AcpNode {
    fn id(&self) -> &str {
        &self.inner.state.node.node
    }

    fn kind(&self) -> &'static str {
        "acp"
    }

    fn is_persistent(&self) -> bool {
        true
    }

    fn execute<'a>(&'a self, context: &'a TurnContext) -> NodeFuture<'a> {
        Box::pin(async move { Ok(self.run(Prompt::from_context(context), context).await?.into_value()) })
    }

    fn turn(&self, prompt: Prompt, context: TurnContext) -> NodeFuture<'_, Response> {
        Box::pin(async move { self.run(prompt, &context).await })
    }

    fn wait<'a>(&'a self, states: &'a [NodeState], limit: Option<Duration>) -> NodeFuture<'a, NodeState> {
        Box::pin(self.inner.state.wait(states, limit))
    }

    fn read(&self, lines: Option<usize>) -> NodeFuture<'_, String> {
        Box::pin(ready(Ok(self.text(lines))))
    }

    fn tool_kind(&self) -> Option<ToolKind> {
        Some(ToolKind::Prompt)
    }

    fn info(&self) -> NodeInfo {
        let inner = &self.inner;
        // The model is not known.
        let tokens = *inner.tokens.lock();
        let models = ModelTokens { model: None, tokens };
        NodeInfo {
            node_id: self.id().to_string(),
            kind: self.kind().to_string(),
            state: inner.state.current(),
            persistent: true,
            approximate: false,
            progress: NodeProgress {
                tokens: Some(tokens.total()).filter(|total| *total > 0),
                models: Some(models).filter(|_| tokens.total() > 0).into_iter().collect(),
                budget: inner.state.ledger.limits().map(|_| inner.state.ledger.status()),
                ..NodeProgress::default()
            },
            metadata: self.metadata(),
        }
    }

    fn answer(&self, answer: DialogAnswer) -> NodeFuture<'_, Option<Response>> {
        Box::pin(self.answer_dialog(answer))
    }

    fn explain(&self) -> NodeFuture<'_, NodeExplanation> {
        let screen = self.text(Some(HISTORY_BUFFER_LINES));
        Box::pin(ready(Ok(self.inner.state.explain(self.info(), screen))))
    }

    fn ledger(&self) -> Option<&UsageLedger> {
        Some(&self.inner.state.ledger)
    }

    fn cancel_grace(&self) -> Duration {
        CANCEL_TIME + Duration::from_secs(1)
    }

    /// Ends the current turn and the agent. Returns when the agent is gone, even if another caller stopped it.
    fn stop<'a>(&'a self, reason: &'a str) -> BoxFuture<'a> {
        Box::pin(async move {
            let inner = &self.inner;
            inner.state.begin_stop();
            let _turn = inner.turn.lock().await;
            inner.link.stop_token().cancel();
            inner.link.ended().await;
            self.close(reason, StopCause::Requested);
        })
    }

    /// Cancels the running turn, with its dialogs. Returns when the agent has ended it.
    fn interrupt(&self) -> NodeFuture<'_, ()> {
        Box::pin(async move {
            // Without a dialog the node is busy, as the state expects.
            self.inner.link.cancel_turn().await;
            self.inner.state.interrupt().await
        })
    }

    fn fork(&self, at: &NodeRef) -> Option<NodeFuture<'_, NodeHandle>> {
        let spec =
            NodeSpec { node_id: at.node.clone(), session_id: at.session.clone(), ..self.inner.spec.clone() };
        Some(Box::pin(self.start_fork(spec)))
    }

    fn unsupported(&self) -> EngineError {
        EngineError::invalid_request(format!("node '{}' has no terminal", self.id()))
            .hint("acp nodes support send, answer, logs, interrupt, fork, start and stop")
    }
}

impl AcpNode {
    /// Starts an agent and opens a session.
    ///
    /// # Errors
    /// See [`crate::start`].
    pub(crate) async fn start(
        factory: &NodeFactory,
        spec: NodeSpec,
        ledger: UsageLedger,
    ) -> Result<AcpNode, EngineError> {
        let opening = spec.conversation_id.clone().map_or(Opening::New, Opening::Resume);
        AcpNode::start_with(factory, spec, ledger, opening).await
    }

    /// Starts a node that continues a copy of this node's conversation. The copy is made by a new process of the agent.
    async fn start_fork(&self, spec: NodeSpec) -> Result<NodeHandle, EngineError> {
        let Inner { state, link, factory, is_resumed, .. } = &*self.inner;
        let refused = |kind, why: &str, hint: &str| {
            let message = format!("cannot fork node '{}': {why}", state.node.node);
            Err(EngineError::new(kind, message).hint(hint))
        };
        let arguments = state.node.arguments();
        match state.current() {
            NodeState::Ready | NodeState::Suspended => {}
            NodeState::Blocked => {
                let hint = format!("answer it first: `nerve answer {arguments} NUMBER`");
                return refused(ErrorKind::Blocked, "it shows a dialog", &hint);
            }
            NodeState::Stopped | NodeState::Stopping => {
                let hint = format!("start it first: `nerve start {arguments}`");
                return refused(ErrorKind::NodeStopped, "it is stopped", &hint);
            }
            _ => {
                let hint = format!("wait until it is ready: `nerve wait {arguments}`");
                return refused(ErrorKind::Busy, "it is busy", &hint);
            }
        }
        if state.turns() == 0 && !is_resumed {
            let hint = "send it a prompt first, or create a new node";
            return refused(ErrorKind::InvalidRequest, "it never had a turn", hint);
        }
        let ledger = state.ledger.sibling(&spec.node_id, state.ledger.limits());
        let node = AcpNode::start_with(factory, spec, ledger, Opening::Fork(link.session_id())).await?;
        Ok(Arc::new(node) as NodeHandle)
    }

    async fn start_with(
        factory: &NodeFactory,
        spec: NodeSpec,
        ledger: UsageLedger,
        opening: Opening,
    ) -> Result<AcpNode, EngineError> {
        let at = check_without_terminal(&spec)?;
        let program = read_program(&at, &spec)?;
        let clock = Clock::start();
        let state = TurnState::new(at.clone(), factory.events().clone(), EVIDENCE, ledger);
        let link =
            Link::start(&program, Arc::clone(&state), clock).map_err(|error| start_error(&at, &error))?;
        let stop = link.stop_token().clone().drop_guard();
        let cwd = program.cwd.clone().unwrap_or_default();
        let opened = open_session(&link, &cwd, &opening);
        let opened = timeout(spec.ready_timeout.duration().min(MAX_TIMEOUT), opened).await;
        let agent = match opened.unwrap_or_else(|_| Err(timeout_error(&link))) {
            Ok(agent) => agent,
            Err(error) => {
                link.stop_token().cancel();
                link.ended().await;
                return Err(error);
            }
        };
        let inner = Inner {
            state,
            clock,
            audit_log: Mutex::new(factory.audit_log(&at, spec.history)?),
            turn: TurnQueue::default(),
            last_turn: Mutex::default(),
            timeout: spec.response_timeout.duration(),
            tokens: Mutex::default(),
            factory: factory.clone(),
            program,
            agent,
            is_resumed: opening != Opening::New,
            spec,
            text: Mutex::default(),
            link,
            _stop: stop,
        };
        let node = AcpNode { inner: Arc::new(inner) };
        tokio::spawn(node.follow_agent());
        Ok(node)
    }

    /// Stops the node when its agent has ended. The future does not keep the node.
    fn follow_agent(&self) -> impl Future<Output = ()> + Send + use<> {
        let (node, link) = (Arc::downgrade(&self.inner), Arc::clone(&self.inner.link));
        async move {
            let end = link.ended().await;
            let Some(inner) = node.upgrade() else { return };
            let node = AcpNode { inner };
            node.inner.state.begin_stop();
            let _turn = node.inner.turn.lock().await;
            node.close(&format!("the agent ended: {}", end.reason), StopCause::Failed);
        }
    }

    /// Marks the node stopped, unless it is already. The caller holds the turn lock, and the agent has ended.
    fn close(&self, reason: &str, cause: StopCause) {
        let inner = &self.inner;
        if inner.state.current() != NodeState::Stopped {
            let text = || self.text(Some(HISTORY_BUFFER_LINES));
            inner.audit_log.lock().close(inner.clock.now(), Some(reason), text);
            inner.state.end_stop(reason, cause);
        }
    }

    async fn answer_dialog(&self, answer: DialogAnswer) -> Result<Option<Response>, EngineError> {
        let Inner { state, link, clock, audit_log, last_turn, .. } = &*self.inner;
        let Some(dialog) = state.dialog() else {
            return state.answer_budget(&answer, clock.now(), audit_log).map(|()| None);
        };
        check_dialog(&state.node, &answer, &dialog.id, &dialog.choices)?;
        let picked = resolve_choice(&answer.choice, &dialog.choices)?;
        let choice = picked.and_then(|picked| dialog.choices.get(picked)).map(String::as_str);
        let turn = last_turn.lock().clone();
        let log = || {
            let kind = BlockKind::Permission.as_str();
            audit_log.lock().log_dialog(clock.now(), kind, choice, &answer.origin);
        };
        if !link.answer(&dialog.id, picked, log).await {
            return Err(no_dialog_error(&state.node.node));
        }
        let Some(turn) = turn.filter(|_| answer.wait) else { return Ok(None) };
        let deadline = answer.timeout.map(|limit| Instant::now() + limit.min(MAX_TIMEOUT));
        self.await_turn(turn, DialogPolicy::Report, deadline).await.map(Some)
    }

    fn metadata(&self) -> NodeMetadata {
        let inner = &self.inner;
        let mut metadata = NodeMetadata::new(inner.state.node.session.clone());
        let (source, evidence) = inner.state.evidence();
        metadata.set("command", shell_words::join(&inner.program.argv));
        metadata.set_some("cwd", inner.program.cwd.as_ref().map(|cwd| cwd.display().to_string()));
        metadata.set("turns", inner.state.turns());
        metadata.set("queued", inner.turn.waiting());
        metadata.set("evidence", format!("{}: {evidence}", source.as_str()));
        metadata.set("conversation_id", inner.link.session_id());
        metadata.set_some("has_turns", inner.is_resumed.then_some(true));
        metadata.set_some("agent", inner.agent.as_ref().map(|agent| agent.name.as_str()));
        let version = inner.agent.as_ref().map(|agent| agent.version.as_str());
        metadata.set_some("agent_version", version.filter(|version| !version.is_empty()));
        metadata.set_some("blocked", inner.state.block_kind());
        match inner.link.end() {
            Some(end) => metadata.set_exit(end.exit),
            None => metadata.set_some("pid", inner.link.pid),
        }
        metadata
    }

    /// Adds a finished turn to the text.
    pub(crate) fn add_text(&self, prompt: &str, answer: &str) {
        let mut text = self.inner.text.lock();
        text.push_str(&format!("user: {prompt}\nassistant: {answer}\n"));
        let start = text.ceil_char_boundary(text.len().saturating_sub(MAX_TEXT));
        text.drain(..start);
    }

    /// Returns the last `lines` lines of the turns of this process, with the running one and its open dialog.
    pub(crate) fn text(&self, lines: Option<usize>) -> String {
        let mut text = self.inner.text.lock().clone();
        text.push_str(&self.inner.link.text());
        let text = text.trim_end();
        let Some(lines) = lines else { return text.to_string() };
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }
}

/// Returns the program of a node. Its directory is absolute.
///
/// # Errors
/// InvalidRequest: there is no command. Process: there is no such program.
fn read_program(at: &NodeRef, spec: &NodeSpec) -> Result<Program, EngineError> {
    let argv = match &spec.command {
        Some(command) => split_command(command.clone(), Some(String::new()))?,
        None => Vec::new(),
    };
    if argv.first().is_none_or(String::is_empty) {
        let message = format!("node '{}' was not started: an acp node needs a command", at.node);
        return Err(EngineError::invalid_request(message).hint("name the agent: `-c 'opencode acp'`"));
    }
    let current = || std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let cwd = spec.cwd.as_ref().map_or_else(current, |cwd| current().join(cwd));
    let env = Environment::new(spec.shell_env.as_ref(), spec.env.clone(), &environment::read_variables());
    Ok(Program { argv, cwd: Some(cwd), env: env.set, env_remove: env.remove })
}
