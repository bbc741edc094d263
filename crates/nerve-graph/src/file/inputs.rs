//! Completes and checks the input of a run.

use std::collections::BTreeMap;

use nerve_node::error::EngineError;
use serde_json::{Map, Value};

use super::tree::{Tree, quoted};
use super::types::{GraphFile, InputDefinition};
use nerve_types::suggestion::nearest;

impl GraphFile {
    /// Returns the input of a run: `values`, and the defaults of missing inputs. A graph that declares no inputs accepts anything.
    ///
    /// # Errors
    /// InvalidRequest: a required input is missing, or an input is unknown.
    pub fn input(&self, values: Value) -> Result<Value, EngineError> {
        match &self.inputs {
            Some(inputs) => complete(&self.graph, inputs, values),
            None => Ok(values),
        }
    }
}

pub(super) fn complete(
    graph: &str,
    inputs: &BTreeMap<String, InputDefinition>,
    values: Value,
) -> Result<Value, EngineError> {
    let invalid = |message: String| EngineError::invalid_request(message);
    let names = || inputs.keys().map(String::as_str).collect::<Vec<&str>>().join(", ");
    let mut values = match values {
        Value::Object(values) => values,
        Value::Null => Map::new(),
        other => {
            let found = Tree::from(&other).describe();
            return Err(invalid(format!("graph '{graph}' expects a mapping as its input, found {found}"))
                .hint(format!("inputs: {}", names())));
        }
    };
    if let Some(name) = values.keys().find(|name| !inputs.contains_key(*name)) {
        let hint = match nearest(name, inputs.keys().map(String::as_str)) {
            Some(near) => format!("did you mean '{near}'?"),
            None => format!("its inputs are: {}", names()),
        };
        return Err(invalid(format!("graph '{graph}' has no input {}", quoted(name))).hint(hint));
    }
    for (name, input) in inputs {
        match &input.default {
            Some(default) => drop(values.entry(name.clone()).or_insert_with(|| default.clone())),
            None if values.contains_key(name) => {}
            None => {
                let error = invalid(format!("graph '{graph}' requires the input '{name}'"));
                return Err(if input.description.is_empty() {
                    error
                } else {
                    error.hint(input.description.clone())
                });
            }
        }
    }
    Ok(Value::Object(values))
}
