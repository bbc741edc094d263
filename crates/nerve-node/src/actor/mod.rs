//! The task of a terminal node. It serialises output, requests, timers and the child's exit.

use std::path::PathBuf;
use std::time::Duration;

use nerve_api::reply::NodeExplanation;

mod activity_reporter;
mod requests;
mod shutdown;
mod turns;

use nerve_agent::driver::{AgentState, Driver, Effect, Evidence, Source, View};
use nerve_record::history::HISTORY_BUFFER_LINES;
use nerve_types::Foreground;
use nerve_types::{ExitStatus, Origin, Size, TsNs};
use nerve_vt::terminal::{Notice, TerminalState};
use tokio::sync::{mpsc, oneshot, watch};

use self::activity_reporter::ActivityReporter;
use self::shutdown::Stopping;
use super::hooks::{HookSocket, Message};
use super::queue::{ActiveTurn, PromptQueue};
use super::terminal::{Prompt, Status, TerminalSpec};
use crate::command::{Choice, EventKind, Response};
use crate::context::ChunkSink;
use crate::error::{EngineError, ErrorKind};
use crate::executions::ExecutionLog;
use crate::fork::session_files::SessionFiles;
use crate::proxy::SpendSink;
use nerve_host::backend::PaneInfo;
use nerve_host::backend::{Backend, BackendEvent, Memory};
use nerve_host::clock::Clock;

/// Minimum time between two observations of the screen while output arrives.
const OBSERVE_INTERVAL: Duration = Duration::from_millis(8);
/// Faults kept for the node's info.
const MAX_FAULTS: usize = 8;

/// A request from a node's handle.
pub(super) enum Request {
    Execute {
        prompt: Prompt,
        call: Option<Call>,
        reply: oneshot::Sender<Result<Response, EngineError>>,
    },
    Write {
        data: Vec<u8>,
        reply: oneshot::Sender<Result<usize, EngineError>>,
    },
    Run {
        command: String,
        reply: oneshot::Sender<Result<(), EngineError>>,
    },
    Read {
        lines: Option<usize>,
        reply: oneshot::Sender<String>,
    },
    Clear {
        reply: oneshot::Sender<()>,
    },
    Interrupt {
        reply: oneshot::Sender<Result<(), EngineError>>,
    },
    /// Withdraws a prompt from the queue, or interrupts its turn.
    Cancel {
        ticket: u64,
    },
    Resize {
        size: Size,
        reply: oneshot::Sender<Result<(), EngineError>>,
    },
    Answer {
        choice: Choice,
        wait: bool,
        timeout: Option<Duration>,
        reply: AnswerReply,
    },
    Explain {
        reply: oneshot::Sender<NodeExplanation>,
    },
    Focus {
        reply: oneshot::Sender<Result<(), EngineError>>,
    },
    PaneInfo {
        reply: oneshot::Sender<Result<PaneInfo, EngineError>>,
    },
    Stop {
        reason: String,
        reply: oneshot::Sender<()>,
    },
    /// Leaves the program running and detaches from it, if the backend can.
    Release {
        reply: oneshot::Sender<bool>,
    },
    /// The agent's conversation id, sent by the task that looked it up.
    Conversation {
        id: String,
    },
    /// A turn's final response, sent by the task that read the transcript.
    Finished {
        response: Box<Response>,
    },
}

/// The part of a prompt's request that only cancellable callers have.
#[derive(Clone)]
pub(super) struct Call {
    /// The number to cancel the prompt by.
    pub(super) ticket: u64,
    /// Receives pieces of the answer.
    pub(super) chunks: Option<ChunkSink>,
    /// Receives the usage of the turn's API requests.
    pub(super) spend: Option<SpendSink>,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}

/// Receives the outcome of an answered dialog.
pub(super) type AnswerReply = oneshot::Sender<Result<Option<Response>, EngineError>>;

/// Returns the status before the first byte of output.
pub(super) fn first_status(spec: &TerminalSpec, now: TsNs) -> Status {
    Status {
        state: AgentState::Starting,
        evidence: Evidence { source: Source::Quiet, text: "just started".into(), offset: 0, at: now },
        stopping: false,
        closed: false,
        title: String::new(),
        size: spec.size,
        turns: 0,
        queued: 0,
        faults: Vec::new(),
        lost: None,
        agent_session: spec.agent_session.clone(),
        place: Vec::new(),
    }
}

/// Runs a node until it is stopped or its last handle is dropped.
pub(super) async fn run<B: Backend>(
    spec: TerminalSpec,
    backend: B,
    (mut hooks, execution_log): (Option<HookSocket>, Option<ExecutionLog>),
    clock: Clock,
    mut inbox: mpsc::Receiver<Request>,
    requests: mpsc::WeakSender<Request>,
    status: watch::Sender<Status>,
) {
    let mut actor = Actor::new(spec, execution_log, clock, backend, requests, status);
    actor.record_start();
    loop {
        let deadline = actor.deadline();
        let timer = tokio::time::sleep_until(clock.instant(deadline.unwrap_or_default()));
        tokio::select! {
            happened = actor.backend.next(), if !actor.lost => actor.handle_event(happened),
            request = inbox.recv(), if !actor.abandoned => match request {
                Some(request) => actor.on_request(request),
                None => actor.abandon(),
            },
            message = next_hook(&mut hooks) => match message {
                Ok(message) => actor.on_hook(message),
                Err(_) => hooks = None,
            },
            () = timer, if deadline.is_some() => actor.on_timer(),
        }
        actor.settle();
        if actor.done {
            break;
        }
    }
}

/// Returns the next message of the agent's hooks; never completes if there are none.
async fn next_hook(hooks: &mut Option<HookSocket>) -> std::io::Result<Message> {
    match hooks {
        Some(hooks) => hooks.next().await,
        None => std::future::pending().await,
    }
}

struct Actor<B> {
    spec: TerminalSpec,
    clock: Clock,
    backend: B,
    requests: mpsc::WeakSender<Request>,
    status: watch::Sender<Status>,
    terminal: TerminalState,
    driver: Driver,
    queue: PromptQueue,
    active: Option<ActiveTurn>,
    /// Waits for a dialog to close.
    answering: Option<AnswerReply>,
    /// The agent's transcript file, as named by its hooks.
    transcript: Option<PathBuf>,
    /// Reports what the agent does.
    reporter: ActivityReporter,
    turns: u64,
    last_observed: TsNs,
    observe_due: Option<TsNs>,
    started: TsNs,
    /// Someone else holds the input lease: prompts wait at least until this time.
    held_until: Option<TsNs>,
    /// The holder of the input lease.
    held_by: Option<String>,
    /// Resize requests that wait for the backend's confirmation.
    resizing: Vec<(Size, oneshot::Sender<Result<(), EngineError>>)>,
    /// Failures that the node survived; shown in its info.
    faults: Vec<String>,
    /// State kept for the next process that takes over this terminal; initially what the previous one left.
    memory: Memory,
    /// Output from before the takeover is being replayed.
    catching_up: bool,
    /// The connection to the backend is lost.
    lost: bool,
    /// Reason for the end of the node, if the exit status does not show it.
    end_reason: Option<String>,
    open: bool,
    exit: Option<ExitStatus>,
    drain_until: Option<TsNs>,
    concluded: bool,
    stop: Option<Stopping>,
    /// The last handle was dropped.
    abandoned: bool,
    done: bool,
}

impl<B: Backend> Actor<B> {
    fn new(
        spec: TerminalSpec,
        execution_log: Option<ExecutionLog>,
        clock: Clock,
        backend: B,
        requests: mpsc::WeakSender<Request>,
        status: watch::Sender<Status>,
    ) -> Actor<B> {
        let now = clock.now();
        Actor {
            terminal: TerminalState::new(spec.size),
            driver: driver(&spec, now),
            reporter: ActivityReporter::new(&spec, execution_log, clock, now),
            catching_up: spec.adopted.is_some(),
            memory: spec
                .adopted
                .clone()
                .unwrap_or_else(|| Memory { agent_session: spec.agent_session.clone(), ..Memory::default() }),
            // An observation is due at once: a program that never writes has to be observed too.
            observe_due: spec.adopted.is_none().then_some(now),
            spec,
            clock,
            backend,
            requests,
            status,
            queue: PromptQueue::default(),
            active: None,
            answering: None,
            transcript: None,
            turns: 0,
            last_observed: TsNs(0),
            started: now,
            held_until: None,
            held_by: None,
            resizing: Vec::new(),
            faults: Vec::new(),
            lost: false,
            end_reason: None,
            open: true,
            exit: None,
            drain_until: None,
            concluded: false,
            stop: None,
            abandoned: false,
            done: false,
        }
    }

    /// Persists and logs what is known when the node starts.
    fn record_start(&mut self) {
        if self.memory.agent_session.is_some() && self.spec.adopted.is_none() {
            self.backend.remember(&self.memory);
        }
        self.log_start();
        // A newly started proxy reports its faults before the node exists; a restored proxy may have failed.
        if let Some(failure) = self.spec.proxy.as_ref().and_then(|proxy| proxy.failure()) {
            self.on_fault(failure.to_string());
        }
    }

    /// Logs the start of the program as a typed command, for kinds of nodes that want it.
    fn log_start(&mut self) {
        if self.spec.log_start && self.spec.adopted.is_none() {
            let (now, command) = (self.clock.now(), shell_words::join(&self.spec.program.argv));
            self.spec.journal.log_run(now, &command, String::new);
        }
    }

    fn deadline(&self) -> Option<TsNs> {
        let start = (*self.driver.state() == AgentState::Starting && self.queue.len() > 0)
            .then(|| self.start_deadline());
        [
            self.observe_due,
            self.driver.deadline(),
            self.terminal.frame_deadline(),
            self.spec.journal.deadline(),
            self.queue.deadline(),
            start,
            self.active.as_ref().and_then(|active| active.deadline),
            self.active.as_ref().and_then(|active| active.stream_due),
            self.stop.as_ref().map(|stop| stop.next),
            self.drain_until,
            self.held_until.filter(|_| self.queue.len() > 0),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn start_deadline(&self) -> TsNs {
        self.started + self.spec.ready_timeout
    }

    fn handle_event(&mut self, event: BackendEvent) {
        match event {
            BackendEvent::Output => self.on_output(),
            BackendEvent::Resized(size) => self.on_resized(size),
            BackendEvent::Snapshot(snapshot) => self.terminal.record_snapshot(snapshot),
            BackendEvent::CaughtUp => self.on_caught_up(),
            BackendEvent::Closed => self.on_output_closed(),
            BackendEvent::Exited(exit) => self.on_exit(exit),
            BackendEvent::Skipped(offset) => self.terminal.skip_to(offset),
            BackendEvent::FinalScreen(shown) if shown == self.terminal.screen().text() => {}
            BackendEvent::FinalScreen(_) => self.backend.emit_final_screen(),
            BackendEvent::Gone(how) => self.on_gone(how),
            // Published with the status.
            BackendEvent::PlaceChanged => {}
            // The release of the lease: settle() starts waiting prompts after this.
            BackendEvent::LeaseChanged => self.held_until = None,
            BackendEvent::Fault(message) => self.on_fault(message),
            BackendEvent::Lost(reason) => self.on_lost(reason),
        }
    }

    fn on_output(&mut self) {
        let (now, before) = (self.clock.now(), self.terminal.offset());
        let changes = self.terminal.process_data(now, self.backend.output());
        self.driver.on_output(now, self.terminal.offset());
        self.reporter.set_offset(self.terminal.offset());
        let mut urgent = false;
        for notice in &changes.notices {
            self.driver.on_notice(notice);
            urgent |= matches!(notice, Notice::Mark(_) | Notice::Title(_));
            if let Notice::Rebuilt { reason } = notice {
                let message = format!("the terminal model failed and was rebuilt: {reason}");
                self.spec.events.publish(Some(&self.spec.node), EventKind::Error { message });
            }
        }
        // Replayed output: its queries were answered in the past, and its screens are out of date.
        if self.catching_up {
            return;
        }
        self.spec.events.metrics().add_output(self.terminal.offset().saturating_sub(before));
        if !changes.replies.is_empty() && self.spec.answers {
            self.type_bytes(now, &changes.replies, Origin::Terminal);
        }
        self.spec.journal.on_output(now);
        if urgent || now >= self.last_observed + OBSERVE_INTERVAL {
            self.observe(now);
        } else {
            self.observe_due.get_or_insert(self.last_observed + OBSERVE_INTERVAL);
        }
    }

    fn on_hook(&mut self, message: Message) {
        let now = self.clock.now();
        self.driver.on_hook(now, message.hook);
        if let Some(transcript) = message.transcript {
            self.reporter.follow_transcript(transcript.clone());
            self.memory.transcript = Some(transcript.clone());
            self.transcript = Some(transcript);
            self.backend.remember(&self.memory);
        }
        if let Some(session) = message.session {
            self.set_conversation(session);
        }
        self.observe(now);
    }

    /// Remembers the id of the agent's current conversation.
    fn set_conversation(&mut self, id: String) {
        let is_one = self.spec.profile.session.as_ref().is_some_and(|forms| forms.is_id(&id));
        if is_one && self.memory.agent_session.as_ref() != Some(&id) {
            self.memory.agent_session = Some(id);
            self.backend.remember(&self.memory);
        }
    }

    /// Looks up the agent's conversation id in its session files, on a blocking thread.
    fn look_up_conversation(&self) {
        let forms = self.spec.profile.session.as_ref().filter(|forms| forms.learn.is_some());
        let (Some(forms), Some(pid)) = (forms, self.backend.pid()) else { return };
        let Some(session_files) = SessionFiles::of(&self.spec.program.env) else { return };
        let (forms, requests) = (forms.clone(), self.requests.clone());
        tokio::spawn(async move {
            let learnt = tokio::task::spawn_blocking(move || session_files.learn(&forms, pid)).await;
            if let (Ok(Some(id)), Some(requests)) = (learnt, requests.upgrade()) {
                // A send error means that the node is gone and the id is no longer needed.
                let _ = requests.send(Request::Conversation { id }).await;
            }
        });
    }

    fn on_caught_up(&mut self) {
        self.catching_up = false;
        if self.memory.was_ready {
            self.driver.on_takeover(self.clock.now());
        }
        if let Some(transcript) = self.memory.transcript.clone() {
            self.reporter.follow_transcript(transcript.clone());
            self.transcript = Some(transcript);
        }
        self.observe_due = Some(self.clock.now());
    }

    fn on_resized(&mut self, size: Size) {
        self.terminal.resize(size);
        if self.catching_up {
            // A replayed size.
            return;
        }
        self.observe_due = Some(self.clock.now());
        for (requested, reply) in self.resizing.drain(..) {
            let _ = reply.send(match self.backend.resize_refusal() {
                Some(others) if requested != size => Err(EngineError::new(
                    ErrorKind::Busy,
                    format!(
                        "node '{}' stays at {} columns and {} rows: {others}",
                        self.spec.node.node, size.cols, size.rows
                    ),
                )),
                _ => Ok(()),
            });
        }
    }

    fn on_fault(&mut self, message: String) {
        tracing::warn!(node = %self.spec.node.node, "{message}");
        self.spec.events.publish(Some(&self.spec.node), EventKind::Error { message: message.clone() });
        self.reporter.warn(self.clock.now(), message.clone());
        self.faults.push(message);
        self.faults.truncate(MAX_FAULTS);
    }

    /// Handles the loss of the backend connection.
    fn on_lost(&mut self, reason: String) {
        self.on_fault(reason.clone());
        self.lost = true;
        self.end_reason = Some(reason);
        self.exit.get_or_insert(ExitStatus::Unknown);
        self.conclude();
    }

    /// Handles an exit of unknown status.
    fn on_gone(&mut self, how: String) {
        self.end_reason = Some(how);
        self.exit.get_or_insert(ExitStatus::Unknown);
        self.conclude();
    }

    fn on_output_closed(&mut self) {
        self.open = false;
        if self.exit.is_some() {
            self.conclude();
        }
    }

    fn on_exit(&mut self, exit: ExitStatus) {
        self.exit = Some(exit);
        if self.open {
            self.drain_until = Some(self.clock.now() + self.backend.drain_time());
        } else {
            self.conclude();
        }
    }

    fn on_timer(&mut self) {
        let now = self.clock.now();
        let due = |at: Option<TsNs>| at.is_some_and(|at| at <= now);
        if due(self.terminal.frame_deadline()) {
            self.terminal.expire_frame(now);
            self.observe_due = Some(now);
        }
        if due(self.observe_due) || due(self.driver.deadline()) {
            self.observe(now);
        }
        let terminal = &self.terminal;
        self.spec.journal.capture_if_due(now, || tail_of(terminal));
        if due(self.drain_until) {
            self.conclude();
        }
        if due(self.held_until) {
            self.held_until = None;
        }
        self.expire(now);
        if self.active.as_ref().is_some_and(|active| due(active.stream_due)) {
            self.stream();
        }
        if self.stop.as_ref().is_some_and(|stop| stop.next <= now) {
            self.escalate(now);
        }
    }

    fn observe(&mut self, now: TsNs) {
        if self.catching_up {
            // The screen is a replayed one.
            return;
        }
        self.last_observed = now;
        self.observe_due = None;
        let foreground = match self.spec.profile.foreground {
            true => self.backend.foreground(!self.driver.trusts_marks(), &self.spec.profile.programs),
            false => Foreground::Unknown,
        };
        let screen = self.terminal.screen();
        let cursor_line = self.terminal.cursor_line().0;
        self.driver.observe(now, View { screen: &screen, cursor_line, foreground });
        if let Some(active) = &mut self.active
            && let Some(stream) = &active.stream
        {
            active.stream_due.get_or_insert(now + stream.poll_interval());
        }
    }

    fn settle(&mut self) {
        self.run_effects();
        self.start_next_prompts();
        self.run_effects();
        if self.concluded
            && let Some(stop) = self.stop.take()
        {
            for reply in stop.replies {
                let _ = reply.send(());
            }
            self.done = true;
        }
        // A caller may wait for the end of a start or a turn, so poll often. Dialogs wait for a person.
        let watchful = matches!(self.driver.state(), AgentState::Starting | AgentState::Busy);
        self.backend.set_watchful(watchful && !self.concluded);
        self.publish_status();
    }

    fn publish_status(&mut self) {
        let (title, size) = (self.terminal.title(), self.terminal.size());
        let (driver, queued, turns) = (&self.driver, self.queue.len(), self.turns);
        let (faults, lost) = (&self.faults, &self.end_reason);
        let (stopping, closed) = (self.stop.is_some(), self.done);
        let agent_session = &self.memory.agent_session;
        let place = self.backend.place();
        self.status.send_if_modified(|status| {
            let same = status.state == *driver.state()
                && status.evidence == *driver.evidence()
                && (status.stopping, status.closed) == (stopping, closed)
                && status.title == title
                && status.size == size
                && (status.turns, status.queued) == (turns, queued)
                && status.faults == *faults
                && status.lost == *lost
                && status.agent_session == *agent_session
                && status.place == place;
            if !same {
                *status = Status {
                    state: driver.state().clone(),
                    evidence: driver.evidence().clone(),
                    stopping,
                    closed,
                    title: title.to_string(),
                    size,
                    turns,
                    queued,
                    faults: faults.clone(),
                    lost: lost.clone(),
                    agent_session: agent_session.clone(),
                    place: place.to_vec(),
                };
            }
            !same
        });
    }

    fn run_effects(&mut self) {
        while let Some(effect) = self.driver.poll_effect() {
            match effect {
                Effect::Write(bytes) => {
                    let now = self.clock.now();
                    self.type_bytes(now, &bytes, Origin::Api);
                }
                Effect::StateChanged => self.on_state_changed(),
                Effect::Answered { gone } => self.on_dialog_answered(gone),
                Effect::TurnEnded(end) => self.on_turn_ended(*end),
            }
        }
    }

    fn on_state_changed(&mut self) {
        self.reporter.report_state(self.clock.now(), self.driver.state());
        if *self.driver.state() == AgentState::Ready {
            self.look_up_conversation();
        }
        if *self.driver.state() == AgentState::Busy {
            self.find_transcript();
        }
        let evidence = self.driver.evidence();
        let evidence = format!("{}: {}", evidence.source.as_str(), evidence.text);
        let kind = match self.driver.state().clone() {
            AgentState::Ready if !std::mem::replace(&mut self.memory.was_ready, true) => {
                self.backend.remember(&self.memory);
                EventKind::NodeReady { evidence }
            }
            AgentState::Ready => EventKind::NodeReady { evidence },
            AgentState::Busy => EventKind::NodeBusy { evidence },
            AgentState::Blocked { kind, choices } => {
                self.fail_blocked_turn();
                EventKind::NodeBlocked { kind, choices, evidence }
            }
            AgentState::Suspended { until } => {
                self.fail_blocked_turn();
                EventKind::NodeSuspended { until, evidence }
            }
            AgentState::Starting | AgentState::Exited(_) => return,
        };
        self.spec.events.publish(Some(&self.spec.node), kind);
    }

    /// Fails the active turn because the agent is blocked. A turn whose transcript is being read has its answer already.
    fn fail_blocked_turn(&mut self) {
        let error = self.blocked_error();
        if let Some(active) = self.active.as_mut().filter(|active| active.finishing.is_none()) {
            active.answer(Err(error));
        }
    }

    fn type_bytes(&mut self, now: TsNs, bytes: &[u8], origin: Origin) -> bool {
        self.open && self.backend.write(now, bytes, origin)
    }

    fn guard_input(&mut self, action: impl FnOnce(&mut Actor<B>) -> bool) -> Result<(), EngineError> {
        if self.concluded || self.stop.is_some() {
            return Err(self.stopped_error());
        }
        if action(self) {
            return Ok(());
        }
        let waiting = self.backend.queued_input();
        let message =
            format!("node '{}' is not reading its input: {waiting} bytes are queued", self.spec.node.node);
        Err(EngineError::new(ErrorKind::Busy, message))
    }

    fn text(&self, lines: Option<usize>) -> String {
        let terminal = &self.terminal;
        match lines {
            Some(lines) => terminal.tail(lines).join("\n"),
            None => terminal.tail(usize::MAX).join("\n"),
        }
    }
}

fn driver(spec: &TerminalSpec, now: TsNs) -> Driver {
    let driver = Driver::new(spec.profile.clone(), now);
    let goes_on = spec.profile.session.as_ref().is_some_and(|forms| forms.resumes(&spec.program.argv));
    if goes_on { driver.resuming() } else { driver }
}

fn tail_of(terminal: &TerminalState) -> String {
    terminal.tail(HISTORY_BUFFER_LINES).join("\n")
}
