//! Checks the names in templates and expressions.

use std::collections::HashSet;

use serde_json::Value;

use super::super::source_map::{Path, Report, TextPart};
use super::super::templates::references::{self, References, TemplateError, Variable};
use super::super::templates::{is_template, unknown_calls};
use super::super::tree::quoted;
use super::super::types::{GraphFile, NodeDefinition, StepDefinition};
use super::order::StepOrder;
use nerve_types::suggestion::nearest;

/// The names available to a text.
#[derive(Clone, Copy)]
struct NameScope<'a> {
    /// The step of the text; `None` for the text of a template node.
    step: Option<(u32, &'a StepDefinition)>,
    /// True if `item` and `index` are available.
    item: bool,
    /// True if `round` and `result` are available.
    round: bool,
}

/// A template or an expression in the file.
struct Text<'a, 'p> {
    source: &'a str,
    is_expression: bool,
    at: Path<'p>,
    scope: NameScope<'a>,
}

pub(super) fn check(file: &GraphFile, order: &StepOrder<'_>, report: &mut Report<'_>) {
    let mut parsed = Vec::new();
    let mut pairs = Vec::new();
    visit_texts(file, &mut |text| {
        let references = parse(&text);
        if let (Some(Ok(references)), Some((index, _))) = (&references, text.scope.step) {
            let steps = references.variables.iter().filter(|variable| variable.path[0] == "steps");
            let used = steps.filter_map(|variable| order.indexes.get(variable.path.get(1)?.as_str()));
            pairs.extend(used.map(|used| (index, *used)));
        }
        parsed.push(references);
    });
    let names = NameChecker { file, order, unordered: order.unordered_pairs(pairs) };
    let mut parsed = parsed.into_iter();
    visit_texts(file, &mut |text| names.text(&text, parsed.next().flatten(), report));
}

/// Visits all templates and expressions, always in the same order.
fn visit_texts<'a>(file: &'a GraphFile, visit: &mut dyn FnMut(Text<'a, '_>)) {
    let nodes = Path::Root.key("nodes");
    for (name, definition) in &file.nodes {
        if let NodeDefinition::Template(node) = definition {
            let scope = NameScope { step: None, item: false, round: false };
            let (node_at, source) = (nodes.key(name), &node.template);
            visit(Text { source, is_expression: false, at: node_at.key("template"), scope });
        }
    }
    let steps = Path::Root.key("steps");
    for (index, step) in file.steps.iter().enumerate() {
        visit_step_texts(index as u32, step, steps.index(index), visit);
    }
}

fn visit_step_texts<'a>(
    index: u32,
    step: &'a StepDefinition,
    at: Path<'_>,
    visit: &mut dyn FnMut(Text<'a, '_>),
) {
    let before = NameScope { step: Some((index, step)), item: false, round: false };
    let scope = NameScope { item: step.foreach.is_some(), round: step.until.is_some(), ..before };
    if let Some(source) = &step.when {
        visit(Text { source, is_expression: true, at: at.key("when"), scope: before });
    }
    if let Some(source) = &step.foreach {
        visit(Text { source, is_expression: true, at: at.key("foreach"), scope: before });
    }
    if let Some(until) = &step.until {
        let at = at.key("until");
        visit(Text { source: &until.condition, is_expression: true, at: at.key("condition"), scope });
    }
    if let Some(gate) = &step.gate {
        let at = at.key("gate");
        visit(Text { source: &gate.question, is_expression: false, at: at.key("question"), scope });
    }
    visit_value_texts(&step.input, at.key("input"), scope, visit);
}

fn visit_value_texts<'a>(
    value: &'a Value,
    at: Path<'_>,
    scope: NameScope<'a>,
    visit: &mut dyn FnMut(Text<'a, '_>),
) {
    match value {
        Value::String(source) => visit(Text { source, is_expression: false, at, scope }),
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, item)| visit_value_texts(item, at.index(index), scope, visit));
        }
        Value::Object(entries) => {
            entries.iter().for_each(|(name, item)| visit_value_texts(item, at.key(name), scope, visit));
        }
        _ => {}
    }
}

/// Returns the names used in a text, or `None` if it has none.
fn parse(text: &Text<'_, '_>) -> Option<Result<References, TemplateError>> {
    if text.is_expression {
        let wrong = text.source.trim().is_empty() || braced(text.source).is_some();
        (!wrong).then(|| references::parse_expression(text.source))
    } else {
        is_template(text.source).then(|| references::parse_template(text.source))
    }
}

/// Returns the content of the braces if the whole text is one pair of braces.
fn braced(source: &str) -> Option<&str> {
    source.trim().strip_prefix("{{")?.strip_suffix("}}").map(str::trim)
}

struct NameChecker<'a> {
    file: &'a GraphFile,
    order: &'a StepOrder<'a>,
    /// Pairs of a step and a step it uses without depending on it.
    unordered: HashSet<(u32, u32)>,
}

impl NameChecker<'_> {
    fn text(
        &self,
        text: &Text<'_, '_>,
        references: Option<Result<References, TemplateError>>,
        report: &mut Report<'_>,
    ) {
        let (source, at) = (text.source, text.at);
        let references = match references {
            None if !text.is_expression => return,
            None => {
                return match braced(source) {
                    Some(inner) => {
                        let message = "expected an expression, found a template";
                        report.error_with_hint(at, message, format!("remove the braces: {inner}"));
                    }
                    None => report.error(at, "the expression is empty"),
                };
            }
            Some(Err(TemplateError { message, span })) => {
                let snippet = source.get(span.clone()).unwrap_or_default();
                let part = TextPart { text: source, offset: span.start, snippet };
                return report.error_within(at, part, format!("template: {message}"), None);
            }
            Some(Ok(references)) => references,
        };
        for (call, message, hint) in unknown_calls(&references) {
            let part = TextPart { text: source, offset: call.span.start, snippet: &call.name };
            report.error_within(at, part, message, hint);
        }
        for variable in &references.variables {
            if let Some((message, hint)) = self.unknown(variable, text.scope) {
                let snippet = source.get(variable.span.clone()).unwrap_or_default();
                let part = TextPart { text: source, offset: variable.span.start, snippet };
                report.error_within(at, part, message, hint);
            }
        }
    }

    /// Returns a message and a hint if the name is unknown.
    fn unknown(&self, variable: &Variable, scope: NameScope<'_>) -> Option<(String, Option<String>)> {
        let (root, field) = (variable.path.first()?.as_str(), variable.path.get(1));
        let only_with = |what: &str| Some((format!("`{root}` exists only in a step with {what}"), None));
        match root {
            "input" => self.unknown_input(field.filter(|_| scope.step.is_some())?),
            "steps" | "upstream" if scope.step.is_none() => Some((
                "a template node has only `input`".to_string(),
                Some("pass the value in the step's input".to_string()),
            )),
            "steps" => match (field, scope.step) {
                (None, _) => Some((
                    "`steps` needs the id of a step".to_string(),
                    Some("write steps.ID or steps['ID']; `upstream` has all direct dependencies".to_string()),
                )),
                (Some(id), Some((index, step))) => self.unknown_step(id, index, step),
                (Some(_), None) => None,
            },
            "upstream" => {
                let (Some(id), Some((_, step))) = (field, scope.step) else { return None };
                if step.depends_on.contains(id) {
                    return None;
                }
                let message =
                    format!("step '{}' uses upstream.{id} but does not depend on it directly", step.id);
                Some((message, Some(format!("add depends_on: [{id}]"))))
            }
            "item" | "index" if !scope.item => only_with("foreach, in its input and until"),
            "round" | "result" if !scope.round => only_with("until, in its input and condition"),
            "item" | "index" | "round" | "result" => None,
            other => {
                let all = ["input", "steps", "upstream", "item", "index", "round", "result"];
                let hint = match nearest(other, all) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None if self.order.indexes.contains_key(other) => format!("write steps.{other}"),
                    None if self.file.inputs.as_ref().is_some_and(|inputs| inputs.contains_key(other)) => {
                        format!("write input.{other}")
                    }
                    None => "available names: input, steps.ID and upstream".to_string(),
                };
                Some((format!("unknown name {}", quoted(other)), Some(hint)))
            }
        }
    }

    fn unknown_input(&self, name: &str) -> Option<(String, Option<String>)> {
        let inputs = self.file.inputs.as_ref()?;
        if inputs.contains_key(name) {
            return None;
        }
        let hint = match nearest(name, inputs.keys().map(String::as_str)) {
            Some(near) => format!("did you mean input.{near}?"),
            None => "add it to the graph's `inputs`".to_string(),
        };
        Some((format!("the graph has no input {}", quoted(name)), Some(hint)))
    }

    fn unknown_step(&self, id: &str, index: u32, step: &StepDefinition) -> Option<(String, Option<String>)> {
        let Some(used) = self.order.indexes.get(id).copied() else {
            let ids = || self.file.steps.iter().map(|step| step.id.as_str());
            // `steps.my-step` is parsed as a subtraction.
            let dashed = ids()
                .find(|other| other.strip_prefix(id).is_some_and(|rest| rest.starts_with(['-', '.', ' '])));
            let hint = match (dashed, nearest(id, ids())) {
                (Some(other), _) => Some(format!("write steps['{other}']")),
                (None, Some(near)) => Some(format!("did you mean steps.{near}?")),
                (None, None) => None,
            };
            return Some((format!("unknown step {}", quoted(id)), hint));
        };
        if used == index {
            let message = format!("step '{id}' uses its own result");
            return Some((
                message,
                Some("in a step with `until`, `result` is the result of the previous round".to_string()),
            ));
        }
        if !self.unordered.contains(&(index, used)) {
            return None;
        }
        let message =
            format!("step '{}' uses steps.{id} but does not depend on it: add depends_on: [{id}]", step.id);
        Some((message, None))
    }
}
