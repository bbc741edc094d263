//! Checks the steps of a graph one by one.

use std::collections::HashSet;

use nerve_types::name;
use serde_json::Value;

use super::super::source_map::{Path, Report};
use super::super::tree::quoted;
use super::super::types::{GateDefinition, GraphFile, NodeDefinition, StepDefinition};
use super::limits;
use crate::validation::id_problem;

pub(super) fn check(file: &GraphFile, report: &mut Report<'_>) {
    let steps = Path::Root.key("steps");
    for (index, step) in file.steps.iter().enumerate() {
        let at = steps.index(index);
        if let Some(problem) = id_problem(&step.id, quoted) {
            report.error(at.key("id"), problem);
        }
        node_or_gate(file, step, at, report);
        if let Some(policy) = &step.error_policy {
            let policy_at = at.key("error_policy");
            limits::policy(policy, policy_at, report);
            if let Some(node) = &policy.fallback_node {
                node_name(file, node, policy_at.key("fallback_node"), report);
            }
        }
        limits::budget(&step.budget, at.key("budget"), report);
        flow(step, at, report);
    }
}

fn node_or_gate(file: &GraphFile, step: &StepDefinition, at: Path<'_>, report: &mut Report<'_>) {
    let id = &step.id;
    if step.value.is_some() {
        if step.node.is_some() || step.gate.is_some() || !step.input.is_null() {
            let message = format!("Step '{id}' has a value: it takes no node, gate or input");
            report.error(at.key("value"), message);
        }
        return;
    }
    match (&step.node, &step.gate) {
        (None, None) => report.error(at, format!("Step '{id}' needs a node or a gate")),
        (Some(_), Some(_)) => {
            report.error(at.key("gate"), format!("Step '{id}' has both a node and a gate: keep one"))
        }
        (Some(node), None) => {
            node_name(file, node, at.key("node"), report);
            inputs(file, step, node, at, report);
        }
        (None, Some(gate)) => {
            if !step.input.is_null() {
                let message = format!("Step '{id}': a gate takes no input: put it into the question");
                report.error(at.key("input"), message);
            }
            if step.parser.is_some() {
                report.error(at.key("parser"), format!("Step '{id}': a gate's answer is not parsed"));
            }
            self::gate(gate, at.key("gate"), report);
        }
    }
}

/// Checks the name of a node. A name that the file does not define may belong to the session.
fn node_name(file: &GraphFile, node: &str, at: Path<'_>, report: &mut Report<'_>) {
    if !file.nodes.contains_key(node)
        && let Err(error) = name::check("node", node)
    {
        report.error(at, error.to_string());
    }
}

/// Checks the input of a nested graph that declares its inputs.
fn inputs(file: &GraphFile, step: &StepDefinition, node: &str, at: Path<'_>, report: &mut Report<'_>) {
    let Some(NodeDefinition::Graph(nested)) = file.nodes.get(node) else { return };
    let Some(inputs) = nested.graph.as_deref().and_then(|graph| graph.inputs.as_ref()) else { return };
    let required = || inputs.iter().filter(|(_, input)| input.default.is_none()).map(|(name, _)| name);
    let values = match &step.input {
        Value::Object(values) => values,
        Value::Null if required().next().is_none() => return,
        _ => {
            let names: Vec<&str> = inputs.keys().map(String::as_str).collect();
            let message =
                format!("Step '{}': graph '{node}' expects a mapping with {}", step.id, names.join(", "));
            return report.error(at.key("input"), message);
        }
    };
    for name in required().filter(|name| !values.contains_key(*name)) {
        let message = format!("Step '{}': missing input '{name}' of graph '{node}'", step.id);
        report.error_with_hint(at.key("input"), message, format!("add `{name}:` to its input"));
    }
    for name in values.keys().filter(|name| !inputs.contains_key(*name)) {
        let message = format!("Step '{}': graph '{node}' has no input {}", step.id, quoted(name));
        report.error(at.key("input").name(name), message);
    }
}

fn gate(gate: &GateDefinition, at: Path<'_>, report: &mut Report<'_>) {
    if gate.question.trim().is_empty() {
        report.error(at.key("question"), "the question is empty");
    }
    let mut seen = HashSet::new();
    for (index, choice) in gate.choices.iter().enumerate() {
        if choice.trim().is_empty() {
            report.error(at.key("choices").index(index), "a choice cannot be empty");
        } else if !seen.insert(choice) {
            report.error(at.key("choices").index(index), format!("duplicate choice {}", quoted(choice)));
        }
    }
    if let Some(default) =
        gate.default.as_ref().filter(|default| !gate.choices.is_empty() && !gate.choices.contains(default))
    {
        let message = format!("the default {} is not one of the choices", quoted(default));
        report.error_with_hint(
            at.key("default"),
            message,
            format!("choices are {}", gate.choices.join(", ")),
        );
    }
    limits::seconds(gate.timeout_seconds, at.key("timeout_seconds"), report);
}

fn flow(step: &StepDefinition, at: Path<'_>, report: &mut Report<'_>) {
    if let Some(parallel) = step.parallel {
        limits::count(parallel, 1..=limits::MAX_PARALLEL, at.key("parallel"), report);
        if step.foreach.is_none() {
            let message = format!("Step '{}': parallel requires foreach", step.id);
            report.error_with_hint(
                at.key("parallel"),
                message,
                "use max_parallel of the graph to limit concurrent steps",
            );
        }
    }
    if let Some(until) = &step.until {
        limits::count(until.max_rounds, 1..=limits::MAX_ROUNDS, at.key("until").key("max_rounds"), report);
    }
}
