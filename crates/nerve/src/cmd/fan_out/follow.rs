//! Follows the run of a fan-out to its end, and collects the outcomes.

use std::collections::HashSet;
use std::fs;

use anyhow::Result;
use nerve_api::reply::{NodeInfo, RunInfo, RunStep};
use nerve_api::request::Subscribe;
use nerve_api::value::{NodeState, RunStatus, StepState};
use nerve_api::{EventKind, EventMessage, EventType};
use nerve_client::{ClientError, NerveClient};
use nerve_repl::failure::exit_code_of;
use nerve_repl::run_display::{format_duration, graph_command};

use super::store::{Attempt, FanOut, Outcome, Store, TestOutcome};
use crate::exit::{DONE, FAILED, Failure, INTERRUPTED};
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
    collect(client, store, fan_out, &run).await?;
    store.save(fan_out)
}

/// Returns a hint with a command for the fan-out.
pub(super) fn command(fan_out: &FanOut, word: &str) -> String {
    let purpose = if word == "wait" { "continue" } else { "remove it" };
    format!("{purpose} with 'nerve fan-out {word} {}'", fan_out.name)
}

struct Follower<'a> {
    client: &'a NerveClient,
    fan_out: &'a FanOut,
    /// Dialogs that are on the terminal: nodes, and steps of gates.
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
                    RunStatus::Interrupted => Err(self.interrupted(run_id).into()),
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

    /// Reports the dialogs that were there before the subscription.
    async fn announce_current(&mut self, run: &RunInfo) -> Result<()> {
        for node in self.client.list_nodes(self.fan_out.session.as_deref()).await? {
            if matches!(node.state, NodeState::Blocked) {
                let why = self.client.node(&node.node_id, self.fan_out.session.as_deref()).why().await?;
                self.announce_dialog(&node.node_id, node.metadata.text("blocked"), &why.choices);
            }
        }
        for gate in &run.gates {
            self.announce_gate(&run.run_id, &gate.step_id, &gate.question);
        }
        Ok(())
    }

    /// Reports an event. Returns true if the state of the run must be read.
    fn on_event(&mut self, run_id: &str, event: &EventMessage) -> bool {
        let node = event.node_id.as_deref().unwrap_or_default();
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
                let took = format_duration(std::time::Duration::from_millis(duration_ms).as_secs_f64());
                let is_test = self.fan_out.attempts.iter().any(|attempt| attempt.test_step() == step_id);
                let what = if is_test { "passed" } else { "completed" };
                out::note(format_args!("{step_id}: {0}{what}{0:#} in {took}", out::GOOD));
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

    fn attempt_of(&self, node: &str) -> Option<&Attempt> {
        self.fan_out.attempts.iter().find(|attempt| attempt.node == node)
    }

    fn label(&self, node: &str) -> String {
        self.attempt_of(node).map_or_else(|| node.to_string(), |attempt| attempt.label.clone())
    }

    fn interrupted(&self, run_id: &str) -> Failure {
        let resume = graph_command(&self.fan_out.server, &format!("resume {run_id} --no-wait"));
        Failure::new(FAILED, format!("the server ended during fan-out '{}'", self.fan_out.name))
            .hint(format!("continue with '{resume}', then 'nerve fan-out wait {}'", self.fan_out.name))
    }
}

/// Stores how each attempt has ended.
async fn collect(client: &NerveClient, store: &Store, fan_out: &mut FanOut, run: &RunInfo) -> Result<()> {
    let nodes = client.list_nodes(fan_out.session.as_deref()).await?;
    let FanOut { name, attempts, test, .. } = fan_out;
    for attempt in attempts.iter_mut().filter(|attempt| attempt.outcome.is_none() && !attempt.is_removed) {
        let step = run.steps.iter().find(|step| step.step_id == attempt.label);
        let node = nodes.iter().find(|node| node.node_id == attempt.node);
        let mut outcome = outcome(step, node, run);
        if test.is_some() {
            let step = run.steps.iter().find(|step| step.step_id == attempt.test_step());
            outcome.test = Some(test_outcome(store, name, attempt, step));
        }
        attempt.outcome = Some(outcome);
    }
    Ok(())
}

/// Returns how a turn ended.
fn outcome(step: Option<&RunStep>, node: Option<&NodeInfo>, run: &RunInfo) -> Outcome {
    let failed = step.and_then(|step| step.error_type).map_or(FAILED, exit_code_of);
    let (state, exit_code) = match step.map(|step| step.state) {
        Some(StepState::Completed | StepState::Reused) => ("completed", DONE),
        Some(StepState::Cancelled) => ("cancelled", INTERRUPTED),
        Some(_) => ("failed", failed),
        None if run.status == RunStatus::Cancelled => ("cancelled", INTERRUPTED),
        // The steps of a run that only its journal knows are not listed.
        None if run.status == RunStatus::Completed => ("completed", DONE),
        None => ("failed", failed),
    };
    let (error, error_type, hint) = match step.filter(|step| step.error.is_some()) {
        _ if exit_code == DONE => (None, None, None),
        Some(step) => (step.error.clone(), step.error_type, step.hint.clone()),
        None => (run.error.clone(), run.error_type, run.hint.clone()),
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

/// Returns how a test ended. `step`: its step, if the server still knows it.
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
