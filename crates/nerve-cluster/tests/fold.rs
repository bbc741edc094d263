//! The rules by which readers accept or reject records of a journal.
#![expect(clippy::unwrap_used, reason = "a failing test panics")]

use nerve_cluster::journal::{
    AttemptState, Decision, OnMachineLost, RunOutcome, StepResult, StepSpec, UndecodableRecord,
};
use nerve_cluster::placement::{Reason, Requirement};
use nerve_cluster::{Epoch, Instance, MachineId, Record, RecordKind, RunState, Sequence, StepId};
use serde_json::Value;

const A: Instance = Instance { machine: MachineId(1), boot: 1, nonce: 11 };
/// The process after a restart of A's server.
const A_RESTARTED: Instance = Instance { machine: MachineId(1), boot: 2, nonce: 12 };
/// A process with a copy of A's state folder.
const A_COPIED: Instance = Instance { machine: MachineId(1), boot: 1, nonce: 13 };
const B: Instance = Instance { machine: MachineId(2), boot: 1, nonce: 21 };

fn step() -> StepId {
    StepId::new("s").unwrap()
}

fn result() -> StepResult {
    StepResult { is_success: true, value: "done".into() }
}

fn planned(is_safe: bool) -> RecordKind {
    let requirement = Requirement::default();
    let spec =
        StepSpec { id: step(), after: vec![], is_safe, on_machine_lost: OnMachineLost::Wait, requirement };
    planned_steps(vec![spec])
}

fn planned_steps(steps: Vec<StepSpec>) -> RecordKind {
    RecordKind::Planned { steps, work: Value::Null }
}

fn offered(attempt: u32, to: Instance) -> RecordKind {
    RecordKind::Offered { step: step(), attempt, machine: to.machine, reason: Reason::MostFreeSlots }
}

fn started(attempt: u32, by: Instance) -> RecordKind {
    RecordKind::Started { step: step(), attempt, by, node: "me".into(), offset: 0 }
}

fn resumed(by: Instance) -> RecordKind {
    RecordKind::Resumed { step: step(), attempt: 1, by }
}

fn in_doubt() -> RecordKind {
    RecordKind::InDoubt { step: step(), attempt: 1 }
}

fn decided(doubt: u64, decision: Decision) -> RecordKind {
    RecordKind::Decided { step: step(), attempt: 1, doubt: Sequence(doubt), decision }
}

fn preparation_failed(by: Instance) -> RecordKind {
    RecordKind::PreparationFailed { step: step(), attempt: 1, by, error: "no space".into() }
}

fn finished(by: Instance) -> RecordKind {
    RecordKind::Finished { step: step(), attempt: 1, by, result: result() }
}

fn late(by: Instance) -> RecordKind {
    RecordKind::LateResult { step: step(), attempt: 1, by, result: result() }
}

fn append(state: &mut RunState, epoch: u64, kind: RecordKind) -> bool {
    let record = Record { epoch: Epoch(Sequence(epoch)), kind };
    state.apply(Sequence(state.last.0 + 1), &record)
}

/// Returns the state of a run with one step and an owner in epoch 7, after more records, all of which are valid.
fn state(is_safe: bool, kinds: Vec<RecordKind>) -> RunState {
    let mut state = RunState::default();
    assert!(append(&mut state, 0, planned(is_safe)));
    assert!(append(&mut state, 7, RecordKind::OwnerTookOver { by: B }));
    for kind in kinds {
        assert!(append(&mut state, 7, kind.clone()), "{kind:?}");
    }
    state
}

fn current(state: &RunState) -> &AttemptState {
    &state.steps[&step()].current().unwrap().1.state
}

#[track_caller]
fn assert_void(state: &RunState, epoch: u64, kind: RecordKind) {
    let mut after = state.clone();
    assert!(!append(&mut after, epoch, kind));
    assert_eq!(after.void_records, state.void_records + 1);
    assert_eq!(RunState { last: state.last, void_records: state.void_records, ..after }, *state);
}

#[test]
fn records_of_other_epochs_are_void() {
    let state = state(false, vec![offered(1, A)]);
    for epoch in [0, 6, 8] {
        assert_void(&state, epoch, started(1, A));
        assert_void(&state, epoch, RecordKind::Ended { outcome: RunOutcome::Failed });
    }
}

#[test]
fn takeover_needs_a_higher_epoch() {
    let mut state = state(false, vec![offered(1, A)]);
    for epoch in [6, 7] {
        assert_void(&state, epoch, RecordKind::OwnerTookOver { by: A });
    }
    assert!(append(&mut state, 8, RecordKind::OwnerTookOver { by: A }));
    assert_eq!((state.owner, state.epoch), (Some(A), Epoch(Sequence(8))));
    assert_void(&state, 7, started(1, A));
    assert!(append(&mut state, 8, started(1, A)), "an offer outlives its owner");
}

#[test]
fn attempt_starts_once_on_the_machine_that_has_the_offer() {
    assert_void(&state(false, vec![offered(1, A)]), 7, started(1, B));
    assert_void(&state(false, vec![offered(1, A)]), 7, started(2, A));
    let started_once = state(false, vec![offered(1, A), offered(1, B), started(1, B)]);
    for by in [A, B] {
        assert_void(&started_once, 7, started(1, by));
    }
    assert_void(&started_once, 7, offered(1, A));
}

#[test]
fn started_agent_is_not_offered_again_without_doubt() {
    assert_void(&state(false, vec![offered(1, A), started(1, A)]), 7, offered(2, B));
    let safe = state(true, vec![offered(1, A), started(1, A), offered(2, B)]);
    assert_eq!(*current(&safe), AttemptState::Offered);
    let waiting = vec![offered(1, A), started(1, A), in_doubt()];
    assert_void(&state(false, waiting.clone()), 7, offered(2, B));
    let retry = vec![decided(5, Decision::Retry), offered(2, B)];
    let doubtful = state(false, [waiting, retry].concat());
    assert_eq!(*current(&doubtful), AttemptState::Offered);
}

#[test]
fn only_the_process_that_has_the_turn_finishes_it() {
    let started_by_a = state(false, vec![offered(1, A), started(1, A)]);
    for by in [B, A_RESTARTED, A_COPIED] {
        assert_void(&started_by_a, 7, finished(by));
    }
    let resumed = state(false, vec![offered(1, A), started(1, A), resumed(A_RESTARTED)]);
    assert_void(&resumed, 7, finished(A));
    let done = state(false, vec![offered(1, A), started(1, A), finished(A)]);
    assert_void(&done, 7, finished(A));
    assert_void(&done, 7, in_doubt());
}

#[test]
fn failed_preparation_fails_only_an_attempt_that_has_not_started() {
    assert_void(&state(false, vec![offered(1, A)]), 7, preparation_failed(B));
    assert_void(&state(false, vec![offered(1, A), started(1, A)]), 7, preparation_failed(A));
    let failed = state(false, vec![offered(1, A), preparation_failed(A)]);
    assert!(failed.steps[&step()].has_failed());
    assert_void(&failed, 7, started(1, A));
}

#[test]
fn machine_that_returns_resolves_the_doubt() {
    let doubtful = state(false, vec![offered(1, A), started(1, A), in_doubt()]);
    assert_void(&doubtful, 7, finished(A));
    assert_void(&doubtful, 7, resumed(B));
    for by in [A, A_RESTARTED] {
        let state = state(false, vec![offered(1, A), started(1, A), in_doubt(), resumed(by), finished(by)]);
        assert!(state.steps[&step()].has_succeeded());
    }
}

#[test]
fn late_result_is_kept_and_changes_no_step() {
    let kinds = vec![offered(1, A), started(1, A), in_doubt(), decided(5, Decision::Retry), offered(2, B)];
    let superseded = state(false, kinds);
    assert_void(&superseded, 7, finished(A));
    assert_void(&superseded, 7, late(B));
    let mut kept = superseded.clone();
    assert!(append(&mut kept, 7, late(A)));
    assert_eq!(kept.attempt(&step(), 1).unwrap().late, Some(result()));
    assert_eq!(current(&kept), current(&superseded));
    assert_void(&kept, 7, late(A));
    assert_void(&state(false, vec![offered(1, A), started(1, A)]), 7, late(A));
}

#[test]
fn person_decides_only_on_doubt_and_once() {
    let decided = |decision| decided(5, decision);
    assert_void(&state(false, vec![offered(1, A), started(1, A)]), 7, decided(Decision::Fail));
    let state = state(false, vec![offered(1, A), started(1, A), in_doubt(), decided(Decision::Retry)]);
    assert_void(&state, 7, decided(Decision::Fail));
    assert_eq!(state.attempt(&step(), 1).unwrap().decision, Some(Decision::Retry));
}

#[test]
fn decision_does_not_outlive_its_doubt() {
    let first = vec![offered(1, A), started(1, A), in_doubt(), decided(5, Decision::Retry), resumed(A)];
    let doubted_again = state(false, [first, vec![in_doubt()]].concat());
    let attempt = doubted_again.attempt(&step(), 1).unwrap();
    assert_eq!((attempt.decision, attempt.undecided_doubt()), (None, Some(Sequence(8))));
    assert_void(&doubted_again, 7, decided(5, Decision::Fail));
    assert!(append(&mut doubted_again.clone(), 7, decided(8, Decision::Fail)));
}

#[test]
fn doubt_of_a_step_that_waits_fails_only_by_decision() {
    let failed = || RecordKind::Failed { step: step(), attempt: 1 };
    let waiting = vec![offered(1, A), started(1, A), in_doubt()];
    assert_void(&state(false, waiting.clone()), 7, failed());
    let retried = [waiting.clone(), vec![decided(5, Decision::Retry)]].concat();
    assert_void(&state(false, retried), 7, failed());
    let given_up = state(false, [waiting, vec![decided(5, Decision::Fail)]].concat());
    assert_void(&given_up, 7, offered(2, B));
    assert!(append(&mut given_up.clone(), 7, failed()));
}

#[test]
fn decision_wins_over_the_policy() {
    let failed = || RecordKind::Failed { step: step(), attempt: 1 };
    let doubtful = |on_machine_lost, decision| {
        let requirement = Requirement::default();
        let spec = StepSpec { id: step(), after: vec![], is_safe: false, on_machine_lost, requirement };
        let mut state = RunState::default();
        assert!(append(&mut state, 0, planned_steps(vec![spec])));
        let took_over = RecordKind::OwnerTookOver { by: B };
        for kind in [took_over, offered(1, A), started(1, A), in_doubt(), decided(5, decision)] {
            assert!(append(&mut state, 7, kind));
        }
        state
    };
    for policy in [OnMachineLost::Wait, OnMachineLost::Retry, OnMachineLost::Fail] {
        let mut given_up = doubtful(policy, Decision::Fail);
        assert_void(&given_up, 7, offered(2, B));
        assert!(append(&mut given_up, 7, failed()), "{policy:?}");
        let mut retried = doubtful(policy, Decision::Retry);
        assert_void(&retried, 7, failed());
        assert!(append(&mut retried, 7, offered(2, B)), "{policy:?}");
    }
}

#[test]
fn run_ends_only_with_the_outcome_of_its_steps() {
    let cases = [
        (vec![], None),
        (vec![offered(1, A)], None),
        (vec![offered(1, A), started(1, A)], None),
        (vec![offered(1, A), started(1, A), in_doubt()], None),
        (vec![offered(1, A), started(1, A), finished(A)], Some(RunOutcome::Completed)),
        (vec![offered(1, A), preparation_failed(A)], Some(RunOutcome::Failed)),
    ];
    for (kinds, reached) in cases {
        let state = state(false, kinds);
        for outcome in [RunOutcome::Completed, RunOutcome::Failed] {
            let is_valid = append(&mut state.clone(), 7, RecordKind::Ended { outcome });
            assert_eq!(is_valid, reached == Some(outcome), "{outcome:?} in {state:?}");
        }
    }
}

#[test]
fn only_results_follow_the_end() {
    let ended = RecordKind::Ended { outcome: RunOutcome::Failed };
    let kinds = vec![offered(1, A), started(1, A), in_doubt(), decided(5, Decision::Fail)];
    let failed = vec![RecordKind::Failed { step: step(), attempt: 1 }, ended];
    let ended = state(false, [kinds, failed].concat());
    let void =
        [offered(2, A), started(1, A), resumed(A), in_doubt(), decided(5, Decision::Retry), planned(false)];
    for kind in void {
        assert_void(&ended, 7, kind);
    }
    assert_void(&ended, 7, RecordKind::Ended { outcome: RunOutcome::Completed });
    assert_void(&ended, 8, RecordKind::OwnerTookOver { by: A });
    assert!(append(&mut ended.clone(), 7, late(A)));
}

/// Returns a plan of two steps, `s` and another.
fn plan_of_two(other: &str, s_after: &[&str], other_after: &[&str]) -> RecordKind {
    let spec = |id: &str, after: &[&str]| {
        let after: Vec<StepId> = after.iter().map(|id| StepId::new(*id).unwrap()).collect();
        StepSpec { id: StepId::new(id).unwrap(), after, ..serde_json::from_str(r#"{"id":"s"}"#).unwrap() }
    };
    planned_steps(vec![spec("s", s_after), spec(other, other_after)])
}

#[test]
fn plan_that_cannot_complete_is_void() {
    let empty = RunState::default();
    assert_void(&empty, 0, planned_steps(vec![]));
    assert_void(&empty, 0, plan_of_two("s", &[], &[]));
    assert_void(&empty, 0, plan_of_two("t", &["x"], &[]));
    assert_void(&empty, 0, plan_of_two("t", &["s"], &[]));
    assert_void(&empty, 0, plan_of_two("t", &["t"], &["s"]));
    let mut planned = empty;
    assert!(append(&mut planned, 0, plan_of_two("t", &["t"], &[])));
    assert_void(&planned, 0, plan_of_two("u", &[], &[]));
}

#[test]
fn failure_ends_the_offers_of_the_run() {
    let mut state = RunState::default();
    let other = |attempt, to: Instance| {
        let reason = Reason::MostFreeSlots;
        RecordKind::Offered { step: StepId::new("t").unwrap(), attempt, machine: to.machine, reason }
    };
    assert!(append(&mut state, 0, plan_of_two("t", &[], &[])));
    assert!(append(&mut state, 7, RecordKind::OwnerTookOver { by: B }));
    for kind in [other(1, B), offered(1, A), preparation_failed(A)] {
        assert!(append(&mut state, 7, kind));
    }
    assert_void(&state, 7, other(1, A));
    let by = B;
    let start =
        RecordKind::Started { step: StepId::new("t").unwrap(), attempt: 1, by, node: "me".into(), offset: 0 };
    assert_void(&state, 7, start);
    assert!(append(&mut state, 7, RecordKind::Ended { outcome: RunOutcome::Failed }));
}

fn failed(by: Instance, attempt: u32) -> RecordKind {
    let result = StepResult { is_success: false, value: "cancelled".into() };
    RecordKind::Finished { step: step(), attempt, by, result }
}

#[test]
fn cancelled_run_begins_nothing_and_ends_with_what_runs() {
    let offered_only = state(false, vec![offered(1, A), RecordKind::Cancelled]);
    assert_void(&offered_only, 7, started(1, A));
    assert_void(&offered_only, 7, offered(1, B));
    assert_void(&offered_only, 7, RecordKind::Cancelled);
    assert_eq!(offered_only.reached_outcome(), Some(RunOutcome::Cancelled));
    let running = vec![offered(1, A), started(1, A), RecordKind::Cancelled];
    let mut running = state(false, running);
    assert_eq!(running.reached_outcome(), None);
    let mut succeeded = running.clone();
    assert!(append(&mut succeeded, 7, finished(A)));
    assert_eq!(succeeded.reached_outcome(), Some(RunOutcome::Completed));
    // A lost machine delays the end of the run no longer than its lease.
    assert!(append(&mut running, 7, in_doubt()));
    assert_eq!(running.doubt_resolution(&running.steps[&step()]), Some(Decision::Fail));
    assert!(append(&mut running, 7, RecordKind::Failed { step: step(), attempt: 1 }));
    assert!(append(&mut running, 7, RecordKind::Ended { outcome: RunOutcome::Cancelled }));
    assert_void(&running, 7, RecordKind::Cancelled);
    assert!(append(&mut running, 7, late(A)));
    assert_void(&RunState::default(), 0, RecordKind::Cancelled);
}

#[test]
fn continued_run_repeats_only_steps_without_success() {
    let mut state = RunState::default();
    assert!(append(&mut state, 0, plan_of_two("t", &["t"], &[])));
    assert!(append(&mut state, 7, RecordKind::OwnerTookOver { by: B }));
    let t = StepId::new("t").unwrap();
    let (machine, reason) = (A.machine, Reason::Named);
    for kind in [
        RecordKind::Offered { step: t.clone(), attempt: 1, machine, reason },
        RecordKind::Started { step: t.clone(), attempt: 1, by: A, node: "me".into(), offset: 0 },
        RecordKind::Finished { step: t.clone(), attempt: 1, by: A, result: result() },
        offered(1, A),
        started(1, A),
        failed(A, 1),
    ] {
        assert!(append(&mut state, 7, kind));
    }
    assert_void(&state, 7, RecordKind::Continued);
    assert!(append(&mut state, 7, RecordKind::Ended { outcome: RunOutcome::Failed }));
    assert!(append(&mut state, 7, RecordKind::Continued));
    assert_eq!((state.outcome, state.has_failed()), (None, false));
    assert!(state.steps[&t].has_succeeded());
    assert_eq!((state.steps[&step()].current(), state.steps[&step()].next_attempt()), (None, 2));
    for void in [offered(1, A), started(1, A), finished(A), RecordKind::Continued] {
        assert_void(&state, 7, void);
    }
    // Another machine may own the run from now on.
    assert!(append(&mut state, 9, RecordKind::OwnerTookOver { by: A }));
    for kind in [offered(2, B), offered(2, A), started(2, A)] {
        assert!(append(&mut state, 9, kind.clone()), "{kind:?}");
    }
    assert!(append(
        &mut state,
        9,
        RecordKind::Finished { step: step(), attempt: 2, by: A, result: result() }
    ));
    assert!(append(&mut state, 9, RecordKind::Ended { outcome: RunOutcome::Completed }));
    assert_void(&state, 9, RecordKind::Continued);
}

#[test]
fn started_attempt_stays_cancelled_after_its_run_continued() {
    let is_cancelled = |state: &RunState, attempt| state.attempt(&step(), attempt).unwrap().is_cancelled;
    let ended = RecordKind::Ended { outcome: RunOutcome::Cancelled };
    let failed = RecordKind::Failed { step: step(), attempt: 1 };
    let lost = vec![offered(1, A), started(1, A), RecordKind::Cancelled, in_doubt(), failed];
    let again = vec![ended.clone(), RecordKind::Continued, offered(2, B), started(2, B)];
    let continued = state(false, [lost, again].concat());
    assert!(is_cancelled(&continued, 1) && !is_cancelled(&continued, 2));
    // An attempt that had only been offered starts.
    let kinds = vec![offered(1, A), RecordKind::Cancelled, ended, RecordKind::Continued, started(1, A)];
    assert!(!is_cancelled(&state(false, kinds), 1));
}

#[test]
fn step_is_not_offered_before_its_predecessors_succeed() {
    let mut state = RunState::default();
    assert!(append(&mut state, 0, plan_of_two("t", &["t"], &[])));
    assert_void(&state, 0, offered(1, A));
}

#[test]
fn repeated_delivery_changes_nothing() {
    let mut state = state(false, vec![offered(1, A)]);
    let before = state.clone();
    let record = Record { epoch: Epoch(Sequence(7)), kind: started(1, A) };
    for sequence in 0..=before.last.0 {
        assert!(!state.apply(Sequence(sequence), &record));
    }
    assert_eq!(state, before);
}

#[test]
fn records_are_flat_json_objects() {
    let cases = [
        (
            started(1, A),
            r#"{"epoch":7,"kind":"started","step":"s","attempt":1,"by":{"machine":"00000000000000000000000000000001","boot":1,"nonce":11},"node":"me","offset":0}"#,
        ),
        (
            offered(2, B),
            r#"{"epoch":7,"kind":"offered","step":"s","attempt":2,"machine":"00000000000000000000000000000002","reason":"most_free_slots"}"#,
        ),
        (in_doubt(), r#"{"epoch":7,"kind":"in_doubt","step":"s","attempt":1}"#),
        (
            RecordKind::Ended { outcome: RunOutcome::Completed },
            r#"{"epoch":7,"kind":"ended","outcome":"completed"}"#,
        ),
    ];
    for (kind, json) in cases {
        let record = Record { epoch: Epoch(Sequence(7)), kind };
        assert_eq!(serde_json::to_string(&record).unwrap(), json);
        assert_eq!(serde_json::from_str::<Record>(json).unwrap(), record);
    }
}

#[test]
fn work_and_reason_reach_the_executors() {
    let spec: StepSpec = serde_json::from_str(r#"{"id":"s"}"#).unwrap();
    let planned = RecordKind::Planned { steps: vec![spec], work: "make".into() };
    let mut state = RunState::default();
    let record = |epoch: u64, kind| Record { epoch: Epoch(Sequence(epoch)), kind };
    let took_over = record(5, RecordKind::OwnerTookOver { by: A });
    let messages = vec![
        (Sequence(1), Ok(record(0, planned))),
        (Sequence(2), Err(UndecodableRecord::Garbage)),
        (Sequence(3), Ok(took_over)),
        (Sequence(4), Ok(record(5, offered(1, B)))),
    ];
    assert!(!state.apply_all(&messages));
    assert_eq!((state.work.as_str(), state.void_records), (Some("make"), 1));
    assert_eq!(state.attempt(&step(), 1).unwrap().reason, Reason::MostFreeSlots);
    assert!(state.apply_all(&[(Sequence(5), Err(UndecodableRecord::Unsupported))]));
}

#[test]
fn step_without_options_is_an_agent_that_waits() {
    let spec: StepSpec = serde_json::from_str(r#"{"id":"s"}"#).unwrap();
    assert_eq!(planned_steps(vec![spec]), planned(false));
}

#[test]
fn undecodable_records_are_classified() {
    let record = br#"{"epoch":7,"kind":"in_doubt","step":"s","attempt":1,"cause":"new field"}"#;
    assert_eq!(Record::decode(record), Ok(Record { epoch: Epoch(Sequence(7)), kind: in_doubt() }));
    let later = br#"{"epoch":7,"kind":"paused"}"#;
    assert_eq!(Record::decode(later), Err(UndecodableRecord::Unsupported));
    for garbage in ["", "{", "7", r#"{"kind":"paused"}"#, r#"{"epoch":"x","kind":"ended"}"#] {
        assert_eq!(Record::decode(garbage.as_bytes()), Err(UndecodableRecord::Garbage), "{garbage:?}");
    }
}
