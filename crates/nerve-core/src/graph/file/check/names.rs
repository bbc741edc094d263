//! The names that templates and expressions use.

use std::collections::HashSet;

use serde_json::Value;

use super::super::source_map::{Path, Report};
use super::super::suggestion::near;
use super::super::templates::references::{self, Malformed, Uses, Variable};
use super::super::templates::{is_template, unknown_calls};
use super::super::tree::quoted;
use super::super::types::{GraphFile, NodeDefinition, StepDefinition};
use super::order::Order;

/// What a text may name.
#[derive(Clone, Copy)]
struct Known<'a> {
    /// The step it belongs to; `None` for the text of a template node.
    step: Option<(u32, &'a StepDefinition)>,
    /// `item` and `index`.
    item: bool,
    /// `round` and `result`.
    round: bool,
}

/// A template or an expression of the file.
struct Text<'a, 'p> {
    source: &'a str,
    expression: bool,
    at: Path<'p>,
    known: Known<'a>,
}

pub(super) fn check(file: &GraphFile, order: &Order<'_>, report: &mut Report<'_>) {
    let mut parsed = Vec::new();
    let mut pairs = Vec::new();
    each_text(file, &mut |text| {
        let uses = parse(&text);
        if let (Some(Ok(uses)), Some((place, _))) = (&uses, text.known.step) {
            let steps = uses.variables.iter().filter(|variable| variable.path[0] == "steps");
            let used = steps.filter_map(|variable| order.places.get(variable.path.get(1)?.as_str()));
            pairs.extend(used.map(|used| (place, *used)));
        }
        parsed.push(uses);
    });
    let names = Names { file, order, apart: order.apart(pairs) };
    let mut parsed = parsed.into_iter();
    each_text(file, &mut |text| names.text(&text, parsed.next().flatten(), report));
}

/// Visits all templates and expressions, always in the same order.
fn each_text<'a>(file: &'a GraphFile, visit: &mut dyn FnMut(Text<'a, '_>)) {
    let nodes = Path::Root.key("nodes");
    for (name, definition) in &file.nodes {
        if let NodeDefinition::Template(node) = definition {
            let known = Known { step: None, item: false, round: false };
            let (node_at, source) = (nodes.key(name), &node.template);
            visit(Text { source, expression: false, at: node_at.key("template"), known });
        }
    }
    let steps = Path::Root.key("steps");
    for (index, step) in file.steps.iter().enumerate() {
        each_text_of(index as u32, step, steps.index(index), visit);
    }
}

fn each_text_of<'a>(place: u32, step: &'a StepDefinition, at: Path<'_>, visit: &mut dyn FnMut(Text<'a, '_>)) {
    let before = Known { step: Some((place, step)), item: false, round: false };
    let known = Known { item: step.foreach.is_some(), round: step.until.is_some(), ..before };
    if let Some(source) = &step.when {
        visit(Text { source, expression: true, at: at.key("when"), known: before });
    }
    if let Some(source) = &step.foreach {
        visit(Text { source, expression: true, at: at.key("foreach"), known: before });
    }
    if let Some(until) = &step.until {
        let at = at.key("until");
        visit(Text { source: &until.condition, expression: true, at: at.key("condition"), known });
    }
    if let Some(gate) = &step.gate {
        let at = at.key("gate");
        visit(Text { source: &gate.question, expression: false, at: at.key("question"), known });
    }
    each_text_in(&step.input, at.key("input"), known, visit);
}

fn each_text_in<'a>(value: &'a Value, at: Path<'_>, known: Known<'a>, visit: &mut dyn FnMut(Text<'a, '_>)) {
    match value {
        Value::String(source) => visit(Text { source, expression: false, at, known }),
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, item)| each_text_in(item, at.index(index), known, visit));
        }
        Value::Object(entries) => {
            entries.iter().for_each(|(name, item)| each_text_in(item, at.key(name), known, visit));
        }
        _ => {}
    }
}

/// The names in a text; `None` if it is none of those that have any.
fn parse(text: &Text<'_, '_>) -> Option<Result<Uses, Malformed>> {
    if text.expression {
        let wrong = text.source.trim().is_empty() || braced(text.source).is_some();
        (!wrong).then(|| references::of_expression(text.source))
    } else {
        is_template(text.source).then(|| references::of_template(text.source))
    }
}

/// What is in the braces of a template that is nothing else.
fn braced(source: &str) -> Option<&str> {
    source.trim().strip_prefix("{{")?.strip_suffix("}}").map(str::trim)
}

struct Names<'a> {
    file: &'a GraphFile,
    order: &'a Order<'a>,
    /// Steps, and steps they use that are not before them.
    apart: HashSet<(u32, u32)>,
}

impl Names<'_> {
    fn text(&self, text: &Text<'_, '_>, uses: Option<Result<Uses, Malformed>>, report: &mut Report<'_>) {
        let (source, at) = (text.source, text.at);
        let uses = match uses {
            None if !text.expression => return,
            None => {
                return match braced(source) {
                    Some(inner) => {
                        let message = "expected an expression, found a template";
                        report.advise(at, message, format!("write it without braces: {inner}"));
                    }
                    None => report.say(at, "the expression is empty"),
                };
            }
            Some(Err(Malformed { message, span })) => {
                let snippet = source.get(span.clone()).unwrap_or_default();
                return report.within(
                    at,
                    (source, span.start, snippet),
                    format!("template: {message}"),
                    None,
                );
            }
            Some(Ok(uses)) => uses,
        };
        for (call, message, hint) in unknown_calls(&uses) {
            report.within(at, (source, call.span.start, &call.name), message, hint);
        }
        for variable in &uses.variables {
            if let Some((message, hint)) = self.unknown(variable, text.known) {
                let snippet = source.get(variable.span.clone()).unwrap_or_default();
                report.within(at, (source, variable.span.start, snippet), message, hint);
            }
        }
    }

    /// Why there is no such name, and what to do.
    fn unknown(&self, variable: &Variable, known: Known<'_>) -> Option<(String, Option<String>)> {
        let (root, field) = (variable.path.first()?.as_str(), variable.path.get(1));
        let only_with = |what: &str| Some((format!("`{root}` is known only in a step with {what}"), None));
        match root {
            "input" => self.unknown_input(field.filter(|_| known.step.is_some())?),
            "steps" | "upstream" if known.step.is_none() => Some((
                "a template node knows only its input".to_string(),
                Some("give it what it needs in the step's input".to_string()),
            )),
            "steps" => match (field, known.step) {
                (None, _) => Some((
                    "`steps` needs the id of a step".to_string(),
                    Some(
                        "write steps.ID, or steps['ID']; upstream has all that a step depends on directly"
                            .to_string(),
                    ),
                )),
                (Some(id), Some((place, step))) => self.unknown_step(id, place, step),
                (Some(_), None) => None,
            },
            "upstream" => {
                let (Some(id), Some((_, step))) = (field, known.step) else { return None };
                if step.depends_on.contains(id) {
                    return None;
                }
                let message =
                    format!("step '{}' uses upstream.{id} but does not depend on it directly", step.id);
                Some((message, Some(format!("add depends_on: [{id}]"))))
            }
            "item" | "index" if !known.item => only_with("foreach, in its input and until"),
            "round" | "result" if !known.round => only_with("until, in its input and condition"),
            "item" | "index" | "round" | "result" => None,
            other => {
                let all = ["input", "steps", "upstream", "item", "index", "round", "result"];
                let hint = match near(other, all) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None if self.order.places.contains_key(other) => format!("write steps.{other}"),
                    None if self.file.inputs.as_ref().is_some_and(|inputs| inputs.contains_key(other)) => {
                        format!("write input.{other}")
                    }
                    None => "names are input, steps.ID and upstream".to_string(),
                };
                Some((format!("there is no name {} here", quoted(other)), Some(hint)))
            }
        }
    }

    fn unknown_input(&self, name: &str) -> Option<(String, Option<String>)> {
        let inputs = self.file.inputs.as_ref()?;
        if inputs.contains_key(name) {
            return None;
        }
        let hint = match near(name, inputs.keys().map(String::as_str)) {
            Some(near) => format!("did you mean input.{near}?"),
            None => "add it to `inputs` of the graph".to_string(),
        };
        Some((format!("the graph has no input {}", quoted(name)), Some(hint)))
    }

    fn unknown_step(&self, id: &str, place: u32, step: &StepDefinition) -> Option<(String, Option<String>)> {
        let Some(used) = self.order.places.get(id).copied() else {
            let ids = || self.file.steps.iter().map(|step| step.id.as_str());
            // `steps.my-step` is a difference.
            let dashed = ids()
                .find(|other| other.strip_prefix(id).is_some_and(|rest| rest.starts_with(['-', '.', ' '])));
            let hint = match (dashed, near(id, ids())) {
                (Some(other), _) => Some(format!("write steps['{other}']")),
                (None, Some(near)) => Some(format!("did you mean steps.{near}?")),
                (None, None) => None,
            };
            return Some((format!("there is no step {}", quoted(id)), hint));
        };
        if used == place {
            let message = format!("step '{id}' uses its own result");
            return Some((
                message,
                Some("in a step with until, `result` is the one of the round before".to_string()),
            ));
        }
        if !self.apart.contains(&(place, used)) {
            return None;
        }
        let message =
            format!("step '{}' uses steps.{id} but does not depend on it: add depends_on: [{id}]", step.id);
        Some((message, None))
    }
}
