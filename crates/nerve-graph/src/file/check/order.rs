//! Checks dependencies: unknown steps, cycles, and concurrent use of a terminal.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::super::source_map::{Path, Report};
use super::super::types::{GraphFile, NodeDefinition};
use crate::plan::Plan;
use nerve_types::suggestion::nearest;

/// The dependency order of a graph's steps, which are numbered in file order.
pub(super) struct StepOrder<'a> {
    /// Step numbers by id; the first of duplicates.
    pub(super) indexes: HashMap<&'a str, u32>,
    /// Sorted dependencies of each step.
    pub(super) deps: Vec<Vec<u32>>,
    /// The steps in topological order; `None` if there is a cycle, or if dependencies may be missing.
    pub(super) order: Option<Vec<u32>>,
    plan: Plan,
}

impl<'a> StepOrder<'a> {
    pub(super) fn new(file: &'a GraphFile, report: &mut Report<'_>) -> StepOrder<'a> {
        let indexes = indexes(file, report);
        let steps = Path::Root.key("steps");
        let mut deps = Vec::with_capacity(file.steps.len());
        for (index, step) in file.steps.iter().enumerate() {
            let at = steps.index(index);
            let mut known: Vec<u32> = Vec::with_capacity(step.depends_on.len());
            for (number, id) in step.depends_on.iter().enumerate() {
                let index = indexes.get(id.as_str()).copied();
                match index {
                    _ if *id == step.id => {
                        report.error(
                            at.key("depends_on").index(number),
                            format!("Step '{id}' depends on itself"),
                        );
                    }
                    Some(index) => known.push(index),
                    None => unknown(file, &step.id, id, at.key("depends_on").index(number), report),
                }
            }
            known.sort_unstable();
            known.dedup();
            deps.push(known);
        }
        let plan = Plan::new(&deps);
        let order = match plan.order() {
            Ok(order) => (!report.has_broken_steps).then_some(order),
            Err(cycle) => {
                let ids: Vec<&str> =
                    cycle.iter().map(|step| file.steps[*step as usize].id.as_str()).collect();
                let first = cycle.first().map_or(0, |step| *step as usize);
                let message = format!("Cycle detected: {}", ids.join(" → "));
                report.error(steps.index(first).key("depends_on"), message);
                None
            }
        };
        StepOrder { indexes, deps, order, plan }
    }

    /// Returns the pairs whose second step is not a dependency, direct or not, of the first. Empty if there is no order, for
    /// which a problem has been reported.
    pub(super) fn unordered_pairs(&self, mut pairs: Vec<(u32, u32)>) -> HashSet<(u32, u32)> {
        let Some(order) = &self.order else { return HashSet::new() };
        pairs.retain(|(step, used)| step != used && self.deps[*step as usize].binary_search(used).is_err());
        pairs.sort_unstable_by_key(|(_, used)| *used);
        pairs.dedup();
        let mut used: Vec<u32> = pairs.iter().map(|(_, used)| *used).collect();
        used.dedup();
        let mut unordered = HashSet::new();
        // 64 steps at a time: bit n of a step is set if the n-th of them precedes it.
        for used in used.chunks(64) {
            let mut bits = vec![0_u64; self.deps.len()];
            used.iter().enumerate().for_each(|(bit, step)| bits[*step as usize] = 1 << bit);
            let mut predecessors = vec![0_u64; self.deps.len()];
            for step in order.iter().map(|step| *step as usize) {
                let including = |dep: &u32| predecessors[*dep as usize] | bits[*dep as usize];
                predecessors[step] = self.deps[step].iter().map(including).fold(0, |all, steps| all | steps);
            }
            let (first, last) = (used[0], used[used.len() - 1]);
            let from = pairs.partition_point(|(_, used)| *used < first);
            let to = pairs.partition_point(|(_, used)| *used <= last);
            unordered.extend(
                pairs[from..to]
                    .iter()
                    .filter(|(step, used)| predecessors[*step as usize] & bits[*used as usize] == 0),
            );
        }
        unordered
    }
}

fn indexes<'a>(file: &'a GraphFile, report: &mut Report<'_>) -> HashMap<&'a str, u32> {
    let steps = Path::Root.key("steps");
    let mut indexes: HashMap<&str, u32> = HashMap::with_capacity(file.steps.len());
    for (index, step) in file.steps.iter().enumerate() {
        let Some(first) = indexes.get(step.id.as_str()).copied() else {
            indexes.insert(&step.id, index as u32);
            continue;
        };
        let first_at = steps.index(first as usize);
        let hint = match report.source_map.problem(first_at, String::new(), None).position {
            Some(first) => format!("the first is on line {}", first.line),
            None => format!("the first is steps[{first}]"),
        };
        report.error_with_hint(
            steps.index(index).key("id"),
            format!("duplicate step id '{}'", step.id),
            hint,
        );
    }
    indexes
}

fn unknown(file: &GraphFile, step: &str, id: &str, at: Path<'_>, report: &mut Report<'_>) {
    let message = format!("Step '{step}' depends on unknown step '{id}'");
    match nearest(id, file.steps.iter().map(|step| step.id.as_str()).filter(|other| *other != step)) {
        Some(near) => report.error_with_hint(at, message, format!("did you mean '{near}'?")),
        None => report.error(at, message),
    }
}

/// Finds steps that could use a terminal at the same time. A terminal runs one turn at a time.
pub(super) fn check_shared_terminals(file: &GraphFile, order: &StepOrder<'_>, report: &mut Report<'_>) {
    let steps = Path::Root.key("steps");
    let mut by_node: HashMap<&str, BTreeSet<String>> = HashMap::new();
    let mut users: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for (index, step) in file.steps.iter().enumerate() {
        let Some(node) = step.node.as_deref() else { continue };
        let used = by_node.entry(node).or_insert_with(|| {
            let mut used = BTreeSet::new();
            terminals(file, node, &mut used);
            used.retain(|name| {
                name.contains('/') || file.nodes.get(name).is_some_and(NodeDefinition::is_persistent)
            });
            used
        });
        if step.foreach.is_some()
            && step.parallel.unwrap_or(1) > 1
            && let Some(one) = used.first()
        {
            report.error(
                steps.index(index).key("parallel"),
                format!(
                    "Step '{}': foreach cannot run in parallel on '{one}', which does one thing at a time",
                    step.id
                ),
            );
        }
        for name in used.iter() {
            users.entry(name.clone()).or_default().push(index as u32);
        }
    }
    let Some(sequence) = order.order.as_deref().filter(|_| file.max_parallel > 1) else { return };
    for (node, users) in users.iter().filter(|(_, users)| users.len() > 1) {
        let mut uses = vec![false; file.steps.len()];
        users.iter().for_each(|step| uses[*step as usize] = true);
        if let Some((one, other)) = order.plan.find_unordered(sequence, &uses) {
            let id = |step: u32| &file.steps[step as usize].id;
            let (one, other) = (one.min(other), one.max(other));
            report.error_with_hint(
                steps.index(other as usize),
                format!(
                    "Steps '{}' and '{}' could run at the same time on node '{node}'",
                    id(one),
                    id(other)
                ),
                format!("add depends_on: [{}] to step '{}'", id(one), id(other)),
            );
        }
    }
}

/// Collects the terminals that a node of `file` uses. Those of a nested graph are named `graph/node`. Names unknown to a nested
/// graph stay unchanged, because the outer graph may know them.
fn terminals(file: &GraphFile, node: &str, into: &mut BTreeSet<String>) {
    match file.nodes.get(node) {
        Some(NodeDefinition::Graph(nested)) => {
            let Some(inner) = nested.graph.as_deref() else { return };
            let mut used = BTreeSet::new();
            let names: BTreeSet<&str> = inner.steps.iter().filter_map(|step| step.node.as_deref()).collect();
            names.into_iter().for_each(|name| terminals(inner, name, &mut used));
            for name in used {
                match inner.nodes.get(&name) {
                    _ if name.contains('/') => into.insert(format!("{node}/{name}")),
                    Some(own) => own.is_persistent() && into.insert(format!("{node}/{name}")),
                    None => into.insert(name),
                };
            }
        }
        Some(definition) => {
            if definition.is_persistent() {
                into.insert(node.to_string());
            }
        }
        None => {
            into.insert(node.to_string());
        }
    }
}
