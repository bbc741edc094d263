//! Templates and expressions of graph files (minijinja): compiled once, rendered for each step.

mod engine;
mod instrument;
mod limits;
pub(super) mod references;
mod values;

use std::sync::{Arc, OnceLock};

use minijinja::Environment;
use nerve_node::error::EngineError;
use serde_json::{Map, Value};

use self::references::{References, TemplateError};
use self::values::{Projection, project};
use super::fields::join_or;
use crate::step::Scope;
use nerve_types::suggestion::nearest;

/// Collects the templates of one graph, which share one engine. [`Templates::finish`] compiles them.
#[derive(Debug, Default)]
pub(super) struct Templates {
    sources: Vec<String>,
    engine: Arc<OnceLock<Environment<'static>>>,
}

impl Templates {
    /// Turns the texts in a value into templates.
    pub(super) fn add(&mut self, value: &Value) -> Result<Template, TemplateError> {
        let mut variables = Vec::new();
        let shape = self.shape(value, &mut variables)?;
        Ok(Template {
            shape,
            projection: Projection::from_paths(paths(&variables)),
            engine: Arc::clone(&self.engine),
        })
    }

    fn shape(
        &mut self,
        value: &Value,
        variables: &mut Vec<references::Variable>,
    ) -> Result<Shape, TemplateError> {
        Ok(match value {
            Value::String(source) if is_template(source) => {
                variables.extend(references::parse_template(source)?.variables);
                self.sources.push(source.clone());
                Shape::Text(self.sources.len() - 1)
            }
            Value::Array(items) => {
                let items: Vec<Shape> =
                    items.iter().map(|item| self.shape(item, variables)).collect::<Result<_, _>>()?;
                if items.iter().all(Shape::is_fixed) {
                    Shape::Fixed(value.clone())
                } else {
                    Shape::List(items)
                }
            }
            Value::Object(entries) => {
                let shapes = entries
                    .iter()
                    .map(|(name, item)| Ok((name.clone(), self.shape(item, variables)?)))
                    .collect::<Result<Vec<_>, TemplateError>>()?;
                let fixed = shapes.iter().all(|(_, shape)| shape.is_fixed());
                if fixed { Shape::Fixed(value.clone()) } else { Shape::Map(shapes) }
            }
            _ => Shape::Fixed(value.clone()),
        })
    }

    /// Compiles all templates. Until then, rendering fails.
    pub(super) fn finish(self) -> Result<(), TemplateError> {
        if self.sources.is_empty() {
            return Ok(());
        }
        let mut engine = engine::ENVIRONMENT.clone();
        for (place, source) in self.sources.into_iter().enumerate() {
            let length = source.len();
            engine
                .add_template_owned(place.to_string(), source)
                .map_err(|error| TemplateError { message: error.to_string(), span: 0..length })?;
        }
        // Only this function sets the engine, and it consumes the templates.
        let _ = self.engine.set(engine);
        Ok(())
    }
}

/// A value whose texts are templates.
#[derive(Debug)]
pub(crate) struct Template {
    shape: Shape,
    projection: Projection,
    engine: Arc<OnceLock<Environment<'static>>>,
}

#[derive(Debug)]
enum Shape {
    /// A constant.
    Fixed(Value),
    /// A template, by number.
    Text(usize),
    List(Vec<Shape>),
    Map(Vec<(String, Shape)>),
}

impl Shape {
    fn is_fixed(&self) -> bool {
        matches!(self, Shape::Fixed(_))
    }
}

impl Template {
    /// Compiles a single template.
    pub(crate) fn compile(source: &str) -> Result<Template, TemplateError> {
        let mut templates = Templates::default();
        let template = templates.add(&Value::String(source.to_string()))?;
        templates.finish()?;
        Ok(template)
    }

    /// Returns the value if it contains no template.
    pub(super) fn fixed(&self) -> Option<&Value> {
        match &self.shape {
            Shape::Fixed(value) => Some(value),
            _ => None,
        }
    }

    /// Renders the value for a step.
    ///
    /// # Errors
    /// InvalidRequest: a name is undefined, or a filter rejects its input.
    pub(crate) fn render(&self, scope: &Scope<'_>) -> Result<Value, EngineError> {
        if let Shape::Fixed(value) = &self.shape {
            return Ok(value.clone());
        }
        let context = context(&self.projection, scope);
        self.render_shape(&self.shape, &context).map_err(|error| render_error(&error))
    }

    fn render_shape(&self, shape: &Shape, context: &minijinja::Value) -> Result<Value, minijinja::Error> {
        Ok(match shape {
            Shape::Fixed(value) => value.clone(),
            Shape::Text(number) => Value::String(self.render_text(*number, context)?),
            Shape::List(items) => Value::Array(
                items.iter().map(|item| self.render_shape(item, context)).collect::<Result<_, _>>()?,
            ),
            Shape::Map(entries) => {
                let render =
                    |(name, shape): &(String, Shape)| Ok((name.clone(), self.render_shape(shape, context)?));
                Value::Object(entries.iter().map(render).collect::<Result<Map<_, _>, minijinja::Error>>()?)
            }
        })
    }

    fn render_text(&self, number: usize, context: &minijinja::Value) -> Result<String, minijinja::Error> {
        let unfinished = || minijinja::Error::new(minijinja::ErrorKind::TemplateNotFound, "not compiled");
        let engine = self.engine.get().ok_or_else(unfinished)?;
        instrument::render(engine, &number.to_string(), context.clone())
    }
}

/// A condition, or an expression that yields a list.
#[derive(Debug)]
pub(super) struct Expression {
    source: String,
    projection: Projection,
    /// Path of an expression that only names a value, which needs no engine.
    variable_path: Option<Vec<String>>,
}

impl Expression {
    pub(super) fn compile(source: &str) -> Result<Expression, TemplateError> {
        let references = references::parse_expression(source)?;
        let projection = Projection::from_paths(paths(&references.variables));
        let variable_path = references.variable_path;
        Ok(Expression { source: source.to_string(), projection, variable_path })
    }

    /// Returns true if the condition holds.
    ///
    /// # Errors
    /// InvalidRequest: a name is undefined.
    pub(super) fn holds(&self, scope: &Scope<'_>) -> Result<bool, EngineError> {
        Ok(self.evaluate(scope)?.is_true())
    }

    /// Evaluates to a list.
    ///
    /// # Errors
    /// InvalidRequest: the value is no list, or a name is undefined.
    pub(super) fn list(&self, scope: &Scope<'_>) -> Result<Vec<Value>, EngineError> {
        let value = match self.variable_path.as_deref().and_then(|path| look_up(path, scope)) {
            Some(value) => value.clone(),
            None => serde_json::to_value(self.evaluate(scope)?)
                .map_err(|error| EngineError::invalid_request(error.to_string()))?,
        };
        match value {
            Value::Array(items) => Ok(items),
            other => {
                let found = super::tree::Tree::from(&other).describe();
                let error = EngineError::invalid_request(format!("expected a list, found {found}"));
                Err(match other {
                    Value::String(_) => {
                        error.hint("these filters turn a text into a list: lines, split, fromjson")
                    }
                    _ if values::response_text(&other).is_some() => {
                        error.hint("turn its text into a list: .text | lines, or .text | fromjson")
                    }
                    _ => error,
                })
            }
        }
    }

    fn evaluate(&self, scope: &Scope<'_>) -> Result<minijinja::Value, EngineError> {
        let value =
            instrument::evaluate(&engine::ENVIRONMENT, &self.source, context(&self.projection, scope))
                .map_err(|error| render_error(&error))?;
        if value.is_undefined() {
            return Err(EngineError::invalid_request("the expression has no value"));
        }
        Ok(value)
    }
}

/// Returns true if the text contains template syntax.
pub(super) fn is_template(text: &str) -> bool {
    ["{{", "{%", "{#"].iter().any(|mark| text.contains(mark))
}

/// Returns message and hint for each unknown filter, test or function.
pub(super) fn unknown_calls(
    references: &References,
) -> impl Iterator<Item = (&references::Call, String, Option<String>)> {
    references.calls.iter().filter_map(|call| {
        let (what, near) = match call.kind {
            references::CallKind::Filter if !engine::has_filter(&call.name) => {
                ("filter", nearest(&call.name, engine::FILTERS))
            }
            references::CallKind::Test if !engine::has_test(&call.name) => {
                ("test", nearest(&call.name, ["defined", "none", "string", "number"]))
            }
            references::CallKind::Function if engine::functions().all(|known| known != call.name) => {
                ("function", nearest(&call.name, engine::functions()))
            }
            _ => return None,
        };
        let hint = match (near, call.kind) {
            (Some(near), _) => Some(format!("did you mean `{near}`?")),
            (None, references::CallKind::Function) => {
                let all: Vec<&str> = engine::functions().collect();
                Some(format!("known functions: {}", join_or(&all)))
            }
            _ => None,
        };
        Some((call, format!("unknown {what} `{}`", call.name), hint))
    })
}

/// Creates the template context with the needed values only.
fn context(projection: &Projection, scope: &Scope<'_>) -> minijinja::Value {
    let Projection::Fields(names) = projection else { return minijinja::Value::from(()) };
    let value = |name: &str, parts: &Projection| -> Option<minijinja::Value> {
        Some(match name {
            "input" => project(scope.input, parts),
            "steps" => steps(parts, scope, |_| true),
            "upstream" => {
                let direct = |id: &str| scope.direct.iter().any(|step| **step == *id);
                match parts {
                    Projection::Fields(_) => steps(parts, scope, direct),
                    _ => minijinja::Value::from_pairs(
                        scope
                            .direct
                            .iter()
                            .filter_map(|step| Some((&**step, values::whole(scope.upstream.get(step)?)))),
                    ),
                }
            }
            "item" => project(scope.item?, parts),
            "index" => minijinja::Value::from(scope.index),
            "round" => minijinja::Value::from(scope.round),
            // Null before the first round.
            "result" => scope.result.map_or(minijinja::Value::from(()), |result| project(result, parts)),
            _ => return None,
        })
    };
    minijinja::Value::from_pairs(
        names.iter().filter_map(|(name, parts)| Some((name.as_str(), value(name, parts)?))),
    )
}

fn steps(parts: &Projection, scope: &Scope<'_>, known: impl Fn(&str) -> bool) -> minijinja::Value {
    let Projection::Fields(steps) = parts else { return minijinja::Value::from(()) };
    let known = steps.iter().filter(|(id, _)| known(id));
    minijinja::Value::from_pairs(
        known.filter_map(|(id, parts)| Some((id.as_str(), project(scope.upstream.get(id)?, parts)))),
    )
}

/// Returns the value that the path of a variable refers to.
fn look_up<'a>(path: &[String], scope: &Scope<'a>) -> Option<&'a Value> {
    let (root, rest) = path.split_first()?;
    let (value, rest) = match root.as_str() {
        "input" => (scope.input, rest),
        "steps" | "upstream" => {
            let (id, rest) = rest.split_first()?;
            (scope.upstream.get(id)?, rest)
        }
        "item" => (scope.item?, rest),
        "result" => (scope.result?, rest),
        _ => return None,
    };
    rest.iter().try_fold(value, |value, field| value.get(field))
}

fn render_error(error: &minijinja::Error) -> EngineError {
    let message = match (error.kind(), error.detail()) {
        (minijinja::ErrorKind::OutOfFuel, detail) => {
            format!("{}{}", detail.unwrap_or("the template takes too long"), position(error))
        }
        (minijinja::ErrorKind::UndefinedError, Some(detail)) => {
            detail.replace(" is undefined", " has no value")
        }
        (minijinja::ErrorKind::UndefinedError, None) => {
            let used =
                error.range().and_then(|range| error.template_source()?.get(range)).unwrap_or("a name in it");
            format!("`{used}` has no value")
        }
        (_, Some(detail)) => detail.to_string(),
        (kind, None) => kind.to_string(),
    };
    EngineError::invalid_request(message)
}

/// Returns the position of an error in the text of the template.
fn position(error: &minijinja::Error) -> String {
    let start = error.range().map(|range| range.start);
    match start.and_then(|start| error.template_source()?.get(..start)) {
        Some(before) => {
            let line = before.matches('\n').count() + 1;
            let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
            format!(" (line {line}, column {column} of the template)")
        }
        None => error.line().map(|line| format!(" (line {line} of the template)")).unwrap_or_default(),
    }
}

fn paths(variables: &[references::Variable]) -> impl Iterator<Item = &[String]> {
    variables.iter().map(|variable| variable.path.as_slice())
}
