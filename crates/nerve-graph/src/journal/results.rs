//! Reads the result of a step from its journal. The results of items, rounds and inner steps are records of their own.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use super::decoder::{self, IgnoredValue, JournalLine, StepRecordKind};
use super::error::JournalError;
use super::steps::read_records;

/// Maximum number of items whose results are listed.
const MAX_LISTED_ITEMS: usize = 1_000_000;
/// Maximum number of parts in the path of a record, which limits how deeply a result is nested. Records with more are ignored.
const MAX_PARTS: usize = 100;

/// Returns the result of a step since it was last started, or `None` if there is none so far, or if the journal could not store a part
/// of it. A step with parts has these results:
///
/// * `foreach`: the list of the results of its items, null for those without one so far.
/// * `until`: the result of the last round that has at least a partial one.
/// * a nested graph: the results of its steps by id, unless it failed and its error policy has replaced its result.
///
/// # Errors
/// As [`Summary::read`](super::Summary::read).
pub fn read_result(path: &Path, step: &str) -> Result<Option<Value>, JournalError> {
    let mut result = StepResult::default();
    // `None` for other steps, including those whose ids merely begin with this one.
    let parts_of = |record_step: &str| record_step.strip_prefix(step).and_then(parse_parts);
    let ignore_definition = drop;
    read_records::<IgnoredValue>(path, ignore_definition, |line, record| {
        match record {
            JournalLine::Items(record) => {
                if let Some(parts) = parts_of(&record.step) {
                    result.set_count(&parts, record.count);
                }
            }
            JournalLine::Step(kind, record) => {
                let Some(parts) = parts_of(&record.step) else { return Ok(()) };
                if kind == StepRecordKind::Started {
                    result.restart(&parts);
                } else if record.value.is_some() {
                    // Values were skipped. Those of this step are decoded now.
                    if let JournalLine::Step(_, with_value) = decoder::next(line)? {
                        result.set(&parts, with_value.value);
                    }
                } else if record.left_out.is_some() {
                    result.set(&parts, None);
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(if result.is_incomplete() { None } else { result.into_value() })
}

/// A part of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// `[3]`: the item with this index.
    Item(usize),
    /// `#2`: the round with this number.
    Round(u32),
    /// `/inner`: the step of a nested graph with this id.
    Step(String),
}

/// Parses the rest of a record's path after a step's path, such as `#2/inner[3]`. Returns no parts for the step itself, and `None`
/// if the rest is no list of parts or exceeds a limit.
fn parse_parts(mut rest: &str) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let (kind, name) = rest.split_at_checked(1)?;
        let end = name.find(['/', '[', '#']).unwrap_or(name.len());
        let (name, following) = name.split_at(end);
        parts.push(match kind {
            "[" => {
                let item = name.strip_suffix(']')?.parse().ok();
                Part::Item(item.filter(|item| *item < MAX_LISTED_ITEMS)?)
            }
            "#" => Part::Round(name.parse().ok()?),
            "/" => Part::Step(name.to_string()),
            _ => return None,
        });
        rest = following;
    }
    (parts.len() <= MAX_PARTS).then_some(parts)
}

/// The result of a step or of a part of it.
#[derive(Default)]
struct StepResult {
    whole: Option<Value>,
    /// True if the journal could not store the result.
    is_left_out: bool,
    parts: Option<Box<PartResults>>,
}

#[derive(Default)]
struct PartResults {
    items: Option<Vec<StepResult>>,
    /// By number, from the last round that has at least a partial result.
    rounds: BTreeMap<u32, StepResult>,
    steps: Vec<(String, StepResult)>,
}

impl StepResult {
    /// Forgets the result of a part that starts again. When a round starts, earlier rounds are kept until it has a result; later ones
    /// are from an earlier pass.
    fn restart(&mut self, path: &[Part]) {
        let Some((part, rest)) = path.split_first() else {
            *self = StepResult::default();
            return;
        };
        (self.whole, self.is_left_out) = (None, false);
        if let Part::Round(round) = part {
            self.parts().rounds.retain(|number, _| number <= round);
        }
        self.part(part).restart(rest);
    }

    /// Sets the result of a part; `None` if it was left out. The result of a round replaces those of earlier rounds.
    fn set(&mut self, path: &[Part], value: Option<Value>) {
        let Some((part, rest)) = path.split_first() else {
            self.is_left_out = value.is_none();
            self.whole = value;
            return;
        };
        if let Part::Round(round) = part {
            self.parts().rounds.retain(|number, _| number >= round);
        }
        self.part(part).set(rest, value);
    }

    /// Sets the number of items. Surplus items of an earlier pass are dropped.
    fn set_count(&mut self, path: &[Part], count: usize) {
        match path.split_first() {
            Some((part, rest)) => self.part(part).set_count(rest, count),
            None => {
                (self.whole, self.is_left_out) = (None, false);
                let items = self.parts().items.get_or_insert_default();
                items.resize_with(count.min(MAX_LISTED_ITEMS), StepResult::default);
            }
        }
    }

    fn parts(&mut self) -> &mut PartResults {
        self.parts.get_or_insert_default()
    }

    fn part(&mut self, part: &Part) -> &mut StepResult {
        let parts = self.parts();
        match part {
            Part::Item(item) => {
                let items = parts.items.get_or_insert_default();
                if items.len() <= *item {
                    items.resize_with(item + 1, StepResult::default);
                }
                &mut items[*item]
            }
            Part::Round(round) => parts.rounds.entry(*round).or_default(),
            Part::Step(id) => {
                let known = parts.steps.iter().position(|(step, _)| step == id);
                let index = known.unwrap_or_else(|| {
                    parts.steps.push((id.clone(), StepResult::default()));
                    parts.steps.len() - 1
                });
                &mut parts.steps[index].1
            }
        }
    }

    /// Returns true if a part of the result was left out.
    fn is_incomplete(&self) -> bool {
        if self.whole.is_some() || self.is_left_out {
            return self.is_left_out;
        }
        self.parts.as_ref().is_some_and(|parts| {
            let items = parts.items.iter().flatten();
            let steps = parts.steps.iter().map(|(_, step)| step);
            items.chain(parts.rounds.values()).chain(steps).any(StepResult::is_incomplete)
        })
    }

    fn into_value(self) -> Option<Value> {
        if self.whole.is_some() {
            return self.whole;
        }
        let PartResults { items, rounds, steps } = *self.parts?;
        if let Some(items) = items {
            return Some(items.into_iter().map(|item| item.into_value().unwrap_or_default()).collect());
        }
        if let Some(last) = rounds.into_values().rev().find_map(StepResult::into_value) {
            return Some(last);
        }
        let steps: Map<String, Value> =
            steps.into_iter().filter_map(|(id, step)| Some((id, step.into_value()?))).collect();
        (!steps.is_empty()).then_some(Value::Object(steps))
    }
}
