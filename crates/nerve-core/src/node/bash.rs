//! One-shot commands: each execute is a `bash -c` of its own, no terminal, no state between them.
//!
//! Success is exit code 0. Timeout and interrupt reach the whole process group (facts: agent capabilities, bash node).

mod chunks;
mod tail;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nerve_term::event::TsNs;
use nerve_term::parse::{ParserKind, Section, SectionKind, Tokens};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};

use nerve_record::history::{HISTORY_BUFFER_LINES, ResponseData, SendEntry, SendStreamEntry};

use self::chunks::Chunks;
use self::tail::Tail;
use super::terminal::{Prompt, prompt_of};
use super::{Node, NodeFuture, Quiet};
use crate::backend::os::kill_with_parent;
use crate::cancellation::{CancellationToken, cancelled};
use crate::clock::{Clock, FAR};
use crate::command::{EventKind, NodeInfo, NodeRef, Response, StateName};
use crate::context::ExecutionContext;
use crate::error::{EngineError, ErrorKind};
use crate::events::Publisher;
use crate::node::terminal::Journal;
use crate::telemetry::{TurnAttributes, end_turn};

/// Limit of a command that names none (facts).
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the output of a command that is gone is waited for: another process may hold the pipes open.
const DRAIN: Duration = Duration::from_millis(500);

/// Evidence of a busy node.
const RUNS: &str = "input: a command runs";
/// Evidence of a ready node.
const ENDED: &str = "exit: the command ended";

/// A node that runs one command at a time. Cheap to clone.
#[derive(Debug, Clone)]
pub struct BashNode {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    node: NodeRef,
    cwd: Option<PathBuf>,
    env: BTreeMap<String, String>,
    clock: Clock,
    events: Publisher,
    journal: Mutex<Journal>,
    state: watch::Sender<StateName>,
    turns: AtomicU64,
    /// Prompts have it alone; steps of graphs share it: they keep no state, and so can run at once.
    turn: tokio::sync::RwLock<()>,
    running: AtomicU64,
    interrupt: Notify,
    timeout: Duration,
}

impl Node for BashNode {
    fn id(&self) -> &str {
        &self.inner.node.node
    }

    fn kind(&self) -> &'static str {
        "bash"
    }

    fn execute<'a>(&'a self, context: &'a ExecutionContext) -> NodeFuture<'a> {
        Box::pin(async move {
            let done = self.execute_in(context).await;
            let by_its_context = context.cancellation().is_cancelled();
            match done {
                Err(error) if by_its_context && error.kind == ErrorKind::Interrupted => Err(cancelled()),
                done => Ok(done?.into_value()),
            }
        })
    }

    fn info(&self) -> NodeInfo {
        BashNode::info(self)
    }

    /// A killed group is waited for half a second, and its output as long again.
    fn winds_down(&self) -> Duration {
        4 * DRAIN
    }

    fn stop<'a>(&'a self, reason: &'a str) -> Quiet<'a> {
        Box::pin(BashNode::stop(self, reason))
    }

    fn interrupt(&self) -> NodeFuture<'_, ()> {
        BashNode::interrupt(self);
        Box::pin(async { Ok(()) })
    }

    fn as_bash(&self) -> Option<&BashNode> {
        Some(self)
    }
}

/// What came of one command.
struct Ran {
    code: Option<i32>,
    stdout: Tail,
    stderr: Tail,
    ended: Ended,
}

#[derive(PartialEq)]
enum Ended {
    Exited,
    TimedOut,
    Interrupted,
}

impl BashNode {
    /// A node that is ready at once.
    pub fn new(
        node: NodeRef,
        cwd: Option<PathBuf>,
        env: BTreeMap<String, String>,
        journal: Journal,
        events: Publisher,
    ) -> BashNode {
        BashNode {
            inner: Arc::new(Inner {
                node,
                cwd,
                env,
                clock: Clock::start(),
                events,
                journal: Mutex::new(journal),
                state: watch::Sender::new(StateName::Ready),
                turns: AtomicU64::new(0),
                turn: tokio::sync::RwLock::new(()),
                running: AtomicU64::new(0),
                interrupt: Notify::new(),
                timeout: DEFAULT_TIMEOUT,
            }),
        }
    }

    /// The same with another limit of commands that name none. For a node that nobody has a handle of yet.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> BashNode {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.timeout = timeout;
        }
        self
    }

    /// Runs a command and returns its output. A failing command is a response with its exit code, not an error.
    ///
    /// A command has ended when its `bash` has: what it left running in the background runs on, and of its output what comes
    /// within half a second still counts.
    ///
    /// # Errors
    /// Timeout (the group is killed), Interrupted, Busy, NodeStopped, Process.
    pub async fn execute(&self, prompt: Prompt) -> Result<Response, EngineError> {
        self.execute_until(prompt, &CancellationToken::new()).await
    }

    /// The same, ended by `cancellation`.
    ///
    /// # Errors
    /// As [`BashNode::execute`]; Cancelled.
    pub async fn execute_until(
        &self,
        prompt: Prompt,
        cancellation: &CancellationToken,
    ) -> Result<Response, EngineError> {
        let inner = &self.inner;
        let deadline = self.deadline(&prompt);
        let _turn = match inner.turn.try_write() {
            Ok(turn) => turn,
            Err(_) if prompt.fail_if_busy => return Err(self.error(ErrorKind::Busy, "runs another command")),
            Err(_) => {
                let turn = tokio::select! {
                    turn = tokio::time::timeout_at(deadline, inner.turn.write()) => turn,
                    () = cancellation.wait() => return Err(cancelled()),
                };
                turn.map_err(|_| self.not_in_time())?
            }
        };
        let done = self.take_turn(prompt, deadline, cancellation).await;
        match done {
            Err(error) if cancellation.is_cancelled() && error.kind == ErrorKind::Interrupted => {
                Err(cancelled())
            }
            done => done,
        }
    }

    /// A command beside others, which its context can end.
    async fn execute_in(&self, context: &ExecutionContext) -> Result<Response, EngineError> {
        let prompt = Prompt {
            text: prompt_of(&context.input),
            parser: None,
            stream: false,
            tag: None,
            timeout: context.timeout,
            fail_if_busy: false,
            detach_on_timeout: false,
            trace: None,
        };
        let (telemetry, node) = (context.telemetry(), &self.inner.node);
        let span = telemetry.begin_turn(context.trace_context(), node, &prompt.text, BashNode::asked);
        let prompt = Prompt { trace: span.context().cloned(), ..prompt };
        let done = self.share_turn(prompt, context).await;
        end_turn(span, telemetry, &done, || None);
        done
    }

    /// Waits until no prompt has it alone, and runs a command.
    async fn share_turn(&self, prompt: Prompt, context: &ExecutionContext) -> Result<Response, EngineError> {
        let deadline = self.deadline(&prompt);
        let turn = tokio::select! {
            turn = tokio::time::timeout_at(deadline, self.inner.turn.read()) => turn,
            () = context.cancellation().wait() => return Err(cancelled()),
        };
        let _turn = turn.map_err(|_| self.not_in_time())?;
        self.take_turn(prompt, deadline, context.cancellation()).await
    }

    /// Who is asked, for whoever tells of it.
    pub(crate) fn asked() -> TurnAttributes {
        TurnAttributes { kind: "bash", ..TurnAttributes::default() }
    }

    fn deadline(&self, prompt: &Prompt) -> Instant {
        Instant::now() + prompt.timeout.unwrap_or(self.inner.timeout).min(FAR)
    }

    fn not_in_time(&self) -> EngineError {
        self.error(ErrorKind::Timeout, "the command was not started in time: another runs")
    }

    /// Runs a command; the turn is ours.
    async fn take_turn(
        &self,
        prompt: Prompt,
        deadline: Instant,
        cancellation: &CancellationToken,
    ) -> Result<Response, EngineError> {
        let mut metered = self.inner.events.begin_turn("bash");
        let done = self.do_turn(prompt, deadline, cancellation).await;
        metered.end(&done);
        done
    }

    async fn do_turn(
        &self,
        prompt: Prompt,
        deadline: Instant,
        cancellation: &CancellationToken,
    ) -> Result<Response, EngineError> {
        let inner = &self.inner;
        // Counts from here on: who sees the node busy can interrupt it.
        let interrupted = inner.interrupt.notified();
        let number = self.begin()?;
        let running = Running(self.clone());
        let started = inner.clock.now();
        let ran = self.run(number, &prompt, deadline, pin!(interrupted), cancellation).await;
        // In the history before the node is ready again: who waits for that finds it there.
        let answer = self.respond(number, &prompt, ran?, (started, inner.clock.now()));
        drop(running);
        answer
    }

    /// Ends the running command, if there is one.
    pub fn interrupt(&self) {
        self.inner.interrupt.notify_waiters();
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
            Some(limit) => timeout(limit, reached).await.map_err(|_| self.still(states, limit))?,
            None => reached.await,
        };
        if states.contains(&state) { Ok(state) } else { Err(self.gone()) }
    }

    /// Stops the node; a running command is ended with its group. Returns when it is gone, whoever stopped it first.
    pub async fn stop(&self, reason: &str) {
        let inner = &self.inner;
        inner.state.send_if_modified(|state| {
            let lives = matches!(state, StateName::Ready | StateName::Busy);
            if lives {
                *state = StateName::Stopping;
            }
            lives
        });
        // The turn's lock is free once the command is gone.
        let _turn = inner.turn.write().await;
        if self.state() == StateName::Stopped {
            return;
        }
        self.journal().closed(inner.clock.now(), Some(reason), String::new);
        inner.state.send_replace(StateName::Stopped);
        inner.events.publish(Some(&inner.node), EventKind::NodeStopped { reason: reason.to_string() });
    }

    /// What is known of it.
    pub fn info(&self) -> NodeInfo {
        let inner = &self.inner;
        let turns = inner.turns.load(Ordering::Relaxed);
        let mut metadata = BTreeMap::from([("turns".to_string(), turns.to_string())]);
        if let Some(cwd) = &inner.cwd {
            metadata.insert("cwd".into(), cwd.display().to_string());
        }
        let (id, session) = (inner.node.node.clone(), inner.node.session.clone().unwrap_or_default());
        NodeInfo { id, session, kind: "bash", state: self.state(), persistent: false, metadata }
    }

    fn state(&self) -> StateName {
        *self.inner.state.borrow()
    }

    /// Takes up a turn; the lock is held.
    fn begin(&self) -> Result<u64, EngineError> {
        let inner = &self.inner;
        let mut gone = false;
        let begun = inner.state.send_if_modified(|state| {
            gone = !matches!(state, StateName::Ready | StateName::Busy);
            if !gone {
                inner.running.fetch_add(1, Ordering::Relaxed);
            }
            let ready = *state == StateName::Ready;
            if ready {
                *state = StateName::Busy;
            }
            ready
        });
        if gone {
            return Err(self.gone());
        }
        if begun {
            let evidence = RUNS.to_string();
            inner.events.publish(Some(&inner.node), EventKind::NodeBusy { evidence });
        }
        Ok(inner.turns.fetch_add(1, Ordering::Relaxed) + 1)
    }

    async fn run(
        &self,
        turn: u64,
        prompt: &Prompt,
        deadline: Instant,
        mut interrupted: Pin<&mut Notified<'_>>,
        cancellation: &CancellationToken,
    ) -> Result<Ran, EngineError> {
        let mut child = self.spawn(prompt).map_err(|error| self.not_run(&error))?;
        // A caller that leaves must not leave the group behind.
        let mut group = Group(child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())));
        let (mut stdout, mut stderr) = (Tail::default(), Tail::default());
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let mut chunks = prompt.stream.then(|| Chunks::new(self.publish_chunks(turn, prompt)));
        let mut stopping = self.inner.state.subscribe();
        let (ended, status) = {
            let mut pipes =
                pin!(async { tokio::join!(stdout.collect(out, chunks.as_mut()), stderr.read_to_end(err)) });
            let mut drained = false;
            let (ended, status) = loop {
                tokio::select! {
                    _ = &mut pipes, if !drained => drained = true,
                    status = child.wait() => break (Ended::Exited, Some(status)),
                    () = sleep_until(deadline) => break (Ended::TimedOut, None),
                    () = &mut interrupted => break (Ended::Interrupted, None),
                    () = cancellation.wait() => break (Ended::Interrupted, None),
                    _ = stopping.wait_for(|state| *state != StateName::Busy) => break (Ended::Interrupted, None),
                }
            };
            let status = match status {
                Some(status) => Some(status),
                None => group.end(&mut child).await,
            };
            // The group's number can be another's from now on.
            group.0 = None;
            if !drained {
                // Not in time: what was read so far is the output.
                let _ = timeout(DRAIN, pipes).await;
            }
            (ended, status)
        };
        if let Some(chunks) = chunks {
            chunks.end();
        }
        let status = status.transpose().map_err(|error| self.not_run(&error))?;
        Ok(Ran { code: status.and_then(|status| status.code()), stdout, stderr, ended })
    }

    /// What is done with the chunks of a turn.
    fn publish_chunks(&self, turn: u64, prompt: &Prompt) -> impl FnMut(String) + use<> {
        let (inner, tag) = (Arc::clone(&self.inner), prompt.tag);
        move |chunk| inner.events.publish(Some(&inner.node), EventKind::OutputChunk { turn, tag, chunk })
    }

    fn spawn(&self, prompt: &Prompt) -> std::io::Result<Child> {
        let mut command = Command::new("bash");
        command.arg("-c").arg(&prompt.text).envs(&self.inner.env).process_group(0).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(cwd) = &self.inner.cwd {
            command.current_dir(cwd);
        }
        if let Some(trace) = &prompt.trace {
            command.envs(trace.variables());
        }
        kill_with_parent(&mut command);
        command.spawn()
    }

    fn respond(
        &self,
        turn: u64,
        prompt: &Prompt,
        ran: Ran,
        time: (TsNs, TsNs),
    ) -> Result<Response, EngineError> {
        let (stdout, stderr) = (ran.stdout.text(), ran.stderr.text());
        let mut attributes = BTreeMap::from([("command".to_string(), prompt.text.clone())]);
        attributes.insert("exit_code".into(), ran.code.map_or("-1".into(), |code| code.to_string()));
        attributes.insert("interrupted".into(), (ran.ended == Ended::Interrupted).to_string());
        attributes.insert("stdout".into(), stdout.to_string());
        attributes.insert("stderr".into(), stderr.to_string());
        if let Some(truncated) = ran.truncated() {
            attributes.insert("truncated".into(), truncated);
        }
        let sections = vec![Section::new(SectionKind::Text, stdout.trim_end())];
        let complete = ran.ended == Ended::Exited;
        let data = ResponseData {
            sections: sections.clone(),
            tokens: None::<Tokens>,
            is_complete: complete,
            is_ready: true,
        };
        self.inner.events.metrics().add_output(ran.stdout.total() + ran.stderr.total());
        let ((ts_start, ts_end), input, preceding_buffer_seq) = (time, prompt.text.as_str(), None);
        if prompt.stream && complete {
            let lines: Vec<&str> = stdout.lines().collect();
            let final_buffer = &lines[lines.len().saturating_sub(HISTORY_BUFFER_LINES)..].join("\n");
            let parser = ParserKind::None;
            self.journal().log_stream(SendStreamEntry {
                ts_start,
                ts_end,
                input,
                preceding_buffer_seq,
                final_buffer,
                parser,
            });
        } else {
            let response = data;
            self.journal().log_send(SendEntry { ts_start, ts_end, input, preceding_buffer_seq, response });
        }
        match ran.ended {
            Ended::TimedOut => {
                return Err(self.error(ErrorKind::Timeout, "the command did not end in time and was killed"));
            }
            Ended::Interrupted => {
                return Err(self.error(ErrorKind::Interrupted, "the command was interrupted"));
            }
            Ended::Exited => {}
        }
        Ok(Response {
            node: self.inner.node.node.clone(),
            turn,
            raw: format!("{stdout}{stderr}"),
            text: stdout.trim_end().to_string(),
            sections,
            tokens: None,
            usage: None,
            is_complete: true,
            is_ready: true,
            source: "process",
            delivery: "started",
            ended_by: ENDED.into(),
            bytes: (0, ran.stdout.total() + ran.stderr.total()),
            time,
            attributes,
        })
    }

    fn journal(&self) -> std::sync::MutexGuard<'_, Journal> {
        self.inner.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gone(&self) -> EngineError {
        self.error(ErrorKind::NodeStopped, "is stopped")
    }

    fn not_run(&self, error: &std::io::Error) -> EngineError {
        self.error(ErrorKind::Process, &format!("bash could not be run: {error}"))
    }

    /// In the words of a terminal node.
    fn still(&self, states: &[StateName], limit: Duration) -> EngineError {
        let wanted: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
        let (id, now) = (&self.inner.node.node, self.state());
        let message =
            format!("node '{id}' is still {}, not {}, after {limit:?}", now.as_str(), wanted.join(" or "));
        let why = if now == StateName::Ready { ENDED } else { RUNS };
        EngineError::new(ErrorKind::Timeout, message).hint(why)
    }

    fn error(&self, kind: ErrorKind, what: &str) -> EngineError {
        EngineError::new(kind, format!("node '{}': {what}", self.inner.node.node))
    }
}

impl Ran {
    /// What a response does not have of the output, in words.
    fn truncated(&self) -> Option<String> {
        let of = |name: &str, tail: &Tail| {
            let bytes = tail.left_out();
            (bytes > 0).then(|| format!("the first {bytes} bytes of {name}"))
        };
        let parts: Vec<String> =
            [of("stdout", &self.stdout), of("stderr", &self.stderr)].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| format!("{} are left out", parts.join(" and ")))
    }
}

/// Marks the node ready again, however the turn ends.
struct Running(BashNode);

impl Drop for Running {
    fn drop(&mut self) {
        let inner = &self.0.inner;
        let ready = inner.state.send_if_modified(|state| {
            let last = inner.running.fetch_sub(1, Ordering::Relaxed) == 1;
            let busy = *state == StateName::Busy && last;
            if busy {
                *state = StateName::Ready;
            }
            busy
        });
        if ready {
            let evidence = ENDED.to_string();
            inner.events.publish(Some(&inner.node), EventKind::NodeReady { evidence });
        }
    }
}

/// Kills a process group unless it ended by itself.
struct Group(Option<Pid>);

impl Group {
    /// Kills it and waits for its first process, [`DRAIN`] at most: one that hangs in the kernel is not waited for.
    async fn end(&mut self, child: &mut Child) -> Option<std::io::Result<ExitStatus>> {
        self.kill();
        timeout(DRAIN, child.wait()).await.ok()
    }

    fn kill(&mut self) {
        if let Some(group) = self.0.take() {
            // Gone already is what the signal is for.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
