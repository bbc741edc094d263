//! Runs whose steps several machines execute.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use nerve_cluster::journal::{Attempt, AttemptState, Decision, RunOutcome, StepResult, StepSpec};
use nerve_cluster::placement::Reason;
use nerve_cluster::{Record, RecordKind, Request, Response, RunId, RunState, Sequence, StepId};
use nerve_graph::file::GraphFile;
use nerve_member::{ClusterRuns, MemberError, RunPlan};
use nerve_nats::NatsStore;
use nerve_testkit::harness::Broker;
use nerve_testkit::{eventually, within_deadline};
use serde_json::{Value, json};

use crate::harness::{CREATE, Machine, SHORT, broker, store};
use crate::relay::Relay;

/// A run with its files.
pub(crate) struct TestRun {
    pub(crate) id: RunId,
    pub(crate) runs: ClusterRuns,
    folder: tempfile::TempDir,
}

impl TestRun {
    /// Starts a run with these steps over the node `sh`. `DIR` in them is the folder of the run.
    pub(crate) async fn start(machine: &Machine, steps: &str) -> TestRun {
        TestRun::start_as("r-1", machine, steps).await
    }

    /// Starts a run with an id.
    pub(crate) async fn start_as(id: &str, machine: &Machine, steps: &str) -> TestRun {
        let folder = tempfile::tempdir().unwrap();
        let yaml = format!("graph: g\nnodes: {{sh: {{type: bash}}}}\nsteps:\n{steps}");
        let yaml = yaml.replace("DIR", folder.path().to_str().unwrap());
        let file = GraphFile::from_yaml(&yaml, "g.yaml").unwrap();
        let run = TestRun { id: RunId::new(id).unwrap(), runs: machine.runs().await, folder };
        run.runs.start(&run.id, RunPlan::new(&file, json!({ "who": "you" })).unwrap()).await.unwrap();
        run
    }

    /// Starts a run with one step that logs its start and ends once the file `go` exists.
    pub(crate) async fn start_waiting(machine: &Machine, options: &str) -> TestRun {
        let step = format!(
            "  - {{id: s, node: sh, {options}, input: 'echo x >> DIR/log; until test -e DIR/go; do sleep 0.05; done; echo done'}}\n"
        );
        TestRun::start(machine, &step).await
    }

    pub(crate) async fn state(&self) -> RunState {
        self.runs.get(&self.id).await.unwrap()
    }

    pub(crate) async fn follow(&self) -> RunState {
        within_deadline("the run ends", self.runs.follow(&self.id, |_| {})).await.unwrap()
    }

    pub(crate) async fn attempt(&self, number: u32) -> Option<Attempt> {
        self.state().await.attempt(&step("s"), number).cloned()
    }

    pub(crate) async fn wait_for(&self, number: u32, is_expected: impl Fn(&Attempt) -> bool) {
        let found = async || self.attempt(number).await.is_some_and(|attempt| is_expected(&attempt));
        eventually("the attempt has the state", found).await;
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Waits until the step has begun this many times.
    pub(crate) async fn wait_for_effects(&self, count: usize) {
        eventually("the step has begun", async || self.effects() == count).await;
    }

    pub(crate) fn effects(&self) -> usize {
        fs::read_to_string(self.file("log")).unwrap_or_default().lines().count()
    }

    pub(crate) fn let_go(&self) {
        fs::write(self.file("go"), "").unwrap();
    }
}

pub(crate) fn step(id: &str) -> StepId {
    StepId::new(id).unwrap()
}

/// Appends records in the current epoch of a run, to which nothing else writes.
async fn append_all(store: &NatsStore, run: &RunId, kinds: impl IntoIterator<Item = RecordKind>) {
    let mut state = RunState::default();
    let read = store.perform(&Request::Read { run: run.clone(), after: Sequence(0) }).await;
    let Response::Records(records) = read else { panic!("{read:?}") };
    state.apply_all(&records);
    for kind in kinds {
        let record = Record { epoch: state.epoch, kind };
        let request = Request::Append { run: run.clone(), record, expected: state.last };
        let Response::Accepted(sequence) = store.perform(&request).await else { panic!("{request:?}") };
        state.last = sequence;
    }
}

/// Adds runs that have ended, with ids from `r-2-0` on. No machine is a member.
pub(crate) async fn add_ended_runs(broker: &Broker, count: usize) {
    let store = store(broker).await;
    for number in 0..count {
        let id = RunId::new(format!("r-2-{number}")).unwrap();
        let spec: StepSpec = serde_json::from_value(json!({ "id": "s" })).unwrap();
        let kinds = [
            RecordKind::Planned { steps: vec![spec], work: Value::Null },
            RecordKind::Cancelled,
            RecordKind::Ended { outcome: RunOutcome::Cancelled },
        ];
        append_all(&store, &id, kinds).await;
    }
}

pub(crate) fn is_in_doubt(attempt: &Attempt) -> bool {
    matches!(attempt.state, AttemptState::InDoubt { .. })
}

/// Returns the text of a step's result.
fn text(state: &RunState, id: &str) -> String {
    match &state.steps[&step(id)].current().unwrap().1.state {
        AttemptState::Finished { result, .. } if result.is_success => {
            let value: Value = serde_json::from_str(&result.value).unwrap();
            value["text"].as_str().unwrap_or_default().trim().to_string()
        }
        other => panic!("{id}: {other:?}"),
    }
}

/// Returns the two machines, first the one that has the attempt.
fn by_place(attempt: &Attempt, a: Machine, b: Machine) -> (Machine, Machine) {
    if attempt.machine == a.id() { (a, b) } else { (b, a) }
}

#[tokio::test]
async fn steps_run_on_their_machines_and_pass_results() {
    let Some(broker) = broker("steps_run_on_their_machines_and_pass_results", "") else { return };
    let a = Machine::executor("a", &broker, 2).await;
    let b = Machine::executor("b", &broker, 2).await;
    let run = TestRun::start(
        &a,
        "  - {id: one, node: sh, input: 'echo hello {{ input.who }}', on: a}\n\
         \x20 - {id: two, node: sh, input: 'echo got {{ steps.one }}', on: {labels: [only-b]}, depends_on: [one]}\n\
         \x20 - {id: skipped, node: sh, input: 'exit 9', depends_on: [two], when: 'false'}\n\
         \x20 - {id: three, node: sh, input: 'echo {{ steps.two }}, {{ steps.one.text }}', depends_on: [skipped, one]}\n",
    )
    .await;
    let state = run.follow().await;
    assert_eq!(state.outcome, Some(RunOutcome::Completed), "{state:?}");
    assert_eq!(text(&state, "three"), "got hello you, hello you");
    let place = |id: &str| {
        let (number, attempt) = state.steps[&step(id)].current().unwrap();
        (number, attempt.machine, attempt.reason)
    };
    assert_eq!(place("one"), (1, a.id(), Reason::Named));
    assert_eq!(place("two"), (1, b.id(), Reason::OnlyCandidate));
    assert_eq!(place("three").2, Reason::MostFreeSlots);
    assert_eq!(state.void_records, 0);
    let again = RunPlan::new(
        &GraphFile::from_yaml("graph: g\nsteps: [{id: s, node: n}]\n", "g").unwrap(),
        Value::Null,
    );
    let error = run.runs.start(&run.id, again.unwrap()).await.unwrap_err();
    assert_eq!(error, MemberError::RunExists(run.id.clone()));
    let listed: Vec<RunId> = run.runs.list().await.unwrap().into_iter().map(|(id, _)| id).collect();
    assert_eq!(listed, std::slice::from_ref(&run.id));
}

#[tokio::test]
async fn failed_step_ends_the_run() {
    let Some(broker) = broker("failed_step_ends_the_run", "") else { return };
    let a = Machine::executor("a", &broker, 1).await;
    let run = TestRun::start(
        &a,
        "  - {id: s, node: sh, input: 'echo x >> DIR/log; exit 3'}\n  - {id: t, node: sh, input: echo, depends_on: [s]}\n",
    )
    .await;
    let state = run.follow().await;
    assert_eq!((state.outcome, run.effects()), (Some(RunOutcome::Failed), 1));
    assert!(state.steps[&step("t")].attempts.is_empty());
    let AttemptState::Finished { result, .. } = &state.attempt(&step("s"), 1).unwrap().state else {
        panic!("{state:?}")
    };
    assert!(result.value.contains('3'), "{result:?}");
}

#[tokio::test]
async fn step_of_an_absent_machine_waits_for_it() {
    let Some(broker) = broker("step_of_an_absent_machine_waits_for_it", "") else { return };
    let a = Machine::executor("a", &broker, 1).await;
    let run = TestRun::start(&a, "  - {id: s, node: sh, input: 'echo x >> DIR/log', on: b}\n").await;
    eventually("the run has an owner", async || run.state().await.owner.is_some()).await;
    assert!(run.attempt(1).await.is_none());
    let b = Machine::executor("b", &broker, 1).await;
    assert_eq!(run.follow().await.outcome, Some(RunOutcome::Completed));
    assert_eq!((run.attempt(1).await.unwrap().machine, run.effects()), (b.id(), 1));
}

#[tokio::test]
async fn slots_limit_the_steps_at_a_time() {
    let Some(broker) = broker("slots_limit_the_steps_at_a_time", "") else { return };
    let a = Machine::executor("a", &broker, 1).await;
    let steps: String = ["s", "t", "u"]
        .map(|id| {
            format!("  - {{id: {id}, node: sh, input: 'mkdir DIR/lock && sleep 0.1 && rmdir DIR/lock'}}\n")
        })
        .concat();
    let run = TestRun::start(&a, &steps).await;
    assert_eq!(run.follow().await.outcome, Some(RunOutcome::Completed));
}

#[tokio::test]
async fn machine_that_returns_finishes_its_step() {
    let Some(broker) = broker("machine_that_returns_finishes_its_step", "") else { return };
    let a = Machine::executor("a", &broker, 1).await;
    let mut b = Machine::executor("b", &broker, 1).await;
    let run = TestRun::start_waiting(&a, "on: b").await;
    run.wait_for_effects(1).await;
    b.crash().await;
    run.wait_for(1, is_in_doubt).await;
    assert_eq!(run.effects(), 1);
    b.start();
    run.wait_for(1, |attempt| matches!(attempt.state, AttemptState::Started { by } if by.boot == 2)).await;
    run.let_go();
    let state = run.follow().await;
    assert_eq!((state.outcome, run.effects()), (Some(RunOutcome::Completed), 1));
    assert_eq!(text(&state, "s"), "done");
}

#[tokio::test]
async fn retried_step_moves_and_keeps_the_late_result() {
    let Some(broker) = broker("retried_step_moves_and_keeps_the_late_result", "") else { return };
    let a = Machine::executor("a", &broker, 1).await;
    let b = Machine::executor("b", &broker, 1).await;
    let run = TestRun::start_waiting(&a, "on_host_lost: retry").await;
    run.wait_for_effects(1).await;
    let (mut lost, other) = by_place(&run.attempt(1).await.unwrap(), a, b);
    lost.crash().await;
    run.wait_for_effects(2).await;
    assert_eq!(run.attempt(2).await.unwrap().machine, other.id());
    run.let_go();
    assert_eq!(run.follow().await.outcome, Some(RunOutcome::Completed));
    lost.start();
    run.wait_for(1, |attempt| attempt.late.as_ref().is_some_and(|late| late.is_success)).await;
    assert_eq!((run.state().await.outcome, run.effects()), (Some(RunOutcome::Completed), 2));
}

#[tokio::test]
async fn step_fails_with_its_machine_if_its_policy_says_so() {
    let Some(broker) = broker("step_fails_with_its_machine_if_its_policy_says_so", "") else { return };
    let a = Machine::executor("a", &broker, 1).await;
    let mut b = Machine::executor("b", &broker, 1).await;
    let run = TestRun::start_waiting(&a, "on: b, on_host_lost: fail").await;
    run.wait_for_effects(1).await;
    b.crash().await;
    assert_eq!(run.follow().await.outcome, Some(RunOutcome::Failed));
    run.let_go();
    assert_eq!(run.effects(), 1);
}

#[tokio::test]
async fn person_decides_on_a_step_in_doubt() {
    let Some(broker) = broker("person_decides_on_a_step_in_doubt", "") else { return };
    let a = Machine::executor("a", &broker, 1).await;
    let b = Machine::executor("b", &broker, 1).await;
    let run = TestRun::start_waiting(&a, "on: any").await;
    run.wait_for_effects(1).await;
    let (mut lost, _other) = by_place(&run.attempt(1).await.unwrap(), a, b);
    let error = run.runs.decide(&run.id, "s", Decision::Retry).await.unwrap_err();
    assert!(matches!(error, MemberError::NotInDoubt { .. }), "{error:?}");
    lost.crash().await;
    run.wait_for(1, is_in_doubt).await;
    run.runs.decide(&run.id, "s", Decision::Retry).await.unwrap();
    run.wait_for_effects(2).await;
    run.let_go();
    assert_eq!(run.follow().await.outcome, Some(RunOutcome::Completed));
}

#[tokio::test]
async fn step_of_a_failed_run_can_only_fail() {
    let Some(broker) = broker("step_of_a_failed_run_can_only_fail", "") else { return };
    let a = Machine::executor("a", &broker, 1).await;
    let mut b = Machine::executor("b", &broker, 1).await;
    let run = TestRun::start(
        &a,
        "  - {id: s, node: sh, on: b, input: 'echo x >> DIR/log; until test -e DIR/go; do sleep 0.05; done'}\n\
         \x20 - {id: t, node: sh, on: a, input: 'until test -e DIR/fail; do sleep 0.05; done; exit 3'}\n",
    )
    .await;
    run.wait_for_effects(1).await;
    b.crash().await;
    run.wait_for(1, is_in_doubt).await;
    fs::write(run.file("fail"), "").unwrap();
    eventually("a step has failed", async || run.state().await.has_failed()).await;
    let error = run.runs.decide(&run.id, "s", Decision::Retry).await.unwrap_err();
    assert!(matches!(error, MemberError::RunFailed { .. }), "{error:?}");
    run.runs.decide(&run.id, "s", Decision::Fail).await.unwrap();
    assert_eq!(run.follow().await.outcome, Some(RunOutcome::Failed));
    run.let_go();
    assert_eq!(run.effects(), 1);
}

#[tokio::test]
async fn run_continues_after_the_broker_was_away() {
    let Some(mut broker) = broker("run_continues_after_the_broker_was_away", "") else { return };
    let a = Machine::executor("a", &broker, 1).await;
    let run = TestRun::start_waiting(&a, "on: a").await;
    run.wait_for_effects(1).await;
    broker.kill();
    a.wait_for(|status| status.state == nerve_member::MemberState::Suspended).await;
    run.let_go();
    broker.restart();
    let state = run.follow().await;
    assert_eq!((state.outcome, run.effects()), (Some(RunOutcome::Completed), 1));
}

#[tokio::test]
async fn run_of_a_lost_owner_is_taken_over() {
    let Some(broker) = broker("run_of_a_lost_owner_is_taken_over", "") else { return };
    let mut a = Machine::executor("a", &broker, 1).await;
    let mut b = Machine::executor("b", &broker, 1).await;
    let run = TestRun::start_waiting(&a, "on: a").await;
    run.wait_for_effects(1).await;
    let owner = run.state().await.owner.unwrap();
    let (lost, other) = if owner.machine == a.id() { (&mut a, b.id()) } else { (&mut b, a.id()) };
    lost.crash().await;
    eventually("another machine owns the run", async || {
        run.state().await.owner.is_some_and(|owner| owner.machine == other)
    })
    .await;
    lost.start();
    run.let_go();
    let state = run.follow().await;
    assert_eq!((state.outcome, run.effects()), (Some(RunOutcome::Completed), 1));
    assert!(state.epoch > nerve_cluster::Epoch(nerve_cluster::Sequence(0)));
}

#[tokio::test]
async fn cancelled_run_ends_its_step_and_resumes_after_it() {
    let Some(broker) = broker("cancelled_run_ends_its_step_and_resumes_after_it", "") else { return };
    let a = Machine::executor("a", &broker, 1).await;
    let b = Machine::executor("b", &broker, 1).await;
    let run = TestRun::start(
        &a,
        "  - {id: one, node: sh, input: 'echo x >> DIR/one; echo 1'}\n\
         \x20 - {id: s, node: sh, on: b, depends_on: [one], input: 'echo x >> DIR/log; until test -e DIR/go; do sleep 0.05; done; echo done'}\n\
         \x20 - {id: t, node: sh, depends_on: [s], input: 'echo {{ steps.one.text }} {{ steps.s.text }}'}\n",
    )
    .await;
    run.wait_for_effects(1).await;
    assert_eq!(run.runs.resume(&run.id).await, Err(MemberError::RunActive(run.id.clone())));
    run.runs.cancel(&run.id).await.unwrap();
    let state = run.follow().await;
    assert_eq!(state.outcome, Some(RunOutcome::Cancelled));
    assert!(state.steps[&step("t")].attempts.is_empty());
    assert!(matches!(&state.attempt(&step("s"), 1).unwrap().state,
        AttemptState::Finished { by, result } if by.machine == b.id() && !result.is_success));
    assert_eq!(run.runs.cancel(&run.id).await, Ok(()), "it is cancelled already");
    run.let_go();
    run.runs.resume(&run.id).await.unwrap();
    let state = run.follow().await;
    assert_eq!((state.outcome, run.effects()), (Some(RunOutcome::Completed), 2));
    assert_eq!((text(&state, "t").as_str(), state.steps[&step("s")].attempts.len()), ("1 done", 2));
    assert_eq!(fs::read_to_string(run.file("one")).unwrap().lines().count(), 1, "its result is kept");
    assert_eq!(run.runs.cancel(&run.id).await, Err(MemberError::RunEnded(run.id.clone())));
    assert_eq!(run.runs.resume(&run.id).await, Err(MemberError::RunEnded(run.id.clone())));
}

#[tokio::test]
async fn step_of_a_cancelled_run_ends_once_its_machine_is_back() {
    let Some(broker) = broker("step_of_a_cancelled_run_ends_once_its_machine_is_back", "") else { return };
    let a = Machine::executor("a", &broker, 1).await;
    let mut b = Machine::executor("b", &broker, 1).await;
    let run = TestRun::start_waiting(&a, "on: b").await;
    run.wait_for_effects(1).await;
    b.crash().await;
    run.runs.cancel(&run.id).await.unwrap();
    assert_eq!(run.follow().await.outcome, Some(RunOutcome::Cancelled));
    b.start();
    run.wait_for(1, |attempt| attempt.late.as_ref().is_some_and(|late| !late.is_success)).await;
    assert_eq!((run.state().await.outcome, run.effects()), (Some(RunOutcome::Cancelled), 1));
}

#[tokio::test]
async fn failed_run_resumes_on_another_machine() {
    let Some(broker) = broker("failed_run_resumes_on_another_machine", "") else { return };
    let mut a = Machine::executor("a", &broker, 1).await;
    let run = TestRun::start(&a, "  - {id: s, node: sh, input: 'echo x >> DIR/log; test -e DIR/go'}\n").await;
    assert_eq!(run.follow().await.outcome, Some(RunOutcome::Failed));
    a.stop().await;
    let b = Machine::executor("b", &broker, 1).await;
    run.let_go();
    run.runs.resume(&run.id).await.unwrap();
    let state = run.follow().await;
    assert_eq!((state.outcome, run.effects()), (Some(RunOutcome::Completed), 2));
    assert_eq!(run.attempt(2).await.unwrap().machine, b.id());
}

#[tokio::test]
async fn member_that_starts_finds_the_oldest_of_many_runs() {
    let Some(broker) = broker("member_that_starts_finds_the_oldest_of_many_runs", "") else { return };
    let mut a = Machine::executor("a", &broker, 1).await;
    a.stop().await;
    let run = TestRun::start(&a, "  - {id: s, node: sh, input: 'echo x >> DIR/log'}\n").await;
    add_ended_runs(&broker, 200).await;
    a.start();
    assert_eq!(run.follow().await.outcome, Some(RunOutcome::Completed));
    assert_eq!(run.effects(), 1);
}

#[tokio::test]
async fn long_journal_is_read_over_a_slow_network() {
    let Some(broker) = broker("long_journal_is_read_over_a_slow_network", "") else { return };
    let a = Machine::executor("a", &broker, 0).await;
    let run = TestRun::start(&a, "  - {id: s, node: sh, on: slow, input: 'echo x >> DIR/log'}\n").await;
    eventually("the run has an owner", async || run.state().await.owner.is_some()).await;
    // Records without effect make the journal long: 4 MB, for which the network needs more than twice the deadline of a call.
    let by = run.state().await.owner.unwrap();
    let result = StepResult { is_success: true, value: "x".repeat(100_000) };
    let late = RecordKind::LateResult { step: step("s"), attempt: 9, by, result };
    append_all(&store(&broker).await, &run.id, vec![late; 40]).await;
    let relay = Relay::start(&broker, Duration::from_millis(10)).await;
    let mut slow = Machine::new("slow", &broker, SHORT);
    (slow.config.brokers, slow.config.slots) = (vec![relay.url()], 1);
    slow.membership.join(&slow.config, CREATE).await.unwrap();
    slow.start();
    assert_eq!(run.follow().await.outcome, Some(RunOutcome::Completed));
    assert_eq!((run.attempt(1).await.unwrap().machine, run.effects()), (slow.id(), 1));
}
