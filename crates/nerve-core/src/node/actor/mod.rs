//! The task of a terminal node: one place where output, requests, timers and the child's end are put in a line.

use std::path::PathBuf;
use std::time::Duration;

mod activity_reporter;
mod requests;
mod shutdown;
mod turns;

use nerve_record::history::HISTORY_BUFFER_LINES;
use nerve_term::driver::{AgentState, Driver, Effect, Evidence, Foreground, Source, View};
use nerve_term::event::{ExitStatus, Origin, Size, TsNs};
use nerve_term::terminal::{Notice, TerminalState};
use tokio::sync::{mpsc, oneshot, watch};

use self::activity_reporter::Telling;
use self::shutdown::Stopping;
use super::hooks::{HookSocket, Message};
use super::queue::{Active, Queue};
use super::terminal::{Prompt, Status, TerminalSpec};
use crate::backend::pane::PaneInfo;
use crate::backend::{Backend, Happened, Memory};
use crate::clock::Clock;
use crate::command::{Choice, EventKind, Explanation, Response};
use crate::context::ChunkSink;
use crate::error::{EngineError, ErrorKind};
use crate::executions::Noter;
use crate::fork::session_files::Records;
use crate::proxy::SpendSink;

/// Output shares a look at the screen when it comes faster than this.
const LOOK_EVERY: Duration = Duration::from_millis(8);
/// Faults kept for the node's info.
const MAX_FAULTS: usize = 8;

/// What the handle can ask.
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
    /// Take a prompt back: out of the queue, or interrupt its turn.
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
        reply: oneshot::Sender<Explanation>,
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
    /// Leave the program running without us, if the backend can.
    Release {
        reply: oneshot::Sender<bool>,
    },
    /// From the task that looked: the conversation the agent has.
    Conversation {
        id: String,
    },
    /// From the task that read a transcript: the turn's final response.
    Finished {
        response: Box<Response>,
    },
}

/// What a caller that can change its mind gives with a prompt.
#[derive(Clone)]
pub(super) struct Call {
    /// Its number, to cancel it by.
    pub(super) ticket: u64,
    /// Where pieces of the answer go.
    pub(super) chunks: Option<ChunkSink>,
    /// Who is told what its requests use.
    pub(super) spend: Option<SpendSink>,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}

/// Where the outcome of an answered dialog goes.
pub(super) type AnswerReply = oneshot::Sender<Result<Option<Response>, EngineError>>;

/// The status before the first byte.
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

/// Runs a node until it is stopped or its last handle is gone.
pub(super) async fn run<B: Backend>(
    spec: TerminalSpec,
    backend: B,
    (mut hooks, noter): (Option<HookSocket>, Option<Noter>),
    clock: Clock,
    mut inbox: mpsc::Receiver<Request>,
    requests: mpsc::WeakSender<Request>,
    status: watch::Sender<Status>,
) {
    let mut actor = Actor::new(spec, noter, clock, backend, requests, status);
    actor.is_started();
    loop {
        let deadline = actor.deadline();
        let timer = tokio::time::sleep_until(clock.instant(deadline.unwrap_or_default()));
        tokio::select! {
            happened = actor.backend.next(), if !actor.lost => actor.happened(happened),
            request = inbox.recv(), if !actor.abandoned => match request {
                Some(request) => actor.request(request),
                None => actor.abandon(),
            },
            message = next_hook(&mut hooks) => match message {
                Ok(message) => actor.hook(message),
                Err(_) => hooks = None,
            },
            () = timer, if deadline.is_some() => actor.timer(),
        }
        actor.settle();
        if actor.done {
            break;
        }
    }
}

/// The next message of the agent's hooks; never, where there are none.
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
    queue: Queue,
    active: Option<Active>,
    /// Who waits for a dialog to go.
    answering: Option<AnswerReply>,
    /// The agent's own record of the conversation, as its hooks named it.
    transcript: Option<PathBuf>,
    /// Tells what the agent does.
    telling: Telling,
    turns: u64,
    last_look: TsNs,
    look_due: Option<TsNs>,
    started: TsNs,
    /// Somebody else types into the terminal: prompts wait until then, at least.
    held_until: Option<TsNs>,
    /// Who it is.
    held_by: Option<String>,
    /// Who waits for a new size to count.
    resizing: Vec<(Size, oneshot::Sender<Result<(), EngineError>>)>,
    /// What failed and was outlived: told in the node's info.
    faults: Vec<String>,
    /// For whoever drives this terminal after us; what the one before us left, at first.
    memory: Memory,
    /// What happened before we came is being told.
    catching_up: bool,
    /// The backend is gone.
    lost: bool,
    /// Why it ended, where the program's exit does not say it.
    end_reason: Option<String>,
    open: bool,
    exit: Option<ExitStatus>,
    drain_until: Option<TsNs>,
    buried: bool,
    stop: Option<Stopping>,
    /// No handle is left.
    abandoned: bool,
    done: bool,
}

impl<B: Backend> Actor<B> {
    fn new(
        spec: TerminalSpec,
        noter: Option<Noter>,
        clock: Clock,
        backend: B,
        requests: mpsc::WeakSender<Request>,
        status: watch::Sender<Status>,
    ) -> Actor<B> {
        let now = clock.now();
        Actor {
            terminal: TerminalState::new(spec.size),
            driver: driver(&spec, now),
            telling: Telling::new(&spec, noter, clock, now),
            catching_up: spec.adopted.is_some(),
            memory: spec
                .adopted
                .clone()
                .unwrap_or_else(|| Memory { agent_session: spec.agent_session.clone(), ..Memory::default() }),
            // A program that never writes is looked at too.
            look_due: spec.adopted.is_none().then_some(now),
            spec,
            clock,
            backend,
            requests,
            status,
            queue: Queue::default(),
            active: None,
            answering: None,
            transcript: None,
            turns: 0,
            last_look: TsNs(0),
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
            buried: false,
            stop: None,
            abandoned: false,
            done: false,
        }
    }

    /// What is known from the start is kept, and logged.
    fn is_started(&mut self) {
        if self.memory.agent_session.is_some() && self.spec.adopted.is_none() {
            self.backend.remember(&self.memory);
        }
        self.log_start();
        // Its own are told before it is there; one that is taken back may have lost its.
        if let Some(trouble) = self.spec.proxy.as_ref().and_then(|proxy| proxy.trouble()) {
            self.fault(trouble.to_string());
        }
    }

    /// The program was started as if somebody had typed its command, where that is wanted.
    fn log_start(&mut self) {
        if self.spec.log_start && self.spec.adopted.is_none() {
            let (now, command) = (self.clock.now(), shell_words::join(&self.spec.program.argv));
            self.spec.journal.ran(now, &command, String::new);
        }
    }

    fn deadline(&self) -> Option<TsNs> {
        let start = (*self.driver.state() == AgentState::Starting && self.queue.len() > 0)
            .then(|| self.start_deadline());
        [
            self.look_due,
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

    fn happened(&mut self, happened: Happened) {
        match happened {
            Happened::Output => self.output(),
            Happened::Resized(size) => self.resized(size),
            Happened::Snapshot(snapshot) => self.terminal.record_snapshot(snapshot),
            Happened::CaughtUp => self.caught_up(),
            Happened::Closed => self.output_closed(),
            Happened::Exited(exit) => self.child_exited(exit),
            Happened::Skipped(offset) => self.terminal.skip_to(offset),
            Happened::Left(shown) if shown == self.terminal.screen().text() => {}
            Happened::Left(_) => self.backend.missed(),
            Happened::Gone(how) => self.gone(how),
            // Told with the status.
            Happened::Moved => {}
            // Whoever waits for it is looked at after this.
            Happened::Lease => self.held_until = None,
            Happened::Fault(message) => self.fault(message),
            Happened::Lost(reason) => self.lost(reason),
        }
    }

    fn output(&mut self) {
        let (now, before) = (self.clock.now(), self.terminal.offset());
        let changes = self.terminal.process_data(now, self.backend.output());
        self.driver.output(now, self.terminal.offset());
        self.telling.reached(self.terminal.offset());
        let mut urgent = false;
        for notice in &changes.notices {
            self.driver.notice(notice);
            urgent |= matches!(notice, Notice::Mark(_) | Notice::Title(_));
            if let Notice::Rebuilt { reason } = notice {
                let message = format!("the terminal model failed and was rebuilt: {reason}");
                self.spec.events.publish(Some(&self.spec.node), EventKind::Error { message });
            }
        }
        // Old questions were answered, or not, when they were asked; old screens say nothing of now.
        if self.catching_up {
            return;
        }
        self.spec.events.meter().add_output(self.terminal.offset().saturating_sub(before));
        if !changes.replies.is_empty() && self.spec.answers {
            self.type_bytes(now, &changes.replies, Origin::Terminal);
        }
        self.spec.journal.output(now);
        if urgent || now >= self.last_look + LOOK_EVERY {
            self.look(now);
        } else {
            self.look_due.get_or_insert(self.last_look + LOOK_EVERY);
        }
    }

    fn hook(&mut self, message: Message) {
        let now = self.clock.now();
        self.driver.hook(now, message.hook);
        if let Some(transcript) = message.transcript {
            self.telling.transcript_at(transcript.clone());
            self.memory.transcript = Some(transcript.clone());
            self.transcript = Some(transcript);
            self.backend.remember(&self.memory);
        }
        if let Some(session) = message.session {
            self.has_conversation(session);
        }
        self.look(now);
    }

    /// The agent says which conversation it has.
    fn has_conversation(&mut self, id: String) {
        let is_one = self.spec.profile.session.as_ref().is_some_and(|forms| forms.is_id(&id));
        if is_one && self.memory.agent_session.as_ref() != Some(&id) {
            self.memory.agent_session = Some(id);
            self.backend.remember(&self.memory);
        }
    }

    /// Looks, off this task, which conversation the agent has by its own account.
    fn learn_conversation(&self) {
        let forms = self.spec.profile.session.as_ref().filter(|forms| forms.learn.is_some());
        let (Some(forms), Some(pid)) = (forms, self.backend.pid()) else { return };
        let Some(records) = Records::of(&self.spec.program.env) else { return };
        let (forms, requests) = (forms.clone(), self.requests.clone());
        tokio::spawn(async move {
            let learnt = tokio::task::spawn_blocking(move || records.learn(&forms, pid)).await;
            if let (Ok(Some(id)), Some(requests)) = (learnt, requests.upgrade()) {
                // The node is gone: nobody wants to know any more.
                let _ = requests.send(Request::Conversation { id }).await;
            }
        });
    }

    fn caught_up(&mut self) {
        self.catching_up = false;
        if self.memory.was_ready {
            self.driver.taken_over(self.clock.now());
        }
        if let Some(transcript) = self.memory.transcript.clone() {
            self.telling.transcript_at(transcript.clone());
            self.transcript = Some(transcript);
        }
        self.look_due = Some(self.clock.now());
    }

    fn resized(&mut self, size: Size) {
        self.terminal.resize(size);
        if self.catching_up {
            // A size of the past.
            return;
        }
        self.look_due = Some(self.clock.now());
        for (asked, reply) in self.resizing.drain(..) {
            let _ = reply.send(match self.backend.others_size() {
                Some(others) if asked != size => Err(EngineError::new(
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

    fn fault(&mut self, message: String) {
        tracing::warn!(node = %self.spec.node.node, "{message}");
        self.spec.events.publish(Some(&self.spec.node), EventKind::Error { message: message.clone() });
        self.telling.warn(self.clock.now(), message.clone());
        self.faults.push(message);
        self.faults.truncate(MAX_FAULTS);
    }

    /// Nothing comes from the backend any more, and nothing reaches it.
    fn lost(&mut self, reason: String) {
        self.fault(reason.clone());
        self.lost = true;
        self.end_reason = Some(reason);
        self.exit.get_or_insert(ExitStatus::Unknown);
        self.bury();
    }

    /// The program ended, and nobody knows how.
    fn gone(&mut self, how: String) {
        self.end_reason = Some(how);
        self.exit.get_or_insert(ExitStatus::Unknown);
        self.bury();
    }

    fn output_closed(&mut self) {
        self.open = false;
        if self.exit.is_some() {
            self.bury();
        }
    }

    fn child_exited(&mut self, exit: ExitStatus) {
        self.exit = Some(exit);
        if self.open {
            self.drain_until = Some(self.clock.now() + self.backend.drain_time());
        } else {
            self.bury();
        }
    }

    fn timer(&mut self) {
        let now = self.clock.now();
        let due = |at: Option<TsNs>| at.is_some_and(|at| at <= now);
        if due(self.terminal.frame_deadline()) {
            self.terminal.expire_frame(now);
            self.look_due = Some(now);
        }
        if due(self.look_due) || due(self.driver.deadline()) {
            self.look(now);
        }
        let terminal = &self.terminal;
        self.spec.journal.settle(now, || tail_of(terminal));
        if due(self.drain_until) {
            self.bury();
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

    fn look(&mut self, now: TsNs) {
        if self.catching_up {
            // The screen is one of the past.
            return;
        }
        self.last_look = now;
        self.look_due = None;
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
            active.stream_due.get_or_insert(now + stream.every());
        }
    }

    fn settle(&mut self) {
        self.effects();
        self.take_up();
        self.effects();
        if self.buried
            && let Some(stop) = self.stop.take()
        {
            for reply in stop.replies {
                let _ = reply.send(());
            }
            self.done = true;
        }
        // Somebody may want to know at once what comes of it; a dialog waits for a person.
        let watchful = matches!(self.driver.state(), AgentState::Starting | AgentState::Busy);
        self.backend.attend(watchful && !self.buried);
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

    fn effects(&mut self) {
        while let Some(effect) = self.driver.poll_effect() {
            match effect {
                Effect::Write(bytes) => {
                    let now = self.clock.now();
                    self.type_bytes(now, &bytes, Origin::Api);
                }
                Effect::StateChanged => self.state_changed(),
                Effect::Answered { gone } => self.dialog_answered(gone),
                Effect::TurnEnded(end) => self.turn_ended(*end),
            }
        }
    }

    fn state_changed(&mut self) {
        self.telling.state(self.clock.now(), self.driver.state());
        if *self.driver.state() == AgentState::Ready {
            self.learn_conversation();
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
                self.tell_blocked();
                EventKind::NodeBlocked { kind: kind.as_str(), choices, evidence }
            }
            AgentState::Suspended { until } => {
                self.tell_blocked();
                EventKind::NodeSuspended { until, evidence }
            }
            AgentState::Starting | AgentState::Exited(_) => return,
        };
        self.spec.events.publish(Some(&self.spec.node), kind);
    }

    /// A finished turn has its answer, whatever is asked after it.
    fn tell_blocked(&mut self) {
        let error = self.blocked_error();
        if let Some(active) = self.active.as_mut().filter(|active| active.finishing.is_none()) {
            active.answer(Err(error));
        }
    }

    fn type_bytes(&mut self, now: TsNs, bytes: &[u8], origin: Origin) -> bool {
        self.open && self.backend.write(now, bytes, origin)
    }

    fn guard_input(&mut self, action: impl FnOnce(&mut Actor<B>) -> bool) -> Result<(), EngineError> {
        if self.buried || self.stop.is_some() {
            return Err(self.stopped_error());
        }
        if action(self) {
            return Ok(());
        }
        let waiting = self.backend.waiting();
        let message = format!("node '{}' does not read: {waiting} bytes wait already", self.spec.node.node);
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
    let goes_on = spec.profile.session.as_ref().is_some_and(|forms| forms.goes_on(&spec.program.argv));
    if goes_on { driver.going_on() } else { driver }
}

fn tail_of(terminal: &TerminalState) -> String {
    terminal.tail(HISTORY_BUFFER_LINES).join("\n")
}
