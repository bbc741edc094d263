//! The input of a graph from the command line.

use std::str::FromStr;

use anyhow::{Context, Result};
use clap::Args;
use nerve_graph::file::GraphFile;
use serde_json::{Map, Value};

use crate::failure::{Failure, USAGE};

/// Input of a graph.
#[derive(Debug, Args)]
pub struct InputArgs {
    /// Graph input: JSON object or list, otherwise text; '@PATH' reads a file
    #[arg(long, short_alias = 'i', value_name = "TEXT|@PATH", allow_hyphen_values = true)]
    pub input: Option<String>,
    /// Input field, as JSON if valid, otherwise as text; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<Field>,
}

/// A field of a graph's input.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Name of the field.
    pub key: String,
    /// JSON value, otherwise text.
    pub value: Value,
}

impl FromStr for Field {
    type Err = String;
    fn from_str(text: &str) -> Result<Field, String> {
        match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => {
                let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_string()));
                Ok(Field { key: key.to_string(), value })
            }
            _ => Err("expected KEY=VALUE".to_string()),
        }
    }
}

/// Combines `--input` and `--set`. Returns null without both.
///
/// # Errors
/// The file of `--input @PATH` cannot be read; exit code 2 if `--set` is given and the input is not an object.
pub fn read(args: &InputArgs) -> Result<Value> {
    let input = match args.input.as_deref() {
        None => Value::Null,
        Some(text) => match text.strip_prefix('@') {
            Some(path) => {
                value(&std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?)
            }
            None => value(text),
        },
    };
    merge(input, &args.set)
}

/// Parses objects and lists as JSON. Everything else is text.
fn value(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value @ (Value::Object(_) | Value::Array(_))) => value,
        _ => Value::String(text.to_string()),
    }
}

/// Validates the input and adds the graph's defaults.
///
/// # Errors
/// Exit code 2 if the input does not match the graph.
pub fn validate(file: &GraphFile, input: Value) -> Result<Value> {
    let json_error = input.as_str().and_then(json_error);
    file.input(input).map_err(|error| {
        let failure = Failure::from_error(&error.into());
        match json_error {
            Some(error) => failure.hint(format!("the input looks like JSON, but is invalid: {error}")).into(),
            None => failure.into(),
        }
    })
}

/// Returns the syntax error of a text that looks like an object or a list.
fn json_error(text: &str) -> Option<serde_json::Error> {
    let is_json_like = text.trim_start().starts_with(['{', '[']);
    serde_json::from_str::<Value>(text).err().filter(|_| is_json_like)
}

fn merge(base: Value, fields: &[Field]) -> Result<Value> {
    if fields.is_empty() {
        return Ok(base);
    }
    let mut input = match base {
        Value::Object(input) => input,
        Value::Null => Map::new(),
        _ => {
            return Err(
                Failure::new(USAGE, "--set requires a JSON object as input, and --input is not one").into()
            );
        }
    };
    for Field { key, value } in fields {
        input.insert(key.clone(), value.clone());
    }
    Ok(Value::Object(input))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn merges_fields_into_input() {
        let fields: Vec<Field> = ["a=1", "b=x"].iter().filter_map(|text| text.parse().ok()).collect();
        let merged = |given| merge(given, &fields).map_err(|error| error.to_string());
        assert_eq!(merged(json!({"a": 0, "c": 2})), Ok(json!({"a": 1, "c": 2, "b": "x"})));
        assert_eq!(merged(Value::Null), Ok(json!({"a": 1, "b": "x"})));
        assert!(merged(json!([1])).unwrap_err().contains("--set requires a JSON object as input"));
        assert_eq!(merge(json!("as it is"), &[]).map_err(|error| error.to_string()), Ok(json!("as it is")));
    }

    #[test]
    fn hints_at_invalid_json() {
        let file = GraphFile::from_yaml("graph: g\ninputs: {a: {}}\nsteps: []\n", "g.yaml");
        let file = file.unwrap_or_else(|error| panic!("{error}"));
        let hint = |text: &str| {
            let error = validate(&file, value(text)).unwrap_err();
            Failure::from_error(&error).hint.unwrap_or_default()
        };
        assert!(hint(" {\"a\": ").contains("looks like JSON, but is invalid: EOF"), "{}", hint(" {\"a\": "));
        assert_eq!(hint("words"), "inputs: a");
    }

    #[test]
    fn only_objects_and_lists_are_json() {
        assert_eq!(value("{\"a\": 1}"), json!({"a": 1}));
        assert_eq!(value(" [1]\n"), json!([1]));
        for text in ["3", "true", "{not json", "\"quoted\"", ""] {
            assert_eq!(value(text), json!(text));
        }
    }

    #[test]
    fn field_is_json_if_valid_else_text() {
        let value = |text: &str| text.parse::<Field>().map(|field| field.value);
        assert_eq!(value("a=3"), Ok(json!(3)));
        assert_eq!(value("a=true"), Ok(json!(true)));
        assert_eq!(value("a=null"), Ok(json!(null)));
        assert_eq!(value("a=[1, 2]"), Ok(json!([1, 2])));
        assert_eq!(value("a={\"b\": 1}"), Ok(json!({"b": 1})));
        assert_eq!(value("a=\"3\""), Ok(json!("3")));
        assert_eq!(value("a=two words"), Ok(json!("two words")));
        assert_eq!(value("a=b=c"), Ok(json!("b=c")));
        assert_eq!(value("a="), Ok(json!("")));
        assert!(value("=1").is_err() && value("a").is_err());
    }
}
