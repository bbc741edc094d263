//! Follows the run of a fan-out to its end, and collects the outcomes.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use anyhow::Result;
use nerve_api::reply::{NodeInfo, RunInfo, RunStep};
use nerve_api::request::Subscribe;
use nerve_api::value::{NodeState, RunStatus, StepState};
use nerve_api::{EventKind, EventMessage, EventType};
use nerve_client::{ClientError, NerveClient};
use nerve_fan_out::store::{Attempt, FanOut, Outcome, Store, TestOutcome};
use nerve_graph::journal::{Summary, journal_path, read_steps};
use nerve_graph::session::DEFAULT;
use nerve_repl::failure::exit_code_of;
use nerve_repl::run_display::{format_duration, graph_command};
use nerve_server::paths::ServerPaths;
use nerve_types::ErrorKind;

use crate::cmd::server::connect;
use crate::exit::{self, DONE, FAILED, Failure, INTERRUPTED, NOT_FOUND};
use crate::out;

/// Types of the events that are shown.
const EVENTS: [EventType; 8] = [
    EventType::NodeBusy,
    EventType::NodeBlocked,
    EventType::NodeSuspended,
    EventType::StepCompleted,
    EventType::StepFailed,
    EventType::GraphCompleted,
    EventType::GateAsked,
    EventType::EventsDropped,
];

/// Waits until all attempts have ended, and stores their outcomes. Reports progress on stderr.
///
/// # Errors
/// Exit code 130 after Ctrl+C; 1 if the server ends before the run.
pub(super) async fn follow(client: &NerveClient, store: &Store, fan_out: &mut FanOut) -> Result<()> {
    let Some(run_id) = fan_out.run_id.clone() else {
        if store.reserve(&fan_out.name)?.is_none() {
            let message = format!("fan-out '{}' is not started yet", fan_out.name);
            let hint = "repeat this when the command that starts it has done it";
            return Err(Failure::new(FAILED, message).hint(hint).into());
        }
        let message = format!("fan-out '{}' was interrupted before its agents got the task", fan_out.name);
        return Err(Failure::new(FAILED, message).hint(command(fan_out, "clean")).into());
    };
    let mut follower = Follower { client, fan_out, announced: HashSet::new() };
    let run = tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => {
            let message = format!("interrupted; the agents of fan-out '{}' continue", fan_out.name);
            return Err(Failure::new(INTERRUPTED, message).hint(command(fan_out, "wait")).into());
        }
        run = follower.follow_run(&run_id) => run?,
    };
    let nodes = client.list_nodes(fan_out.session.as_deref()).await?;
    collect(store, fan_out, &with_steps(run), &nodes);
    store.save(fan_out)
}

/// Updates the attempts without an outcome: from the server, or from the journal of the run if it is not running. Stores nothing.
pub(super) async fn refresh(store: &Store, fan_out: &mut FanOut) {
    if fan_out.open_attempts().next().is_none() {
        return;
    }
    let client = match connect(&fan_out.server).await {
        Ok(client) => Ok(Some(client)),
        Err(error) if exit::failure(&error).code == NOT_FOUND => Ok(None),
        Err(error) => Err(error),
    };
    let run = match (&fan_out.run_id, &client) {
        (Some(run_id), Ok(Some(client))) => client.run_status(run_id, None).await.ok(),
        (Some(run_id), Ok(None)) => read_run(&fan_out.server, run_id),
        // The agents never got the task.
        (None, _) => Some(RunInfo { status: RunStatus::Interrupted, ..RunInfo::default() }),
        (Some(_), Err(_)) => None,
    };
    let nodes = match &client {
        Ok(Some(client)) => client.list_nodes(fan_out.session.as_deref()).await.unwrap_or_default(),
        _ => Vec::new(),
    };
    collect(store, fan_out, &with_steps(run.unwrap_or_default()), &nodes);
}

/// Reads a run from its journal, because its server is not running.
fn read_run(server: &str, run_id: &str) -> Option<RunInfo> {
    let journal = journal_path(&ServerPaths::from_env().runs().join(server), run_id);
    let outcome = Summary::read(&journal).ok()?.outcome;
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

/// Returns a hint with a command for the fan-out.
pub(super) fn command(fan_out: &FanOut, word: &str) -> String {
    let purpose = if word == "wait" { "continue" } else { "remove it" };
    format!("{purpose} with 'nerve fan-out {word} {}'", fan_out.name)
}

struct Follower<'a> {
    client: &'a NerveClient,
    fan_out: &'a FanOut,
    /// Dialogs that were reported: ids of nodes, and steps of gates.
    announced: HashSet<String>,
}

impl Follower<'_> {
    async fn follow_run(&mut self, run_id: &str) -> Result<RunInfo> {
        let types = Some(EVENTS.map(|kind| kind.as_str().to_string()).to_vec());
        let mut events = self.client.subscribe(&Subscribe { types, ..Subscribe::default() }).await?;
        loop {
            let run = self.client.run_status(run_id, None).await?;
            if !run.status.is_active() {
                return match run.status {
                    RunStatus::Interrupted => Err(self.server_end_failure(run_id).into()),
                    _ => Ok(run),
                };
            }
            self.announce_current(&run).await?;
            loop {
                let Some(event) = events.next().await else { return Err(ClientError::closed().into()) };
                if self.on_event(run_id, &event) {
                    break;
                }
            }
        }
    }

    /// Reports the dialogs that were open before the subscription.
    async fn announce_current(&mut self, run: &RunInfo) -> Result<()> {
        for node in self.client.list_nodes(self.fan_out.session.as_deref()).await? {
            if matches!(node.state, NodeState::Blocked) {
                let dialog =
                    self.client.node(&node.node_id, self.fan_out.session.as_deref()).explain().await?;
                self.announce_dialog(&node.node_id, node.metadata.text("blocked"), &dialog.choices);
            }
        }
        for gate in &run.gates {
            self.announce_gate(&run.run_id, &gate.step_id, &gate.question);
        }
        Ok(())
    }

    /// Reports an event. Returns true if the state of the run must be read.
    fn on_event(&mut self, run_id: &str, event: &EventMessage) -> bool {
        let is_in_session = event.session_id.as_deref().unwrap_or(DEFAULT) == self.session();
        let node = event.node_id.as_deref().filter(|_| is_in_session).unwrap_or_default();
        match event.details() {
            Some(EventKind::GraphCompleted { run, .. }) => return run.run_id == run_id,
            Some(EventKind::EventsDropped { .. }) => return true,
            Some(EventKind::NodeBlocked { kind, choices, .. }) => {
                self.announce_dialog(node, kind.as_str(), &choices);
            }
            // A later dialog must be announced again.
            Some(EventKind::NodeBusy { .. }) => {
                self.announced.remove(node);
            }
            Some(EventKind::NodeSuspended { .. }) if self.attempt_of(node).is_some() => {
                out::note(format_args!("{}: waits for the reset of a usage limit", self.label(node)));
            }
            Some(EventKind::StepCompleted { run, step_id, duration_ms, .. }) if run.run_id == run_id => {
                let time = format_duration(std::time::Duration::from_millis(duration_ms).as_secs_f64());
                let is_test = self.fan_out.attempts.iter().any(|attempt| attempt.test_step() == step_id);
                let verb = if is_test { "passed" } else { "completed" };
                out::note(format_args!("{step_id}: {0}{verb}{0:#} in {time}", out::GOOD));
            }
            Some(EventKind::StepFailed { run, step_id, error, retry_in_ms: None, .. })
                if run.run_id == run_id =>
            {
                let error = out::preview(&error, 200);
                out::note(format_args!("{step_id}: {0}failed{0:#}: {error}", out::BAD));
            }
            Some(EventKind::GateAsked { run, gate }) if run.run_id == run_id => {
                self.announce_gate(run_id, &gate.step_id, &gate.question);
            }
            _ => {}
        }
        false
    }

    fn announce_dialog(&mut self, node: &str, kind: &str, choices: &[String]) {
        if self.attempt_of(node).is_none() || !self.announced.insert(node.to_string()) {
            return;
        }
        let label = self.label(node);
        let options = self.fan_out.node_options();
        out::note(format_args!(
            "{label}: {0}blocked{0:#} by a dialog ({kind}); answer with 'nerve answer{options} {node} CHOICE'",
            out::WAITING,
        ));
        for (number, choice) in choices.iter().enumerate() {
            out::note(format_args!("  {}. {}", number + 1, out::preview(choice, 100)));
        }
    }

    fn announce_gate(&mut self, run_id: &str, step: &str, question: &str) {
        if self.announced.insert(format!("/{step}")) {
            let answer = graph_command(
                &self.fan_out.server,
                &format!("answer {run_id} --step {} CHOICE", shell_words::quote(step)),
            );
            out::note(format_args!("{step} asks: {}; answer with '{answer}'", out::preview(question, 200)));
        }
    }

    /// Returns the session of the nodes: another one may have nodes of the same names.
    fn session(&self) -> &str {
        self.fan_out.session.as_deref().unwrap_or(DEFAULT)
    }

    fn attempt_of(&self, node: &str) -> Option<&Attempt> {
        self.fan_out.attempts.iter().find(|attempt| attempt.node == node)
    }

    fn label(&self, node: &str) -> String {
        self.attempt_of(node).map_or_else(|| node.to_string(), |attempt| attempt.label.clone())
    }

    fn server_end_failure(&self, run_id: &str) -> Failure {
        let resume = graph_command(&self.fan_out.server, &format!("resume {run_id} --no-wait"));
        Failure::new(FAILED, format!("the server ended during fan-out '{}'", self.fan_out.name))
            .hint(format!("continue with '{resume}', then 'nerve fan-out wait {}'", self.fan_out.name))
    }
}

/// Sets the outcome of each attempt, or its current state.
fn collect(store: &Store, fan_out: &mut FanOut, run: &RunInfo, nodes: &[NodeInfo]) {
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
