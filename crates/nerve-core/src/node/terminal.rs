//! The handle of a terminal node: what callers can ask of a program on a terminal (seed REQ-N4).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nerve_term::driver::{AgentState, Evidence};
use nerve_term::event::Size;
use nerve_term::parse::ParserKind;
use nerve_term::profile::session::Learn;
use nerve_term::profile::{ContextKind, Profile};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::actor::{self, Call, Request};
use super::hooks::HookSocket;
use super::{Node, NodeFuture, Quiet};
use crate::backend::pane::PaneInfo;
use crate::backend::{Backend, Memory, Program, PtyBackend, SpawnError};
use crate::cancellation::{CancellationToken, cancelled};
use crate::clock::Clock;
use crate::command::{
    BackendKind, Choice, CommandLine, Explanation, NodeInfo, NodeRef, NodeSpec, Response, StateName,
};
use crate::context::{ChunkSink, ExecutionContext};
use crate::error::{EngineError, ErrorKind};
use crate::events::Publisher;
use crate::executions::Noter;
use crate::host::registry::Entry;
use crate::proxy::{NodeProxy, SpendSink};
use crate::tap::Tap;
use crate::telemetry::{TraceContext, TurnAttributes, end_turn};

pub use super::journal::Journal;

/// A turn in which a budget is used up, and that goes on after its interrupt, is interrupted once more.
const INTERRUPT_AGAIN: Duration = Duration::from_secs(3);
/// A turn that was interrupted because a budget is used up, and goes on, is waited for so long.
const GIVE_UP: Duration = Duration::from_secs(20);

/// How a terminal node is started.
pub struct TerminalSpec {
    /// Session and id.
    pub node: NodeRef,
    /// What to run.
    pub program: Program,
    /// Size of the terminal.
    pub size: Size,
    /// What is known of the program.
    pub profile: Arc<Profile>,
    /// Parser where a turn names none.
    pub parser: ParserKind,
    /// Limit of a start.
    pub ready_timeout: Duration,
    /// Limit of a turn that names none.
    pub response_timeout: Duration,
    /// The audit log.
    pub journal: Journal,
    /// The program runs already, what it wrote before comes first, and this is what the one who drove it before left.
    pub adopted: Option<Memory>,
    /// Its questions to the terminal are answered by us; not where another terminal in front of it does.
    pub answers: bool,
    /// Where events go.
    pub events: Publisher,
    /// Kind of the node, as on the wire.
    pub kind: &'static str,
    /// The program's start is logged as a command that was run (seed channel-history §5.7).
    pub log_start: bool,
    /// Id of the agent's own conversation, where it was given one.
    pub agent_session: Option<String>,
    /// Its proxy, which runs already and ends with it.
    pub proxy: Option<NodeProxy>,
}

/// What of a node is outside this process.
#[derive(Debug, Default)]
pub(crate) struct Outside {
    /// The file in which its terminal is recorded.
    pub(crate) recording: Option<PathBuf>,
    /// What stands for that file where there is none ([`Entry::unrecorded`]).
    pub(crate) unrecorded: Option<PathBuf>,
    /// Where its terminal is, as told in its info: names and values.
    pub(crate) place: Vec<(&'static str, String)>,
}

impl Outside {
    /// Of a node in a host.
    pub(crate) fn of_host(entry: &Entry) -> Outside {
        let Entry { recording, unrecorded, .. } = entry.clone();
        Outside { recording, unrecorded, place: vec![("host", entry.id.clone())] }
    }

    fn noter(&self) -> Option<Noter> {
        match (&self.recording, &self.unrecorded) {
            (Some(recording), _) => Some(Noter::new(recording.clone())),
            (None, unrecorded) => unrecorded.clone().map(Noter::passing),
        }
    }
}

/// A program on a terminal. Cheap to clone; all clones are the same node.
#[derive(Debug, Clone)]
pub struct TerminalNode {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    node: NodeRef,
    program: Program,
    /// How long a start and a turn may take.
    limits: (Duration, Duration),
    profile: Arc<Profile>,
    parser: ParserKind,
    pid: Option<i32>,
    kind: &'static str,
    outside: Outside,
    noter: Option<Noter>,
    proxy: Option<NodeProxy>,
    requests: mpsc::Sender<Request>,
    status: watch::Receiver<Status>,
}

/// What the node's task publishes.
#[derive(Debug, Clone)]
pub(super) struct Status {
    pub(super) state: AgentState,
    pub(super) evidence: Evidence,
    pub(super) stopping: bool,
    pub(super) closed: bool,
    pub(super) title: String,
    pub(super) size: Size,
    pub(super) turns: u64,
    pub(super) queued: usize,
    pub(super) faults: Vec<String>,
    /// Why it ended, where the program's exit does not say it.
    pub(super) lost: Option<String>,
    /// Id of the agent's own conversation.
    pub(super) agent_session: Option<String>,
    /// Where its terminal is, as far as that changes: names and values.
    pub(super) place: Vec<(&'static str, String)>,
}

impl Status {
    pub(super) fn name(&self) -> StateName {
        match (&self.state, self.stopping) {
            _ if self.closed => StateName::Stopped,
            (AgentState::Exited(_), _) => StateName::Stopped,
            (_, true) => StateName::Stopping,
            (AgentState::Starting, _) => StateName::Starting,
            (AgentState::Ready, _) => StateName::Ready,
            (AgentState::Busy, _) => StateName::Busy,
            (AgentState::Blocked { .. }, _) => StateName::Blocked,
            (AgentState::Suspended { .. }, _) => StateName::Suspended,
        }
    }
}

/// A prompt for a terminal node.
#[derive(Debug, Clone)]
pub struct Prompt {
    /// The text.
    pub text: String,
    /// Parser of this turn.
    pub parser: Option<ParserKind>,
    /// Publish chunks, log `send_stream`.
    pub stream: bool,
    /// Goes with the chunks.
    pub tag: Option<u64>,
    /// Limit, waiting in the queue included.
    pub timeout: Option<Duration>,
    /// Do not queue.
    pub fail_if_busy: bool,
    /// Do not interrupt on timeout.
    pub detach_on_timeout: bool,
    /// The span of the turn: programs that are started for it are told.
    pub trace: Option<Arc<TraceContext>>,
}

/// The pieces of an answer as they come, then the response.
#[derive(Debug)]
pub struct ChunkStream {
    chunks: mpsc::UnboundedReceiver<String>,
    turn: JoinHandle<Result<Response, EngineError>>,
    cancellation: CancellationToken,
}

impl ChunkStream {
    /// The next piece; `None` when the turn has ended.
    pub async fn next(&mut self) -> Option<String> {
        self.chunks.recv().await
    }

    /// The finished turn.
    ///
    /// # Errors
    /// As [`TerminalNode::execute`].
    pub async fn response(mut self) -> Result<Response, EngineError> {
        let done = (&mut self.turn).await;
        done.unwrap_or_else(|error| Err(EngineError::new(ErrorKind::Internal, error.to_string())))
    }
}

impl Drop for ChunkStream {
    fn drop(&mut self) {
        self.cancellation.cancel();
    }
}

/// What a step gives a terminal: a text as it is, anything else as JSON.
pub(crate) fn prompt_of(input: &Value) -> String {
    match input {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

impl Node for TerminalNode {
    fn id(&self) -> &str {
        &self.inner.node.node
    }

    fn kind(&self) -> &'static str {
        self.inner.kind
    }

    fn persistent(&self) -> bool {
        true
    }

    fn execute<'a>(&'a self, context: &'a ExecutionContext) -> NodeFuture<'a> {
        Box::pin(async move { Ok(self.execute_in(context).await?.into_value()) })
    }

    fn info(&self) -> NodeInfo {
        TerminalNode::info(self)
    }

    fn meters(&self) -> bool {
        self.inner.proxy.is_some()
    }

    /// An interrupt has its effect in that time, with an agent that has one.
    fn winds_down(&self) -> Duration {
        Duration::from_secs(5)
    }

    fn stop<'a>(&'a self, reason: &'a str) -> Quiet<'a> {
        Box::pin(TerminalNode::stop(self, reason))
    }

    /// Forgets the scrollback; what an agent remembers is its own.
    fn reset(&self) -> NodeFuture<'_, ()> {
        Box::pin(self.clear_buffer())
    }

    fn interrupt(&self) -> NodeFuture<'_, ()> {
        Box::pin(TerminalNode::interrupt(self))
    }

    fn release(&self) -> Quiet<'_, bool> {
        Box::pin(TerminalNode::release(self))
    }

    fn as_terminal(&self) -> Option<&TerminalNode> {
        Some(self)
    }
}

impl TerminalNode {
    /// Starts the program in this process. The node ends when it is stopped, or with its last handle. Agents that can are told
    /// to run `relay hook SOCKET` at certain moments; without a relay, no hooks are asked for. `taps` get every byte first.
    ///
    /// # Errors
    /// [`SpawnError`]: nothing was started.
    pub fn start(
        spec: TerminalSpec,
        relay: Option<&Path>,
        taps: Vec<Box<dyn Tap>>,
    ) -> Result<TerminalNode, SpawnError> {
        let mut program = spec.program.clone();
        let hooks = HookSocket::attach_if_able(&spec, relay, &mut program.argv, None);
        let backend = PtyBackend::spawn(&program, spec.size, taps, Clock::start())?;
        Ok(TerminalNode::over(spec, backend, hooks, Outside::default()))
    }

    /// A node over a backend that runs. A node over a host is left, not stopped, when its last handle goes.
    pub(crate) fn over(
        spec: TerminalSpec,
        backend: impl Backend,
        hooks: Option<HookSocket>,
        outside: Outside,
    ) -> TerminalNode {
        let (requests, inbox) = mpsc::channel(256);
        let noter = outside.noter();
        let inner = |status| Inner {
            node: spec.node.clone(),
            program: as_asked_for(&spec),
            limits: (spec.ready_timeout, spec.response_timeout),
            kind: spec.kind,
            outside,
            noter: noter.clone(),
            proxy: spec.proxy.clone(),
            profile: spec.profile.clone(),
            parser: spec.parser,
            pid: backend.pid(),
            requests: requests.clone(),
            status,
        };
        let clock = Clock::start();
        let (status, watcher) = watch::channel(actor::first_status(&spec, clock.now()));
        let inner = Arc::new(inner(watcher));
        tokio::spawn(actor::run(spec, backend, (hooks, noter), clock, inbox, requests.downgrade(), status));
        TerminalNode { inner }
    }

    /// The list of what its agent runs, if that could not be written.
    pub fn unlisted(&self) -> Option<PathBuf> {
        self.inner.noter.as_ref().and_then(Noter::unwritten)
    }

    /// Sends a prompt, waits for the finished turn, returns it parsed.
    ///
    /// # Errors
    /// Blocked (with screen and choices), Timeout, Busy, Delivery, Process, NodeStopped, InvalidRequest.
    pub async fn execute(&self, prompt: Prompt) -> Result<Response, EngineError> {
        self.ask(|reply| Request::Execute { prompt, call: None, reply }).await?
    }

    /// The same, ended by `cancellation`: the prompt is taken back, or its turn interrupted.
    ///
    /// # Errors
    /// As [`TerminalNode::execute`]; Cancelled.
    pub async fn execute_until(
        &self,
        prompt: Prompt,
        cancellation: &CancellationToken,
    ) -> Result<Response, EngineError> {
        self.send_until(prompt, (None, None), (cancellation, cancellation)).await
    }

    /// Sends a prompt, and gives the pieces of its answer as they come (seed REQ-N4). Dropping the stream takes the prompt back.
    ///
    /// Must be called on a runtime.
    pub fn execute_stream(&self, context: ExecutionContext) -> ChunkStream {
        let (sender, chunks) = mpsc::unbounded_channel();
        let node = self.clone();
        let cancellation = context.cancellation().child();
        let context =
            context.with_cancellation(cancellation.clone()).with_chunks(Arc::new(move |chunk: &str| {
                // Nobody listens any more.
                let _ = sender.send(chunk.to_string());
            }));
        let turn = tokio::spawn(async move {
            // The context holds the sender: the chunks end with it.
            let context = context;
            node.execute_in(&context).await
        });
        ChunkStream { chunks, turn, cancellation }
    }

    /// A turn that its context can end.
    async fn execute_in(&self, context: &ExecutionContext) -> Result<Response, EngineError> {
        let chunks = context.chunks().cloned();
        let prompt = Prompt {
            text: prompt_of(&context.input),
            parser: context.parser,
            stream: chunks.is_some(),
            tag: None,
            timeout: context.timeout,
            fail_if_busy: false,
            detach_on_timeout: false,
            trace: context.trace_context().cloned(),
        };
        let telemetry = context.telemetry();
        let node = &self.inner.node;
        let span = telemetry.begin_turn(context.trace_context(), node, &prompt.text, || self.asked());
        let done = self.send_counted(prompt, chunks, context).await;
        end_turn(span, telemetry, &done, || self.agent_session());
        done
    }

    /// What the model's API is asked in the turn counts at once, where a proxy sees it: a turn in which a budget is used up is
    /// interrupted.
    async fn send_counted(
        &self,
        prompt: Prompt,
        chunks: Option<ChunkSink>,
        context: &ExecutionContext,
    ) -> Result<Response, EngineError> {
        if self.inner.proxy.is_none() {
            let cancellation = context.cancellation();
            return self.send_until(prompt, (chunks, None), (cancellation, cancellation)).await;
        }
        let stop = context.cancellation().child();
        let spend: SpendSink = {
            let (pool, stop) = (context.pool().clone(), stop.clone());
            Arc::new(move |used| {
                pool.add_usage(used);
                if pool.check(false).is_err() {
                    stop.cancel();
                }
            })
        };
        let given_up = async {
            stop.wait().await;
            tokio::time::sleep(GIVE_UP).await;
        };
        let came = tokio::select! {
            biased;
            came = self.send_until(prompt, (chunks, Some(spend)), (&stop, context.cancellation())) => came,
            () = given_up => Err(cancelled()),
        };
        match came {
            Err(error) if error.kind == ErrorKind::Cancelled && !context.cancellation().is_cancelled() => {
                context.pool().check(false).and(Err(error))
            }
            came => came,
        }
    }

    /// Until `stop`, which is the caller's own cancellation, or follows it and is a budget's too.
    async fn send_until(
        &self,
        prompt: Prompt,
        (chunks, spend): (Option<ChunkSink>, Option<SpendSink>),
        (stop, callers): (&CancellationToken, &CancellationToken),
    ) -> Result<Response, EngineError> {
        static TICKETS: AtomicU64 = AtomicU64::new(1);
        let ticket = TICKETS.fetch_add(1, Ordering::Relaxed);
        let call = Some(Call { ticket, chunks, spend });
        let turn = self.ask(|reply| Request::Execute { prompt, call, reply });
        tokio::pin!(turn);
        tokio::select! {
            biased;
            response = &mut turn => return response?,
            () = stop.wait() => {}
        }
        let response = loop {
            // An error means that the node is gone, and the turn with it.
            let _ = self.inner.requests.send(Request::Cancel { ticket }).await;
            if callers.is_cancelled() {
                // To some agents a second one means that they are to go.
                break turn.await??;
            }
            // An interrupt that comes between two commands of a line, or two requests of an agent, is lost.
            if let Ok(response) = tokio::time::timeout(INTERRUPT_AGAIN, &mut turn).await {
                break response??;
            }
        };
        if response.is_complete { Ok(response) } else { Err(cancelled()) }
    }

    /// Types bytes as they are.
    ///
    /// # Errors
    /// NodeStopped; Busy if too much waits already for a child that does not read.
    pub async fn write(&self, data: Vec<u8>) -> Result<usize, EngineError> {
        self.ask(|reply| Request::Write { data, reply }).await?
    }

    /// Types a command and Enter and does not wait for its end.
    ///
    /// # Errors
    /// As [`TerminalNode::write`].
    pub async fn run(&self, command: String) -> Result<(), EngineError> {
        self.ask(|reply| Request::Run { command, reply }).await?
    }

    /// All text, scrollback included.
    ///
    /// # Errors
    /// NodeStopped when the node is gone from memory.
    pub async fn read(&self) -> Result<String, EngineError> {
        self.ask(|reply| Request::Read { lines: None, reply }).await
    }

    /// The last `lines` rows of text.
    ///
    /// # Errors
    /// As [`TerminalNode::read`].
    pub async fn read_tail(&self, lines: usize) -> Result<String, EngineError> {
        self.ask(|reply| Request::Read { lines: Some(lines), reply }).await
    }

    /// Forgets the scrollback.
    ///
    /// # Errors
    /// NodeStopped.
    pub async fn clear_buffer(&self) -> Result<(), EngineError> {
        self.ask(|reply| Request::Clear { reply }).await
    }

    /// Interrupts what runs, the profile's way.
    ///
    /// # Errors
    /// NodeStopped.
    pub async fn interrupt(&self) -> Result<(), EngineError> {
        self.ask(|reply| Request::Interrupt { reply }).await?
    }

    /// Gives the terminal another size.
    ///
    /// # Errors
    /// NodeStopped, Internal.
    pub async fn resize(&self, size: Size) -> Result<(), EngineError> {
        self.ask(|reply| Request::Resize { size, reply }).await?
    }

    /// Picks an answer of the dialog shown. With `wait`: the response of the turn it belongs to.
    ///
    /// # Errors
    /// InvalidRequest (no dialog, no such choice), and what [`TerminalNode::execute`] says.
    pub async fn answer(
        &self,
        choice: Choice,
        wait: bool,
        timeout: Option<Duration>,
    ) -> Result<Option<Response>, EngineError> {
        self.ask(|reply| Request::Answer { choice, wait, timeout, reply }).await?
    }

    /// State, evidence and screen.
    ///
    /// # Errors
    /// NodeStopped when the node is gone from memory.
    pub async fn explain(&self) -> Result<Explanation, EngineError> {
        let mut explanation = self.ask(|reply| Request::Explain { reply }).await?;
        explanation.info = self.info();
        Ok(explanation)
    }

    /// Makes its pane the one that its window shows and types into (seed node-refactoring §4, `focus`).
    ///
    /// # Errors
    /// InvalidRequest: it is in no pane, or in one that cannot be focused. Process: the multiplexer's words.
    pub async fn focus(&self) -> Result<(), EngineError> {
        self.ask(|reply| Request::Focus { reply }).await?
    }

    /// What its multiplexer tells of its pane now (seed node-refactoring §4, `get_pane_info`).
    ///
    /// # Errors
    /// As [`TerminalNode::focus`].
    pub async fn pane_info(&self) -> Result<PaneInfo, EngineError> {
        self.ask(|reply| Request::PaneInfo { reply }).await?
    }

    /// Waits until the node is in one of `states`; answers at once when it is.
    ///
    /// # Errors
    /// Timeout; NodeStopped when it can no longer come to that.
    pub async fn wait(
        &self,
        states: &[StateName],
        timeout: Option<Duration>,
    ) -> Result<StateName, EngineError> {
        let mut status = self.inner.status.clone();
        let reached = async {
            let found = status
                .wait_for(|status| states.contains(&status.name()) || status.name() == StateName::Stopped)
                .await;
            found.map_or(StateName::Stopped, |status| status.name())
        };
        let state = match timeout {
            Some(limit) => {
                tokio::time::timeout(limit, reached).await.map_err(|_| self.still(states, limit))?
            }
            None => reached.await,
        };
        if states.contains(&state) { Ok(state) } else { Err(self.gone()) }
    }

    /// Ends the program and its process group; returns when they are gone.
    pub async fn stop(&self, reason: &str) {
        let reason = reason.to_string();
        // An error means that it is gone already.
        let _ = self.ask(|reply| Request::Stop { reason, reply }).await;
        if let Some(proxy) = &self.inner.proxy {
            proxy.end().await;
        }
    }

    /// Leaves the program running without us. `false` if it cannot: it is in this process.
    pub async fn release(&self) -> bool {
        // An error means that it is gone already: there is nothing to leave.
        let is_released = self.ask(|reply| Request::Release { reply }).await.unwrap_or(true);
        if let Some(proxy) = self.inner.proxy.as_ref().filter(|_| is_released) {
            proxy.leave().await;
        }
        is_released
    }

    /// Who is asked, for whoever tells of it.
    pub(crate) fn asked(&self) -> TurnAttributes {
        let profile = &self.inner.profile;
        TurnAttributes {
            kind: self.inner.kind,
            is_agent: profile.provider.is_some() || profile.composer.is_some(),
            provider: profile.provider.clone(),
            profile: Some(profile.name.clone()),
            model: None,
        }
    }

    /// What its program makes of what was said before.
    pub(crate) fn context_kind(&self) -> ContextKind {
        self.inner.profile.context_kind()
    }

    /// What is known of it.
    pub fn info(&self) -> NodeInfo {
        let status = self.inner.status.borrow();
        let inner = &self.inner;
        let mut metadata = BTreeMap::from([
            ("command".to_string(), shell_words::join(&inner.program.argv)),
            ("profile".to_string(), inner.profile.name.clone()),
            ("parser".to_string(), inner.parser.to_string()),
            ("cols".to_string(), status.size.cols.to_string()),
            ("rows".to_string(), status.size.rows.to_string()),
            ("turns".to_string(), status.turns.to_string()),
            (
                "evidence".to_string(),
                format!("{}: {}", status.evidence.source.as_str(), status.evidence.text),
            ),
        ]);
        let mut add =
            |key: &str, value: Option<String>| value.map(|value| metadata.insert(key.to_string(), value));
        add("cwd", inner.program.cwd.as_ref().map(|cwd| cwd.display().to_string()));
        add("pid", inner.pid.map(|pid| pid.to_string()));
        add("title", (!status.title.is_empty()).then(|| status.title.clone()));
        add("faults", (!status.faults.is_empty()).then(|| status.faults.join("; ")));
        add("recording", inner.outside.recording.as_ref().map(|path| path.display().to_string()));
        for (name, value) in inner.outside.place.iter().chain(&status.place) {
            add(name, Some(value.clone()));
        }
        for (name, value) in inner.proxy.iter().flat_map(NodeProxy::facts) {
            add(name, Some(value));
        }
        add("agent_session", status.agent_session.clone());
        let is_claude =
            inner.profile.session.as_ref().is_some_and(|forms| forms.learn == Some(Learn::Claude));
        add("claude_session_id", status.agent_session.clone().filter(|_| is_claude));
        add("queued", (status.queued > 0).then(|| status.queued.to_string()));
        match &status.state {
            AgentState::Blocked { kind, .. } => drop(add("blocked", Some(kind.as_str().to_string()))),
            AgentState::Suspended { .. } => drop(add("until", status.state.until_text())),
            AgentState::Exited(exit) => drop(add("exit", Some(exit.to_string()))),
            _ => {}
        }
        NodeInfo {
            id: inner.node.node.clone(),
            session: inner.node.session.clone().unwrap_or_default(),
            kind: inner.kind,
            state: status.name(),
            persistent: true,
            metadata,
        }
    }

    /// Id of the agent's own conversation, as far as it is known.
    pub(crate) fn agent_session(&self) -> Option<String> {
        self.inner.status.borrow().agent_session.clone()
    }

    /// It has a proxy of which nobody knows any more what it was to be.
    pub(crate) fn has_unknown_proxy(&self) -> bool {
        self.inner.proxy.as_ref().is_some_and(|proxy| proxy.spec().is_none())
    }

    /// Process id of its program, where it is known.
    pub(crate) fn pid(&self) -> Option<i32> {
        self.inner.pid
    }

    /// What it takes to make another one like it, as far as it shows: where no definition says more.
    pub(crate) fn as_definition(&self) -> NodeSpec {
        let inner = &self.inner;
        let backend = BackendKind::parse(inner.kind).unwrap_or(BackendKind::Pty);
        let command = CommandLine::Argv(inner.program.argv.clone());
        NodeSpec {
            cwd: inner.program.cwd.clone(),
            env: inner.program.env.clone(),
            size: inner.status.borrow().size,
            profile: Some(inner.profile.name.clone()),
            parser: Some(inner.parser),
            ready_timeout: inner.limits.0,
            response_timeout: inner.limits.1,
            proxy: inner.proxy.as_ref().and_then(|proxy| proxy.spec().cloned()).map(Box::new),
            ..NodeSpec::new(inner.node.clone(), backend, command)
        }
    }

    async fn ask<T>(&self, request: impl FnOnce(oneshot::Sender<T>) -> Request) -> Result<T, EngineError> {
        let (reply, answer) = oneshot::channel();
        self.inner.requests.send(request(reply)).await.map_err(|_| self.gone())?;
        answer.await.map_err(|_| self.gone())
    }

    fn gone(&self) -> EngineError {
        let status = self.inner.status.borrow();
        let how = match status.state {
            _ if status.lost.is_some() => {
                status.lost.as_ref().map(|lost| format!(": {lost}")).unwrap_or_default()
            }
            AgentState::Exited(exit) => format!(": its program ended with {exit}"),
            _ => String::new(),
        };
        EngineError::new(ErrorKind::NodeStopped, format!("node '{}' is stopped{how}", self.inner.node.node))
    }

    fn still(&self, states: &[StateName], limit: Duration) -> EngineError {
        let wanted: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
        let status = self.inner.status.borrow();
        let (id, now) = (&self.inner.node.node, status.name().as_str());
        let message = format!("node '{id}' is still {now}, not {}, after {:?}", wanted.join(" or "), limit);
        let why = format!("{}: {}", status.evidence.source.as_str(), status.evidence.text);
        EngineError::new(ErrorKind::Timeout, message).hint(why)
    }
}

/// The program without what it was given for its proxy: that has a token in it, and is made anew for another node.
fn as_asked_for(spec: &TerminalSpec) -> Program {
    let mut program = spec.program.clone();
    if let Some(proxy) = &spec.proxy {
        proxy.take_out(&mut program.env);
    }
    program
}
