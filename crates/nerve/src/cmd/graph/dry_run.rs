//! `graph run --dry-run`: shows the steps of a run without starting it.

use std::sync::Arc;

use anyhow::Result;
use nerve_commands::event_line::step_count;
use nerve_commands::graph_file::input;
use nerve_graph::file::{GraphFile, StepDefinition};
use nerve_graph::template::TemplateNode;
use nerve_node::Node;
use nerve_node::context::TurnContext;
use serde_json::{Map, Value, json};

use crate::out;

/// Maximum length of a printed input, in characters.
const MAX_PREVIEW: usize = 400;

/// A step's input, resolved as far as it is known.
#[derive(Debug, PartialEq)]
struct ResolvedInput {
    value: Value,
    /// The value does not depend on results of steps.
    is_known: bool,
}

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
        steps.push((step, resolve(question.as_ref().unwrap_or(&step.input), &input).await));
    }
    if as_json {
        let steps: Vec<Value> = steps.iter().map(|(step, input)| to_json(step, input)).collect();
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
    for (number, (step, input)) in steps.iter().enumerate() {
        print(number + 1, step, input)?;
    }
    Ok(())
}

fn to_json(step: &StepDefinition, input: &ResolvedInput) -> Value {
    let is_gate = step.gate.is_some();
    json!({
        "step_id": step.id, "node_id": step.node, "gate": is_gate, "depends_on": step.depends_on,
        "input": input.value, "input_known": input.is_known,
    })
}

fn print(number: usize, step: &StepDefinition, input: &ResolvedInput) -> Result<()> {
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
    let text = input.value.as_str().map_or_else(|| input.value.to_string(), str::to_string);
    match input.value {
        Value::Null => Ok(()),
        _ if input.is_known => out::line(format_args!("     input: {}", out::preview(&text, MAX_PREVIEW))),
        _ => out::line(format_args!("     input, not yet known: {}", out::preview(&text, MAX_PREVIEW))),
    }
}

/// Resolves a step's input. Templates that need more than the graph's input stay unchanged.
async fn resolve(value: &Value, input: &Value) -> ResolvedInput {
    let mut is_known = true;
    let value = match value {
        Value::String(text) => match render(text, input).await {
            Some(text) => text,
            None => return ResolvedInput { value: value.clone(), is_known: false },
        },
        Value::Array(items) => {
            let mut values = Vec::new();
            for item in items {
                let item = Box::pin(resolve(item, input)).await;
                is_known &= item.is_known;
                values.push(item.value);
            }
            Value::Array(values)
        }
        Value::Object(fields) => {
            let mut values = Map::new();
            for (name, field) in fields {
                let field = Box::pin(resolve(field, input)).await;
                is_known &= field.is_known;
                values.insert(name.clone(), field.value);
            }
            Value::Object(values)
        }
        other => other.clone(),
    };
    ResolvedInput { value, is_known }
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
            let expected = ResolvedInput { value: expected, is_known: true };
            assert_eq!(resolve(value, &input).await, expected);
        }
        for later in ["{{ steps.a.text }}", "{{ item }}", "{{ upstream }}", "{{ input.unknown }}"] {
            let expected = ResolvedInput { value: json!(later), is_known: false };
            assert_eq!(resolve(&json!(later), &input).await, expected);
        }
    }
}
