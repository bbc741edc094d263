//! The progress of a run, computed from its events. Times are those of the events, in seconds since the Unix epoch.

use std::collections::HashMap;

use nerve_api::reply::{GateInfo, RunInfo};
use nerve_api::{ErrorKind, EventKind, EventMessage, value};
use nerve_types::activity::TsMs;

/// Approximate maximum of items, rounds and nested steps to keep. Beyond that, completed ones are removed.
const MAX_PARTS: usize = 1000;

/// The progress of a run.
#[derive(Debug, Default)]
pub struct Progress {
    pub(super) run: String,
    pub(super) graph: String,
    /// Number of top-level steps.
    pub(super) total: usize,
    pub(super) steps: Vec<StepRow>,
    rows_by_id: HashMap<String, usize>,
    /// Open gates, oldest first.
    pub(super) gates: Vec<GateInfo>,
    pub(super) started: Option<f64>,
    pub(super) ended: Option<f64>,
    /// `completed`, `failed` …; set when the run has ended.
    pub(super) status: Option<String>,
}

/// A step, an item of a list, or a round.
#[derive(Debug, Clone, Default)]
pub(super) struct StepRow {
    pub(super) step: String,
    /// Number of the top-level step. Rows of its items, rounds and nested steps share it and are shown below the step.
    pub(super) group: usize,
    pub(super) node: String,
    pub(super) state: StepState,
    pub(super) started: f64,
    pub(super) ended: Option<f64>,
    pub(super) tokens: u64,
    pub(super) error: Option<String>,
}

/// The state of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(super) enum StepState {
    /// Not started.
    #[default]
    #[strum(serialize = "-")]
    Pending,
    /// Waiting for its busy node.
    Queued,
    Running,
    /// A gate that is waiting for an answer.
    #[strum(serialize = "asks")]
    Waiting,
    /// Failed, to be retried.
    #[strum(serialize = "retries")]
    Retrying,
    Done,
    /// Completed before the run was resumed.
    Reused,
    Skipped,
    Failed,
    Cancelled,
}

impl StepState {
    /// Returns the word shown for the state.
    pub(super) fn label(self) -> &'static str {
        self.into()
    }

    /// Returns true for steps in progress.
    pub(super) fn is_active(self) -> bool {
        matches!(self, StepState::Queued | StepState::Running | StepState::Waiting | StepState::Retrying)
    }

    /// Returns true for steps that ended without failure.
    pub(super) fn is_done(self) -> bool {
        matches!(self, StepState::Done | StepState::Reused | StepState::Skipped)
    }
}

impl From<value::StepState> for StepState {
    fn from(state: value::StepState) -> StepState {
        match state {
            value::StepState::Queued => StepState::Queued,
            value::StepState::Waiting => StepState::Waiting,
            value::StepState::Completed => StepState::Done,
            value::StepState::Reused => StepState::Reused,
            value::StepState::Skipped => StepState::Skipped,
            value::StepState::Failed => StepState::Failed,
            value::StepState::Cancelled => StepState::Cancelled,
            value::StepState::Running | value::StepState::Unknown => StepState::Running,
        }
    }
}

impl Progress {
    /// Creates the progress of a run whose steps are known.
    pub fn new(run: &str, graph: &str, steps: &[String]) -> Progress {
        let mut progress = Progress {
            run: run.to_string(),
            graph: graph.to_string(),
            total: steps.len(),
            ..Progress::default()
        };
        for step in steps {
            progress.row(step);
        }
        progress
    }

    /// Applies an event of the run.
    pub(super) fn apply(&mut self, event: &EventMessage) {
        let at = event.emitted_at.seconds();
        let Some(details) = event.details() else { return };
        match details {
            EventKind::GraphStarted { run, steps, .. } => {
                self.started = Some(at);
                self.graph = run.graph_id;
                self.total = steps;
            }
            EventKind::StepStarted { step_id, node_id: node, queued, .. } => {
                let row = self.row(&step_id);
                let state = if queued { StepState::Queued } else { StepState::Running };
                // A retry keeps the start of the first attempt.
                let started = if row.state == StepState::Retrying { row.started } else { at };
                let (step, group) = (row.step.clone(), row.group);
                *row = StepRow { node, state, started, step, group, ..StepRow::default() };
            }
            EventKind::StepCompleted { step_id, node_id, state, tokens_used, .. } => {
                let row = self.row(&step_id);
                if row.state == StepState::Pending {
                    (row.started, row.node) = (at, node_id);
                }
                (row.state, row.ended, row.tokens, row.error) = (state.into(), Some(at), tokens_used, None);
            }
            EventKind::StepFailed { step_id, node_id, error, error_type, retry_in_ms, .. } => {
                let row = self.row(&step_id);
                if row.state == StepState::Pending {
                    (row.started, row.node) = (at, node_id);
                }
                row.error = Some(error);
                (row.state, row.ended) = match error_type {
                    _ if retry_in_ms.is_some() => (StepState::Retrying, None),
                    ErrorKind::Cancelled => (StepState::Cancelled, Some(at)),
                    _ => (StepState::Failed, Some(at)),
                };
            }
            EventKind::GateAsked { gate, .. } => self.open_gate(gate, at),
            EventKind::GateAnswered { step_id, .. } => self.gates.retain(|gate| gate.step_id != step_id),
            EventKind::GraphCompleted { status, .. } => self.end(status.as_str(), at),
            _ => {}
        }
    }

    /// Applies the run's status, after missed or dropped events.
    pub(super) fn catch_up(&mut self, info: &RunInfo) {
        self.graph.clone_from(&info.graph_id);
        self.total = self.total.max(info.total_steps);
        self.started = self.started.or(Some(info.started_at.seconds())).filter(|at| *at > 0.0);
        for step in &info.steps {
            let row = self.row(&step.step_id);
            row.node.clone_from(&step.node_id);
            row.state = step.state.into();
            (row.started, row.ended, row.tokens) =
                (step.started_at.seconds(), step.ended_at.map(TsMs::seconds), step.tokens_used);
            row.error.clone_from(&step.error);
        }
        self.gates.clear();
        for gate in &info.gates {
            self.open_gate(gate.clone(), info.started_at.seconds());
        }
        if let (false, Some(at)) = (info.status.is_active(), info.ended_at) {
            self.end(info.status.as_str(), at.seconds());
        }
    }

    /// Returns the step that failed first; among simultaneous failures the innermost.
    pub(super) fn first_failure(&self) -> Option<&StepRow> {
        let failed = self.steps.iter().filter(|row| row.state == StepState::Failed);
        failed.min_by(|one, other| {
            let (first, second) = (one.ended.unwrap_or(0.0), other.ended.unwrap_or(0.0));
            first.total_cmp(&second).then(other.step.len().cmp(&one.step.len()))
        })
    }

    /// Returns the number of completed top-level steps.
    pub(super) fn done_count(&self) -> usize {
        self.steps.iter().filter(|row| is_top_level(&row.step) && row.state.is_done()).count()
    }

    /// Returns the tokens of all top-level steps. Those of items and rounds are added when their step completes.
    pub(super) fn tokens(&self) -> u64 {
        self.steps.iter().filter(|row| is_top_level(&row.step)).map(|row| row.tokens).sum()
    }

    fn open_gate(&mut self, gate: GateInfo, at: f64) {
        let row = self.row(&gate.step_id);
        if row.state == StepState::Pending {
            row.started = at;
        }
        row.state = StepState::Waiting;
        if !self.gates.iter().any(|known| known.step_id == gate.step_id) {
            self.gates.push(gate);
        }
    }

    fn end(&mut self, status: &str, at: f64) {
        (self.status, self.ended) = (Some(status.to_string()), Some(at));
        self.gates.clear();
        for row in self.steps.iter_mut().filter(|row| row.state.is_active()) {
            (row.state, row.ended) = (StepState::Cancelled, Some(at));
        }
    }

    fn row(&mut self, step: &str) -> &mut StepRow {
        let index = match self.rows_by_id.get(step) {
            Some(index) => *index,
            None => self.add(step),
        };
        &mut self.steps[index]
    }

    fn add(&mut self, step: &str) -> usize {
        if self.steps.len() >= self.total.saturating_add(2 * MAX_PARTS) {
            let mut removable = MAX_PARTS;
            self.steps.retain(|row| {
                let is_removed = removable > 0 && row.state.is_done() && !is_top_level(&row.step);
                removable -= usize::from(is_removed);
                !is_removed
            });
            self.rows_by_id = self.steps.iter().enumerate().map(|(at, row)| (row.step.clone(), at)).collect();
        }
        let top_level = step.split(['/', '[', '#']).next().unwrap_or(step);
        let group = self.rows_by_id.get(top_level).map_or(self.steps.len(), |index| self.steps[*index].group);
        let index = self.steps.len();
        self.steps.push(StepRow { step: step.to_string(), group, ..StepRow::default() });
        self.rows_by_id.insert(step.to_string(), index);
        index
    }
}

/// Returns true for a top-level step: no item, round or nested step.
fn is_top_level(step: &str) -> bool {
    !step.contains(['/', '[', '#'])
}

#[cfg(test)]
pub(super) mod tests {
    use nerve_api::EventType;
    use serde_json::{Value, json};

    use super::*;

    /// Creates an event at the time `at`, in seconds.
    pub(in crate::run_display) fn event(kind: EventType, at: f64, data: Value) -> EventMessage {
        EventMessage {
            event_type: kind.to_string(),
            node_id: None,
            channel_id: None,
            session_id: None,
            data,
            emitted_at: TsMs((at * 1000.0) as u64),
            timestamp: None,
            seq: 0,
        }
    }

    fn states(progress: &Progress) -> Vec<(&str, &str)> {
        progress.steps.iter().map(|row| (row.step.as_str(), row.state.label())).collect()
    }

    #[test]
    fn tracks_steps_retries_and_parts() {
        let mut progress = Progress::new("r", "g", &["a".into(), "b".into(), "c".into()]);
        let mut apply = |kind, at, data| progress.apply(&event(kind, at, data));
        apply(EventType::GraphStarted, 1.0, json!({"graph_id": "g", "steps": 3}));
        apply(EventType::StepStarted, 1.0, json!({"step_id": "a", "node_id": "me", "queued": true}));
        apply(EventType::StepFailed, 2.0, json!({"step_id": "a", "error": "no", "retry_in_ms": 1000}));
        apply(EventType::StepStarted, 3.0, json!({"step_id": "a", "node_id": "me"}));
        apply(EventType::StepCompleted, 4.0, json!({"step_id": "a", "state": "completed", "tokens_used": 7}));
        apply(EventType::StepStarted, 4.0, json!({"step_id": "b"}));
        apply(EventType::StepStarted, 4.0, json!({"step_id": "b[0]"}));
        apply(EventType::StepStarted, 4.0, json!({"step_id": "b[1]"}));
        apply(EventType::StepStarted, 4.0, json!({"step_id": "b[0]/x"}));
        apply(
            EventType::StepCompleted,
            5.0,
            json!({"step_id": "b[0]/x", "state": "skipped", "tokens_used": 9}),
        );
        let (done, tokens) = (progress.done_count(), progress.tokens());
        assert_eq!(
            states(&progress),
            [
                ("a", "done"),
                ("b", "running"),
                ("c", "-"),
                ("b[0]", "running"),
                ("b[1]", "running"),
                ("b[0]/x", "skipped")
            ]
        );
        assert!(progress.steps[3..].iter().all(|row| row.group == progress.steps[1].group));
        assert_eq!((done, tokens, progress.steps[0].started), (1, 7, 1.0));
    }

    #[test]
    fn gate_stays_open_until_answer_or_end() {
        let mut progress = Progress::new("r", "g", &["ok".into()]);
        let gate = json!({"step_id": "ok", "question": "Go?", "choices": ["yes"]});
        progress.apply(&event(EventType::GateAsked, 1.0, gate.clone()));
        progress.apply(&event(EventType::GateAsked, 1.0, gate));
        assert_eq!((progress.gates.len(), progress.steps[0].state), (1, StepState::Waiting));
        progress.apply(&event(EventType::GateAnswered, 2.0, json!({"step_id": "ok", "choice": "yes"})));
        assert!(progress.gates.is_empty());
        progress.apply(&event(EventType::GraphCompleted, 3.0, json!({"state": "cancelled"})));
        assert_eq!(
            (states(&progress), progress.status.as_deref()),
            (vec![("ok", "cancelled")], Some("cancelled"))
        );
    }

    #[test]
    fn catch_up_fills_gaps() {
        let mut progress = Progress::new("r", "", &[]);
        let info = json!({"run_id": "r", "graph_id": "g", "state": "waiting", "started_at": "1970-01-01T00:00:05Z", "total_steps": 2,
            "steps": [{"step_id": "a", "node_id": "n", "state": "reused", "started_at": "1970-01-01T00:00:05Z", "ended_at": "1970-01-01T00:00:06Z"}],
            "gates": [{"step_id": "ok", "question": "Go?"}]});
        progress.catch_up(&serde_json::from_value(info).unwrap());
        assert_eq!(states(&progress), [("a", "reused"), ("ok", "asks")]);
        assert_eq!((progress.total, progress.started, progress.status), (2, Some(5.0), None));
    }

    #[test]
    fn prunes_completed_parts_of_large_runs() {
        let mut progress = Progress::new("r", "g", &["each".into()]);
        for item in 0..10 * MAX_PARTS {
            let step = format!("each[{item}]");
            progress.apply(&event(EventType::StepStarted, 1.0, json!({ "step_id": step })));
            let state = if item == 7 { "failed" } else { "completed" };
            progress.apply(&event(EventType::StepCompleted, 1.0, json!({ "step_id": step, "state": state })));
        }
        assert!(progress.steps.len() <= 2 * MAX_PARTS + 1);
        assert_eq!(progress.first_failure().map(|row| row.step.as_str()), Some("each[7]"));
        assert_eq!(progress.steps[0].step, "each");
    }
}
