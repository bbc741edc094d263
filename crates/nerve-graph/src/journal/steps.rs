//! Reads the steps of a run from its journal: their plan and their states.

use std::collections::HashMap;
use std::path::Path;

use nerve_api::reply::{PlannedStep, RunStep};
use nerve_api::value::StepState;
use nerve_types::activity::TsMs;
use serde::Deserialize;

use super::decoder::{self, IgnoredValue, JournalLine, StepLine, StepRecordKind};
use super::directory;
use super::error::JournalError;
use super::scanner::{LineError, scan};

/// Returns the graph's own steps in the order of their first record, each in the state of its last one. A step that has no end in a
/// run that has ended was cancelled.
///
/// # Errors
/// As [`Summary::read`](super::Summary::read).
pub fn read_steps(path: &Path) -> Result<Vec<RunStep>, JournalError> {
    let (mut steps, mut indexes) = (Vec::new(), HashMap::new());
    read_records::<IgnoredValue>(path, drop, |_, record| {
        match record {
            JournalLine::Step(kind, line) => apply(&mut steps, &mut indexes, kind, line),
            JournalLine::Ended(end) => cancel_open(&mut steps, end.at.into()),
            _ => {}
        }
        Ok(())
    })?;
    Ok(steps)
}

fn cancel_open(steps: &mut [RunStep], at: TsMs) {
    for step in steps.iter_mut().filter(|step| matches!(step.state, StepState::Running | StepState::Waiting))
    {
        step.state = StepState::Cancelled;
        step.ended_at = Some(at);
    }
}

/// Returns the steps that the graph itself defines, in the order of its file.
///
/// # Errors
/// As [`Summary::read`](super::Summary::read).
pub fn read_plan(path: &Path) -> Result<Vec<PlannedStep>, JournalError> {
    let (mut first, mut edited) = (None, None);
    read_records(
        path,
        |definition| first = Some(definition),
        |line, record| {
            // A resumed run may have an edited graph.
            if let JournalLine::Resumed(resumed) = record
                && resumed.definition.is_some()
                && let JournalLine::Resumed(resumed) = decoder::next(line)?
            {
                edited = resumed.definition;
            }
            Ok(())
        },
    )?;
    let definition: PlanDefinition = edited.or(first).unwrap_or_default();
    Ok(definition.steps.into_iter().map(PlannedStep::from).collect())
}

/// Passes the definition to `begin`, and every record after it to `take`, with its line and without its values.
pub(super) fn read_records<D: for<'a> Deserialize<'a>>(
    path: &Path,
    begin: impl FnOnce(D),
    mut take: impl FnMut(&[u8], JournalLine<'_, IgnoredValue>) -> Result<(), LineError>,
) -> Result<(), JournalError> {
    let file = directory::open(path, false)?;
    let mut begin = Some(begin);
    scan(&file, path, |_, line| match begin.take() {
        Some(begin) => decoder::first::<IgnoredValue, D>(line, path).map(|first| begin(first.definition)),
        None => take(line, decoder::next(line)?),
    })?;
    Ok(())
}

/// The part of a graph's definition that orders its steps.
#[derive(Default, Deserialize)]
struct PlanDefinition {
    #[serde(default)]
    steps: Vec<PlanStep>,
}

/// The part of a step's definition that orders it.
#[derive(Deserialize)]
struct PlanStep {
    id: String,
    #[serde(default)]
    node: Option<String>,
    #[serde(default)]
    depends_on: Vec<String>,
}

impl From<PlanStep> for PlannedStep {
    fn from(PlanStep { id, node, depends_on }: PlanStep) -> PlannedStep {
        PlannedStep { step_id: id, node_id: node.unwrap_or_default(), depends_on }
    }
}

/// Removes a step of which a part starts again: its earlier end no longer counts.
fn remove(steps: &mut Vec<RunStep>, indexes: &mut HashMap<String, usize>, step: &str) {
    if let Some(removed) = indexes.remove(step) {
        steps.remove(removed);
        indexes.values_mut().filter(|index| **index > removed).for_each(|index| *index -= 1);
    }
}

fn apply(
    steps: &mut Vec<RunStep>,
    indexes: &mut HashMap<String, usize>,
    kind: StepRecordKind,
    line: StepLine<'_, IgnoredValue>,
) {
    // Nested steps, items and rounds.
    if let Some((outer, _)) = line.step.split_once(['/', '[', '#']) {
        if kind == StepRecordKind::Started {
            remove(steps, indexes, outer);
        }
        return;
    }
    let index = *indexes.entry(line.step.to_string()).or_insert_with(|| {
        let (step_id, started_at) = (line.step.to_string(), line.at.into());
        steps.push(RunStep { step_id, started_at, ..RunStep::default() });
        steps.len() - 1
    });
    let step = &mut steps[index];
    step.state = match kind {
        StepRecordKind::Started => {
            step.started_at = line.at.into();
            StepState::Running
        }
        StepRecordKind::Asked => StepState::Waiting,
        StepRecordKind::Answered | StepRecordKind::Called => StepState::Running,
        StepRecordKind::Finished => StepState::Completed,
        StepRecordKind::Failed => StepState::Failed,
        StepRecordKind::Skipped => StepState::Skipped,
    };
    let is_over = !matches!(step.state, StepState::Running | StepState::Waiting);
    step.ended_at = is_over.then(|| line.at.into());
    step.node_id = line.node.unwrap_or(std::mem::take(&mut step.node_id));
    step.tokens_used = step.tokens_used.saturating_add(line.tokens.unwrap_or(0));
    step.error = line.error;
    step.error_type = line.error_type.map(|kind| kind.parse().unwrap_or_default());
}
