//! Execution of one attempt on a machine.

use crate::id::AttemptId;
use crate::instance::Instance;
use crate::journal::{Attempt, AttemptState, RecordKind, RunState, StepResult};
use crate::lease::{Lease, Takeover};
use crate::store::{Key, Request, Response};
use crate::time::{BootTime, LeaseTimes};

/// State of an agent's turn, as its host reports it after a restart of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnReport {
    /// The agent works on it.
    Running,
    /// The turn has ended.
    Finished(StepResult),
    /// The host or its agent is gone, or never received the prompt.
    Lost,
}

/// An attempt that was offered to this machine or started on it.
#[derive(Debug)]
pub(crate) struct Execution {
    id: AttemptId,
    me: Instance,
    lease: Lease,
    turn: Turn,
    /// True if the turn was cancelled with its run.
    is_cancelled: bool,
    /// True if this process sent the start of the attempt, and the journal was not read since.
    is_starting: bool,
    /// True if the fence opened but this process could not begin work. It reads the journal again before it types.
    has_lapsed: bool,
}

/// The turn, as far as this process knows. `New` to `PreparationFailed`: this process has not typed it.
#[derive(Debug)]
enum Turn {
    New,
    Preparing,
    Ready {
        node: String,
        offset: u64,
    },
    /// The node cannot be prepared, for this reason.
    PreparationFailed(String),
    Running,
    Finished(StepResult),
    /// An earlier process may have typed it.
    Unknown,
    Inspecting,
    /// No process has it. The lease is released, so the owner regards the attempt as in doubt.
    Lost,
}

/// How the journal relates an attempt to this process. `is_mine`: this process started or resumed it, not another of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    Offered,
    Started {
        is_mine: bool,
    },
    InDoubt {
        is_mine: bool,
    },
    /// The attempt runs elsewhere or does not count any more.
    None,
}

/// The next action of an execution.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Prepares the node.
    Prepare,
    /// Appends a record.
    Append(RecordKind),
    /// Types the prompt.
    Type,
    /// Cancels the turn.
    Cancel,
    /// Inspects the turn.
    Inspect,
    /// Reads the journal's tail.
    Read,
}

impl Execution {
    /// Creates the execution of an attempt that this process finds in the journal.
    pub(crate) fn new(id: AttemptId, attempt: &Attempt, me: Instance, times: LeaseTimes) -> Execution {
        let lease = Lease::new(Key::Step(id.clone()), me, times, Takeover::FromSameMachine);
        let turn = if attempt.state == AttemptState::Offered { Turn::New } else { Turn::Unknown };
        Execution { id, me, lease, turn, is_cancelled: false, is_starting: false, has_lapsed: false }
    }

    /// Returns the attempt.
    pub(crate) fn id(&self) -> &AttemptId {
        &self.id
    }

    /// Returns true if an attempt concerns a machine's processes.
    pub(crate) fn is_relevant(attempt: &Attempt, me: Instance) -> bool {
        let is_over = match &attempt.state {
            AttemptState::Finished { .. } => true,
            AttemptState::Failed { .. } | AttemptState::Superseded { .. } => attempt.late.is_some(),
            _ => false,
        };
        attempt.machine == me.machine && !is_over
    }

    /// Returns true if the notification of the offer can be acknowledged: this process has the lease, or must not take the attempt.
    pub(crate) fn has_answered(&self, now: BootTime, state: &RunState) -> bool {
        self.claim(state) != Claim::Offered || self.lease.is_fresh(now)
    }

    /// Returns true if records of others can matter to the execution.
    pub(crate) fn is_open(&self, state: &RunState) -> bool {
        match self.turn {
            Turn::Lost => false,
            Turn::New | Turn::Preparing | Turn::Ready { .. } | Turn::PreparationFailed(_) | Turn::Unknown => {
                self.claim(state) != Claim::None
            }
            Turn::Finished(_) => self.claim(state) != Claim::None || self.can_report_late(state),
            Turn::Running | Turn::Inspecting => true,
        }
    }

    /// Returns true if the turn runs on this machine, or may run or begin there, whether the machine accepts steps or not.
    pub(crate) fn may_run(&self, state: &RunState) -> bool {
        match self.turn {
            Turn::Running | Turn::Inspecting => true,
            Turn::Finished(_) | Turn::Lost => false,
            Turn::Unknown => self.claim(state) != Claim::None || self.can_report_late(state),
            Turn::New | Turn::Preparing | Turn::Ready { .. } | Turn::PreparationFailed(_) => {
                let has_started = matches!(self.claim(state), Claim::Started { .. } | Claim::InDoubt { .. });
                self.is_starting || has_started
            }
        }
    }

    /// Returns the next request for the step's lease. Called only while the machine has its identity.
    pub(crate) fn poll(&mut self, now: BootTime, state: &RunState) -> Option<Request> {
        let is_wanted = self.claim(state) != Claim::None && !matches!(self.turn, Turn::Lost);
        self.lease.poll(now, is_wanted)
    }

    /// Handles a response for the step's lease.
    pub(crate) fn handle_lease_response(&mut self, now: BootTime, response: &Response) {
        self.lease.handle_response(now, response);
    }

    /// Handles the end of a successful preparation.
    pub(crate) fn prepared(&mut self, node: String, offset: u64) {
        if matches!(self.turn, Turn::Preparing) {
            self.turn = Turn::Ready { node, offset };
        }
    }

    /// Handles the end of a preparation that failed.
    pub(crate) fn preparation_failed(&mut self, error: String) {
        if matches!(self.turn, Turn::Preparing) {
            self.turn = Turn::PreparationFailed(error);
        }
    }

    /// Handles the end of the turn.
    pub(crate) fn finished(&mut self, result: StepResult) {
        if matches!(self.turn, Turn::Running | Turn::Inspecting) {
            self.turn = Turn::Finished(result);
        }
    }

    /// Handles the report of the turn's host. A turn that runs can be lost, too.
    pub(crate) fn inspected(&mut self, report: TurnReport) {
        if matches!(self.turn, Turn::Inspecting) {
            self.turn = match report {
                TurnReport::Running => Turn::Running,
                TurnReport::Finished(result) => Turn::Finished(result),
                TurnReport::Lost => Turn::Lost,
            };
        } else if matches!(self.turn, Turn::Running) && report == TurnReport::Lost {
            self.turn = Turn::Lost;
        }
    }

    /// Returns the next action. `state` is current; `has_identity`: the machine has its identity for certain; `accepts_steps`: it may
    /// begin attempts.
    pub(crate) fn act(
        &mut self,
        now: BootTime,
        has_identity: bool,
        accepts_steps: bool,
        state: &RunState,
    ) -> Option<Action> {
        let can_begin = has_identity && self.lease.is_fresh(now);
        let can_start = can_begin && accepts_steps;
        self.is_starting = false;
        // The run may have continued since, without this machine.
        let attempt = state.attempt(&self.id.step, self.id.attempt);
        let is_unwanted = attempt.is_some_and(|attempt| attempt.is_cancelled);
        if is_unwanted && matches!(self.turn, Turn::Running) && !self.is_cancelled {
            self.is_cancelled = true;
            return Some(Action::Cancel);
        }
        match (self.claim(state), &self.turn) {
            (Claim::Offered, Turn::New) if can_start => {
                self.turn = Turn::Preparing;
                Some(Action::Prepare)
            }
            (Claim::Offered, Turn::Ready { node, offset }) if can_start => {
                let (step, attempt, by) = (self.id.step.clone(), self.id.attempt, self.me);
                let (node, offset) = (node.clone(), *offset);
                self.is_starting = true;
                Some(Action::Append(RecordKind::Started { step, attempt, by, node, offset }))
            }
            (Claim::Offered, Turn::PreparationFailed(error)) if can_start => {
                let (step, attempt, by) = (self.id.step.clone(), self.id.attempt, self.me);
                Some(Action::Append(RecordKind::PreparationFailed {
                    step,
                    attempt,
                    by,
                    error: error.clone(),
                }))
            }
            (Claim::Started { is_mine: true }, Turn::Ready { .. }) => self.pass_fence(can_begin),
            (Claim::Started { is_mine: true }, Turn::Finished(result)) => {
                let (step, attempt, by, result) =
                    (self.id.step.clone(), self.id.attempt, self.me, result.clone());
                Some(Action::Append(RecordKind::Finished { step, attempt, by, result }))
            }
            // This process forgot the run, so it may have typed. Its start may also have arrived late.
            (
                Claim::Started { is_mine: true } | Claim::InDoubt { is_mine: true },
                Turn::New | Turn::Preparing | Turn::PreparationFailed(_) | Turn::Unknown,
            ) if has_identity => self.inspect(),
            // Another process of this machine may have typed, so this one must not.
            (
                Claim::Started { is_mine: false } | Claim::InDoubt { is_mine: false },
                Turn::New | Turn::Preparing | Turn::Ready { .. } | Turn::PreparationFailed(_) | Turn::Unknown,
            ) if has_identity => self.inspect(),
            (
                Claim::Started { is_mine: false } | Claim::InDoubt { .. },
                Turn::Ready { .. } | Turn::Running | Turn::Finished(_),
            ) if can_begin => {
                let (step, attempt, by) = (self.id.step.clone(), self.id.attempt, self.me);
                Some(Action::Append(RecordKind::Resumed { step, attempt, by }))
            }
            (Claim::None, Turn::Unknown) if has_identity && self.can_report_late(state) => self.inspect(),
            (Claim::None, Turn::Finished(result)) if self.can_report_late(state) => {
                let (step, attempt, by, result) =
                    (self.id.step.clone(), self.id.attempt, self.me, result.clone());
                Some(Action::Append(RecordKind::LateResult { step, attempt, by, result }))
            }
            _ => None,
        }
    }

    /// Types the prompt, which the journal allows, unless this process was out of contact since.
    fn pass_fence(&mut self, can_begin: bool) -> Option<Action> {
        if !can_begin {
            self.has_lapsed = true;
            return None;
        }
        if std::mem::take(&mut self.has_lapsed) {
            return Some(Action::Read);
        }
        self.turn = Turn::Running;
        Some(Action::Type)
    }

    fn inspect(&mut self) -> Option<Action> {
        self.turn = Turn::Inspecting;
        Some(Action::Inspect)
    }

    fn claim(&self, state: &RunState) -> Claim {
        let Some(attempt) = state.attempt(&self.id.step, self.id.attempt) else { return Claim::None };
        if attempt.machine != self.me.machine {
            return Claim::None;
        }
        match attempt.state {
            AttemptState::Offered if state.is_stopping() => Claim::None,
            AttemptState::Offered => Claim::Offered,
            AttemptState::Started { by } => Claim::Started { is_mine: by == self.me },
            AttemptState::InDoubt { by } => Claim::InDoubt { is_mine: by == self.me },
            AttemptState::Finished { .. } | AttemptState::Failed { .. } | AttemptState::Superseded { .. } => {
                Claim::None
            }
        }
    }

    fn can_report_late(&self, state: &RunState) -> bool {
        state.attempt(&self.id.step, self.id.attempt).is_some_and(|attempt| {
            matches!(attempt.state, AttemptState::Failed { .. } | AttemptState::Superseded { .. })
                && Execution::is_relevant(attempt, self.me)
        })
    }
}
