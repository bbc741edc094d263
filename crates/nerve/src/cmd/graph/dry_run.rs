//! `graph run --dry-run`: shows the steps of a run without starting it.

use std::sync::Arc;

use anyhow::Result;
use nerve_graph::file::{GraphFile, StepDefinition};
use nerve_graph::template::TemplateNode;
use nerve_node::Node;
use nerve_node::context::TurnContext;
use nerve_repl::event_line::step_count;
use nerve_repl::graph_file::input;
use serde_json::{Value, json};

use crate::out;

/// Maximum length of a printed input, in characters.
const MAX_PREVIEW: usize = 400;

/// Validates the input and prints the steps in order, each with its input as far as it is known. Starts nothing.
///
/// # Errors
/// Exit code 2 if the input does not match the graph.
pub(super) async fn run(file: &GraphFile, raw_input: Value, as_json: bool) -> Result<()> {
    let input = input::validate(file, raw_input)?;
    let mut steps = Vec::new();
    for id in file.step_order() {
        let Some(step) = file.steps.iter().find(|step| step.id == id) else { continue };
        let question = step.gate.as_ref().map(|gate| Value::String(gate.question.clone()));
        let (value, is_known) = resolve(question.as_ref().unwrap_or(&step.input), &input).await;
        steps.push((step, value, is_known));
    }
    if as_json {
        let steps: Vec<Value> =
            steps.iter().map(|(step, value, is_known)| to_json(step, value, *is_known)).collect();
        return out::json(&json!({ "graph_id": file.graph, "valid": true, "input": input, "steps": steps }));
    }
    out::line(format_args!(
        "graph {}: {}, at most {} at once; dry run",
        file.graph,
        step_count(steps.len()),
        file.max_parallel
    ))?;
    if !input.is_null() {
        out::text(&format!("input {}", out::preview(&input.to_string(), MAX_PREVIEW)))?;
    }
    for (number, (step, value, is_known)) in steps.iter().enumerate() {
        print(number + 1, step, value, *is_known)?;
    }
    Ok(())
}

fn to_json(step: &StepDefinition, value: &Value, is_known: bool) -> Value {
    let is_gate = step.gate.is_some();
    json!({
        "step_id": step.id, "node_id": step.node, "gate": is_gate, "depends_on": step.depends_on,
        "input": value, "input_known": is_known,
    })
}

fn print(number: usize, step: &StepDefinition, value: &Value, is_known: bool) -> Result<()> {
    let executor = step.node.as_deref().map_or_else(|| "gate".to_string(), |node| format!("node {node}"));
    let after = match step.depends_on.is_empty() {
        true => String::new(),
        false => format!(", after {}", step.depends_on.join(", ")),
    };
    out::line(format_args!(
        "{number:>3}. {}{}{:#} ({executor}{after})",
        out::STRONG,
        out::preview(&step.id, MAX_PREVIEW),
        out::STRONG
    ))?;
    let conditions = [
        step.when.as_ref().map(|when| format!("when {when}")),
        step.foreach.as_ref().map(|list| format!("for each of {list}")),
        step.until
            .as_ref()
            .map(|until| format!("until {}, at most {} rounds", until.condition, until.max_rounds)),
    ];
    for condition in conditions.into_iter().flatten() {
        out::line(format_args!("     {}", out::preview(&condition, MAX_PREVIEW)))?;
    }
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_string);
    match value {
        Value::Null => Ok(()),
        _ if is_known => out::line(format_args!("     input: {}", out::preview(&text, MAX_PREVIEW))),
        _ => out::line(format_args!("     input, not yet known: {}", out::preview(&text, MAX_PREVIEW))),
    }
}

/// Resolves a step's input. Returns the unchanged templates and false if it depends on more than the graph's input.
async fn resolve(value: &Value, input: &Value) -> (Value, bool) {
    match value {
        Value::String(text) => match render(text, input).await {
            Some(text) => (text, true),
            None => (value.clone(), false),
        },
        Value::Array(items) => {
            let mut resolved = Vec::new();
            for item in items {
                resolved.push(Box::pin(resolve(item, input)).await);
            }
            let is_known = resolved.iter().all(|(_, is_known)| *is_known);
            (resolved.into_iter().map(|(value, _)| value).collect(), is_known)
        }
        Value::Object(fields) => {
            let mut resolved = Vec::new();
            for (name, field) in fields {
                resolved.push((name.clone(), Box::pin(resolve(field, input)).await));
            }
            let is_known = resolved.iter().all(|(_, (_, is_known))| *is_known);
            (Value::Object(resolved.into_iter().map(|(name, (value, _))| (name, value)).collect()), is_known)
        }
        other => (other.clone(), true),
    }
}

/// Renders a template. Returns `None` if it needs more than the graph's input.
async fn render(text: &str, input: &Value) -> Option<Value> {
    let node = Arc::new(TemplateNode::new("input", text).ok()?);
    let context = TurnContext::new().with_input(input.clone());
    // Upstream results are unknown.
    if text.contains("upstream") {
        return None;
    }
    node.execute(&context).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn resolves_inputs_that_depend_on_graph_input_only() {
        let input = json!({ "task": "tea", "n": 3 });
        let known =
            [json!("make {{ input.task }}"), json!("plain"), json!(null), json!({"a": ["{{ input.n }}", 1]})];
        let expected = [json!("make tea"), json!("plain"), json!(null), json!({"a": ["3", 1]})];
        for (value, expected) in known.iter().zip(expected) {
            assert_eq!(resolve(value, &input).await, (expected, true));
        }
        for later in ["{{ steps.a.text }}", "{{ item }}", "{{ upstream }}", "{{ input.unknown }}"] {
            assert_eq!(resolve(&json!(later), &input).await, (json!(later), false));
        }
    }
}
