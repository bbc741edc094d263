//! The description of a run, kept up to date by the events of its steps.

use std::collections::HashMap;

use nerve_api::reply::{RunInfo, RunStep};
use nerve_api::value::{RunStatus, StepState};
use nerve_graph::event::{Completion, StepEvent, StepEventKind};
use nerve_node::error::{EngineError, ErrorKind};
use nerve_types::TsNs;
use nerve_types::activity::TsMs;
use serde_json::Value;

/// Limit of steps in memory per run. Beyond it, the oldest completed steps are dropped. Journal and trace contain all steps.
pub(crate) const MAX_STEPS: usize = 2048;

/// The changing state of a run.
#[derive(Debug)]
pub(crate) struct RunState {
    /// Description without the gates.
    info: RunInfo,
    /// Indices into `info.steps` by path.
    step_indexes: HashMap<String, usize>,
    /// Number of steps in memory at which old ones are dropped.
    compact_at: usize,
}

impl RunState {
    /// Creates the state of a run that is about to begin.
    pub(crate) fn new(info: RunInfo) -> RunState {
        RunState { info, step_indexes: HashMap::new(), compact_at: 2 * MAX_STEPS }
    }

    /// Returns the description without the gates.
    pub(crate) fn info(&self) -> &RunInfo {
        &self.info
    }

    /// Sets the properties that are known when the run begins.
    pub(crate) fn begin(&mut self, total: usize, journal: Option<String>) {
        self.info.total_steps = total;
        self.info.journal = journal;
    }

    /// Sets the faults that are reported after the end.
    pub(crate) fn set_faults(&mut self, faults: Vec<String>) {
        self.info.faults = faults;
    }

    /// Ends the run and its steps. Returns its duration in milliseconds.
    pub(crate) fn end(
        &mut self,
        status: RunStatus,
        now: TsNs,
        tokens: u64,
        error: Option<&EngineError>,
    ) -> u64 {
        let info = &mut self.info;
        info.status = status;
        info.ended_at = Some(now.into());
        info.tokens_used = tokens;
        info.error = error.map(|error| error.message.clone());
        info.error_type = error.map(|error| error.kind);
        info.hint = error.and_then(|error| error.hint.clone());
        for step in &mut info.steps {
            if matches!(step.state, StepState::Running | StepState::Queued | StepState::Waiting) {
                step.state = StepState::Cancelled;
                step.ended_at = Some(now.into());
            }
        }
        TsMs::from(now).0.saturating_sub(info.started_at.0)
    }

    /// Applies an event of a step.
    pub(crate) fn observe(&mut self, event: &StepEvent) {
        let index = match self.step_indexes.get(&*event.step) {
            Some(index) => *index,
            None => self.add(event),
        };
        let info = &mut self.info;
        let step = &mut info.steps[index];
        match event.kind {
            StepEventKind::Chunk => {}
            StepEventKind::Asked => step.state = StepState::Waiting,
            StepEventKind::Answered { .. } => step.state = StepState::Running,
            StepEventKind::Start { queued } => {
                step.state = if queued { StepState::Queued } else { StepState::Running };
                step.started_at = event.at.into();
            }
            StepEventKind::Complete { how, tokens, .. } => {
                step.state = how.into();
                step.ended_at = Some(event.at.into());
                step.tokens_used = tokens;
                // Items and rounds of a step are not steps of the graph.
                if !step.step_id.contains(['/', '[', '#']) {
                    info.done_steps += 1;
                    info.tokens_used += if how == Completion::Reused { 0 } else { tokens };
                }
            }
            StepEventKind::Error { error_type } => {
                let cancelled = error_type == ErrorKind::Cancelled;
                step.state = if cancelled { StepState::Cancelled } else { StepState::Failed };
                step.ended_at = Some(event.at.into());
                step.error = Some(text(&event.data));
                (step.error_type, step.hint) = (Some(error_type), event.hint.clone());
            }
            StepEventKind::Retry { attempt, error_type, .. } => {
                step.attempt = attempt;
                step.error = Some(text(&event.data));
                (step.error_type, step.hint) = (Some(error_type), event.hint.clone());
            }
        }
    }

    /// Drops steps: completed ones first, then failed and cancelled ones.
    fn drop_old_steps(&mut self) {
        let steps = &mut self.info.steps;
        let mut spare = steps.len() - MAX_STEPS;
        for states in [
            &[StepState::Completed, StepState::Reused, StepState::Skipped][..],
            &[StepState::Failed, StepState::Cancelled],
        ] {
            steps.retain(|step| {
                let is_dropped = spare > 0 && states.contains(&step.state);
                spare -= usize::from(is_dropped);
                !is_dropped
            });
        }
        self.step_indexes = steps.iter().enumerate().map(|(at, step)| (step.step_id.clone(), at)).collect();
        // With thousands of concurrent steps, this must not run for each of them.
        self.compact_at = 2 * steps.len().max(MAX_STEPS);
    }

    fn add(&mut self, event: &StepEvent) -> usize {
        if self.info.steps.len() >= self.compact_at {
            self.drop_old_steps();
        }
        let index = self.info.steps.len();
        self.info.steps.push(RunStep {
            step_id: event.step.to_string(),
            node_id: event.node.to_string(),
            state: StepState::Running,
            started_at: event.at.into(),
            attempt: 1,
            ..RunStep::default()
        });
        self.step_indexes.insert(event.step.to_string(), index);
        index
    }
}

/// Returns the text of an event's data.
pub(crate) fn text(data: &Value) -> String {
    data.as_str().unwrap_or_default().to_string()
}
