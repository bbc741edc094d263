//! Reads the result of a step from its journal. The results of items, rounds and inner steps are records of their own.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use super::codec::{self, IgnoredValue, JournalLine, StepRecordKind};
use super::error::JournalError;
use super::steps::read_records;

/// Maximum number of items whose results are listed.
const MAX_LISTED_ITEMS: usize = 1_000_000;
/// Maximum length of the path of a part: a result is nested as deeply.
const MAX_PARTS: usize = 100;

/// Returns the latest result of a step, unless the step was started again afterwards. That of a step with `foreach` is the list of its
/// items, null for those without a result so far; that of a step with `until` is the result of its last completed round. That of a
/// nested graph has the results of its steps by id, also if it failed and its error policy has replaced its result.
///
/// # Errors
/// As [`Summary::read`](super::Summary::read).
pub fn read_result(path: &Path, step: &str) -> Result<Option<Value>, JournalError> {
    let mut result = StepResult::default();
    let parts_of = |path: &str| path.strip_prefix(step).and_then(parse_parts);
    read_records::<IgnoredValue>(path, drop, |line, record| {
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
                // Only the values of this step are decoded.
                } else if record.value.is_some()
                    && let JournalLine::Step(_, record) = codec::next(line)?
                {
                    result.set(&parts, record.value);
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(result.into_value())
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

/// Parses the path of a record after that of its step.
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
    parts: Option<Box<PartResults>>,
}

#[derive(Default)]
struct PartResults {
    items: Option<Vec<StepResult>>,
    /// The last round with a result, and later ones.
    rounds: BTreeMap<u32, StepResult>,
    steps: Vec<(String, StepResult)>,
}

impl StepResult {
    /// Forgets the result of a part that starts again. A further round keeps that of the previous one.
    fn restart(&mut self, path: &[Part]) {
        let Some((part, rest)) = path.split_first() else { return *self = StepResult::default() };
        self.whole = None;
        if let Part::Round(round) = part {
            drop(self.parts().rounds.split_off(&round.saturating_add(1)));
        }
        self.part(part).restart(rest);
    }

    fn set(&mut self, path: &[Part], value: Option<Value>) {
        let Some((part, rest)) = path.split_first() else { return self.whole = value };
        if let Part::Round(round) = part {
            let rounds = &mut self.parts().rounds;
            *rounds = rounds.split_off(round);
        }
        self.part(part).set(rest, value);
    }

    /// Sets the number of items. Those of an earlier pass with more items are dropped.
    fn set_count(&mut self, path: &[Part], count: usize) {
        match path.split_first() {
            Some((part, rest)) => self.part(part).set_count(rest, count),
            None => {
                self.whole = None;
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

    fn into_value(self) -> Option<Value> {
        let parts = self.parts.filter(|_| self.whole.is_none());
        let Some(PartResults { items, rounds, steps }) = parts.map(|parts| *parts) else { return self.whole };
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
