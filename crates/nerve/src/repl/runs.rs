//! The runs that were begun here: which go on, which wait at a gate, what came of the last one.

use std::collections::{BTreeMap, BTreeSet};

use nerve_api::reply::RunEnded;
use nerve_api::{EventMessage, EventType};
use nerve_client::{ClientError, NerveClient, RunOptions};
use serde_json::{Map, Value};
use tokio::sync::mpsc;

/// A run that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) run: String,
    pub(super) outcome: Result<RunEnded, ClientError>,
}

/// The runs that were begun here.
#[derive(Debug)]
pub(super) struct Runs {
    begun: BTreeMap<String, Begun>,
    /// Results of the last one that has ended, and the steps whose results are the graph's.
    last: Option<(RunEnded, Vec<String>)>,
    ended: mpsc::UnboundedSender<Ended>,
}

#[derive(Debug, Default)]
struct Begun {
    /// The server has begun with it.
    known: bool,
    /// Steps that wait for an answer.
    gates: BTreeSet<String>,
    /// Steps whose results are the graph's.
    last_steps: Vec<String>,
}

impl Runs {
    /// No runs; the other end tells of those that end.
    pub(super) fn new() -> (Runs, mpsc::UnboundedReceiver<Ended>) {
        let (ended, ends) = mpsc::unbounded_channel();
        (Runs { begun: BTreeMap::new(), last: None, ended }, ends)
    }

    /// Begins a run under the id in `options`.
    pub(super) fn begin(
        &mut self,
        client: &NerveClient,
        definition: Map<String, Value>,
        options: RunOptions,
        last_steps: Vec<String>,
    ) -> String {
        let run = options.run_id.clone().unwrap_or_default();
        self.begun.insert(run.clone(), Begun { last_steps, ..Begun::default() });
        let (client, ended, id) = (client.clone(), self.ended.clone(), run.clone());
        tokio::spawn(async move {
            let outcome = client.execute_graph(definition, &options).await;
            // Nobody listens any more: the REPL is left.
            let _ = ended.send(Ended { run: id, outcome });
        });
        run
    }

    /// It goes on.
    pub(super) fn has(&self, run: &str) -> bool {
        self.begun.contains_key(run)
    }

    /// Ids of those that go on.
    pub(super) fn going_on(&self) -> Vec<String> {
        self.begun.keys().cloned().collect()
    }

    /// The server has begun with it, or has not and never will.
    pub(super) fn is_known(&self, run: &str) -> bool {
        self.begun.get(run).is_none_or(|begun| begun.known)
    }

    /// It waits at a gate.
    pub(super) fn waits(&self, run: &str) -> bool {
        self.begun.get(run).is_some_and(|begun| !begun.gates.is_empty())
    }

    /// Takes note of what an event says of gates.
    pub(super) fn heed(&mut self, event: &EventMessage) {
        let text = |name: &str| event.data.get(name).and_then(Value::as_str).unwrap_or_default();
        if event.kind() == Some(EventType::EventsDropped) {
            // What is missing may have said so.
            self.begun.values_mut().for_each(|begun| begun.known = true);
        }
        let Some(begun) = self.begun.get_mut(text("run_id")) else { return };
        begun.known = true;
        match event.kind() {
            Some(EventType::GateAsked) => {
                begun.gates.insert(text("step_id").to_string());
            }
            Some(EventType::GateAnswered | EventType::StepCompleted | EventType::StepFailed) => {
                begun.gates.remove(text("step_id"));
            }
            _ => {}
        }
    }

    /// The gate was answered: the event that says so may come later.
    pub(super) fn answered(&mut self, run: &str, step: &str) {
        if let Some(begun) = self.begun.get_mut(run) {
            begun.gates.remove(step);
        }
    }

    /// Sets which gates a run waits at.
    pub(super) fn set_gates(&mut self, run: &str, gates: impl IntoIterator<Item = String>) {
        if let Some(begun) = self.begun.get_mut(run) {
            begun.gates = gates.into_iter().collect();
        }
    }

    /// A run is over; what it has of results is kept.
    pub(super) fn end(&mut self, ended: &Ended) {
        let Some(begun) = self.begun.remove(&ended.run) else { return };
        let data = match &ended.outcome {
            Ok(data) => Some(data.clone()),
            Err(error) => error.server().and_then(|error| error.run.as_deref().cloned()),
        };
        if let Some(data) = data {
            self.last = Some((data, begun.last_steps));
        }
    }

    /// Results of the last run that has ended, and the steps whose results are the graph's.
    pub(super) fn last(&self) -> Option<&(RunEnded, Vec<String>)> {
        self.last.as_ref()
    }
}
