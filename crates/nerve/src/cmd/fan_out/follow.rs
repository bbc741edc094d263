//! Follows the run of a fan-out to its end, and collects the outcomes.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::Result;
use nerve_api::DEFAULT_SESSION;
use nerve_api::reply::RunInfo;
use nerve_api::request::Subscribe;
use nerve_api::value::{NodeState, RunStatus};
use nerve_api::{EventKind, EventMessage, EventType};
use nerve_client::{ClientError, NerveClient};
use nerve_commands::run_display::{format_duration, graph_command};
use nerve_fan_out::fan_out::{Attempt, FanOut};
use nerve_fan_out::outcomes::{collect, read_run};
use nerve_fan_out::store::Store;
use nerve_graph::journal::journal_path;
use nerve_server::paths::ServerPaths;

use crate::cmd::server::connect;
use crate::exit::{self, FAILED, Failure, INTERRUPTED, NOT_FOUND};
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
        return Err(Failure::new(FAILED, message).hint(fan_out.clean_hint()).into());
    };
    let mut follower = Follower { client, fan_out, announced: HashSet::new() };
    let run = tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => {
            let message = format!("interrupted; the agents of fan-out '{}' continue", fan_out.name);
            return Err(Failure::new(INTERRUPTED, message).hint(fan_out.wait_hint()).into());
        }
        run = follower.follow_run(&run_id) => run?,
    };
    let nodes = client.list_nodes(fan_out.session.as_deref()).await?;
    collect(store, fan_out, run, &nodes);
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
        (Some(run_id), Ok(None)) => {
            read_run(&journal_path(&ServerPaths::from_env().runs().join(&fan_out.server), run_id))
        }
        // The agents never got the task.
        (None, _) => Some(RunInfo { status: RunStatus::Interrupted, ..RunInfo::default() }),
        (Some(_), Err(_)) => None,
    };
    let nodes = match &client {
        Ok(Some(client)) => client.list_nodes(fan_out.session.as_deref()).await.unwrap_or_default(),
        _ => Vec::new(),
    };
    collect(store, fan_out, run.unwrap_or_default(), &nodes);
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
        let is_in_session = event.session_id.as_deref().unwrap_or(DEFAULT_SESSION) == self.session();
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
                let time = format_duration(Duration::from_millis(duration_ms).as_secs_f64());
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
        self.fan_out.session.as_deref().unwrap_or(DEFAULT_SESSION)
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
