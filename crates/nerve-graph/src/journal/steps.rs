//! Reads the states of a run's steps from its journal.

use std::collections::HashMap;
use std::path::Path;

use nerve_api::reply::RunStep;
use nerve_api::value::StepState;

use super::codec::{self, IgnoredValue, JournalLine, StepLine, StepRecordKind};
use super::directory;
use super::error::JournalError;
use super::scanner::{LineError, scan};

/// Returns the steps of the graph itself, by their last record and in the order of their first.
///
/// # Errors
/// As [`Summary::read`](super::Summary::read).
pub fn read_steps(path: &Path) -> Result<Vec<RunStep>, JournalError> {
    let file = directory::open(path, false)?;
    let (mut steps, mut indexes) = (Vec::new(), HashMap::new());
    let mut is_first = true;
    scan(&file, path, |_, line| {
        if std::mem::take(&mut is_first) {
            return codec::first::<IgnoredValue, IgnoredValue>(line, path).map(drop);
        }
        if let JournalLine::Step(kind, line) = codec::next::<IgnoredValue>(line)? {
            apply(&mut steps, &mut indexes, kind, line);
        }
        Ok::<(), LineError>(())
    })?;
    Ok(steps)
}

fn apply(
    steps: &mut Vec<RunStep>,
    indexes: &mut HashMap<String, usize>,
    kind: StepRecordKind,
    line: StepLine<'_, IgnoredValue>,
) {
    // Nested steps, items and rounds.
    if line.step.contains(['/', '[', '#']) {
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
