//! Templates and expressions of a graph file (minijinja): compiled once, rendered for each step.

mod engine;
pub(super) mod references;
mod values;

use std::sync::{Arc, OnceLock};

use minijinja::Environment;
use serde_json::{Map, Value};

use self::references::{Malformed, Uses};
use self::values::{Need, part};
use super::fields::either;
use super::suggestion::near;
use crate::error::{EngineError, ErrorKind};
use crate::graph::step::Scope;

/// Bytes that a rendered text may have.
const MAX_RENDERED: usize = 64 << 20;

/// The templates of one graph, in one engine. The engine is there for good when all are added.
#[derive(Debug, Default)]
pub(super) struct Templates {
    sources: Vec<String>,
    engine: Arc<OnceLock<Environment<'static>>>,
}

impl Templates {
    /// Makes the texts in a value templates.
    pub(super) fn add(&mut self, value: &Value) -> Result<Template, Malformed> {
        let mut variables = Vec::new();
        let shape = self.shape(value, &mut variables)?;
        Ok(Template { shape, needs: Need::of(&variables), engine: Arc::clone(&self.engine) })
    }

    fn shape(&mut self, value: &Value, variables: &mut Vec<references::Variable>) -> Result<Shape, Malformed> {
        Ok(match value {
            Value::String(source) if is_template(source) => {
                variables.extend(references::of_template(source)?.variables);
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
                    .collect::<Result<Vec<_>, Malformed>>()?;
                let fixed = shapes.iter().all(|(_, shape)| shape.is_fixed());
                if fixed { Shape::Fixed(value.clone()) } else { Shape::Map(shapes) }
            }
            _ => Shape::Fixed(value.clone()),
        })
    }

    /// Compiles all that was added. Nothing can be rendered before.
    pub(super) fn finish(self) -> Result<(), Malformed> {
        if self.sources.is_empty() {
            return Ok(());
        }
        let mut engine = engine::new();
        for (place, source) in self.sources.into_iter().enumerate() {
            let length = source.len();
            engine
                .add_template_owned(place.to_string(), source)
                .map_err(|error| Malformed { message: error.to_string(), span: 0..length })?;
        }
        // Only this fills it, and it takes the templates with it.
        let _ = self.engine.set(engine);
        Ok(())
    }
}

/// A value whose texts are templates.
#[derive(Debug)]
pub(crate) struct Template {
    shape: Shape,
    needs: Need,
    engine: Arc<OnceLock<Environment<'static>>>,
}

#[derive(Debug)]
enum Shape {
    /// As it is.
    Fixed(Value),
    /// A template, by its number.
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
    /// One template that stands alone.
    pub(crate) fn compile(source: &str) -> Result<Template, Malformed> {
        let mut templates = Templates::default();
        let template = templates.add(&Value::String(source.to_string()))?;
        templates.finish()?;
        Ok(template)
    }

    /// The value, if there is nothing to render in it.
    pub(super) fn fixed(&self) -> Option<&Value> {
        match &self.shape {
            Shape::Fixed(value) => Some(value),
            _ => None,
        }
    }

    /// The value for a step.
    ///
    /// # Errors
    /// InvalidRequest: a name has no value, or a filter cannot work on its.
    pub(crate) fn render(&self, scope: &Scope<'_>) -> Result<Value, EngineError> {
        if let Shape::Fixed(value) = &self.shape {
            return Ok(value.clone());
        }
        let context = context(&self.needs, scope);
        self.render_shape(&self.shape, &context).map_err(|error| failed(&error))
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
        let mut text = Bounded(Vec::new());
        engine.get_template(&number.to_string())?.render_captured_to(context.clone(), &mut text)?;
        String::from_utf8(text.0)
            .map_err(|error| minijinja::Error::new(minijinja::ErrorKind::WriteFailure, error.to_string()))
    }
}

/// A condition, or something that gives a list.
#[derive(Debug)]
pub(super) struct Expression {
    compiled: minijinja::Expression<'static, 'static>,
    needs: Need,
    /// It only names a value: that needs no engine.
    plain: Option<Vec<String>>,
}

impl Expression {
    pub(super) fn compile(source: &str) -> Result<Expression, Malformed> {
        let mut uses = references::of_expression(source)?;
        let compiled = engine::EXPRESSIONS
            .compile_expression_owned(source.to_string())
            .map_err(|error| Malformed { message: error.to_string(), span: 0..source.len() })?;
        let needs = Need::of(&uses.variables);
        let plain = if uses.plain { uses.variables.pop().map(|variable| variable.path) } else { None };
        Ok(Expression { compiled, needs, plain })
    }

    /// Does it hold?
    ///
    /// # Errors
    /// InvalidRequest: a name in it has no value.
    pub(super) fn holds(&self, scope: &Scope<'_>) -> Result<bool, EngineError> {
        Ok(self.evaluate(scope)?.is_true())
    }

    /// The list it gives.
    ///
    /// # Errors
    /// InvalidRequest: it gives something else, or a name in it has no value.
    pub(super) fn list(&self, scope: &Scope<'_>) -> Result<Vec<Value>, EngineError> {
        let value = match self.plain.as_deref().and_then(|path| look_up(path, scope)) {
            Some(value) => value.clone(),
            None => serde_json::to_value(self.evaluate(scope)?)
                .map_err(|error| EngineError::new(ErrorKind::InvalidRequest, error.to_string()))?,
        };
        match value {
            Value::Array(items) => Ok(items),
            other => {
                let found = super::tree::Tree::from(&other).describe();
                let message = format!("expected a list, found {found}");
                let error = EngineError::new(ErrorKind::InvalidRequest, message);
                Err(match other {
                    Value::String(_) => {
                        error.hint("filters that make a list of a text: lines, split, fromjson")
                    }
                    _ if values::response_text(&other).is_some() => {
                        error.hint("filters that make a list of its text: .text | lines, .text | fromjson")
                    }
                    _ => error,
                })
            }
        }
    }

    fn evaluate(&self, scope: &Scope<'_>) -> Result<minijinja::Value, EngineError> {
        let value = self.compiled.eval(context(&self.needs, scope)).map_err(|error| failed(&error))?;
        if value.is_undefined() {
            return Err(EngineError::new(ErrorKind::InvalidRequest, "it has no value"));
        }
        Ok(value)
    }
}

/// Has this text anything to render?
pub(super) fn is_template(text: &str) -> bool {
    ["{{", "{%", "{#"].iter().any(|mark| text.contains(mark))
}

/// What is wrong with the filters, tests and functions of a template: message, hint, and which.
pub(super) fn unknown_calls(uses: &Uses) -> impl Iterator<Item = (&references::Called, String, Option<String>)> {
    uses.calls.iter().filter_map(|call| {
        let (what, meant) = match call.kind {
            references::CalledKind::Filter if !engine::has_filter(&call.name) => {
                ("filter", near(&call.name, engine::FILTERS))
            }
            references::CalledKind::Test if !engine::has_test(&call.name) => {
                ("test", near(&call.name, ["defined", "none", "string", "number"]))
            }
            references::CalledKind::Function if engine::functions().all(|known| known != call.name) => {
                ("function", near(&call.name, engine::functions()))
            }
            _ => return None,
        };
        let hint = match (meant, call.kind) {
            (Some(near), _) => Some(format!("did you mean `{near}`?")),
            (None, references::CalledKind::Function) => {
                let all: Vec<&str> = engine::functions().collect();
                Some(format!("functions are {}", either(&all)))
            }
            _ => None,
        };
        Some((call, format!("there is no {what} `{}`", call.name), hint))
    })
}

/// What templates look at, of what there is.
fn context(needs: &Need, scope: &Scope<'_>) -> minijinja::Value {
    let Need::Fields(names) = needs else { return minijinja::Value::from(()) };
    let value = |name: &str, need: &Need| -> Option<minijinja::Value> {
        Some(match name {
            "input" => part(scope.input, need),
            "steps" => steps(need, scope, |_| true),
            "upstream" => {
                let direct = |id: &str| scope.direct.iter().any(|step| **step == *id);
                match need {
                    Need::Fields(_) => steps(need, scope, direct),
                    _ => minijinja::Value::from_pairs(
                        scope
                            .direct
                            .iter()
                            .filter_map(|step| Some((&**step, values::whole(scope.upstream.get(step)?)))),
                    ),
                }
            }
            "item" => part(scope.item?, need),
            "index" => minijinja::Value::from(scope.index),
            "round" => minijinja::Value::from(scope.round),
            // Before the first round there is none.
            "result" => scope.result.map_or(minijinja::Value::from(()), |result| part(result, need)),
            _ => return None,
        })
    };
    minijinja::Value::from_pairs(
        names.iter().filter_map(|(name, need)| Some((name.as_str(), value(name, need)?))),
    )
}

fn steps(need: &Need, scope: &Scope<'_>, known: impl Fn(&str) -> bool) -> minijinja::Value {
    let Need::Fields(steps) = need else { return minijinja::Value::from(()) };
    let known = steps.iter().filter(|(id, _)| known(id));
    minijinja::Value::from_pairs(
        known.filter_map(|(id, need)| Some((id.as_str(), part(scope.upstream.get(id)?, need)))),
    )
}

/// The value a plain name stands for.
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

fn failed(error: &minijinja::Error) -> EngineError {
    let said = match (error.kind(), error.detail()) {
        (minijinja::ErrorKind::OutOfFuel, _) => "it takes too long".to_string(),
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
    EngineError::new(ErrorKind::InvalidRequest, said)
}

/// A text that does not grow without end.
struct Bounded(Vec<u8>);

impl std::io::Write for &mut Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_RENDERED {
            return Err(std::io::Error::other(format!("the text has more than {MAX_RENDERED} bytes")));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
