//! The core of one machine: routes inputs to leases, journals, owners and executions, and collects their effects.

use std::collections::BTreeMap;

pub use crate::executor::TurnReport;
use crate::executor::{Action, Execution};
use crate::id::{AttemptId, RunId, Sequence, StepId};
use crate::identity::Identity;
use crate::instance::{Instance, MachineId};
use crate::journal::{Decision, RecordKind, Replica, RunState, StepResult};
use crate::placement::{MachineInfo, WaitingStep};
use crate::run_owner::RunOwner;
use crate::store::{Request, Response};
use crate::time::{BootTime, LeaseTimes};

/// Number of a request to the store, unique in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// An event for the core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The server stops, its agents stay. The identity is released, so that the next process has it at once. The leases of steps stay,
    /// so that no step is in doubt. The adapter ends the process after [`ServerCore::is_released`], or a deadline.
    Stop,
    /// Time has passed. Due at least every twelfth of the TTL.
    Tick,
    /// A response of the store, or [`Response::Unavailable`] after the deadline. Repeated responses are ignored.
    Stored {
        /// The request's number.
        id: RequestId,
        /// The response.
        response: Response,
    },
    /// A run exists.
    RunFound(RunId),
    /// A run ended and is of no interest any more. Dropped while the run has not ended, or a turn of this process has no result.
    RunForgotten(RunId),
    /// The journal of a run may have new records: a hint.
    JournalChanged(RunId),
    /// The machines that are present, as far as known. This machine begins steps only if it is one of them and accepts steps.
    Machines(Vec<MachineInfo>),
    /// An attempt was offered to this machine: a hint, delivered until acknowledged.
    OfferNotification {
        /// Number of the delivery, for [`Effect::Acknowledge`].
        delivery: u64,
        /// The attempt.
        attempt: AttemptId,
    },
    /// A person decides on an attempt in doubt. Dropped if this doubt is over.
    Decide {
        /// The attempt.
        attempt: AttemptId,
        /// The doubt that the person saw: [`Attempt::undecided_doubt`](crate::journal::Attempt::undecided_doubt).
        doubt: Sequence,
        /// The decision.
        decision: Decision,
    },
    /// The node of an attempt is ready for the prompt.
    Prepared {
        /// The attempt.
        attempt: AttemptId,
        /// The node.
        node: String,
        /// The node's output so far, in bytes.
        offset: u64,
    },
    /// The node of an attempt cannot be prepared.
    PreparationFailed {
        /// The attempt.
        attempt: AttemptId,
        /// The cause, which becomes the step's result.
        error: String,
    },
    /// A turn ended.
    TurnFinished {
        /// The attempt.
        attempt: AttemptId,
        /// The result.
        result: StepResult,
    },
    /// Reply to [`Effect::InspectTurn`], or the loss of a turn that ran.
    TurnInspected {
        /// The attempt.
        attempt: AttemptId,
        /// The turn's state.
        report: TurnReport,
    },
}

/// An effect that the adapter performs, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Sends a request to the store. The adapter returns one [`Input::Stored`], within a deadline.
    Store {
        /// The request's number.
        id: RequestId,
        /// The request.
        request: Request,
    },
    /// Notifies a machine of an offer.
    NotifyOffer {
        /// The machine.
        machine: MachineId,
        /// The attempt.
        attempt: AttemptId,
    },
    /// Acknowledges the notification of an offer.
    Acknowledge {
        /// Number of the delivery.
        delivery: u64,
    },
    /// Prepares the workspace and the node of an attempt. Repeatable, types nothing. Reply: [`Input::Prepared`] or
    /// [`Input::PreparationFailed`].
    Prepare {
        /// The attempt.
        attempt: AttemptId,
    },
    /// Types the prompt: the effect that happens at most once per attempt.
    TypePrompt {
        /// The attempt.
        attempt: AttemptId,
    },
    /// Cancels a turn, because a person cancelled the run. The turn's end is reported as usual.
    CancelTurn {
        /// The attempt.
        attempt: AttemptId,
    },
    /// Requests the state of a turn that an earlier process may have typed.
    InspectTurn {
        /// The attempt.
        attempt: AttemptId,
    },
    /// Another process uses this machine's identity: the state folder was copied. This process begins nothing until the other ends.
    ReportIdentityConflict {
        /// The other process.
        holder: Instance,
    },
    /// This process owns the run's lease, but its sequence does not exceed the run's epoch. The stream of leases was replaced, so the
    /// run stands still until its sequences exceed the epoch. Repeated after each renewal.
    ReportOutdatedLease {
        /// The run.
        run: RunId,
    },
}

/// The core of one server process.
#[derive(Debug)]
pub struct ServerCore {
    me: Instance,
    times: LeaseTimes,
    identity: Identity,
    machines: Vec<MachineInfo>,
    runs: BTreeMap<RunId, Run>,
    outbox: Outbox,
}

/// A run as this process sees it.
#[derive(Debug)]
struct Run {
    id: RunId,
    journal: Replica,
    owner: RunOwner,
    executions: BTreeMap<(StepId, u32), Execution>,
    /// Decisions that are not in the journal yet.
    decisions: Vec<(StepId, u32, Sequence, Decision)>,
    /// Notifications of offers that are not acknowledged yet.
    notifications: Vec<(u64, AttemptId)>,
}

/// Facts that a run needs from its machine.
struct Context<'a> {
    now: BootTime,
    me: Instance,
    times: LeaseTimes,
    has_identity: bool,
    /// False if this machine is drained, or absent from the last list of machines.
    accepts_steps: bool,
    machines: &'a [MachineInfo],
}

/// Receiver of a response.
#[derive(Debug)]
enum Route {
    Identity,
    Owner(RunId),
    Journal(RunId),
    StepLease(AttemptId),
    LeaseCheck(RunId, StepId),
}

/// Collects effects and numbers requests.
#[derive(Debug, Default)]
struct Outbox {
    effects: Vec<Effect>,
    routes: BTreeMap<RequestId, Route>,
    last_id: u64,
}

impl ServerCore {
    /// Creates the core of a process that has just started.
    pub fn new(me: Instance, times: LeaseTimes) -> ServerCore {
        let identity = Identity::new(me, times);
        let (machines, runs, outbox) = (Vec::new(), BTreeMap::new(), Outbox::default());
        ServerCore { me, times, identity, machines, runs, outbox }
    }

    /// Handles an input and returns the effects, in order.
    pub fn handle(&mut self, now: BootTime, input: Input) -> Vec<Effect> {
        let affected = self.accept(now, input);
        if let Some(request) = self.identity.poll(now) {
            self.outbox.send(Route::Identity, request);
        }
        let own = self.machines.iter().find(|machine| machine.id == self.me.machine);
        let context = Context {
            now,
            me: self.me,
            times: self.times,
            has_identity: self.identity.is_held(now),
            accepts_steps: own.is_some_and(|own| own.accepts_steps),
            machines: &self.machines,
        };
        match affected {
            Affected::None => {}
            Affected::Run(id) => {
                if let Some(run) = self.runs.get_mut(&id) {
                    run.advance(&context, &mut self.outbox);
                }
            }
            Affected::All => {
                for run in self.runs.values_mut() {
                    run.advance(&context, &mut self.outbox);
                }
            }
        }
        std::mem::take(&mut self.outbox.effects)
    }

    /// Returns true if this process begins nothing new: it is out of contact with the store, or another process has its identity. The
    /// turns that run continue.
    pub fn is_suspended(&self, now: BootTime) -> bool {
        !self.identity.is_held(now)
    }

    /// Returns true after [`Input::Stop`] once the next process can take the identity.
    pub fn is_released(&self) -> bool {
        self.identity.is_released()
    }

    /// Returns the number of steps that run on this machine, or may run or begin there: earlier processes began them, or their starts
    /// are under way to the store.
    pub fn running_steps(&self) -> u32 {
        u32::try_from(self.runs.values().map(Run::running_steps).sum::<usize>()).unwrap_or(u32::MAX)
    }

    /// Returns true if this process has read the journal of each run that it knows. A step may run whose journal was not read.
    pub fn has_read_all(&self) -> bool {
        self.runs.values().all(|run| run.journal.has_read())
    }

    /// Returns the state of a run, as far as this process has read it.
    pub fn run(&self, id: &RunId) -> Option<&RunState> {
        Some(self.runs.get(id)?.journal.state())
    }

    /// Returns true if a later version wrote records of a run. This process only reads the run then: its state may be wrong.
    pub fn has_unsupported_records(&self, id: &RunId) -> bool {
        self.runs.get(id).is_some_and(|run| run.journal.has_unsupported_records())
    }

    /// Returns the steps of a run that wait for a machine, if this process owns the run.
    pub fn waiting_steps(&self, now: BootTime, id: &RunId) -> Vec<WaitingStep> {
        match self.runs.get(id) {
            Some(run) if run.owner.is_active(now, run.journal.state()) => {
                run.owner.waiting_steps(now, run.journal.state(), &self.machines)
            }
            _ => Vec::new(),
        }
    }

    /// Hands an input to its receiver.
    fn accept(&mut self, now: BootTime, input: Input) -> Affected {
        match input {
            Input::Stop => {
                self.identity.stop();
                Affected::All
            }
            Input::Tick => Affected::All,
            Input::Stored { id, response } => self.accept_response(now, id, response),
            Input::Machines(machines) => {
                self.machines = machines;
                Affected::All
            }
            Input::RunForgotten(run) => {
                self.forget(&run);
                Affected::None
            }
            Input::RunFound(run) | Input::JournalChanged(run) => {
                self.get_or_create_run(&run).journal.mark_behind();
                Affected::Run(run)
            }
            Input::OfferNotification { delivery, attempt } => {
                let run = self.get_or_create_run(&attempt.run);
                run.journal.mark_behind();
                let notification = (delivery, attempt.clone());
                if !run.notifications.contains(&notification) {
                    run.notifications.push(notification);
                }
                Affected::Run(attempt.run)
            }
            Input::Decide { attempt, doubt, decision } => {
                let run = self.get_or_create_run(&attempt.run);
                run.journal.mark_behind();
                run.decisions.push((attempt.step, attempt.attempt, doubt, decision));
                Affected::Run(attempt.run)
            }
            Input::Prepared { attempt, node, offset } => {
                self.change(attempt, |execution| execution.prepared(node, offset))
            }
            Input::PreparationFailed { attempt, error } => {
                self.change(attempt, |execution| execution.preparation_failed(error))
            }
            Input::TurnFinished { attempt, result } => {
                self.change(attempt, |execution| execution.finished(result))
            }
            Input::TurnInspected { attempt, report } => {
                self.change(attempt, |execution| execution.inspected(report))
            }
        }
    }

    fn accept_response(&mut self, now: BootTime, id: RequestId, response: Response) -> Affected {
        match self.outbox.routes.remove(&id) {
            None => Affected::None,
            Some(Route::Identity) => {
                if let Some(holder) = self.identity.handle_response(now, &response) {
                    self.outbox.effects.push(Effect::ReportIdentityConflict { holder });
                }
                Affected::All
            }
            Some(Route::Owner(id)) => {
                if let Some(run) = self.runs.get_mut(&id) {
                    run.owner.handle_lease_response(now, &response);
                }
                Affected::Run(id)
            }
            Some(Route::Journal(id)) => {
                if let Some(run) = self.runs.get_mut(&id) {
                    run.journal.handle_response(now, response);
                }
                Affected::Run(id)
            }
            Some(Route::LeaseCheck(id, step)) => {
                if let Some(run) = self.runs.get_mut(&id) {
                    run.owner.handle_check(&step, &response);
                }
                Affected::Run(id)
            }
            Some(Route::StepLease(attempt)) => {
                self.change(attempt, |execution| execution.handle_lease_response(now, &response))
            }
        }
    }

    /// Forgets a run that needs nothing more from this process, or of which no plan was read. Responses to its outstanding requests
    /// are dropped: a replica that is created later must not take them for its own.
    fn forget(&mut self, id: &RunId) {
        if self.runs.get(id).is_some_and(Run::is_over) {
            self.runs.remove(id);
            self.outbox.routes.retain(|_, route| route.run() != Some(id));
        }
    }

    fn get_or_create_run(&mut self, id: &RunId) -> &mut Run {
        let (me, times) = (self.me, self.times);
        self.runs.entry(id.clone()).or_insert_with(|| Run {
            id: id.clone(),
            journal: Replica::new(id.clone(), times),
            owner: RunOwner::new(id.clone(), me, times),
            executions: BTreeMap::new(),
            decisions: Vec::new(),
            notifications: Vec::new(),
        })
    }

    fn change(&mut self, attempt: AttemptId, change: impl FnOnce(&mut Execution)) -> Affected {
        let AttemptId { run, step, attempt } = attempt;
        let found = self.runs.get_mut(&run).and_then(|run| run.executions.get_mut(&(step, attempt)));
        if let Some(execution) = found {
            change(execution);
        }
        Affected::Run(run)
    }
}

/// Runs that an input can advance.
enum Affected {
    None,
    Run(RunId),
    All,
}

impl Run {
    /// Compares the journal with the state of this process and does what is due, as a Kubernetes controller does.
    fn advance(&mut self, context: &Context<'_>, outbox: &mut Outbox) {
        self.add_executions(context);
        while self.journal.is_current() && self.act(context, outbox) {}
        if context.has_identity {
            self.poll_leases(context.now, outbox);
        }
        let state = self.journal.state();
        let is_owner = self.owner.is_active(context.now, state);
        if is_owner {
            for (machine, attempt) in self.owner.notify_offers(context.now, state) {
                outbox.effects.push(Effect::NotifyOffer { machine, attempt });
            }
            for (step, request) in self.owner.check_leases(context.now, state) {
                outbox.send(Route::LeaseCheck(self.id.clone(), step), request);
            }
        }
        if self.journal.is_current() {
            self.acknowledge(context.now, outbox);
        }
        let state = self.journal.state();
        let is_watched = is_owner || self.executions.values().any(|execution| execution.is_open(state));
        // Others read too, more slowly: a hint may be lost.
        let interval = if is_watched {
            Some(context.times.renewal())
        } else {
            state.outcome.is_none().then(|| context.times.ttl())
        };
        if let Some(request) = self.journal.poll(context.now, interval) {
            outbox.send(Route::Journal(self.id.clone()), request);
        }
    }

    /// Returns true if the run has ended and no execution can report anything more, or if the run has no plan.
    fn is_over(&self) -> bool {
        let state = self.journal.state();
        let has_ended = state.outcome.is_some() || state.steps.is_empty();
        has_ended && !self.executions.values().any(|execution| execution.is_open(state))
    }

    fn running_steps(&self) -> usize {
        let state = self.journal.state();
        self.executions.values().filter(|execution| execution.may_run(state)).count()
    }

    /// Adds executions for attempts that concern this machine. They stay as long as the run, because they know what was typed.
    fn add_executions(&mut self, context: &Context<'_>) {
        for (step, state) in &self.journal.state().steps {
            for (number, attempt) in (1..).zip(&state.attempts) {
                let key = (step.clone(), number);
                if Execution::is_relevant(attempt, context.me) && !self.executions.contains_key(&key) {
                    let id = AttemptId { run: self.id.clone(), step: step.clone(), attempt: number };
                    self.executions.insert(key, Execution::new(id, attempt, context.me, context.times));
                }
            }
        }
    }

    /// Performs the next action that follows from the current journal. Returns false if there is none.
    fn act(&mut self, context: &Context<'_>, outbox: &mut Outbox) -> bool {
        let state = self.journal.state();
        if context.has_identity
            && let Some((epoch, kind)) = self.owner.decide(context.now, state, context.machines)
        {
            outbox.send(Route::Journal(self.id.clone()), self.journal.append(epoch, kind));
            return true;
        }
        if let Some(kind) = self.next_decision() {
            let epoch = self.journal.state().epoch;
            outbox.send(Route::Journal(self.id.clone()), self.journal.append(epoch, kind));
            return true;
        }
        let state = self.journal.state();
        let next = self.executions.values_mut().find_map(|execution| {
            let action = execution.act(context.now, context.has_identity, context.accepts_steps, state)?;
            Some((execution.id().clone(), action))
        });
        let Some((attempt, action)) = next else { return false };
        match action {
            Action::Prepare => outbox.effects.push(Effect::Prepare { attempt }),
            Action::Type => outbox.effects.push(Effect::TypePrompt { attempt }),
            Action::Cancel => outbox.effects.push(Effect::CancelTurn { attempt }),
            Action::Inspect => outbox.effects.push(Effect::InspectTurn { attempt }),
            Action::Read => self.journal.mark_behind(),
            Action::Append(kind) => {
                let request = self.journal.append(state.epoch, kind);
                outbox.send(Route::Journal(self.id.clone()), request);
            }
        }
        true
    }

    /// Returns a decision for the journal. Drops those that it has, and those that are out of date.
    fn next_decision(&mut self) -> Option<RecordKind> {
        let state = self.journal.state();
        self.decisions.retain(|(step, attempt, doubt, _)| {
            state.attempt(step, *attempt).is_some_and(|attempt| attempt.undecided_doubt() == Some(*doubt))
        });
        let (step, attempt, doubt, decision) = self.decisions.first()?.clone();
        Some(RecordKind::Decided { step, attempt, doubt, decision })
    }

    fn poll_leases(&mut self, now: BootTime, outbox: &mut Outbox) {
        let state = self.journal.state();
        if self.owner.has_confirmed_outdated_lease(state) {
            outbox.effects.push(Effect::ReportOutdatedLease { run: self.id.clone() });
        }
        if let Some(request) = self.owner.poll(now, state, !self.journal.has_unsupported_records()) {
            outbox.send(Route::Owner(self.id.clone()), request);
        }
        for execution in self.executions.values_mut() {
            if let Some(request) = execution.poll(now, state) {
                outbox.send(Route::StepLease(execution.id().clone()), request);
            }
        }
    }

    fn acknowledge(&mut self, now: BootTime, outbox: &mut Outbox) {
        let (state, executions) = (self.journal.state(), &self.executions);
        self.notifications.retain(|(delivery, attempt)| {
            let execution = executions.get(&(attempt.step.clone(), attempt.attempt));
            let is_answered = execution.is_none_or(|execution| execution.has_answered(now, state));
            if is_answered {
                outbox.effects.push(Effect::Acknowledge { delivery: *delivery });
            }
            !is_answered
        });
    }
}

impl Route {
    /// Returns the run that the response concerns.
    fn run(&self) -> Option<&RunId> {
        match self {
            Route::Identity => None,
            Route::Owner(run) | Route::Journal(run) | Route::LeaseCheck(run, _) => Some(run),
            Route::StepLease(attempt) => Some(&attempt.run),
        }
    }
}

impl Outbox {
    fn send(&mut self, route: Route, request: Request) {
        self.last_id += 1;
        let id = RequestId(self.last_id);
        self.routes.insert(id, route);
        self.effects.push(Effect::Store { id, request });
    }
}
