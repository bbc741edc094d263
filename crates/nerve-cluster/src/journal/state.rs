//! The fold of a journal: the state of a run.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::record::{
    Decision, Epoch, OnMachineLost, Record, RecordKind, RunOutcome, StepResult, StepSpec, UndecodableRecord,
};
use crate::id::{Sequence, StepId};
use crate::instance::{Instance, MachineId};
use crate::placement::Reason;

/// State of a run after some prefix of its journal. Equal prefixes give equal states on every machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunState {
    /// Sequence of the last record, valid or void.
    pub last: Sequence,
    /// The current epoch.
    pub epoch: Epoch,
    /// The owner of the current epoch.
    pub owner: Option<Instance>,
    /// The steps.
    pub steps: BTreeMap<StepId, StepState>,
    /// What the steps do, for their executors.
    pub work: Value,
    /// True once a person has cancelled the run.
    pub is_cancelled: bool,
    /// The outcome, once the run has ended.
    pub outcome: Option<RunOutcome>,
    /// Number of records that had no effect.
    pub void_records: u64,
}

/// State of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepState {
    /// The step's definition.
    pub spec: StepSpec,
    /// The attempts in order. Only the last counts.
    pub attempts: Vec<Attempt>,
    /// Number of attempts before the run was continued. They do not count any more.
    pub earlier_attempts: usize,
}

/// State of one attempt at a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The state.
    pub state: AttemptState,
    /// The machine to which the attempt was offered last.
    pub machine: MachineId,
    /// Reason for the choice of the machine.
    pub reason: Reason,
    /// Where the turn is, once the attempt has started.
    pub location: Option<TurnLocation>,
    /// A person's decision on the current doubt.
    pub decision: Option<Decision>,
    /// True if a person cancelled the run after the attempt had started. It stays so if the run continues.
    pub is_cancelled: bool,
    /// The result that arrived after the attempt had been superseded or had failed.
    pub late: Option<StepResult>,
    /// Sequence of the record that changed the attempt last.
    pub changed: Sequence,
}

/// A machine that was chosen for an attempt.
#[derive(Debug, Clone, Copy)]
struct Place {
    machine: MachineId,
    reason: Reason,
}

/// Place of a turn on its machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnLocation {
    /// The node.
    pub node: String,
    /// The node's output before the prompt, in bytes.
    pub offset: u64,
}

/// State of an attempt. `by`: the process that has the turn, as far as known.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the field repeats, and is described here")]
pub enum AttemptState {
    /// The machine may take it.
    Offered,
    /// The prompt may have been typed.
    Started { by: Instance },
    /// The machine is lost, or has lost the turn.
    InDoubt { by: Instance },
    /// The attempt has the step's result.
    Finished { by: Instance, result: StepResult },
    /// The attempt counts as a failure of the step. The result is unknown.
    Failed { by: Instance },
    /// The next attempt replaces it.
    Superseded { by: Instance },
}

impl RunState {
    /// Applies a record. Returns false if it is void; then nothing changes except `last` and `void_records`. A record at or before
    /// `last` is a duplicate and changes nothing.
    pub fn apply(&mut self, sequence: Sequence, record: &Record) -> bool {
        if sequence <= self.last {
            return false;
        }
        self.last = sequence;
        let is_valid = match &record.kind {
            kind if self.outcome.is_some() && !can_follow_end(kind) => false,
            RecordKind::OwnerTookOver { by } => self.change_owner(record.epoch, *by),
            _ if record.epoch != self.epoch => false,
            kind => self.apply_kind(sequence, kind),
        };
        self.void_records += u64::from(!is_valid);
        is_valid
    }

    /// Applies messages as the store returns them. Returns true if a later version wrote some of them: then the state may be wrong.
    pub fn apply_all(&mut self, messages: &[(Sequence, Result<Record, UndecodableRecord>)]) -> bool {
        let mut has_unsupported_records = false;
        for (sequence, record) in messages {
            match record {
                Ok(record) => {
                    self.apply(*sequence, record);
                }
                Err(error) => {
                    self.skip(*sequence);
                    has_unsupported_records |= *error == UndecodableRecord::Unsupported;
                }
            }
        }
        has_unsupported_records
    }

    /// Passes over a message that is no record.
    fn skip(&mut self, sequence: Sequence) {
        if sequence > self.last {
            self.last = sequence;
            self.void_records += 1;
        }
    }

    /// Returns an attempt.
    pub fn attempt(&self, step: &StepId, attempt: u32) -> Option<&Attempt> {
        self.steps.get(step)?.attempts.get(index(attempt)?)
    }

    /// Returns true if all steps that must precede a step have succeeded.
    pub fn is_ready(&self, spec: &StepSpec) -> bool {
        spec.after.iter().all(|step| self.steps.get(step).is_some_and(StepState::has_succeeded))
    }

    /// Returns true if a step has failed.
    pub fn has_failed(&self) -> bool {
        self.steps.values().any(StepState::has_failed)
    }

    /// Returns true if nothing more begins: a step has failed, or the run was cancelled.
    pub fn is_stopping(&self) -> bool {
        self.is_cancelled || self.has_failed()
    }

    /// Returns the outcome that the steps have reached: all have succeeded, or the run stops and none is started or in doubt.
    pub fn reached_outcome(&self) -> Option<RunOutcome> {
        let is_idle = |step: &StepState| match step.current() {
            Some((_, attempt)) => {
                !matches!(attempt.state, AttemptState::Started { .. } | AttemptState::InDoubt { .. })
            }
            None => true,
        };
        if !self.steps.is_empty() && self.steps.values().all(StepState::has_succeeded) {
            Some(RunOutcome::Completed)
        } else if self.is_stopping() && self.steps.values().all(is_idle) {
            Some(if self.is_cancelled { RunOutcome::Cancelled } else { RunOutcome::Failed })
        } else {
            None
        }
    }

    /// Returns how the doubt of a step's current attempt is resolved: by a person, else by the kind of the step or its policy. `None`:
    /// it waits for its machine or a person. No step of a run that stops is repeated.
    pub fn doubt_resolution(&self, step: &StepState) -> Option<Decision> {
        let policy = match step.spec.on_machine_lost {
            _ if step.spec.is_safe => Some(Decision::Retry),
            OnMachineLost::Retry => Some(Decision::Retry),
            OnMachineLost::Fail => Some(Decision::Fail),
            OnMachineLost::Wait => None,
        };
        let cancelled = self.is_cancelled.then_some(Decision::Fail);
        let resolution = step.current()?.1.decision.or(policy).or(cancelled)?;
        Some(if self.is_stopping() { Decision::Fail } else { resolution })
    }

    fn change_owner(&mut self, epoch: Epoch, by: Instance) -> bool {
        let is_newer = epoch > self.epoch;
        if is_newer {
            (self.epoch, self.owner) = (epoch, Some(by));
        }
        is_newer
    }

    fn apply_kind(&mut self, sequence: Sequence, kind: &RecordKind) -> bool {
        match kind {
            RecordKind::OwnerTookOver { .. } => false,
            RecordKind::Planned { steps, work } => self.plan(steps, work),
            RecordKind::Ended { outcome } => {
                let is_reached = self.reached_outcome() == Some(*outcome);
                self.outcome = if is_reached { Some(*outcome) } else { None };
                is_reached
            }
            RecordKind::Offered { .. }
            | RecordKind::Started { .. }
            | RecordKind::PreparationFailed { .. }
                if self.is_stopping() =>
            {
                false
            }
            RecordKind::Cancelled => self.cancel(),
            RecordKind::Continued => self.continue_run(),
            RecordKind::Offered { step, attempt, machine, reason } => {
                self.offer(sequence, step, *attempt, Place { machine: *machine, reason: *reason })
            }
            RecordKind::Started { step, attempt, by, node, offset } => {
                self.change(sequence, step, *attempt, |current| current.start(*by, node, *offset))
            }
            RecordKind::PreparationFailed { step, attempt, by, error } => {
                self.change(sequence, step, *attempt, |current| current.fail_preparation(*by, error))
            }
            RecordKind::Resumed { step, attempt, by } => {
                self.change(sequence, step, *attempt, |current| current.resume(*by))
            }
            RecordKind::InDoubt { step, attempt } => self.change(sequence, step, *attempt, Attempt::doubt),
            RecordKind::Finished { step, attempt, by, result } => {
                self.change(sequence, step, *attempt, |current| current.finish(*by, result))
            }
            RecordKind::LateResult { step, attempt, by, result } => {
                self.change(sequence, step, *attempt, |current| current.keep_late(*by, result))
            }
            RecordKind::Decided { step, attempt, doubt, decision } => {
                self.change(sequence, step, *attempt, |current| current.decide(*doubt, *decision))
            }
            RecordKind::Failed { step, attempt } => {
                let resolution = self.steps.get(step).and_then(|step| self.doubt_resolution(step));
                resolution == Some(Decision::Fail) && self.change(sequence, step, *attempt, Attempt::fail)
            }
        }
    }

    fn plan(&mut self, steps: &[StepSpec], work: &Value) -> bool {
        let is_valid = self.steps.is_empty() && can_complete(steps);
        if is_valid {
            let added = steps.iter().map(|spec| (spec.id.clone(), StepState::new(spec.clone())));
            self.steps.extend(added);
            self.work = work.clone();
        }
        is_valid
    }

    /// Cancels the run and the attempts that have started. One that was only offered may start if the run continues.
    fn cancel(&mut self) -> bool {
        let is_valid = !self.steps.is_empty() && !self.is_cancelled;
        if is_valid {
            self.is_cancelled = true;
            for attempt in self.steps.values_mut().flat_map(|step| step.attempts.iter_mut()) {
                attempt.is_cancelled = attempt.state != AttemptState::Offered;
            }
        }
        is_valid
    }

    fn continue_run(&mut self) -> bool {
        let is_valid = matches!(self.outcome, Some(RunOutcome::Failed | RunOutcome::Cancelled));
        if is_valid {
            (self.outcome, self.is_cancelled) = (None, false);
            for step in self.steps.values_mut().filter(|step| step.has_failed()) {
                step.earlier_attempts = step.attempts.len();
            }
        }
        is_valid
    }

    fn offer(&mut self, sequence: Sequence, step: &StepId, attempt: u32, place: Place) -> bool {
        let Some(found) = self.steps.get(step) else { return false };
        let is_due = match found.current() {
            None => self.is_ready(&found.spec),
            Some((_, current)) => match current.state {
                AttemptState::Offered => true,
                AttemptState::Started { .. } => found.spec.is_safe,
                AttemptState::InDoubt { .. } => self.doubt_resolution(found) == Some(Decision::Retry),
                _ => false,
            },
        };
        is_due && self.steps.get_mut(step).is_some_and(|step| step.offer(sequence, attempt, place))
    }

    fn change(
        &mut self,
        sequence: Sequence,
        step: &StepId,
        attempt: u32,
        change: impl FnOnce(&mut Attempt) -> bool,
    ) -> bool {
        let attempts = self.steps.get_mut(step).map(|step| &mut step.attempts);
        let found = attempts.zip(index(attempt)).and_then(|(all, index)| all.get_mut(index));
        let Some(found) = found else { return false };
        let is_valid = change(found);
        if is_valid {
            found.changed = sequence;
        }
        is_valid
    }
}

impl StepState {
    fn new(spec: StepSpec) -> StepState {
        StepState { spec, attempts: Vec::new(), earlier_attempts: 0 }
    }

    /// Returns the last attempt with its number; `None` if the run was continued since.
    pub fn current(&self) -> Option<(u32, &Attempt)> {
        let last = self.attempts.last().filter(|_| self.attempts.len() > self.earlier_attempts)?;
        Some((u32::try_from(self.attempts.len()).ok()?, last))
    }

    /// Returns the number of the next attempt.
    pub fn next_attempt(&self) -> u32 {
        u32::try_from(self.attempts.len()).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// Returns true if the step has a successful result.
    pub fn has_succeeded(&self) -> bool {
        matches!(self.current(), Some((_, Attempt { state: AttemptState::Finished { result, .. }, .. })) if result.is_success)
    }

    /// Returns true if the step has failed.
    pub fn has_failed(&self) -> bool {
        match self.current() {
            Some((_, Attempt { state: AttemptState::Finished { result, .. }, .. })) => !result.is_success,
            Some((_, attempt)) => matches!(attempt.state, AttemptState::Failed { .. }),
            None => false,
        }
    }

    /// Offers the current attempt again if it has not started, else the next one.
    fn offer(&mut self, sequence: Sequence, attempt: u32, place: Place) -> bool {
        let Place { machine, reason } = place;
        let count = u32::try_from(self.attempts.len()).unwrap_or(u32::MAX);
        let is_first = self.attempts.len() == self.earlier_attempts;
        let superseded = match self.attempts.last_mut().filter(|_| !is_first) {
            None => None,
            Some(current) if attempt == count => {
                let is_open = current.state == AttemptState::Offered;
                if is_open {
                    (current.machine, current.reason, current.changed) = (machine, reason, sequence);
                }
                return is_open;
            }
            Some(current) => match current.state {
                AttemptState::Started { by } | AttemptState::InDoubt { by } => Some((current, by)),
                _ => return false,
            },
        };
        if count.checked_add(1) != Some(attempt) {
            return false;
        }
        if let Some((current, by)) = superseded {
            (current.state, current.changed) = (AttemptState::Superseded { by }, sequence);
        }
        let state = AttemptState::Offered;
        self.attempts.push(Attempt {
            state,
            machine,
            reason,
            location: None,
            decision: None,
            is_cancelled: false,
            late: None,
            changed: sequence,
        });
        true
    }
}

impl Attempt {
    /// Returns the process that has the turn, as far as known; `None` before the start.
    pub fn starter(&self) -> Option<Instance> {
        match self.state {
            AttemptState::Offered => None,
            AttemptState::Started { by }
            | AttemptState::InDoubt { by }
            | AttemptState::Finished { by, .. }
            | AttemptState::Failed { by }
            | AttemptState::Superseded { by } => Some(by),
        }
    }

    /// Returns the sequence of the `InDoubt` on which a person may decide; `None` if the attempt is not in doubt or the decision is made.
    pub fn undecided_doubt(&self) -> Option<Sequence> {
        let is_undecided = matches!(self.state, AttemptState::InDoubt { .. }) && self.decision.is_none();
        is_undecided.then_some(self.changed)
    }

    fn is_offered_to(&self, process: Instance) -> bool {
        self.state == AttemptState::Offered && process.machine == self.machine
    }

    fn fail_preparation(&mut self, by: Instance, error: &str) -> bool {
        let result = StepResult { is_success: false, value: error.to_string() };
        self.set_if(self.is_offered_to(by), AttemptState::Finished { by, result })
    }

    fn start(&mut self, by: Instance, node: &str, offset: u64) -> bool {
        let is_valid = self.is_offered_to(by);
        if is_valid {
            self.location = Some(TurnLocation { node: node.to_string(), offset });
        }
        self.set_if(is_valid, AttemptState::Started { by })
    }

    fn resume(&mut self, by: Instance) -> bool {
        let has_turn = match self.state {
            AttemptState::Started { by: last } => last.machine == by.machine && last != by,
            AttemptState::InDoubt { by: last } => last.machine == by.machine,
            _ => false,
        };
        if has_turn {
            // A later doubt needs a decision of its own.
            self.decision = None;
        }
        self.set_if(has_turn, AttemptState::Started { by })
    }

    fn doubt(&mut self) -> bool {
        match self.state {
            AttemptState::Started { by } => self.set_if(true, AttemptState::InDoubt { by }),
            _ => false,
        }
    }

    fn decide(&mut self, doubt: Sequence, decision: Decision) -> bool {
        let is_valid = self.undecided_doubt() == Some(doubt);
        if is_valid {
            self.decision = Some(decision);
        }
        is_valid
    }

    fn finish(&mut self, by: Instance, result: &StepResult) -> bool {
        let is_valid = self.state == AttemptState::Started { by };
        self.set_if(is_valid, AttemptState::Finished { by, result: result.clone() })
    }

    fn fail(&mut self) -> bool {
        match self.state {
            AttemptState::InDoubt { by } => self.set_if(true, AttemptState::Failed { by }),
            _ => false,
        }
    }

    fn keep_late(&mut self, by: Instance, result: &StepResult) -> bool {
        let counts_no_more =
            matches!(self.state, AttemptState::Superseded { .. } | AttemptState::Failed { .. });
        let is_valid = counts_no_more && self.late.is_none() && by.machine == self.machine;
        if is_valid {
            self.late = Some(result.clone());
        }
        is_valid
    }

    fn set_if(&mut self, is_valid: bool, state: AttemptState) -> bool {
        if is_valid {
            self.state = state;
        }
        is_valid
    }
}

/// Returns true if there are steps, their ids differ, and each of them is ready once others have succeeded.
fn can_complete(steps: &[StepSpec]) -> bool {
    let mut completed = BTreeSet::new();
    loop {
        let count = completed.len();
        for spec in steps {
            if spec.after.iter().all(|step| completed.contains(step)) {
                completed.insert(&spec.id);
            }
        }
        if completed.len() == count {
            return count == steps.len() && !steps.is_empty();
        }
    }
}

/// Returns true for records that may follow the end of a run.
fn can_follow_end(kind: &RecordKind) -> bool {
    matches!(kind, RecordKind::Finished { .. } | RecordKind::LateResult { .. } | RecordKind::Continued)
}

/// Returns the index of an attempt's number.
fn index(attempt: u32) -> Option<usize> {
    usize::try_from(attempt.checked_sub(1)?).ok()
}
