//! Reads the steps of a run from its journal: their plan, their states and their results.

use std::collections::HashMap;
use std::path::Path;

use nerve_api::reply::{PlannedStep, RunStep};
use nerve_api::value::StepState;
use nerve_types::activity::TsMs;
use serde::Deserialize;
use serde_json::Value;

use super::codec::{self, IgnoredValue, JournalLine, StepLine, StepRecordKind};
use super::directory;
use super::error::JournalError;
use super::scanner::{LineError, scan};

/// Maximum number of items whose results are listed.
const MAX_LISTED_ITEMS: usize = 1_000_000;

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
                && let JournalLine::Resumed(resumed) = codec::next(line)?
            {
                edited = resumed.definition;
            }
            Ok(())
        },
    )?;
    let definition: PlanDefinition = edited.or(first).unwrap_or_default();
    Ok(definition.steps.into_iter().map(PlannedStep::from).collect())
}

/// Returns the latest result of a step, unless the step was started again afterwards. That of a step with `foreach` is the list of its
/// items, null for those without a result so far; that of a step with `until` is the result of its last completed round.
///
/// # Errors
/// As [`Summary::read`](super::Summary::read).
pub fn read_result(path: &Path, step: &str) -> Result<Option<Value>, JournalError> {
    let mut results = StepResults::default();
    read_records::<IgnoredValue>(path, drop, |line, record| {
        if let JournalLine::Step(kind, record) = record
            && let Some(part) = record.step.strip_prefix(step).and_then(StepPart::parse)
        {
            match kind {
                StepRecordKind::Started => results.start(part),
                // Only the values of this step are decoded.
                _ if record.value.is_some() => {
                    if let JournalLine::Step(_, record) = codec::next(line)? {
                        results.set(part, record.value);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    })?;
    Ok(results.into_value())
}

/// The part of a step that a record is about.
#[derive(Clone, Copy)]
struct StepPart {
    /// Index of the item.
    item: Option<usize>,
    /// Number of the round, from 1.
    round: Option<u32>,
}

impl StepPart {
    /// Parses the path of a record after that of its step: nothing, `[ITEM]`, `#ROUND`, or both.
    fn parse(rest: &str) -> Option<StepPart> {
        let (item, round) = rest.split_once('#').map_or((rest, None), |(item, round)| (item, Some(round)));
        let item = match item.strip_prefix('[') {
            Some(item) => {
                Some(item.strip_suffix(']')?.parse::<usize>().ok().filter(|item| *item < MAX_LISTED_ITEMS)?)
            }
            None if item.is_empty() => None,
            None => return None,
        };
        Some(StepPart { item, round: round.map(str::parse).transpose().ok()? })
    }
}

/// The results of a step's parts.
#[derive(Default)]
struct StepResults {
    whole: Option<Value>,
    items: Vec<Value>,
}

impl StepResults {
    /// Forgets the result of a part that starts again. A further round keeps that of the previous one.
    fn start(&mut self, part: StepPart) {
        if part.round.is_none_or(|round| round == 1) {
            self.set(part, None);
        }
    }

    fn set(&mut self, part: StepPart, value: Option<Value>) {
        let Some(item) = part.item else { return self.whole = value };
        if self.items.len() <= item {
            self.items.resize(item + 1, Value::Null);
        }
        self.items[item] = value.unwrap_or_default();
    }

    fn into_value(self) -> Option<Value> {
        if self.items.is_empty() { self.whole } else { Some(Value::Array(self.items)) }
    }
}

/// Passes the definition to `begin`, and every record after it to `take`, with its line and without its values.
fn read_records<D: for<'a> Deserialize<'a>>(
    path: &Path,
    begin: impl FnOnce(D),
    mut take: impl FnMut(&[u8], JournalLine<'_, IgnoredValue>) -> Result<(), LineError>,
) -> Result<(), JournalError> {
    let file = directory::open(path, false)?;
    let mut begin = Some(begin);
    scan(&file, path, |_, line| match begin.take() {
        Some(begin) => codec::first::<IgnoredValue, D>(line, path).map(|first| begin(first.definition)),
        None => take(line, codec::next(line)?),
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
