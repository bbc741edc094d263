//! Renders a graph file as text, Mermaid flowchart or Graphviz graph. Pure.

use nerve_api::request::CommandLine;
use nerve_types::text;
use std::collections::HashMap;
use std::fmt::Write as _;

use super::file::{
    BudgetDefinition, GraphFile, NodeDefinition, OnError, OnFailure, OnRestart, PolicyDefinition,
    StepDefinition, TerminalDefinition,
};
use super::plan::Plan;

/// Maximum length of prompts and questions, in characters.
const MAX_CHARS: usize = 70;

/// Renders the graph as text: its inputs, its nodes, and its steps in an order they can run in.
pub fn text(file: &GraphFile) -> String {
    let mut out = String::new();
    line(&mut out, 0, &format!("graph {}", clean(&file.graph)));
    if !file.description.is_empty() {
        line(&mut out, 1, &shorten(&file.description));
    }
    line(&mut out, 1, &settings(file));
    inputs(&mut out, file);
    nodes(&mut out, file);
    if file.steps.is_empty() {
        line(&mut out, 0, "no steps");
        return out;
    }
    line(&mut out, 0, "steps");
    let width = file.steps.len().to_string().len();
    for (number, index) in order(file).into_iter().enumerate() {
        step(&mut out, file, &file.steps[index], number + 1, width);
    }
    out
}

/// Renders the graph as a Mermaid flowchart.
pub fn mermaid(file: &GraphFile) -> String {
    let mut out = format!("---\ntitle: \"{}\"\n---\nflowchart TD\n", mermaid_text(&file.graph));
    for (index, step) in file.steps.iter().enumerate() {
        let label: Vec<String> = label(file, step).iter().map(|text| mermaid_text(text)).collect();
        let (open, close) = match shape(file, step) {
            Shape::Gate => ("{\"", "\"}"),
            Shape::Graph => ("[[\"", "\"]]"),
            Shape::Step => ("[\"", "\"]"),
        };
        let _ = writeln!(out, "    s{index}{open}{}{close}", label.join("<br/>"));
    }
    for (from, to) in edges(file) {
        let _ = writeln!(out, "    s{from} --> s{to}");
    }
    out
}

/// Renders the graph in the DOT language of Graphviz.
pub fn dot(file: &GraphFile) -> String {
    let mut out = format!(
        "digraph \"{}\" {{\n    rankdir=TB;\n    node [shape=box, style=rounded];\n",
        dot_text(&file.graph)
    );
    for (index, step) in file.steps.iter().enumerate() {
        let label: Vec<String> = label(file, step).iter().map(|text| dot_text(text)).collect();
        let shape = match shape(file, step) {
            Shape::Gate => ", shape=diamond, style=solid",
            Shape::Graph => ", shape=box3d, style=solid",
            Shape::Step => "",
        };
        let _ = writeln!(out, "    s{index} [label=\"{}\"{shape}];", label.join("\\n"));
    }
    for (from, to) in edges(file) {
        let _ = writeln!(out, "    s{from} -> s{to};");
    }
    out.push_str("}\n");
    out
}

enum Shape {
    Step,
    Gate,
    Graph,
}

fn shape(file: &GraphFile, step: &StepDefinition) -> Shape {
    match (&step.gate, step.node.as_deref().and_then(|node| file.nodes.get(node))) {
        (Some(_), _) => Shape::Gate,
        (None, Some(NodeDefinition::Graph(_))) => Shape::Graph,
        _ => Shape::Step,
    }
}

/// Returns the lines in the box of a step.
fn label(file: &GraphFile, step: &StepDefinition) -> Vec<String> {
    let mut lines = vec![shorten(&step.id)];
    match &step.gate {
        Some(gate) => lines.push(shorten(&gate.question)),
        None => lines.push(node_label(file, step)),
    }
    lines.extend(flow(step));
    lines
}

fn settings(file: &GraphFile) -> String {
    let mut parts = vec![match file.max_parallel {
        1 => "one step at a time".to_string(),
        many => format!("{many} steps at once"),
    }];
    parts.push(match file.on_failure {
        OnFailure::Stop => "a failure stops the other branches".to_string(),
        OnFailure::Finish => "other branches continue after a failure".to_string(),
    });
    parts.push(match file.on_restart {
        OnRestart::Wait => "waits after a crash of the server".to_string(),
        OnRestart::Resume => "resumes after a crash of the server".to_string(),
    });
    parts.extend(budget(&file.budget));
    parts.join(" · ")
}

fn inputs(out: &mut String, file: &GraphFile) {
    let Some(inputs) = &file.inputs else { return };
    line(out, 0, "inputs");
    for (name, input) in inputs {
        let mut text = clean(name);
        match &input.default {
            Some(default) => text.push_str(&format!(" = {}", shorten(&default.to_string()))),
            None => text.push_str(" (required)"),
        }
        if !input.description.is_empty() {
            text.push_str(&format!(": {}", shorten(&input.description)));
        }
        line(out, 1, &text);
    }
}

fn nodes(out: &mut String, file: &GraphFile) {
    if file.nodes.is_empty() {
        return;
    }
    line(out, 0, "nodes");
    for (name, definition) in &file.nodes {
        let what = match definition {
            NodeDefinition::Chat(node) => node.model.clone(),
            NodeDefinition::Acp(node) => command_label(&node.command),
            NodeDefinition::Bash(_) => String::new(),
            NodeDefinition::Template(node) => node.template.clone(),
            NodeDefinition::Graph(node) => match (&node.graph, &node.file) {
                (Some(graph), _) => format!("{} ({} steps)", graph.graph, graph.steps.len()),
                (None, file) => file.clone().unwrap_or_default(),
            },
            other => other.terminal().map(terminal_label).unwrap_or_default(),
        };
        let colon = if what.is_empty() { "" } else { ": " };
        line(out, 1, &format!("{} ({}){colon}{}", clean(name), definition.type_name(), shorten(&what)));
    }
}

/// Returns the command or pane of a terminal.
fn terminal_label(node: &TerminalDefinition) -> String {
    match (&node.command, &node.pane) {
        (Some(command), _) => command_label(command),
        (None, Some(pane)) => format!("pane {pane}"),
        (None, None) => String::new(),
    }
}

fn command_label(command: &CommandLine) -> String {
    match command {
        CommandLine::Text(command) => command.clone(),
        CommandLine::Argv(words) => shell_words::join(words),
    }
}

fn step(out: &mut String, file: &GraphFile, step: &StepDefinition, number: usize, width: usize) {
    let id = clean(&step.id);
    line(out, 1, &format!("{number:>width$}. {id}: {}", node_label(file, step)));
    let mut detail = |text: String| {
        let _ = writeln!(out, "{:indent$}{text}", "", indent = 4 + width);
    };
    if !step.depends_on.is_empty() {
        let after: Vec<String> = step.depends_on.iter().map(|id| clean(id)).collect();
        detail(format!("after {}", after.join(", ")));
    }
    if let Some(gate) = &step.gate {
        detail(format!("asks {}", shorten(&gate.question)));
        if !gate.choices.is_empty() {
            let choices: Vec<String> = gate.choices.iter().map(|choice| shorten(choice)).collect();
            detail(format!("choices {}", choices.join(", ")));
        }
        let seconds = gate.timeout_seconds.map(|seconds| format!("after {seconds} s "));
        match (seconds, &gate.default) {
            (Some(after), Some(default)) => detail(format!("{after}the answer is {}", shorten(default))),
            (Some(after), None) => detail(format!("{after}it fails")),
            (None, _) => {}
        }
    }
    if !step.input.is_null() {
        let input = step.input.as_str().map_or_else(|| step.input.to_string(), ToString::to_string);
        detail(format!("input {}", shorten(&input)));
    }
    flow(step).into_iter().for_each(&mut detail);
    step.error_policy.iter().for_each(|policy| detail(error_policy(policy)));
    budget(&step.budget).into_iter().for_each(detail);
}

fn node_label(file: &GraphFile, step: &StepDefinition) -> String {
    match (&step.gate, step.node.as_deref()) {
        (Some(_), _) => "gate".to_string(),
        (None, Some(name)) => match file.nodes.get(name) {
            Some(definition) => format!("{} ({})", clean(name), definition.type_name()),
            None => format!("{} (of the session)", shorten(name)),
        },
        (None, None) => "no node".to_string(),
    }
}

/// Returns lines for the condition, the items and the loop of a step.
fn flow(step: &StepDefinition) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(step.when.as_ref().map(|when| format!("when {}", shorten(when))));
    lines.extend(step.foreach.as_ref().map(|list| match step.parallel.unwrap_or(1) {
        1 => format!("for each of {}", shorten(list)),
        many => format!("for each of {}, {many} at once", shorten(list)),
    }));
    lines.extend(
        step.until
            .as_ref()
            .map(|until| format!("until {}, at most {} rounds", shorten(&until.condition), until.max_rounds)),
    );
    lines
}

fn error_policy(policy: &PolicyDefinition) -> String {
    let mut parts = Vec::new();
    parts.extend(policy.timeout_ms.map(|limit| format!("fails after {limit} ms")));
    if policy.retry_count > 0 {
        parts.push(format!(
            "tries {} more times, first after {} ms, then {} times as long",
            policy.retry_count, policy.retry_delay_ms, policy.retry_backoff
        ));
    }
    parts.push(match (policy.on_error, &policy.fallback_node) {
        (OnError::Fail | OnError::Retry, _) => "then the run fails".to_string(),
        (OnError::Skip, _) => {
            format!("then its result is {}", shorten(&policy.fallback_value.to_string()))
        }
        (OnError::Fallback, Some(node)) => format!("then {} takes over", shorten(node)),
        (OnError::Fallback, None) => "then it needs a fallback_node".to_string(),
    });
    parts.join(", ")
}

fn budget(budget: &BudgetDefinition) -> Option<String> {
    let limits = [
        budget.max_tokens.map(|limit| format!("{limit} tokens")),
        budget.max_time_ms.map(|limit| format!("{} s", limit as f64 / 1e3)),
        budget.max_steps.map(|limit| format!("{limit} steps")),
        budget.max_api_calls.map(|limit| format!("{limit} API calls")),
        budget.max_cost_usd.map(|limit| format!("${limit}")),
    ];
    let limits: Vec<String> = limits.into_iter().flatten().collect();
    (!limits.is_empty()).then(|| format!("at most {}", limits.join(", ")))
}

/// Returns step indexes in an order they can run in; in file order if there is a cycle.
fn order(file: &GraphFile) -> Vec<usize> {
    let mut deps = vec![Vec::new(); file.steps.len()];
    for (from, to) in edges(file) {
        deps[to].push(from as u32);
    }
    match Plan::new(&deps).order() {
        Ok(order) => order.into_iter().map(|index| index as usize).collect(),
        Err(_) => (0..file.steps.len()).collect(),
    }
}

/// Returns pairs of a dependency and its dependant; unknown steps are ignored.
fn edges(file: &GraphFile) -> Vec<(usize, usize)> {
    let mut indexes: HashMap<&str, usize> = HashMap::new();
    for (index, step) in file.steps.iter().enumerate() {
        indexes.entry(&step.id).or_insert(index);
    }
    let mut edges = Vec::new();
    for (index, step) in file.steps.iter().enumerate() {
        let mut before: Vec<usize> =
            step.depends_on.iter().filter_map(|id| indexes.get(id.as_str()).copied()).collect();
        before.sort_unstable();
        before.dedup();
        edges.extend(before.into_iter().map(|from| (from, index)));
    }
    edges
}

fn line(out: &mut String, level: usize, text: &str) {
    let _ = writeln!(out, "{:indent$}{text}", "", indent = level * 2);
}

/// Puts a text on one line and escapes control characters.
fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' => clean.push(' '),
            c if c.is_control()
                || ('\u{202a}'..='\u{202e}').contains(&c)
                || ('\u{2066}'..='\u{2069}').contains(&c) =>
            {
                clean.extend(c.escape_default());
            }
            c => clean.push(c),
        }
    }
    clean
}

fn shorten(text: &str) -> String {
    text::shorten(&clean(text.trim()), MAX_CHARS)
}

/// Escapes nearly everything: Mermaid has many special characters, and `#` starts a character reference.
fn mermaid_text(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in clean(text).chars() {
        match character {
            c if c.is_alphanumeric() || " _-.,:…$".contains(c) => safe.push(c),
            c => {
                let _ = write!(safe, "#{};", u32::from(c));
            }
        }
    }
    safe
}

fn dot_text(text: &str) -> String {
    clean(text).replace('\\', "\\\\").replace('"', "\\\"")
}
