//! The task of a terminal node. It serialises output, requests, timers and the child's exit.

mod activity_reporter;
mod agent;
mod backend_events;
mod backend_link;
mod budget_guard;
mod errors;
mod faults;
mod handlers;
mod input_lease;
mod inputs;
mod lifecycle;
mod lost_rows;
mod observation;
mod queue;
pub(crate) mod request;
mod scrollback_share;
mod shadow_terminal;
mod shutdown;
pub(crate) mod status;
mod turn_meter;
mod turns;
mod waiters;

use std::io;
use std::path::Path;

use nerve_agent::driver::{AgentState, Driver, Effect, View};
use nerve_api::event::EventKind;
use nerve_api::value::{BlockKind, NodeState};
use nerve_host::backend::{Backend, Memory};
use nerve_host::clock::Clock;
use nerve_host::output_feed::OutputFeed;
use nerve_record::executions::log::ExecutionLog;
use nerve_record::history::HISTORY_BUFFER_LINES;
use nerve_types::{Foreground, Origin, TsNs};
use nerve_vt::terminal::TerminalState;
use tokio::sync::{mpsc, watch};

use self::activity_reporter::ActivityReporter;
use self::backend_link::BackendLink;
use self::budget_guard::BudgetGuard;
use self::faults::Faults;
use self::input_lease::InputLease;
use self::inputs::{Input, Inputs};
use self::lifecycle::Lifecycle;
use self::observation::ObservationTimer;
use self::queue::Turns;
use self::request::Request;
use self::scrollback_share::ScrollbackShare;
use self::status::Status;
use self::waiters::Waiters;
use crate::cancellation::interrupt_timeout_error;
use crate::hooks::HookSocket;
use crate::proxy::NodeProxy;
use crate::terminal::spec::TerminalSpec;

/// Shells that end incomplete output with a mark and a line end before they draw a prompt.
const FRESH_LINE_SHELLS: [&str; 2] = ["zsh", "fish"];

/// A terminal node: its parts, each with its own state. The modules of this folder implement its handlers.
pub(super) struct Actor<B> {
    spec: TerminalSpec,
    clock: Clock,
    link: BackendLink<B>,
    lifecycle: Lifecycle,
    terminal: TerminalState,
    /// End of the last gap in the output, in bytes.
    skipped_to: Option<u64>,
    driver: Driver,
    observation: ObservationTimer,
    lease: InputLease,
    /// Publishes the output to clients that show it.
    feed: OutputFeed,
    turns: Turns,
    budget: BudgetGuard,
    /// Time at which the node was created.
    started: TsNs,
    /// The program has been ready. Unlike the link's memory, this does not include earlier servers.
    has_been_ready: bool,
    /// The agent has worked after it was ready, with or without a prompt of ours.
    has_worked: bool,
    waiters: Waiters,
    faults: Faults,
    /// Time at which queued prompts expire if the program is still starting.
    start_deadline: TsNs,
    /// Reports what the agent does.
    reporter: ActivityReporter,
    /// Sends the results of this node's tasks to its own inbox.
    self_sender: mpsc::WeakSender<Request>,
    status: watch::Sender<Status>,
    /// True if the status has changed since its waiters were last woken.
    has_unannounced_status: bool,
}

impl<B: Backend> Actor<B> {
    pub(super) fn new(
        spec: TerminalSpec,
        execution_log: Option<ExecutionLog>,
        clock: Clock,
        backend: B,
        self_sender: mpsc::WeakSender<Request>,
        status: watch::Sender<Status>,
    ) -> Actor<B> {
        let now = clock.now();
        let is_adopted = spec.adopted.is_some();
        let stored = spec.adopted.clone().unwrap_or_default();
        let memory = match is_adopted {
            true => stored.clone(),
            false => Memory { conversation_id: spec.conversation_id.clone(), ..Memory::default() },
        };
        let budget = BudgetGuard::new(spec.ledger.clone(), memory.budget.is_some());
        let driver = new_driver(&spec, backend.is_foreign(), now);
        let link = BackendLink::new(backend, memory, stored);
        let reporter = ActivityReporter::new(&spec, execution_log, clock, now);
        reporter.continue_counting(link.progress().models.clone());
        Actor {
            turns: Turns::with_progress(link.progress()),
            driver,
            link,
            reporter,
            lifecycle: Lifecycle::new(is_adopted),
            terminal: TerminalState::new(spec.size),
            skipped_to: None,
            // An observation is due at once: a program that never writes has to be observed too.
            observation: ObservationTimer::new((!is_adopted).then_some(now)),
            lease: InputLease::default(),
            feed: OutputFeed::new(spec.size),
            budget,
            started: now,
            has_been_ready: false,
            has_worked: false,
            waiters: Waiters::default(),
            faults: Faults::default(),
            start_deadline: now + spec.ready_timeout,
            spec,
            clock,
            self_sender,
            status,
            has_unannounced_status: false,
        }
    }

    /// Runs the node until it is stopped or its last handle is dropped.
    pub(super) async fn run(mut self, hooks: io::Result<Option<HookSocket>>, inbox: mpsc::Receiver<Request>) {
        let budget = self.spec.ledger.subscribe();
        let hooks = hooks.unwrap_or_else(|error| {
            self.on_fault(format!(
                "its agent's hooks are lost, so the ends of its turns are found later: {error}; start the node again to restore them"
            ));
            None
        });
        let mut inputs = Inputs { inbox: Some(inbox), hooks, budget, scrollback: ScrollbackShare::new() };
        self.record_start();
        while !self.lifecycle.is_closed() {
            let deadline = self.deadline().map(|at| self.clock.instant(at));
            match inputs.next(&mut self.link, deadline).await {
                Input::Backend(event) => self.on_backend_event(event),
                Input::Request(request) => self.on_request(request),
                Input::HandlesDropped => self.on_handles_dropped(),
                Input::Hook(message) => self.on_hook(message),
                Input::Budget => self.check_budget(),
                Input::Scrollback => inputs.scrollback.apply(&mut self.terminal),
                Input::Timer => self.on_timer(),
            }
            self.settle();
        }
        // Dropping the actor completes its recording and audit log, so callers of stop are answered only after it.
        let stopped = self.lifecycle.take_stop_replies();
        drop(self);
        for reply in stopped {
            // A send error means that the caller left.
            let _ = reply.send(());
        }
    }

    /// Persists and logs the initial state of the node.
    fn record_start(&mut self) {
        self.check_budget();
        self.link.store_memory();
        self.log_start();
        // A newly started proxy reports its faults before the node exists; a restored proxy may have failed.
        if let Some(failure) = self.spec.proxy.as_ref().and_then(|proxy| proxy.failure()) {
            self.on_fault(failure.to_string());
        }
    }

    /// Logs the start of the program as a typed command if the spec asks for it.
    fn log_start(&mut self) {
        if self.spec.log_start && self.spec.adopted.is_none() {
            let (now, command) = (self.clock.now(), shell_words::join(&self.spec.program.argv));
            self.spec.audit_log.log_run(now, &command, String::new);
        }
    }

    /// Returns when the next timer is due.
    fn deadline(&self) -> Option<TsNs> {
        let has_queue = !self.turns.queue.is_empty();
        let is_starting = *self.driver.state() == AgentState::Starting;
        let times = [
            self.observation.deadline(),
            self.driver.deadline(),
            self.terminal.frame_deadline(),
            self.spec.audit_log.deadline(),
            self.turns.deadline(),
            self.lifecycle.deadline(),
            Some(self.start_deadline).filter(|_| has_queue && is_starting),
            self.lease.deadline().filter(|_| has_queue),
            self.waiters.deadline(),
            self.budget.deadline(),
        ];
        times.into_iter().flatten().min()
    }

    fn on_timer(&mut self) {
        let now = self.clock.now();
        let due = |at: Option<TsNs>| at.is_some_and(|at| at <= now);
        if due(self.terminal.frame_deadline()) {
            self.terminal.expire_frame(now);
            self.observation.schedule(now);
        }
        if due(self.observation.deadline()) || due(self.driver.deadline()) {
            self.observe(now);
        }
        let terminal = &self.terminal;
        self.spec.audit_log.capture_if_due(now, || tail_of(terminal));
        if self.lifecycle.is_drained(now) {
            self.conclude();
        }
        if due(self.lease.deadline()) {
            self.lease.invalidate();
        }
        self.expire_prompts(now);
        self.expire_turn(now);
        self.waiters.expire_interrupts(now, || interrupt_timeout_error(&self.spec.node.node));
        self.waiters.expire_resizes(now, || handlers::resize_timeout_error(&self.spec.node.node));
        if due(self.turns.active().and_then(|active| active.stream_due)) {
            self.stream();
        }
        if due(self.budget.deadline()) {
            self.check_budget();
        }
        if self.lifecycle.is_signal_due(now) {
            self.escalate(now);
        }
    }

    /// Shows the screen to the driver, unless it is a replayed one.
    fn observe(&mut self, now: TsNs) {
        if self.lifecycle.is_replaying() {
            return;
        }
        self.observation.record(now);
        let foreground = match self.spec.profile.foreground {
            true => self.link.backend.foreground(!self.driver.trusts_marks(), &self.spec.profile.programs),
            false => Foreground::Unknown,
        };
        let screen = self.terminal.screen();
        let cursor_line = self.cursor_line();
        let covered_line = self.output_terminal().covered_line().map(|line| line.0);
        self.driver.observe(now, View { screen: &screen, cursor_line, covered_line, foreground });
        if let Some(active) = self.turns.active_mut()
            && let Some(stream) = &active.stream
        {
            active.stream_due.get_or_insert(now + stream.poll_interval());
        }
        self.check_transcript();
    }

    /// Handles the consequences of an input: effects of the driver, the next prompt, the end of a stop, the new status.
    fn settle(&mut self) {
        self.run_effects();
        self.meter_work();
        self.start_next_prompts();
        self.run_effects();
        self.log_unsent();
        if !self.lifecycle.is_replaying() {
            self.link.remember_unsent_prompt(self.driver.unsent_prompt());
            self.link.remember_drawn_prompt(self.driver.learned_prompt());
        }
        self.lifecycle.finish_stop();
        let log_faults = self.spec.proxy.as_ref().map(NodeProxy::take_log_faults).unwrap_or_default();
        for fault in self.spec.audit_log.take_notices().into_iter().chain(log_faults) {
            self.on_fault(fault);
        }
        self.reporter.report_mismatch(self.clock.now(), self.driver.mismatch());
        // Poll often while a caller may wait for a start or a turn to end. Not during a dialog: that waits for a person.
        let watchful = matches!(self.driver.state(), AgentState::Starting | AgentState::Busy);
        self.link.backend.set_watchful(watchful && !self.lifecycle.is_ended());
        self.publish_status();
        self.link.store_memory();
        // Answered after the status is published, because the caller may read it at once.
        let turn = self.turns.active().map(|active| active.number);
        self.waiters.finish_interrupts(turn, *self.driver.state() == AgentState::Busy);
    }

    fn run_effects(&mut self) {
        while let Some(effect) = self.driver.poll_effect() {
            match effect {
                Effect::Write(bytes) => {
                    let now = self.clock.now();
                    self.type_bytes(now, &bytes, Origin::Api);
                }
                Effect::StateChanged => self.on_state_changed(),
                Effect::Answered { is_closed } => {
                    self.update_status();
                    self.on_dialog_answered(is_closed);
                }
                Effect::TurnEnded(end) => self.on_turn_ended(*end),
            }
        }
    }

    /// Returns the status as it is now.
    fn current_status(&self) -> Status {
        Status {
            state: self.state().clone(),
            evidence: self.evidence(),
            since: self.clock.now(),
            stopping: self.lifecycle.is_stopping(),
            closed: self.lifecycle.is_closed(),
            title: self.terminal.title().to_string(),
            size: self.terminal.size(),
            turns: self.turns.count(),
            has_worked: self.has_worked,
            turn_since: self.turns.active().map(|active| active.since),
            last_prompt: self.turns.last_prompt(),
            last_line: self.turns.last_line(),
            models: self.reporter.models(),
            delivery: self.driver.turn().map(|(_, delivery)| delivery),
            queued: self.turns.queue.len(),
            faults: self.faults.clone(),
            mismatch: self.reporter.mismatch().map(str::to_string),
            end_reason: self.lifecycle.end_reason().cloned(),
            conversation_id: self.link.conversation_id().cloned(),
            place: self.link.backend.place().to_vec(),
        }
    }

    /// Replaces the status that handles read, and publishes an event if the node became ready. Call it before answering a caller or
    /// publishing an event: the receiver may read the status at once. Does not wake the waiters for a state;
    /// [`Self::publish_status`] does, after the events.
    fn update_status(&mut self) {
        let mut status = self.current_status();
        self.link.remember_progress(status.progress_record());
        let (name, state) = (status.name(), status.state.clone());
        let mut old = (name, state.clone());
        let mut is_queue_changed = false;
        self.status.send_if_modified(|current| {
            is_queue_changed = current.queued != status.queued;
            if current.name() == status.name() {
                status.since = current.since;
            }
            self.has_unannounced_status |= *current != status;
            old = (current.name(), current.state.clone());
            *current = status;
            false
        });
        if is_queue_changed {
            self.publish(EventKind::NodeQueueChanged {});
        }
        if old == (name, state.clone()) {
            return;
        }
        let evidence = self.evidence();
        let evidence = format!("{}: {}", evidence.source.as_str(), evidence.text);
        match (name, state) {
            (NodeState::Ready, _) if old.0 != NodeState::Ready => {
                self.publish(EventKind::NodeReady { evidence })
            }
            // The driver reports other dialogs.
            (NodeState::Blocked, AgentState::Blocked { kind: kind @ BlockKind::Budget, choices }) => {
                let state = AgentState::Blocked { kind, choices: choices.clone() };
                self.reporter.report_state(self.clock.now(), &state);
                self.publish(EventKind::NodeBlocked { kind, choices, evidence });
            }
            _ => {}
        }
    }

    /// Updates the status, and wakes the waiters for a state if it has changed.
    fn publish_status(&mut self) {
        self.update_status();
        self.status.send_if_modified(|_| std::mem::take(&mut self.has_unannounced_status));
    }

    /// Publishes an event of this node.
    fn publish(&self, event: EventKind) {
        self.spec.events.publish(Some(&self.spec.node), event);
    }

    /// Sends bytes to the program. Returns false if it takes none.
    fn type_bytes(&mut self, now: TsNs, bytes: &[u8], origin: Origin) -> bool {
        self.lifecycle.has_terminal() && self.link.backend.write(now, bytes, origin)
    }

    fn cursor_line(&self) -> u64 {
        self.terminal.cursor_line().0
    }
}

fn new_driver(spec: &TerminalSpec, is_foreign: bool, now: TsNs) -> Driver {
    let driver = Driver::new(spec.profile.clone(), now);
    let driver = if is_foreign { driver.attached() } else { driver };
    let program = spec.program.argv.first().and_then(|program| Path::new(program).file_name()?.to_str());
    let driver = match program {
        Some(program) if FRESH_LINE_SHELLS.contains(&program) => driver.with_fresh_lines(),
        _ => driver,
    };
    let is_resumed =
        spec.profile.session.as_ref().is_some_and(|session_args| session_args.resumes(&spec.program.argv));
    if is_resumed { driver.resuming() } else { driver }
}

fn tail_of(terminal: &TerminalState) -> String {
    terminal.tail(HISTORY_BUFFER_LINES).join("\n")
}
