//! The runs that were started here, with their gates and the last result.

use std::collections::{BTreeMap, BTreeSet};

use nerve_api::reply::RunEnded;
use nerve_api::{EventKind, EventMessage};
use nerve_client::{ClientError, NerveClient, RunOptions};
use serde_json::{Map, Value};
use tokio::sync::mpsc;

/// The end of a run.
#[derive(Debug)]
pub(super) struct RunEnd {
    pub(super) run: String,
    pub(super) outcome: Result<RunEnded, ClientError>,
}

/// The active runs that were started here, and the last result.
#[derive(Debug)]
pub(super) struct Runs {
    active: BTreeMap<String, ActiveRun>,
    /// Results of the last run that ended, and its output steps.
    last: Option<(RunEnded, Vec<String>)>,
    ended: mpsc::UnboundedSender<RunEnd>,
}

#[derive(Debug, Default)]
struct ActiveRun {
    /// The server has started the run.
    has_started: bool,
    /// Steps with an open gate.
    gates: BTreeSet<String>,
    /// Steps whose results are the graph's results.
    output_steps: Vec<String>,
}

impl Runs {
    /// Creates an empty set. The receiver yields ended runs.
    pub(super) fn new() -> (Runs, mpsc::UnboundedReceiver<RunEnd>) {
        let (ended, run_ends) = mpsc::unbounded_channel();
        (Runs { active: BTreeMap::new(), last: None, ended }, run_ends)
    }

    /// Starts a run with the id in `options`.
    pub(super) fn start(
        &mut self,
        client: &NerveClient,
        definition: Map<String, Value>,
        options: RunOptions,
        output_steps: Vec<String>,
    ) -> String {
        let run = options.run_id.clone().unwrap_or_default();
        self.active.insert(run.clone(), ActiveRun { output_steps, ..ActiveRun::default() });
        let (client, ended, id) = (client.clone(), self.ended.clone(), run.clone());
        tokio::spawn(async move {
            let outcome = client.execute_graph(definition, &options).await;
            // Fails only when the REPL has ended.
            let _ = ended.send(RunEnd { run: id, outcome });
        });
        run
    }

    /// Returns true if the run was started here and has not ended.
    pub(super) fn is_active(&self, run: &str) -> bool {
        self.active.contains_key(run)
    }

    /// Returns the ids of the active runs.
    pub(super) fn active(&self) -> Vec<String> {
        self.active.keys().cloned().collect()
    }

    /// Returns true if the server has started the run or the run has ended.
    pub(super) fn has_started(&self, run: &str) -> bool {
        self.active.get(run).is_none_or(|active| active.has_started)
    }

    /// Returns true if the run waits at a gate.
    pub(super) fn is_waiting(&self, run: &str) -> bool {
        self.active.get(run).is_some_and(|active| !active.gates.is_empty())
    }

    /// Updates started runs and open gates from an event.
    pub(super) fn on_event(&mut self, event: &EventMessage) {
        let Some(details) = event.details() else { return };
        if let EventKind::EventsDropped { .. } = details {
            // A dropped event may have reported the start.
            self.active.values_mut().for_each(|active| active.has_started = true);
        }
        let Some(active) = details.run().and_then(|run| self.active.get_mut(&run.run_id)) else { return };
        active.has_started = true;
        match details {
            EventKind::GateAsked { gate, .. } => {
                active.gates.insert(gate.step_id);
            }
            EventKind::GateAnswered { step_id, .. }
            | EventKind::StepCompleted { step_id, .. }
            | EventKind::StepFailed { step_id, .. } => {
                active.gates.remove(&step_id);
            }
            _ => {}
        }
    }

    /// Closes an answered gate before its event arrives.
    pub(super) fn on_gate_answered(&mut self, run: &str, step: &str) {
        if let Some(active) = self.active.get_mut(run) {
            active.gates.remove(step);
        }
    }

    /// Replaces the open gates of a run.
    pub(super) fn set_gates(&mut self, run: &str, gates: impl IntoIterator<Item = String>) {
        if let Some(active) = self.active.get_mut(run) {
            active.gates = gates.into_iter().collect();
        }
    }

    /// Removes a run and keeps its results.
    pub(super) fn on_end(&mut self, ended: &RunEnd) {
        let Some(active) = self.active.remove(&ended.run) else { return };
        let data = match &ended.outcome {
            Ok(data) => Some(data.clone()),
            Err(error) => error.server().and_then(|error| error.details.run.as_deref().cloned()),
        };
        if let Some(data) = data {
            self.last = Some((data, active.output_steps));
        }
    }

    /// Returns the results of the last run that ended, and its output steps.
    pub(super) fn last_result(&self) -> Option<&(RunEnded, Vec<String>)> {
        self.last.as_ref()
    }
}
