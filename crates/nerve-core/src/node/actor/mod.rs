//! The task of a terminal node: one place where output, requests, timers and the child's end are put in a line.

use std::path::PathBuf;
use std::time::Duration;

mod ending;
mod requests;
mod turns;

use nerve_record::history::HISTORY_BUFFER_LINES;
use nerve_term::driver::{AgentState, Driver, Effect, Evidence, Foreground, Source, View};
use nerve_term::event::{ExitStatus, Size, TsNs};
use nerve_term::terminal::Notice;
use tokio::sync::{mpsc, oneshot, watch};

use self::ending::Stopping;
use super::hooks::{HookSocket, Message};
use super::queue::{Active, Queue};
use super::terminal::{Prompt, Status, TerminalSpec};
use crate::backend::pty::{Control, Input, Pty, READ_LIMIT};
use crate::clock::Clock;
use crate::command::{Choice, EventKind, Explanation, Response};
use crate::error::{EngineError, ErrorKind};
use crate::pump::Pump;

/// Output shares a look at the screen when it comes faster than this.
const LOOK_EVERY: Duration = Duration::from_millis(8);
/// A read of this size (the most that the kernel hands out at once) says that the child writes fast.
const FAST: usize = 4096;
/// How long output of a dead child is waited for: a grandchild may hold the terminal open.
const DRAIN: Duration = Duration::from_millis(500);

/// What the handle can ask.
pub(super) enum Request {
    Execute {
        prompt: Prompt,
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
    Stop {
        reason: String,
        reply: oneshot::Sender<()>,
    },
    /// From the task that read a transcript: the turn's final response.
    Finished {
        response: Box<Response>,
    },
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
    }
}

/// Runs a node until it is stopped or its last handle is gone.
pub(super) async fn run(
    spec: TerminalSpec,
    pty: Pty,
    mut hooks: Option<HookSocket>,
    clock: Clock,
    mut inbox: mpsc::Receiver<Request>,
    requests: mpsc::WeakSender<Request>,
    status: watch::Sender<Status>,
) {
    let Pty { mut output, input, control, mut child } = pty;
    let mut actor = Actor::new(spec, clock, input, control, requests, status);
    let mut buffer = Vec::with_capacity(READ_LIMIT);
    loop {
        let deadline = actor.deadline();
        let timer = tokio::time::sleep_until(clock.instant(deadline.unwrap_or_default()));
        tokio::select! {
            read = output.read(&mut buffer), if actor.open => {
                match read {
                    Ok(0) | Err(_) => actor.output_closed(),
                    Ok(size) => {
                        if size >= FAST {
                            output.read_ahead();
                        }
                        actor.output(&buffer);
                    }
                }
                buffer.clear();
            }
            flushed = actor.input.flush(), if actor.input.pending() > 0 => {
                if let Err(error) = flushed {
                    tracing::debug!(node = %actor.spec.node.node, %error, "input to a closed terminal is dropped");
                }
            }
            request = inbox.recv(), if !actor.abandoned => match request {
                Some(request) => actor.request(request),
                None => actor.abandon(),
            },
            message = next_hook(&mut hooks) => match message {
                Ok(message) => actor.hook(message),
                Err(_) => hooks = None,
            },
            exit = child.wait(), if actor.exit.is_none() => actor.child_exited(exit),
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

struct Actor {
    spec: TerminalSpec,
    clock: Clock,
    input: Input,
    control: Control,
    requests: mpsc::WeakSender<Request>,
    status: watch::Sender<Status>,
    pump: Pump,
    driver: Driver,
    queue: Queue,
    active: Option<Active>,
    /// Who waits for a dialog to go.
    answering: Option<AnswerReply>,
    /// The agent's own record of the conversation, as its hooks named it.
    transcript: Option<PathBuf>,
    turns: u64,
    last_look: TsNs,
    look_due: Option<TsNs>,
    started: TsNs,
    open: bool,
    exit: Option<ExitStatus>,
    drain_until: Option<TsNs>,
    buried: bool,
    stop: Option<Stopping>,
    /// No handle is left.
    abandoned: bool,
    done: bool,
}

impl Actor {
    fn new(
        mut spec: TerminalSpec,
        clock: Clock,
        input: Input,
        control: Control,
        requests: mpsc::WeakSender<Request>,
        status: watch::Sender<Status>,
    ) -> Actor {
        let now = clock.now();
        Actor {
            pump: Pump::new(spec.size, std::mem::take(&mut spec.taps)),
            driver: Driver::new(spec.profile.clone(), now),
            spec,
            clock,
            input,
            control,
            requests,
            status,
            queue: Queue::default(),
            active: None,
            answering: None,
            transcript: None,
            turns: 0,
            last_look: TsNs(0),
            // A program that never writes is looked at too.
            look_due: Some(now),
            started: now,
            open: true,
            exit: None,
            drain_until: None,
            buried: false,
            stop: None,
            abandoned: false,
            done: false,
        }
    }

    fn deadline(&self) -> Option<TsNs> {
        let start = (*self.driver.state() == AgentState::Starting && self.queue.len() > 0)
            .then(|| self.start_deadline());
        [
            self.look_due,
            self.driver.deadline(),
            self.pump.terminal().frame_deadline(),
            self.spec.journal.deadline(),
            self.queue.deadline(),
            start,
            self.active.as_ref().and_then(|active| active.deadline),
            self.active.as_ref().and_then(|active| active.stream_due),
            self.stop.as_ref().map(|stop| stop.next),
            self.drain_until,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn start_deadline(&self) -> TsNs {
        self.started + self.spec.ready_timeout
    }

    fn output(&mut self, bytes: &[u8]) {
        let now = self.clock.now();
        let changes = self.pump.output(now, bytes);
        self.driver.output(now, self.pump.offset());
        let mut urgent = false;
        for notice in &changes.notices {
            self.driver.notice(notice);
            urgent |= matches!(notice, Notice::Mark(_) | Notice::Title(_));
            if let Notice::Rebuilt { reason } = notice {
                let message = format!("the terminal model failed and was rebuilt: {reason}");
                self.spec.events.publish(Some(&self.spec.node), EventKind::Error { message });
            }
        }
        if !changes.replies.is_empty() {
            self.type_bytes(now, &changes.replies);
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
        self.transcript = message.transcript.or(self.transcript.take());
        self.look(now);
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
            self.drain_until = Some(self.clock.now() + DRAIN);
        } else {
            self.bury();
        }
    }

    fn timer(&mut self) {
        let now = self.clock.now();
        let due = |at: Option<TsNs>| at.is_some_and(|at| at <= now);
        if due(self.pump.terminal().frame_deadline()) {
            self.pump.terminal_mut().expire_frame(now);
            self.look_due = Some(now);
        }
        if due(self.look_due) || due(self.driver.deadline()) {
            self.look(now);
        }
        let pump = &self.pump;
        self.spec.journal.settle(now, || tail_of(pump));
        if due(self.drain_until) {
            self.bury();
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
        self.last_look = now;
        self.look_due = None;
        let foreground = match self.spec.profile.foreground {
            true => self.control.foreground(!self.driver.trusts_marks(), &self.spec.profile.programs),
            false => Foreground::Unknown,
        };
        let screen = self.pump.terminal().screen();
        let cursor_line = self.pump.terminal().cursor_line().0;
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
        for message in self.pump.take_failures() {
            tracing::warn!(node = %self.spec.node.node, "{message}");
            self.spec.events.publish(Some(&self.spec.node), EventKind::Error { message });
        }
        if self.buried
            && let Some(stop) = self.stop.take()
        {
            for reply in stop.replies {
                let _ = reply.send(());
            }
            self.done = true;
        }
        self.publish_status();
    }

    fn publish_status(&mut self) {
        let (title, size) = (self.pump.terminal().title(), self.pump.terminal().size());
        let (driver, queued, turns) = (&self.driver, self.queue.len(), self.turns);
        let (stopping, closed) = (self.stop.is_some(), self.done);
        self.status.send_if_modified(|status| {
            let same = status.state == *driver.state()
                && status.evidence == *driver.evidence()
                && (status.stopping, status.closed) == (stopping, closed)
                && status.title == title
                && status.size == size
                && (status.turns, status.queued) == (turns, queued);
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
                    self.type_bytes(now, &bytes);
                }
                Effect::StateChanged => self.state_changed(),
                Effect::Answered { gone } => self.dialog_answered(gone),
                Effect::TurnEnded(end) => self.turn_ended(*end),
            }
        }
    }

    fn state_changed(&mut self) {
        let evidence = self.driver.evidence();
        let evidence = format!("{}: {}", evidence.source.as_str(), evidence.text);
        let kind = match self.driver.state().clone() {
            AgentState::Ready => EventKind::NodeReady { evidence },
            AgentState::Busy => EventKind::NodeBusy { evidence },
            AgentState::Blocked { kind, choices } => {
                let error = self.blocked_error();
                // A finished turn has its answer, whatever is asked after it.
                if let Some(active) = self.active.as_mut().filter(|active| active.finishing.is_none()) {
                    active.answer(Err(error));
                }
                EventKind::NodeBlocked { kind: kind.as_str(), choices, evidence }
            }
            AgentState::Starting | AgentState::Exited(_) => return,
        };
        self.spec.events.publish(Some(&self.spec.node), kind);
    }

    fn type_bytes(&mut self, now: TsNs, bytes: &[u8]) -> bool {
        if self.open && self.input.push(bytes) {
            self.pump.input(now, bytes);
            return true;
        }
        false
    }

    fn guard_input(&mut self, action: impl FnOnce(&mut Actor) -> bool) -> Result<(), EngineError> {
        if self.buried || self.stop.is_some() {
            return Err(self.stopped_error());
        }
        if action(self) {
            return Ok(());
        }
        let waiting = self.input.pending();
        let message = format!("node '{}' does not read: {waiting} bytes wait already", self.spec.node.node);
        Err(EngineError::new(ErrorKind::Busy, message))
    }

    fn text(&self, lines: Option<usize>) -> String {
        let terminal = self.pump.terminal();
        match lines {
            Some(lines) => terminal.tail(lines).join("\n"),
            None => terminal.tail(usize::MAX).join("\n"),
        }
    }
}

fn tail_of(pump: &Pump) -> String {
    pump.terminal().tail(HISTORY_BUFFER_LINES).join("\n")
}
