//! One-shot commands: each execute runs its own `bash -c`, without a terminal and without state in between.
//!
//! Exit code 0 means success. A timeout or an interrupt kills the whole process group.

mod chunks;
mod tail;

use std::future::ready;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nerve_agent::parse::{Section, SectionKind};
use nerve_agent::profile::ContextKind;
use nerve_api::event::EventKind;
use nerve_api::reply::{NodeExplanation, NodeInfo, NodeMetadata, NodeProgress};
use nerve_api::request::NodeRef;
use nerve_api::value::{Delivery, NodeState, ResponseSource, SignalSource, StopCause};
use nerve_host::clock::{Clock, MAX_TIMEOUT};
use nerve_host::environment::Environment;
use nerve_record::history::ResponseData;
use nerve_types::TimeSpan;
use nerve_types::os::kill_with_parent;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Map;
use tokio::process::{Child, Command};
use tokio::sync::futures::Notified;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use self::chunks::ChunkPublisher;
use self::tail::OutputTail;
use super::{BoxFuture, Node, NodeFuture, ToolKind};
use crate::audit_log::AuditLog;
use crate::cancellation::cancelled;
use crate::context::TurnContext;
use crate::dialog_answer::DialogAnswer;
use crate::error::{EngineError, ErrorKind};
use crate::events::Publisher;
use crate::prompt::Prompt;
use crate::response::Response;
use crate::telemetry::TurnAttributes;
use crate::turn_state::{StateEvidence, TurnState};
use crate::usage_ledger::{ReachedLimit, UsageLedger};

/// Timeout of a command that sets none.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// Time to read output after the command's exit: another process may hold the pipes open.
const DRAIN_TIME: Duration = Duration::from_millis(500);

/// Evidence of the node's states.
const EVIDENCE: StateEvidence = StateEvidence {
    busy: (SignalSource::Input, "input: a command runs"),
    ready: (SignalSource::Unknown, "exit: the command ended"),
};

/// A node that runs one command at a time. Cheap to clone.
#[derive(Debug, Clone)]
pub struct BashNode {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    state: Arc<TurnState>,
    cwd: Option<PathBuf>,
    environment: Environment,
    clock: Clock,
    audit_log: Mutex<AuditLog>,
    /// Prompts take the write lock. Steps of graphs share the read lock: they keep no state and can run at once.
    turn: tokio::sync::RwLock<()>,
    timeout: Duration,
}

impl Node for BashNode {
    fn id(&self) -> &str {
        &self.inner.state.node.node
    }

    fn kind(&self) -> &'static str {
        "bash"
    }

    fn execute<'a>(&'a self, context: &'a TurnContext) -> NodeFuture<'a> {
        Box::pin(async move {
            // Chunks of a command are published only for prompts.
            let prompt = Prompt { stream: false, ..Prompt::from_context(context) };
            Ok(self.run_turn(prompt, context, TurnLock::Shared).await?.into_value())
        })
    }

    fn turn(&self, prompt: Prompt, context: TurnContext) -> NodeFuture<'_, Response> {
        Box::pin(async move { self.run_turn(prompt, &context, TurnLock::Exclusive).await })
    }

    fn wait<'a>(&'a self, states: &'a [NodeState], limit: Option<Duration>) -> NodeFuture<'a, NodeState> {
        Box::pin(self.inner.state.wait(states, limit))
    }

    fn context_kind(&self) -> ContextKind {
        ContextKind::Commands
    }

    fn tool_kind(&self) -> Option<ToolKind> {
        Some(ToolKind::Command)
    }

    fn info(&self) -> NodeInfo {
        let inner = &self.inner;
        let mut metadata = NodeMetadata::new(inner.state.node.session.clone());
        metadata.set("turns", inner.state.turns());
        metadata.set_some("cwd", inner.cwd.as_ref().map(|cwd| cwd.display().to_string()));
        metadata.set_some("blocked", inner.state.block_kind());
        let ledger = &inner.state.ledger;
        let budget = ledger.limits().map(|_| ledger.status());
        NodeInfo {
            node_id: self.id().to_string(),
            kind: self.kind().to_string(),
            state: inner.state.current(),
            persistent: false,
            approximate: false,
            progress: NodeProgress { budget, ..NodeProgress::default() },
            metadata,
        }
    }

    fn answer(&self, answer: DialogAnswer) -> NodeFuture<'_, Option<Response>> {
        let Inner { state, clock, audit_log, .. } = &*self.inner;
        Box::pin(ready(state.answer_budget(&answer, clock.now(), audit_log).map(|()| None)))
    }

    fn explain(&self) -> NodeFuture<'_, NodeExplanation> {
        Box::pin(ready(Ok(self.inner.state.explain(self.info(), String::new()))))
    }

    fn ledger(&self) -> Option<&UsageLedger> {
        Some(&self.inner.state.ledger)
    }

    /// Allows half a second for the killed group to exit, half a second for its output, and a margin.
    fn cancel_grace(&self) -> Duration {
        4 * DRAIN_TIME
    }

    /// Kills a running command with its group. Returns when the node is gone, even if another caller stopped it.
    fn stop<'a>(&'a self, reason: &'a str) -> BoxFuture<'a> {
        Box::pin(async move {
            let inner = &self.inner;
            inner.state.begin_stop();
            // The turn lock is free once the command is gone.
            let _turn = inner.turn.write().await;
            if inner.state.current() != NodeState::Stopped {
                inner.audit_log.lock().close(inner.clock.now(), Some(reason), String::new);
                inner.state.end_stop(reason, StopCause::Requested);
            }
        })
    }

    /// Kills the running command, if there is one. Returns when it is gone.
    fn interrupt(&self) -> NodeFuture<'_, ()> {
        Box::pin(self.inner.state.interrupt())
    }
}

/// The lock that a turn takes on the node.
#[derive(Clone, Copy)]
enum TurnLock {
    /// Steps of graphs run at the same time: they keep no state.
    Shared,
    /// A prompt runs alone.
    Exclusive,
}

/// The result of one command.
struct CommandResult {
    code: Option<i32>,
    stdout: OutputTail,
    stderr: OutputTail,
    end_reason: EndReason,
}

#[derive(PartialEq)]
enum EndReason {
    Exited,
    TimedOut,
    Interrupted,
    /// A limit of the budget was reached.
    OverBudget(ReachedLimit),
}

impl BashNode {
    /// Creates a node that is ready at once.
    pub fn new(
        node: NodeRef,
        cwd: Option<PathBuf>,
        environment: Environment,
        audit_log: AuditLog,
        events: Publisher,
        ledger: UsageLedger,
    ) -> BashNode {
        BashNode {
            inner: Arc::new(Inner {
                state: TurnState::new(node, events, EVIDENCE, ledger),
                cwd,
                environment,
                clock: Clock::start(),
                audit_log: Mutex::new(audit_log),
                turn: tokio::sync::RwLock::new(()),
                timeout: DEFAULT_TIMEOUT,
            }),
        }
    }

    /// Sets the timeout of commands that set none. Call it before the node is cloned.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> BashNode {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.timeout = timeout;
        }
        self
    }

    /// Runs a command and returns its output. A failing command is a response with its exit code, not an error.
    ///
    /// A command ends when its `bash` exits. Processes that it left in the background run on, and their output counts only for
    /// another half second.
    async fn run_turn(
        &self,
        prompt: Prompt,
        context: &TurnContext,
        lock: TurnLock,
    ) -> Result<Response, EngineError> {
        let (telemetry, node) = (context.telemetry(), &self.inner.state.node);
        let span =
            telemetry.begin_turn(context.trace_context(), node, &prompt.text, BashNode::telemetry_target);
        let prompt = Prompt { trace: span.context().cloned(), ..prompt };
        let cancellation = context.cancellation();
        let result = match lock {
            TurnLock::Shared => self.run_shared(prompt, cancellation).await,
            TurnLock::Exclusive => self.run_exclusive(prompt, cancellation).await,
        };
        let result = match result {
            Err(error) if cancellation.is_cancelled() && error.kind == ErrorKind::Interrupted => {
                Err(cancelled())
            }
            result => result,
        };
        span.end(&result, || None);
        result
    }

    /// Waits until no command runs, then runs one.
    async fn run_exclusive(
        &self,
        prompt: Prompt,
        cancellation: &CancellationToken,
    ) -> Result<Response, EngineError> {
        let inner = &self.inner;
        let deadline = self.deadline(&prompt);
        let _turn = match inner.turn.try_write() {
            Ok(turn) => turn,
            Err(_) if prompt.fail_if_busy => {
                return Err(self.inner.state.error(ErrorKind::Busy, "another command is running"));
            }
            Err(_) => {
                let turn = tokio::select! {
                    turn = tokio::time::timeout_at(deadline, inner.turn.write()) => turn,
                    () = cancellation.cancelled() => return Err(cancelled()),
                };
                turn.map_err(|_| self.start_timeout_error())?
            }
        };
        self.run_timed(prompt, deadline, cancellation).await
    }

    /// Waits until no prompt holds the lock exclusively, then runs a command.
    async fn run_shared(
        &self,
        prompt: Prompt,
        cancellation: &CancellationToken,
    ) -> Result<Response, EngineError> {
        let deadline = self.deadline(&prompt);
        let turn = tokio::select! {
            turn = tokio::time::timeout_at(deadline, self.inner.turn.read()) => turn,
            () = cancellation.cancelled() => return Err(cancelled()),
        };
        let _turn = turn.map_err(|_| self.start_timeout_error())?;
        self.run_timed(prompt, deadline, cancellation).await
    }

    /// Describes the node for telemetry.
    fn telemetry_target() -> TurnAttributes {
        TurnAttributes { kind: "bash", ..TurnAttributes::default() }
    }

    fn deadline(&self, prompt: &Prompt) -> Instant {
        Instant::now() + prompt.timeout.unwrap_or(self.inner.timeout).min(MAX_TIMEOUT)
    }

    fn start_timeout_error(&self) -> EngineError {
        self.inner
            .state
            .error(ErrorKind::Timeout, "timed out before the command was started: another one is running")
    }

    /// Runs a command. The caller holds the turn lock.
    async fn run_timed(
        &self,
        prompt: Prompt,
        deadline: Instant,
        cancellation: &CancellationToken,
    ) -> Result<Response, EngineError> {
        let mut timer = self.inner.state.events.begin_turn("bash");
        let result = self.run_locked(prompt, deadline, cancellation).await;
        timer.end(&result);
        result
    }

    async fn run_locked(
        &self,
        prompt: Prompt,
        deadline: Instant,
        cancellation: &CancellationToken,
    ) -> Result<Response, EngineError> {
        let inner = &self.inner;
        let has_limit = prompt.timeout.is_some();
        let deadline = inner.state.await_budget(prompt.at_dialog, cancellation, deadline, has_limit).await?;
        // Registered before the node becomes busy, so that a busy node can always be interrupted.
        let interrupted = inner.state.interrupted();
        let turn = inner.state.begin_turn()?;
        let number = turn.number;
        let started = inner.clock.now();
        let result = {
            let _work = inner.state.ledger.begin_work();
            self.run(number, &prompt, deadline, pin!(interrupted), cancellation).await
        };
        // Logged before the node is ready again, so that waiters find the entry in the history.
        let answer =
            self.respond(number, &prompt, result?, TimeSpan { start: started, end: inner.clock.now() });
        // Before the end of the turn: a node at a limit is blocked then, not ready.
        inner.state.refresh_limit();
        drop(turn);
        answer
    }

    async fn run(
        &self,
        turn: u64,
        prompt: &Prompt,
        deadline: Instant,
        mut interrupted: Pin<&mut Notified<'_>>,
        cancellation: &CancellationToken,
    ) -> Result<CommandResult, EngineError> {
        let mut child = self.spawn(prompt).map_err(|error| self.spawn_error(&error))?;
        // A caller that drops this future must not leave the group running.
        let mut group = ProcessGroup(child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())));
        let (mut stdout, mut stderr) = (OutputTail::default(), OutputTail::default());
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let mut chunks = prompt.stream.then(|| ChunkPublisher::new(self.chunk_sink(turn, prompt)));
        let mut stopping = pin!(self.inner.state.stopping());
        let mut over_budget = pin!(self.inner.state.ledger.limit_reached());
        let (end_reason, status) = {
            let mut pipes =
                pin!(async { tokio::join!(stdout.collect(out, chunks.as_mut()), stderr.read_to_end(err)) });
            let mut drained = false;
            let (end_reason, status) = loop {
                tokio::select! {
                    // A command that has ended is not reported as stopped by a limit: it would run again after the answer.
                    biased;
                    status = child.wait() => break (EndReason::Exited, Some(status)),
                    _ = &mut pipes, if !drained => drained = true,
                    () = sleep_until(deadline) => break (EndReason::TimedOut, None),
                    () = &mut interrupted => break (EndReason::Interrupted, None),
                    () = cancellation.cancelled() => break (EndReason::Interrupted, None),
                    () = &mut stopping => break (EndReason::Interrupted, None),
                    reached = &mut over_budget => break (EndReason::OverBudget(reached), None),
                }
            };
            let status = match status {
                Some(status) => Some(status),
                None => group.end(&mut child).await,
            };
            // The group's id may be reused from now on.
            group.0 = None;
            if !drained {
                // On a timeout, the output is the part read so far.
                let _ = timeout(DRAIN_TIME, pipes).await;
            }
            (end_reason, status)
        };
        if let Some(chunks) = chunks {
            chunks.end();
        }
        let status = status.transpose().map_err(|error| self.spawn_error(&error))?;
        Ok(CommandResult { code: status.and_then(|status| status.code()), stdout, stderr, end_reason })
    }

    /// Returns a sink that publishes the chunks of a turn.
    fn chunk_sink(&self, turn: u64, prompt: &Prompt) -> impl FnMut(String) + use<> {
        let (inner, tag) = (Arc::clone(&self.inner), prompt.tag);
        move |chunk| inner.state.publish(EventKind::OutputChunk { turn, chunk, request_id: None, tag })
    }

    fn spawn(&self, prompt: &Prompt) -> std::io::Result<Child> {
        let mut command = Command::new("bash");
        command.arg("-c").arg(&*prompt.text).process_group(0).kill_on_drop(true);
        let Environment { set, remove, .. } = &self.inner.environment;
        for name in remove {
            command.env_remove(name);
        }
        command.envs(set);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(cwd) = &self.inner.cwd {
            command.current_dir(cwd);
        }
        if let Some(trace) = &prompt.trace {
            command.envs(trace.variables());
        }
        kill_with_parent(&mut command)?;
        command.spawn()
    }

    /// Logs a command and converts its result to a response, or to an error if it was killed.
    fn respond(
        &self,
        turn: u64,
        prompt: &Prompt,
        result: CommandResult,
        time: TimeSpan,
    ) -> Result<Response, EngineError> {
        let (stdout, stderr) = (result.stdout.text(), result.stderr.text());
        let mut attributes = Map::new();
        attributes.insert("exit_code".into(), result.code.into());
        attributes.insert("interrupted".into(), (result.end_reason == EndReason::Interrupted).into());
        attributes.insert("stdout".into(), (*stdout).into());
        attributes.insert("stderr".into(), (*stderr).into());
        if let Some(truncated) = result.truncated() {
            attributes.insert("truncated".into(), truncated.into());
        }
        let sections = vec![Section::new(SectionKind::Text, stdout.trim_end())];
        self.inner.state.events.metrics().add_output(result.stdout.total() + result.stderr.total());
        let is_complete = result.end_reason == EndReason::Exited;
        let streamed = (prompt.stream && is_complete).then_some(&*stdout);
        let data = ResponseData { sections: sections.clone(), tokens: None, is_complete, is_ready: true };
        self.inner.audit_log.lock().log_answer(&prompt.text, time, data, None, streamed);
        let state = &self.inner.state;
        let failure = match &result.end_reason {
            EndReason::TimedOut => {
                Some(state.error(ErrorKind::Timeout, "the command timed out and was killed"))
            }
            EndReason::Interrupted => {
                Some(state.error(ErrorKind::Interrupted, "the command was interrupted"))
            }
            EndReason::OverBudget(reached) => Some(reached.error(&state.node)),
            EndReason::Exited => None,
        };
        if let Some(error) = failure {
            return Err(error.with_text(stdout.trim_end()));
        }
        let missing = result.stdout.omitted();
        Ok(Response {
            node: self.id().to_string(),
            turn,
            raw: format!("{stdout}{stderr}"),
            text: stdout.trim_end().to_string(),
            sections,
            tokens: None,
            usage: None,
            is_complete: true,
            is_ready: true,
            is_agent: false,
            missing_text: (missing > 0).then(|| format!("its first {missing} bytes are left out")),
            source: ResponseSource::Process,
            delivery: Delivery::Started,
            ended_by: EVIDENCE.ready.1.into(),
            bytes: 0..result.stdout.total() + result.stderr.total(),
            time,
            attributes,
            warnings: Vec::new(),
        })
    }

    fn spawn_error(&self, error: &std::io::Error) -> EngineError {
        self.inner.state.error(ErrorKind::Process, &format!("cannot run bash: {error}"))
    }
}

impl CommandResult {
    /// Describes the output that the response omits.
    fn truncated(&self) -> Option<String> {
        let describe = |name: &str, tail: &OutputTail| {
            let bytes = tail.omitted();
            (bytes > 0).then(|| format!("the first {bytes} bytes of {name}"))
        };
        let parts: Vec<String> = [describe("stdout", &self.stdout), describe("stderr", &self.stderr)]
            .into_iter()
            .flatten()
            .collect();
        (!parts.is_empty()).then(|| format!("{} are left out", parts.join(" and ")))
    }
}

/// Kills a process group on drop, unless it has ended by itself.
struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    /// Kills the group and waits at most [`DRAIN_TIME`] for its leader. A process that hangs in the kernel is not waited for.
    async fn end(&mut self, child: &mut Child) -> Option<std::io::Result<ExitStatus>> {
        self.kill();
        timeout(DRAIN_TIME, child.wait()).await.ok()
    }

    fn kill(&mut self) {
        if let Some(group) = self.0.take() {
            // An error means that the group is gone already.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}
