//! What a graph is given: names and defaults.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::suggestion::near;
use super::tree::{Tree, quoted};
use super::types::{GraphFile, InputDefinition};
use crate::error::{EngineError, ErrorKind};

impl GraphFile {
    /// What a run works on: what it was `given`, with the defaults of what was not. A graph that does not say what it is given takes
    /// anything.
    ///
    /// # Errors
    /// InvalidRequest: something without a default is missing, or there is more than the graph knows.
    pub fn input(&self, given: Value) -> Result<Value, EngineError> {
        match &self.inputs {
            Some(inputs) => complete(&self.graph, inputs, given),
            None => Ok(given),
        }
    }
}

pub(super) fn complete(
    graph: &str,
    inputs: &BTreeMap<String, InputDefinition>,
    given: Value,
) -> Result<Value, EngineError> {
    let wrong = |message: String| EngineError::new(ErrorKind::InvalidRequest, message);
    let names = || inputs.keys().map(String::as_str).collect::<Vec<&str>>().join(", ");
    let mut given = match given {
        Value::Object(given) => given,
        Value::Null => Map::new(),
        other => {
            let found = Tree::from(&other).describe();
            return Err(wrong(format!("graph '{graph}' is given a mapping, not {found}"))
                .hint(format!("with {}", names())));
        }
    };
    if let Some(name) = given.keys().find(|name| !inputs.contains_key(*name)) {
        let hint = match near(name, inputs.keys().map(String::as_str)) {
            Some(near) => format!("did you mean '{near}'?"),
            None => format!("it has: {}", names()),
        };
        return Err(wrong(format!("graph '{graph}' has no input {}", quoted(name))).hint(hint));
    }
    for (name, input) in inputs {
        match &input.default {
            Some(default) => drop(given.entry(name.clone()).or_insert_with(|| default.clone())),
            None if given.contains_key(name) => {}
            None => {
                let error = wrong(format!("graph '{graph}' must be given '{name}'"));
                return Err(if input.description.is_empty() {
                    error
                } else {
                    error.hint(input.description.clone())
                });
            }
        }
    }
    Ok(Value::Object(given))
}
