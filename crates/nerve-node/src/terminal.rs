//! The handle of a terminal node: the operations on a program on a terminal.

mod actor;
mod chunk_stream;
mod location;
mod metered_turn;
mod runtime;
mod screen_response;
pub(crate) mod spec;
mod turn_text;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nerve_agent::driver::AgentState;
use nerve_agent::parse::ParserKind;
use nerve_agent::profile::{ContextKind, Profile};
use nerve_api::reply::{NodeExplanation, NodeInfo, NodeMetadata, NodeProgress};
use nerve_api::request::{CommandLine, NodeRef, NodeSpec};
use nerve_api::value::{BackendKind, NodeState};
use nerve_host::backend::{Backend, PaneError, PaneInfo, Program, PtyBackend, SpawnError};
use nerve_host::clock::Clock;
use nerve_host::tap::Tap;
use nerve_mux::Window;
use nerve_mux::pane::PanePlace;
use nerve_record::executions::log::ExecutionLog;
use nerve_types::{Multiplexer, Size};
use tokio::sync::{mpsc, oneshot, watch};

use self::actor::Actor;
use self::actor::request::{Request, RequestedTurn};
use self::actor::status::Status;
use super::hooks::HookSocket;
use super::{BoxFuture, Node, NodeFuture, ToolKind};
use crate::cancellation::wait_timeout_error;
use crate::context::TurnContext;
use crate::dialog_answer::DialogAnswer;
use crate::error::{EngineError, ErrorKind};
use crate::proxy::NodeProxy;
use crate::response::Response;
use crate::telemetry::TurnAttributes;
use crate::turn_state::await_state;
use crate::usage_ledger::UsageLedger;

pub use self::chunk_stream::ChunkStream;
pub(crate) use self::location::TerminalLocation;
pub use self::spec::TerminalSpec;
pub use super::audit_log::AuditLog;
pub use super::dialog_policy::DialogPolicy;
pub use super::prompt::{Prompt, check_prompt};
pub use nerve_host::output_feed::{OutputPosition, OutputStart, OutputSubscription, OutputUpdate};

/// Time in which a resized window changes the size of the program's terminal.
const RESIZE_TIMEOUT: Duration = Duration::from_secs(2);

/// A program on a terminal. Cheap to clone; clones are the same node.
#[derive(Debug, Clone)]
pub struct TerminalNode {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    node: NodeRef,
    program: Program,
    ready_timeout: Duration,
    response_timeout: Duration,
    profile: Arc<Profile>,
    parser: ParserKind,
    agent_version: Option<String>,
    pid: Option<i32>,
    kind: BackendKind,
    location: TerminalLocation,
    execution_log: Option<ExecutionLog>,
    /// Identifies the program's output ([`OutputStart::stream`]).
    output_stream: String,
    proxy: Option<NodeProxy>,
    ledger: UsageLedger,
    requests: mpsc::Sender<Request>,
    status: watch::Receiver<Status>,
}

impl Node for TerminalNode {
    fn id(&self) -> &str {
        &self.inner.node.node
    }

    fn kind(&self) -> &'static str {
        self.inner.kind.as_str()
    }

    fn is_persistent(&self) -> bool {
        true
    }

    fn execute<'a>(&'a self, context: &'a TurnContext) -> NodeFuture<'a> {
        Box::pin(async move { Ok(self.run_turn(Prompt::from_context(context), context).await?.into_value()) })
    }

    fn turn(&self, prompt: Prompt, context: TurnContext) -> NodeFuture<'_, Response> {
        Box::pin(async move { self.run_turn(prompt, &context).await })
    }

    fn wait<'a>(&'a self, states: &'a [NodeState], limit: Option<Duration>) -> NodeFuture<'a, NodeState> {
        Box::pin(async move {
            let reached = await_state(self.inner.status.clone(), Status::name, states, limit).await;
            let state = reached.map_err(|limit| self.wait_timeout_error(states, limit))?;
            if states.contains(&state) { Ok(state) } else { Err(self.stopped_error()) }
        })
    }

    fn run_command(&self, command: String) -> NodeFuture<'_, ()> {
        Box::pin(async { self.request(|reply| Request::Run { command, reply }).await? })
    }

    fn write(&self, data: Vec<u8>) -> NodeFuture<'_, usize> {
        Box::pin(async { self.request(|reply| Request::Write { data, reply }).await? })
    }

    fn type_keys(&self, keys: Vec<u8>) -> NodeFuture<'_, ()> {
        Box::pin(async { self.request(|reply| Request::TypeKeys { keys, reply }).await? })
    }

    fn watch_output(
        &self,
        since: Option<OutputPosition>,
    ) -> NodeFuture<'_, (OutputStart, OutputSubscription)> {
        Box::pin(async {
            let stream = &self.inner.output_stream;
            let since = since.filter(|at| at.stream.as_ref().is_none_or(|other| other == stream));
            let since = since.map(|at| at.offset);
            let (start, updates) = self.request(|reply| Request::Watch { since, reply }).await?;
            Ok((OutputStart { stream: stream.clone(), ..start }, updates))
        })
    }

    fn read(&self, lines: Option<usize>) -> NodeFuture<'_, String> {
        Box::pin(self.request(move |reply| Request::Read { lines, reply }))
    }

    fn resize(&self, size: Size) -> NodeFuture<'_, ()> {
        Box::pin(async move {
            if let Some(window) = self.inner.location.window.as_ref().filter(|window| window.is_open()) {
                window.resize(size).await.map_err(|error| self.pane_error(&error))?;
                let mut status = self.inner.status.clone();
                let resized = status.wait_for(|status| status.size == size);
                // If another viewer has a smaller window, the request below fails.
                let _ = tokio::time::timeout(RESIZE_TIMEOUT, resized).await;
            }
            self.request(|reply| Request::Resize { size, reply }).await?
        })
    }

    fn show(&self, multiplexer: Multiplexer, place: PanePlace) -> NodeFuture<'_, String> {
        Box::pin(async move {
            let size = self.inner.status.borrow().size;
            self.window()?.open(multiplexer, &place, size).await.map_err(|error| self.pane_error(&error))
        })
    }

    fn answer(&self, answer: DialogAnswer) -> NodeFuture<'_, Option<Response>> {
        Box::pin(async { self.request(|reply| Request::Answer { answer, reply }).await? })
    }

    fn explain(&self) -> NodeFuture<'_, NodeExplanation> {
        Box::pin(async {
            let explanation = self.request(|reply| Request::Explain { reply }).await?;
            let NodeInfo { state, metadata, .. } = self.info();
            Ok(NodeExplanation { state, metadata, ..explanation })
        })
    }

    fn to_spec(&self) -> Option<NodeSpec> {
        let inner = &self.inner;
        let size = inner.status.borrow().size;
        Some(NodeSpec {
            command: Some(CommandLine::Argv(inner.program.argv.clone())),
            backend: inner.kind,
            cwd: inner.program.cwd.clone(),
            env: inner.program.env.clone(),
            cols: Some(size.cols),
            rows: Some(size.rows),
            profile: Some(inner.profile.name.clone()),
            parser: Some(inner.parser),
            ready_timeout: inner.ready_timeout.into(),
            response_timeout: inner.response_timeout.into(),
            proxy: inner.proxy.as_ref().and_then(|proxy| proxy.settings().cloned()).map(Box::new),
            budget: inner.ledger.limits(),
            ..NodeSpec::at(inner.node.clone())
        })
    }

    fn has_unknown_proxy(&self) -> bool {
        self.inner.proxy.as_ref().is_some_and(|proxy| proxy.settings().is_none())
    }

    fn context_kind(&self) -> ContextKind {
        self.inner.profile.context_kind()
    }

    fn tool_kind(&self) -> Option<ToolKind> {
        Some(ToolKind::Prompt)
    }

    fn info(&self) -> NodeInfo {
        let status = self.inner.status.borrow();
        let inner = &self.inner;
        let mut metadata = NodeMetadata::new(inner.node.session.clone());
        metadata.set("command", shell_words::join(&inner.program.argv));
        metadata.set("profile", inner.profile.name.as_str());
        metadata.set("parser", inner.parser.to_string());
        metadata.set("cols", status.size.cols);
        metadata.set("rows", status.size.rows);
        metadata.set("turns", status.turns);
        metadata.set("evidence", format!("{}: {}", status.evidence.source.as_str(), status.evidence.text));
        metadata.set_some("cwd", inner.program.cwd.as_ref().map(|cwd| cwd.display().to_string()));
        metadata.set_some("pid", inner.pid);
        metadata.set_some("title", Some(status.title.as_str()).filter(|title| !title.is_empty()));
        metadata.set_some("faults", status.faults.summary());
        metadata.set_some("profile_mismatch", status.mismatch.clone());
        let recording = inner.location.recording.as_ref();
        metadata.set_some("recording_path", recording.map(|path| path.display().to_string()));
        let window = inner.location.window.iter().flat_map(Window::place);
        for (name, value) in inner.location.place.iter().chain(&status.place).cloned().chain(window) {
            match name {
                "is_active" | "owned" => metadata.set(name, value == "true"),
                _ => metadata.set(name, value),
            }
        }
        metadata.extend(inner.proxy.iter().flat_map(NodeProxy::metadata));
        // Prompts that a user typed into the terminal are not counted as turns.
        let has_conversation = status.has_worked && inner.profile.session.is_some();
        metadata.set_some("has_turns", Some(true).filter(|_| has_conversation));
        metadata.set_some("agent_version", inner.agent_version.clone());
        metadata.set_some("conversation_id", status.conversation_id.clone());
        metadata.set_some("delivery", status.delivery.map(|delivery| delivery.as_str()));
        metadata.set_some("queued", Some(status.queued).filter(|queued| *queued > 0));
        match &status.state {
            AgentState::Blocked { kind, .. } => metadata.set("blocked", kind.as_str()),
            AgentState::Suspended { .. } => metadata.set_some("until_at", status.state.until_text()),
            AgentState::Exited(exit) => metadata.set_exit(*exit),
            _ => {}
        }
        NodeInfo {
            node_id: inner.node.node.clone(),
            kind: inner.kind.to_string(),
            state: status.name(),
            persistent: true,
            approximate: inner.location.is_foreign,
            progress: NodeProgress {
                budget: inner.ledger.limits().map(|_| inner.ledger.status()),
                ..status.progress()
            },
            metadata,
        }
    }

    fn ledger(&self) -> Option<&UsageLedger> {
        Some(&self.inner.ledger)
    }

    fn has_live_metering(&self) -> bool {
        self.inner.proxy.is_some()
    }

    fn has_live_token_count(&self) -> bool {
        self.has_live_metering() || self.inner.profile.transcript.is_some()
    }

    /// Agents that support interrupts stop within this time.
    fn cancel_grace(&self) -> Duration {
        Duration::from_secs(5)
    }

    /// Ends the program and its process group. Returns when they are gone.
    fn stop<'a>(&'a self, reason: &'a str) -> BoxFuture<'a> {
        Box::pin(async move {
            let reason = reason.to_string();
            // An error means that the node is gone already.
            let _ = self.request(|reply| Request::Stop { reason, reply }).await;
            if let Some(window) = &self.inner.location.window {
                window.close().await;
            }
            if let Some(proxy) = &self.inner.proxy {
                proxy.end().await;
            }
        })
    }

    /// Clears the scrollback. The agent keeps its own memory.
    fn reset(&self) -> NodeFuture<'_, bool> {
        Box::pin(async {
            self.request(|reply| Request::Clear { reply }).await?;
            Ok(false)
        })
    }

    /// Sends the interrupt that the profile defines.
    fn interrupt(&self) -> NodeFuture<'_, ()> {
        Box::pin(async { self.request(|reply| Request::Interrupt { reply }).await? })
    }

    fn release(&self) -> BoxFuture<'_, bool> {
        Box::pin(async {
            // An error means that the node is gone already and there is nothing to detach from.
            let is_released = self.request(|reply| Request::Release { reply }).await.unwrap_or(true);
            if is_released {
                // The actor gives up its pane and its recording before it closes its inbox: the next server needs them.
                self.inner.requests.closed().await;
                if let Some(proxy) = &self.inner.proxy {
                    proxy.detach().await;
                }
            }
            is_released
        })
    }
}

impl TerminalNode {
    /// Starts the program in this process. The node ends when it is stopped or when its last handle is dropped. Agents with hooks
    /// run `relay hook SOCKET` on certain events; without a relay no hooks are installed. `taps` receive every byte first.
    ///
    /// # Errors
    /// [`SpawnError`]: nothing was started.
    pub fn start(
        spec: TerminalSpec,
        relay: Option<&Path>,
        taps: Vec<Box<dyn Tap>>,
    ) -> Result<TerminalNode, SpawnError> {
        let mut program = spec.program.clone();
        let hooks = spec.attach_hooks(relay, &mut program.argv, None);
        let backend = PtyBackend::spawn(&program, spec.size, taps, Clock::start())?;
        Ok(TerminalNode::with_backend(spec, backend, Ok(hooks), TerminalLocation::default()))
    }

    /// Creates a node over a running backend. A hosted node is detached, not stopped, when its last handle is dropped.
    pub(crate) fn with_backend(
        spec: TerminalSpec,
        backend: impl Backend,
        hooks: io::Result<Option<HookSocket>>,
        location: TerminalLocation,
    ) -> TerminalNode {
        let (requests, inbox) = mpsc::channel(256);
        let execution_log = location.execution_log();
        let output_stream = location.output_stream();
        let inner = |status| Inner {
            node: spec.node.clone(),
            program: without_proxy_env(&spec),
            ready_timeout: spec.ready_timeout,
            response_timeout: spec.response_timeout,
            kind: spec.kind,
            location,
            execution_log: execution_log.clone(),
            output_stream: output_stream.clone(),
            proxy: spec.proxy.clone(),
            ledger: spec.ledger.clone(),
            profile: spec.profile.clone(),
            parser: spec.parser,
            agent_version: spec.agent_version.clone(),
            pid: backend.pid(),
            requests: requests.clone(),
            status,
        };
        if let Some(proxy) = &spec.proxy {
            proxy.count_in(&spec.ledger);
        }
        let clock = Clock::start();
        let (status, watcher) = watch::channel(Status::starting(&spec, clock.now()));
        let inner = Arc::new(inner(watcher));
        let requests = requests.downgrade();
        runtime::actor_runtime().spawn(async move {
            let actor = Actor::new(spec, execution_log, clock, backend, requests, status);
            actor.run(hooks, inbox).await;
        });
        TerminalNode { inner }
    }

    /// Returns the path of the list of executions if writing it has failed.
    pub fn failed_execution_log(&self) -> Option<PathBuf> {
        self.inner.execution_log.as_ref().and_then(ExecutionLog::failed_path)
    }

    /// Sends a prompt, waits for the end of the turn and returns the parsed response.
    ///
    /// # Errors
    /// Blocked (with screen and choices), Timeout, Busy, Delivery, Process, NodeStopped, InvalidRequest.
    pub async fn execute(&self, prompt: Prompt) -> Result<Response, EngineError> {
        self.request(|reply| Request::Execute(RequestedTurn::new(prompt, None, reply))).await?
    }

    /// Runs a turn. The context's cancellation withdraws the prompt or interrupts its turn.
    async fn run_turn(&self, prompt: Prompt, context: &TurnContext) -> Result<Response, EngineError> {
        let (parent, node) = (context.trace_context(), &self.inner.node);
        let span = context.telemetry().begin_turn(parent, node, &prompt.text, || self.telemetry_target());
        let prompt = Prompt { trace: span.context().cloned(), ..prompt };
        let result = self.execute_metered(prompt, context).await;
        span.end(&result, || self.conversation_id());
        result
    }

    /// Focuses the node's pane in its multiplexer.
    ///
    /// # Errors
    /// InvalidRequest: the node is not in a pane, or its pane cannot be focused. Process: the multiplexer failed.
    pub async fn focus(&self) -> Result<(), EngineError> {
        self.window()?.focus().await.map_err(|error| self.pane_error(&error))
    }

    /// Returns the multiplexer's current description of the node's pane.
    ///
    /// # Errors
    /// See [`TerminalNode::focus`].
    pub async fn pane_info(&self) -> Result<PaneInfo, EngineError> {
        self.window()?.info().await.map_err(|error| self.pane_error(&error))
    }

    /// Describes the node for telemetry.
    fn telemetry_target(&self) -> TurnAttributes {
        let profile = &self.inner.profile;
        TurnAttributes {
            kind: self.inner.kind.as_str(),
            is_agent: profile.provider.is_some() || profile.composer.is_some(),
            provider: profile.provider.clone(),
            profile: Some(profile.name.clone()),
            model: None,
        }
    }

    /// Returns the id of the agent's own conversation, if it is known.
    fn conversation_id(&self) -> Option<String> {
        self.inner.status.borrow().conversation_id.clone()
    }

    async fn request<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<T>) -> Request,
    ) -> Result<T, EngineError> {
        let (reply, answer) = oneshot::channel();
        self.inner.requests.send(request(reply)).await.map_err(|_| self.stopped_error())?;
        answer.await.map_err(|_| self.stopped_error())
    }

    fn window(&self) -> Result<&Window, EngineError> {
        self.inner.location.window.as_ref().ok_or_else(|| {
            let message = format!("node '{}' runs in this process and cannot be shown in a pane", self.id());
            EngineError::invalid_request(message).hint("nodes of a server can")
        })
    }

    fn pane_error(&self, error: &PaneError) -> EngineError {
        let kind = match error {
            PaneError::NoPane(_) => ErrorKind::NotFound,
            _ => ErrorKind::Process,
        };
        EngineError::new(kind, format!("node '{}': {error}", self.id()))
            .hint("open a window: `nerve node show NODE --in tmux`")
    }

    fn stopped_error(&self) -> EngineError {
        let status = self.inner.status.borrow();
        let how = match (&status.end_reason, &status.state) {
            (Some(reason), _) => format!(": {reason}"),
            (None, AgentState::Exited(exit)) => format!(": its program ended with {exit}"),
            (None, _) => String::new(),
        };
        EngineError::new(ErrorKind::NodeStopped, format!("node '{}' is stopped{how}", self.inner.node.node))
    }

    fn wait_timeout_error(&self, states: &[NodeState], limit: Duration) -> EngineError {
        let status = self.inner.status.borrow();
        let evidence = format!("{}: {}", status.evidence.source.as_str(), status.evidence.text);
        wait_timeout_error(&self.inner.node.node, status.name(), states, limit, evidence)
    }
}

/// Returns the program without its proxy's variables: they contain a token and are generated anew for another node.
fn without_proxy_env(spec: &TerminalSpec) -> Program {
    let mut program = spec.program.clone();
    if let Some(proxy) = &spec.proxy {
        proxy.remove_env(&mut program.env);
    }
    program
}
