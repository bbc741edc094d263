//! The invariants, checked against the store's own journals.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;

use nerve_cluster::journal::{AttemptState, Decision, OnMachineLost, RunOutcome, StepState};
use nerve_cluster::{AttemptId, Epoch, Instance, Record, RecordKind, RunId, RunState, Sequence, StepId};

/// A broken invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Violation {
    /// An attempt was typed twice.
    AttemptTypedTwice(AttemptId),
    /// An attempt was typed that neither the step's definition nor a person allows.
    StepTypedTwice(AttemptId),
    /// A further attempt was offered at a step that waits, without a person's decision on its current doubt.
    RetriedWithoutConsent(AttemptId),
    /// A process reported a replaced stream of leases, which no fault of the simulation does.
    LeaseReportedOutdated(RunId),
    /// A run ended with an outcome that its steps do not have, or a record after the end changed it.
    EndedTooEarly(RunId, Sequence),
    /// A process began something although ⅔ of the TTL had passed since its last accepted renewal.
    BegunWithoutLease(String),
    /// A process began an attempt although its machine was drained or absent from its list of machines.
    BegunWhileDrained(String),
    /// A prompt was typed without a valid `Started` or `Resumed` of its process.
    TypedWithoutRecord(AttemptId),
    /// A record of an older epoch changed the state.
    StaleRecordCounted(RunId, Sequence),
    /// A result is not that of the attempt's turn, or the attempt was not typed.
    ResultWithoutTurn(AttemptId),
    /// The preparation of an attempt failed, which was typed.
    TypedWithoutPreparation(AttemptId),
    /// A step uses a result of an attempt or a process that does not count any more.
    ResultMisused(RunId, Sequence),
    /// A run neither ended nor waits visibly for a person.
    StepLost(RunId),
    /// The fold of a journal whose records are delivered twice, or in overlapping parts, differs.
    FoldDiffers(RunId),
    /// A replica with the whole journal has another state.
    ReplicaDiffers(RunId),
}

/// Events of interest in one or more interleavings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) typed: u64,
    pub(crate) takeovers: u64,
    pub(crate) resumed: u64,
    pub(crate) in_doubt: u64,
    pub(crate) late_results: u64,
    pub(crate) decisions: u64,
    pub(crate) further_attempts: u64,
    pub(crate) stale_records: u64,
    pub(crate) other_void_records: u64,
    pub(crate) identity_conflicts: u64,
    /// Prompts typed after the attempt had been superseded or had failed, by a process with a stopped clock or a request in flight.
    pub(crate) late_effects: u64,
    pub(crate) completed_runs: u64,
    pub(crate) failed_runs: u64,
    pub(crate) waiting_runs: u64,
    pub(crate) forgotten_runs: u64,
    pub(crate) failed_preparations: u64,
    pub(crate) failed_turns: u64,
    pub(crate) crashes_before_effects: u64,
    pub(crate) released_identities: u64,
    pub(crate) cancelled_runs: u64,
    pub(crate) cancelled_turns: u64,
    pub(crate) continued_runs: u64,
}

/// Follows the journals and the effects.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    pub(crate) runs: BTreeMap<RunId, RunCheck>,
    typed: BTreeMap<AttemptId, u32>,
    /// Attempts that a person allowed.
    retried: BTreeSet<AttemptId>,
    pub(crate) counts: Counts,
    pub(crate) violation: Option<Violation>,
}

/// The truth about a run.
#[derive(Debug, Default)]
pub(crate) struct RunCheck {
    pub(crate) state: RunState,
    /// The highest epoch of a takeover, counted here independently of the fold.
    epoch: Epoch,
    /// Processes that may type each attempt.
    allowed: BTreeMap<AttemptId, BTreeSet<Instance>>,
}

impl Checker {
    /// Follows a record that the store appended. `is_forged`: its epoch is not the one in which it was written.
    pub(crate) fn on_append(&mut self, run: &RunId, sequence: Sequence, record: &Record, is_forged: bool) {
        let check = self.runs.entry(run.clone()).or_default();
        let is_takeover = matches!(record.kind, RecordKind::OwnerTookOver { .. });
        let is_stale =
            is_forged || if is_takeover { record.epoch <= check.epoch } else { record.epoch != check.epoch };
        let before = is_stale.then(|| check.state.clone());
        let has_ended = check.state.outcome.is_some();
        let current_before = check.current_attempt(&record.kind);
        let is_valid = check.state.apply(sequence, record);
        let is_misused = match &record.kind {
            RecordKind::Finished { attempt, by, .. } => {
                is_valid && current_before != Some((*attempt, AttemptState::Started { by: *by }))
            }
            RecordKind::LateResult { .. } => current_before != check.current_attempt(&record.kind),
            _ => false,
        };
        let is_wrong_end = match &record.kind {
            RecordKind::Ended { outcome } => is_valid && !check.has_reached(*outcome),
            RecordKind::LateResult { .. } | RecordKind::Continued => false,
            _ => is_valid && has_ended,
        };
        if is_wrong_end {
            self.violation.get_or_insert(Violation::EndedTooEarly(run.clone(), sequence));
        }
        if is_misused {
            self.violation.get_or_insert(Violation::ResultMisused(run.clone(), sequence));
        }
        if let Some(before) = before {
            self.counts.stale_records += 1;
            let same =
                RunState { last: before.last, void_records: before.void_records, ..check.state.clone() };
            if same != before {
                self.violation.get_or_insert(Violation::StaleRecordCounted(run.clone(), sequence));
            }
        } else if is_takeover && is_valid {
            check.epoch = record.epoch;
        }
        self.counts.other_void_records += u64::from(!is_valid && !is_stale);
        if is_valid {
            self.on_kind(run, &record.kind);
        }
    }

    fn on_kind(&mut self, run: &RunId, kind: &RecordKind) {
        let counts = &mut self.counts;
        let id = |step: &StepId, attempt| AttemptId { run: run.clone(), step: step.clone(), attempt };
        match kind {
            RecordKind::OwnerTookOver { .. } => counts.takeovers += 1,
            RecordKind::Offered { step, attempt, .. } => {
                counts.further_attempts += u64::from(*attempt > 1);
                let id = id(step, *attempt);
                if !self.is_permitted(&id) {
                    self.violation.get_or_insert(Violation::RetriedWithoutConsent(id));
                }
            }
            RecordKind::InDoubt { .. } => counts.in_doubt += 1,
            RecordKind::Continued => {
                counts.continued_runs += 1;
                let steps = self.runs[run].state.steps.values();
                let again = steps.filter(|step| step.current().is_none());
                self.retried.extend(again.map(|step| id(&step.spec.id, step.next_attempt())));
            }
            RecordKind::Decided { step, attempt, decision, .. } => {
                counts.decisions += 1;
                if *decision == Decision::Retry {
                    self.retried.insert(id(step, attempt + 1));
                }
            }
            RecordKind::Started { step, attempt, by, .. } | RecordKind::Resumed { step, attempt, by } => {
                if matches!(kind, RecordKind::Resumed { .. }) {
                    counts.resumed += 1;
                    // The doubt is over, and so is the person's consent.
                    self.retried.remove(&id(step, attempt + 1));
                }
                let id = id(step, *attempt);
                let check = self.runs.entry(run.clone()).or_default();
                check.allowed.entry(id).or_default().insert(*by);
            }
            RecordKind::PreparationFailed { step, attempt, .. } => {
                counts.failed_preparations += 1;
                let id = id(step, *attempt);
                if self.typed.contains_key(&id) {
                    self.violation.get_or_insert(Violation::TypedWithoutPreparation(id));
                }
            }
            RecordKind::Finished { step, attempt, result, .. }
            | RecordKind::LateResult { step, attempt, result, .. } => {
                counts.failed_turns += u64::from(!result.is_success);
                counts.late_results += u64::from(matches!(kind, RecordKind::LateResult { .. }));
                let id = id(step, *attempt);
                if !self.typed.contains_key(&id) || result.value != id.to_string() {
                    self.violation.get_or_insert(Violation::ResultWithoutTurn(id));
                }
            }
            _ => {}
        }
    }

    /// Returns true for the first attempt, and for those that the step's definition or a person allows.
    fn is_permitted(&self, id: &AttemptId) -> bool {
        let step = self.runs.get(&id.run).and_then(|check| check.state.steps.get(&id.step));
        let is_repeatable =
            step.is_some_and(|step| step.spec.is_safe || step.spec.on_machine_lost == OnMachineLost::Retry);
        id.attempt == 1 || is_repeatable || self.retried.contains(id)
    }

    /// Follows a typed prompt.
    pub(crate) fn on_typed(&mut self, id: &AttemptId, by: Instance) {
        self.counts.typed += 1;
        let check = self.runs.entry(id.run.clone()).or_default();
        let is_allowed = check.allowed.get(id).is_some_and(|instances| instances.contains(&by));
        let step = check.state.steps.get(&id.step);
        let is_current = step.and_then(StepState::current).is_some_and(|(number, attempt)| {
            number == id.attempt && matches!(attempt.state, AttemptState::Started { .. })
        });
        self.counts.late_effects += u64::from(!is_current);
        let is_permitted = self.is_permitted(id);
        let times = self.typed.entry(id.clone()).or_default();
        *times += 1;
        let violation = if *times > 1 {
            Violation::AttemptTypedTwice(id.clone())
        } else if !is_permitted {
            Violation::StepTypedTwice(id.clone())
        } else if !is_allowed {
            Violation::TypedWithoutRecord(id.clone())
        } else {
            return;
        };
        self.violation.get_or_insert(violation);
    }
}

impl RunCheck {
    /// Returns true if the run may end with an outcome.
    fn has_reached(&self, outcome: RunOutcome) -> bool {
        let mut states = self.state.steps.values().map(|step| Some(&step.current()?.1.state));
        match outcome {
            RunOutcome::Completed => states.all(
                |state| matches!(state, Some(AttemptState::Finished { result, .. }) if result.is_success),
            ),
            RunOutcome::Cancelled => self.state.is_cancelled && !states.any(is_under_way),
            RunOutcome::Failed => {
                let has_failed = |state: Option<&AttemptState>| match state {
                    Some(AttemptState::Finished { result, .. }) => !result.is_success,
                    Some(AttemptState::Failed { .. }) => true,
                    _ => false,
                };
                states.clone().any(has_failed) && !states.any(is_under_way)
            }
        }
    }

    /// Returns the number and the state of the current attempt at the step to whose result a record belongs.
    fn current_attempt(&self, kind: &RecordKind) -> Option<(u32, AttemptState)> {
        let (RecordKind::Finished { step, .. } | RecordKind::LateResult { step, .. }) = kind else {
            return None;
        };
        let (number, attempt) = self.state.steps.get(step)?.current()?;
        Some((number, attempt.state.clone()))
    }
}

fn is_under_way(state: Option<&AttemptState>) -> bool {
    matches!(state, Some(AttemptState::Started { .. } | AttemptState::InDoubt { .. }))
}

impl Counts {
    fn values(&mut self) -> [&mut u64; 22] {
        [
            &mut self.typed,
            &mut self.takeovers,
            &mut self.resumed,
            &mut self.in_doubt,
            &mut self.late_results,
            &mut self.decisions,
            &mut self.further_attempts,
            &mut self.stale_records,
            &mut self.other_void_records,
            &mut self.identity_conflicts,
            &mut self.late_effects,
            &mut self.completed_runs,
            &mut self.failed_runs,
            &mut self.waiting_runs,
            &mut self.forgotten_runs,
            &mut self.failed_preparations,
            &mut self.failed_turns,
            &mut self.crashes_before_effects,
            &mut self.released_identities,
            &mut self.cancelled_runs,
            &mut self.cancelled_turns,
            &mut self.continued_runs,
        ]
    }

    /// Returns true if every event occurred, except late effects, which are rare.
    pub(crate) fn all_occurred(self) -> bool {
        let mut others = Counts { late_effects: 1, ..self };
        others.values().into_iter().all(|count| *count > 0)
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, mut other: Counts) {
        for (sum, count) in self.values().into_iter().zip(other.values()) {
            *sum += *count;
        }
    }
}
