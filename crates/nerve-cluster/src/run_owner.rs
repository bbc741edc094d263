//! Ownership of a run: offers steps, judges those of lost machines, and ends the run.

use std::collections::BTreeMap;

use crate::id::{AttemptId, RunId, Sequence, StepId};
use crate::instance::{Instance, MachineId};
use crate::journal::{Attempt, AttemptState, Decision, Epoch, RecordKind, RunState, StepState};
use crate::lease::{Lease, Takeover};
use crate::placement::{MachineInfo, NoMachine, WaitingStep, place};
use crate::store::{Key, Request, Response};
use crate::time::{BootTime, LeaseTimes};

/// One process's part in the ownership of a run: candidate or owner.
#[derive(Debug)]
pub(crate) struct RunOwner {
    run: RunId,
    me: Instance,
    times: LeaseTimes,
    lease: Lease,
    /// The last notification of each offered step.
    notified: BTreeMap<StepId, Notification>,
    /// The last check of the lease of each step that may be lost.
    checks: BTreeMap<StepId, LeaseCheck>,
    /// The last message of the own lease that did not exceed the journal's epoch.
    outdated: Option<OutdatedLease>,
}

#[derive(Debug)]
struct OutdatedLease {
    sequence: Sequence,
    is_reported: bool,
}

#[derive(Debug)]
struct Notification {
    /// The attempt's last record when the machine was notified.
    changed: Sequence,
    at: BootTime,
}

#[derive(Debug)]
struct LeaseCheck {
    /// The attempt's last record when the check was sent. A later record makes the check worthless.
    changed: Sequence,
    sent: BootTime,
    is_pending: bool,
    is_lease_gone: bool,
}

impl RunOwner {
    /// Creates a candidate.
    pub(crate) fn new(run: RunId, me: Instance, times: LeaseTimes) -> RunOwner {
        let lease = Lease::new(Key::Owner(run.clone()), me, times, Takeover::FromSameMachine);
        RunOwner { run, me, times, lease, notified: BTreeMap::new(), checks: BTreeMap::new(), outdated: None }
    }

    /// Returns true if this process owns the run and may write for it.
    pub(crate) fn is_active(&self, now: BootTime, state: &RunState) -> bool {
        state.owner == Some(self.me) && self.lease.is_fresh(now)
    }

    /// Returns the next request for the owner's lease.
    pub(crate) fn poll(&mut self, now: BootTime, state: &RunState, can_write: bool) -> Option<Request> {
        let is_wanted = can_write && !state.steps.is_empty() && state.outcome.is_none();
        self.lease.poll(now, is_wanted)
    }

    /// Reads the own lease again if it cannot begin an epoch: its sequence does not exceed the journal's epoch. Returns true, once per
    /// message, if the store confirms it. Then sequences of the store have been reset.
    pub(crate) fn has_confirmed_outdated_lease(&mut self, state: &RunState) -> bool {
        let Some(sequence) = self.lease.sequence() else { return false };
        if state.owner == Some(self.me) || Epoch(sequence) > state.epoch {
            return false;
        }
        match &mut self.outdated {
            Some(outdated) if outdated.sequence == sequence => {
                !std::mem::replace(&mut outdated.is_reported, true)
            }
            outdated => {
                *outdated = Some(OutdatedLease { sequence, is_reported: false });
                self.lease.read_again();
                false
            }
        }
    }

    /// Handles a response for the owner's lease.
    pub(crate) fn handle_lease_response(&mut self, now: BootTime, response: &Response) {
        self.lease.handle_response(now, response);
    }

    /// Returns the next record that the run needs from its owner, with its epoch.
    pub(crate) fn decide(
        &self,
        now: BootTime,
        state: &RunState,
        machines: &[MachineInfo],
    ) -> Option<(Epoch, RecordKind)> {
        if !self.lease.is_fresh(now) || state.outcome.is_some() || state.steps.is_empty() {
            return None;
        }
        if state.owner != Some(self.me) {
            let epoch = Epoch(self.lease.sequence()?);
            return (epoch > state.epoch).then_some((epoch, RecordKind::OwnerTookOver { by: self.me }));
        }
        let next = state.steps.values().find_map(|step| self.decide_step(now, state, step, machines)?.ok());
        let end = || state.reached_outcome().map(|outcome| RecordKind::Ended { outcome });
        Some((state.epoch, next.or_else(end)?))
    }

    /// Returns the steps for which no machine is available.
    pub(crate) fn waiting_steps(
        &self,
        now: BootTime,
        state: &RunState,
        machines: &[MachineInfo],
    ) -> Vec<WaitingStep> {
        let waiting = |step: &StepState| {
            let reason = self.decide_step(now, state, step, machines)?.err()?;
            Some(WaitingStep { step: step.spec.id.clone(), reason })
        };
        state.steps.values().filter_map(waiting).collect()
    }

    /// Returns the offered attempts whose notification is due, with their machines.
    pub(crate) fn notify_offers(&mut self, now: BootTime, state: &RunState) -> Vec<(MachineId, AttemptId)> {
        let mut due = Vec::new();
        for (step, number, attempt) in current_attempts(state) {
            let is_recent = self.notified.get(step).is_some_and(|last| {
                last.changed == attempt.changed && now.is_within(self.times.renewal(), last.at)
            });
            if attempt.state == AttemptState::Offered && !state.is_stopping() && !is_recent {
                self.notified.insert(step.clone(), Notification { changed: attempt.changed, at: now });
                due.push((attempt.machine, self.id(step, number)));
            }
        }
        due
    }

    /// Returns the steps whose lease is due for a check, with the request: those that are started, and those in doubt without a
    /// decision.
    pub(crate) fn check_leases(&mut self, now: BootTime, state: &RunState) -> Vec<(StepId, Request)> {
        let mut due = Vec::new();
        for (step, number, attempt) in current_attempts(state) {
            let is_recent = self.checks.get(step).is_some_and(|check| {
                check.is_pending
                    || (check.changed == attempt.changed && now.is_within(self.times.renewal(), check.sent))
            });
            let is_due = match attempt.state {
                AttemptState::Started { .. } => true,
                AttemptState::InDoubt { .. } => attempt.decision.is_none(),
                _ => false,
            };
            if is_due && !is_recent {
                let changed = attempt.changed;
                let check = LeaseCheck { changed, sent: now, is_pending: true, is_lease_gone: false };
                self.checks.insert(step.clone(), check);
                due.push((step.clone(), Request::Get { key: Key::Step(self.id(step, number)) }));
            }
        }
        due
    }

    /// Handles the response of a check.
    pub(crate) fn handle_check(&mut self, step: &StepId, response: &Response) {
        if let Some(check) = self.checks.get_mut(step) {
            check.is_pending = false;
            check.is_lease_gone = matches!(response, Response::Entry { holder: None, .. });
        }
    }

    /// Returns the record that a step needs, or the reason why it cannot be offered to a machine.
    fn decide_step(
        &self,
        now: BootTime,
        state: &RunState,
        step: &StepState,
        machines: &[MachineInfo],
    ) -> Option<Result<RecordKind, NoMachine>> {
        let id = &step.spec.id;
        let can_offer = !state.is_stopping();
        let Some((number, attempt)) = step.current() else {
            let is_due = can_offer && state.is_ready(&step.spec);
            return is_due.then(|| offer(state, step, step.next_attempt(), machines));
        };
        match attempt.state {
            AttemptState::Offered => {
                let is_available =
                    machines.iter().any(|machine| machine.id == attempt.machine && machine.accepts_steps);
                (can_offer && !is_available).then(|| offer(state, step, number, machines))
            }
            AttemptState::Started { .. } if !self.is_lost(now, id, attempt) => None,
            // Without a machine for the next attempt, the step is shown as in doubt.
            AttemptState::Started { .. } if step.spec.is_safe && can_offer => {
                let doubt = RecordKind::InDoubt { step: id.clone(), attempt: number };
                Some(offer(state, step, number + 1, machines).or(Ok(doubt)))
            }
            AttemptState::Started { .. } => {
                Some(Ok(RecordKind::InDoubt { step: id.clone(), attempt: number }))
            }
            // The machine may have returned since: the policy applies only after another check. A person's decision applies at once.
            AttemptState::InDoubt { .. } if attempt.decision.is_none() && !self.is_lost(now, id, attempt) => {
                None
            }
            AttemptState::InDoubt { .. } => match state.doubt_resolution(step)? {
                Decision::Retry => Some(offer(state, step, number + 1, machines)),
                Decision::Fail => Some(Ok(RecordKind::Failed { step: id.clone(), attempt: number })),
            },
            AttemptState::Finished { .. } | AttemptState::Failed { .. } | AttemptState::Superseded { .. } => {
                None
            }
        }
    }

    /// Returns true if a recent check found no lease.
    fn is_lost(&self, now: BootTime, step: &StepId, attempt: &Attempt) -> bool {
        self.checks.get(step).is_some_and(|check| {
            check.is_lease_gone
                && check.changed == attempt.changed
                && now.is_within(self.times.renewal(), check.sent)
        })
    }

    fn id(&self, step: &StepId, attempt: u32) -> AttemptId {
        AttemptId { run: self.run.clone(), step: step.clone(), attempt }
    }
}

fn current_attempts(state: &RunState) -> impl Iterator<Item = (&StepId, u32, &Attempt)> {
    state.steps.iter().filter_map(|(id, step)| step.current().map(|(number, attempt)| (id, number, attempt)))
}

/// Offers an attempt if a machine is available. Attempts that were offered and have not started occupy their slots already.
fn offer(
    state: &RunState,
    step: &StepState,
    attempt: u32,
    machines: &[MachineInfo],
) -> Result<RecordKind, NoMachine> {
    let mut machines = machines.to_vec();
    for (_, _, other) in current_attempts(state).filter(|(_, _, other)| other.state == AttemptState::Offered)
    {
        if let Some(machine) = machines.iter_mut().find(|machine| machine.id == other.machine) {
            machine.free_slots = machine.free_slots.saturating_sub(1);
        }
    }
    let (machine, reason) = place(&step.spec.requirement, &machines)?;
    Ok(RecordKind::Offered { step: step.spec.id.clone(), attempt, machine, reason })
}
