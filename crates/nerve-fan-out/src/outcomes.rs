//! The outcomes of attempts, from the steps of their run.

use std::fs;
use std::path::Path;

use nerve_api::reply::{NodeInfo, RunInfo, RunStep};
use nerve_api::value::{NodeState, RunStatus, StepState};
use nerve_commands::failure::{DONE, FAILED, INTERRUPTED, exit_code_of};
use nerve_graph::journal::{Summary, read_steps};
use nerve_types::ErrorKind;

use crate::fan_out::{Attempt, FanOut, Outcome, TestOutcome};
use crate::store::Store;

/// Sets the outcome of each attempt, or its current state. `nodes`: those of the session, if its server runs.
pub fn collect(store: &Store, fan_out: &mut FanOut, run: RunInfo, nodes: &[NodeInfo]) {
    let run = &with_steps(run);
    let step_of = |id: &str| run.steps.iter().find(|step| step.step_id == id);
    let FanOut { name, attempts, test, .. } = fan_out;
    for attempt in attempts.iter_mut().filter(|attempt| attempt.outcome.is_none() && !attempt.is_removed) {
        let (step, test_step) = (step_of(&attempt.label), step_of(&attempt.test_step()));
        let node = nodes.iter().find(|node| node.node_id == attempt.node);
        let is_tested = test.is_none() || !step.is_some_and(has_completed) || test_step.is_some_and(is_over);
        if !(run.status.is_end() || step.is_some_and(is_over) && is_tested) {
            attempt.current = Some(current_state(run, step, node));
            continue;
        }
        let mut outcome = outcome(step, node, run);
        // Without a completed turn, the test did not run.
        let is_tested = test.is_some() && outcome.exit_code == DONE;
        outcome.test = is_tested.then(|| test_outcome(store, name, attempt, test_step));
        attempt.outcome = Some(outcome);
    }
}

/// Reads a run from its journal; `None` if that cannot be read.
pub fn read_run(journal: &Path) -> Option<RunInfo> {
    let outcome = Summary::read(journal).ok()?.outcome;
    let status =
        outcome.as_ref().map_or(RunStatus::Interrupted, |end| end.status.parse().unwrap_or_default());
    let error = outcome.and_then(|end| end.error);
    Some(RunInfo { status, error, journal: Some(journal.display().to_string()), ..RunInfo::default() })
}

/// Adds the steps of a run that only its journal knows.
fn with_steps(mut run: RunInfo) -> RunInfo {
    if let Some(journal) = run.journal.as_deref().filter(|_| run.steps.is_empty()) {
        run.steps = read_steps(Path::new(journal)).unwrap_or_default();
    }
    run
}

/// Returns the state of an attempt that has not ended.
fn current_state(run: &RunInfo, step: Option<&RunStep>, node: Option<&NodeInfo>) -> &'static str {
    match node.map(|node| node.state) {
        _ if run.status == RunStatus::Interrupted => "interrupted",
        _ if run.status == RunStatus::Unknown => "unknown",
        _ if step.is_some_and(is_over) => "testing",
        Some(NodeState::Blocked) => "blocked",
        Some(NodeState::Suspended) => "suspended",
        _ => "running",
    }
}

fn has_completed(step: &RunStep) -> bool {
    matches!(step.state, StepState::Completed | StepState::Reused)
}

fn is_over(step: &RunStep) -> bool {
    has_completed(step) || matches!(step.state, StepState::Skipped | StepState::Failed | StepState::Cancelled)
}

/// Returns the outcome of a turn.
fn outcome(step: Option<&RunStep>, node: Option<&NodeInfo>, run: &RunInfo) -> Outcome {
    // A step that the budget of the whole run cancels ends with the run's error.
    let own_end = step.filter(|step| !(step.state == StepState::Cancelled && is_over_budget(run)));
    let (state, exit_code) = end_state(own_end, run);
    let (error, error_type, hint) = match own_end {
        _ if exit_code == DONE => (None, None, None),
        Some(step) if step.error.is_some() => (step.error.clone(), step.error_type, step.hint.clone()),
        _ => (run.error.clone(), run.error_type, run.hint.clone()),
    };
    let turns = node.and_then(|node| node.metadata.number("turns"));
    let tokens = step.map(|step| step.tokens_used).filter(|tokens| *tokens > 0);
    Outcome {
        state: state.to_string(),
        exit_code,
        error,
        error_type,
        hint,
        turns,
        tokens: tokens.or_else(|| node.and_then(|node| node.progress.tokens)),
        duration_ms: step.and_then(duration_ms),
        test: None,
    }
}

/// Returns the state and the exit code of an ended attempt: those of its step, otherwise those of the run.
fn end_state(step: Option<&RunStep>, run: &RunInfo) -> (&'static str, u8) {
    let failure_code = step.and_then(|step| step.error_type).map_or(FAILED, exit_code_of);
    match step.map(|step| step.state) {
        Some(StepState::Completed | StepState::Reused) => ("completed", DONE),
        Some(StepState::Cancelled) => ("cancelled", INTERRUPTED),
        Some(StepState::Failed | StepState::Skipped) => ("failed", failure_code),
        _ if run.status == RunStatus::Cancelled => ("cancelled", INTERRUPTED),
        // The journal cannot be read.
        None if run.status == RunStatus::Completed => ("completed", DONE),
        _ => ("failed", failure_code),
    }
}

/// Returns true if the budget of the whole run is exhausted. An attempt that fails at its own limit cancels no other step.
fn is_over_budget(run: &RunInfo) -> bool {
    let is_budget = |error_type| error_type == Some(ErrorKind::Budget);
    is_budget(run.error_type) && !run.steps.iter().any(|step| is_budget(step.error_type))
}

/// Returns the outcome of a test. `step`: the test's step, if the server still has it.
fn test_outcome(store: &Store, name: &str, attempt: &Attempt, step: Option<&RunStep>) -> TestOutcome {
    let exit_code = fs::read_to_string(store.test_exit(name, attempt)).ok();
    let exit_code = exit_code.and_then(|text| text.trim().parse().ok());
    let failed = step.filter(|_| exit_code.is_none());
    TestOutcome {
        exit_code,
        error: failed.and_then(|step| step.error.clone()),
        error_type: failed.and_then(|step| step.error_type),
        duration_ms: step.and_then(duration_ms),
        log: store.test_log(name, attempt),
    }
}

fn duration_ms(step: &RunStep) -> Option<u64> {
    Some(step.ended_at?.0.saturating_sub(step.started_at.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fan_out::example;

    fn step(id: &str, state: StepState) -> RunStep {
        RunStep { step_id: id.to_string(), state, ..RunStep::default() }
    }

    #[test]
    fn attempt_ends_with_its_test() {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(home.path());
        let mut fan_out =
            FanOut { test: Some("false".to_string()), ..example("login", &["claude"], home.path()) };
        let run = |test_state| RunInfo {
            status: RunStatus::Running,
            steps: vec![step("1-claude", StepState::Completed), step("1-claude-test", test_state)],
            ..RunInfo::default()
        };
        collect(&store, &mut fan_out, run(StepState::Running), &[]);
        let attempt = &fan_out.attempts[0];
        assert!(attempt.outcome.is_none() && attempt.current == Some("testing"), "{attempt:?}");
        let exit = store.test_exit("login", attempt);
        fs::create_dir_all(exit.parent().unwrap()).unwrap();
        fs::write(exit, "1\n").unwrap();
        collect(&store, &mut fan_out, run(StepState::Failed), &[]);
        let outcome = fan_out.attempts[0].outcome.as_ref().unwrap();
        assert_eq!((outcome.exit_code, outcome.test.as_ref().unwrap().exit_code), (DONE, Some(1)));
        assert!(!outcome.is_success());
    }

    #[test]
    fn attempt_cancelled_by_the_total_budget_has_failed() {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(home.path());
        let outcome_of_second = |error_of_first| {
            let first = RunStep { error_type: error_of_first, ..step("1-claude", StepState::Failed) };
            let run = RunInfo {
                status: RunStatus::Failed,
                error_type: Some(ErrorKind::Budget),
                steps: vec![first, step("2-codex", StepState::Cancelled)],
                ..RunInfo::default()
            };
            let mut fan_out = example("login", &["claude", "codex"], home.path());
            collect(&store, &mut fan_out, run, &[]);
            let outcome = fan_out.attempts[1].outcome.clone().unwrap();
            (outcome.state, outcome.exit_code, outcome.error_type)
        };
        assert_eq!(outcome_of_second(None), ("failed".to_string(), FAILED, Some(ErrorKind::Budget)));
        // The limit of the first attempt alone does not concern the second one, which Ctrl+C has cancelled.
        let (state, code, _) = outcome_of_second(Some(ErrorKind::Budget));
        assert_eq!((state.as_str(), code), ("cancelled", INTERRUPTED));
    }
}
