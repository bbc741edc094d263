//! The runs that were active here: which go on, which wait at a gate, what came of the last one.

use std::collections::{BTreeMap, BTreeSet};

use nerve_client::{ClientError, NerveClient, RunOptions};
use nerve_proto::data::RunEndedData;
use nerve_proto::{EventMessage, EventType};
use serde_json::{Map, Value};
use tokio::sync::mpsc;

/// A run that has ended.
#[derive(Debug)]
pub(super) struct RunEnd {
    pub(super) run: String,
    pub(super) outcome: Result<RunEndedData, ClientError>,
}

/// The runs that were active here.
#[derive(Debug)]
pub(super) struct Runs {
    active: BTreeMap<String, ActiveRun>,
    /// Results of the last one that has ended, and the steps whose results are the graph's.
    last: Option<(RunEndedData, Vec<String>)>,
    ended: mpsc::UnboundedSender<RunEnd>,
}

#[derive(Debug, Default)]
struct ActiveRun {
    /// The server has active with it.
    has_started: bool,
    /// Steps that wait for an answer.
    gates: BTreeSet<String>,
    /// Steps whose results are the graph's.
    output_steps: Vec<String>,
}

impl Runs {
    /// No runs; the other end tells of those that end.
    pub(super) fn new() -> (Runs, mpsc::UnboundedReceiver<RunEnd>) {
        let (ended, run_ends) = mpsc::unbounded_channel();
        (Runs { active: BTreeMap::new(), last: None, ended }, run_ends)
    }

    /// Begins a run under the id in `options`.
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
            // Nobody listens any more: the REPL is left.
            let _ = ended.send(RunEnd { run: id, outcome });
        });
        run
    }

    /// It goes on.
    pub(super) fn is_active(&self, run: &str) -> bool {
        self.active.contains_key(run)
    }

    /// Ids of those that go on.
    pub(super) fn active(&self) -> Vec<String> {
        self.active.keys().cloned().collect()
    }

    /// The server has active with it, or has not and never will.
    pub(super) fn has_started(&self, run: &str) -> bool {
        self.active.get(run).is_none_or(|active| active.has_started)
    }

    /// It waits at a gate.
    pub(super) fn is_waiting(&self, run: &str) -> bool {
        self.active.get(run).is_some_and(|active| !active.gates.is_empty())
    }

    /// Takes note of what an event says of gates.
    pub(super) fn on_event(&mut self, event: &EventMessage) {
        let text = |name: &str| event.data.get(name).and_then(Value::as_str).unwrap_or_default();
        if event.kind() == Some(EventType::EventsDropped) {
            // What is missing may have said so.
            self.active.values_mut().for_each(|active| active.has_started = true);
        }
        let Some(active) = self.active.get_mut(text("run_id")) else { return };
        active.has_started = true;
        match event.kind() {
            Some(EventType::GateAsked) => {
                active.gates.insert(text("step_id").to_string());
            }
            Some(EventType::GateAnswered | EventType::StepCompleted | EventType::StepFailed) => {
                active.gates.remove(text("step_id"));
            }
            _ => {}
        }
    }

    /// The gate was answered: the event that says so may come later.
    pub(super) fn on_gate_answered(&mut self, run: &str, step: &str) {
        if let Some(active) = self.active.get_mut(run) {
            active.gates.remove(step);
        }
    }

    /// Sets which gates a run waits at.
    pub(super) fn set_gates(&mut self, run: &str, gates: impl IntoIterator<Item = String>) {
        if let Some(active) = self.active.get_mut(run) {
            active.gates = gates.into_iter().collect();
        }
    }

    /// A run is over; what it has of results is kept.
    pub(super) fn on_end(&mut self, ended: &RunEnd) {
        let Some(active) = self.active.remove(&ended.run) else { return };
        let data = match &ended.outcome {
            Ok(data) => Some(data.clone()),
            Err(error) => error.server().and_then(|error| error.run.as_deref().cloned()),
        };
        if let Some(data) = data {
            self.last = Some((data, active.output_steps));
        }
    }

    /// Results of the last run that has ended, and the steps whose results are the graph's.
    pub(super) fn last_result(&self) -> Option<&(RunEndedData, Vec<String>)> {
        self.last.as_ref()
    }
}
