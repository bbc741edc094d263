//! A finished turn as a JSON value: the result of a graph step and the reply to EXECUTE_INPUT. The object serves readers of the
//! original field names (`sections`, `is_ready` …) and of nerve's first version (`success`, `output`, `attributes.sections` …).

use std::collections::BTreeMap;

use nerve_agent::parse::{Section, SectionKind, Tokens};
use nerve_api::value::ResponseSource;
use serde_json::{Map, Value, json};

use crate::command::Response;
use crate::error::ErrorKind;
use crate::proxy::TurnUsage;

impl Response {
    /// Converts the response into one object, with `success: false` if the turn ended in a failure.
    pub fn into_value(self) -> Value {
        let failure = self.failure();
        let sections: Vec<Value> = self.sections.into_iter().map(section).collect();
        let tokens = self.tokens.map(tokens).unwrap_or_default();
        let usage = self.usage.map(TurnUsage::to_value);
        let mut attributes = string_map(self.attributes);
        if let Some(code) = attributes.get("exit_code").and_then(|code| code.as_str()?.parse::<i64>().ok()) {
            attributes.insert("exit_code".to_string(), Value::from(code));
        }
        if self.source == ResponseSource::Api {
            parse_structured_attributes(&mut attributes);
        }
        attributes.insert("sections".to_string(), Value::Array(sections.clone()));
        attributes.insert("tokens".to_string(), tokens.clone());
        attributes.insert("ended_by".to_string(), Value::from(self.ended_by));
        attributes.insert("bytes".to_string(), json!([self.bytes.0, self.bytes.1]));
        attributes.insert("started_at".to_string(), Value::from(self.time.0.seconds()));
        attributes.insert("ended_at".to_string(), Value::from(self.time.1.seconds()));
        let (error, error_type) = failure.unzip();
        let mut value = Map::new();
        let mut add = |key: &str, field: Value| drop(value.insert(key.to_string(), field));
        add("raw", Value::from(self.raw));
        add("text", Value::from(self.text.clone()));
        add("sections", Value::Array(sections));
        add("tokens", tokens);
        if let Some(usage) = usage {
            add("usage", usage);
        }
        add("is_complete", Value::from(self.is_complete));
        add("is_ready", Value::from(self.is_ready));
        add("source", Value::from(self.source.as_str()));
        add("delivery", Value::from(self.delivery.as_str()));
        add("success", Value::from(error.is_none()));
        add("error", error.map_or(Value::Null, Value::from));
        add("error_type", error_type.map_or(Value::Null, |kind| Value::from(kind.as_str())));
        add("output", Value::from(self.text));
        add("attributes", Value::Object(attributes));
        add("node_id", Value::from(self.node));
        add("turn", Value::from(self.turn));
        Value::Object(value)
    }

    /// Returns true if the turn is complete, was not interrupted and did not fail.
    pub fn succeeded(&self) -> bool {
        let interrupted = self.attributes.get("interrupted").is_some_and(|interrupted| interrupted == "true");
        self.is_complete && !interrupted && self.failure().is_none()
    }

    /// Returns why an ended turn counts as failed: a command exited with a code other than 0, or an agent has only errors to show.
    pub(crate) fn failure(&self) -> Option<(String, ErrorKind)> {
        if let Some(code) = self.attributes.get("exit_code").filter(|code| *code != "0") {
            return Some((format!("the command ended with exit code {code}"), ErrorKind::Process));
        }
        let of = |kind| self.sections.iter().find(move |section| section.kind == kind);
        match (of(SectionKind::Error), of(SectionKind::Text)) {
            (Some(error), None) => Some((error.content.clone(), ErrorKind::Api)),
            _ => None,
        }
    }
}

fn section(section: Section) -> Value {
    let Section { kind, content, metadata } = section;
    json!({ "type": kind.as_str(), "content": content, "metadata": string_map(metadata) })
}

/// Returns only known counts: an absent count is not zero.
fn tokens(tokens: Tokens) -> Value {
    let Tokens { input, output, total } = tokens;
    let known = [("input", input), ("output", output), ("total", total)];
    known.into_iter().filter_map(|(name, count)| Some((name.to_string(), Value::from(count?)))).collect()
}

fn string_map(values: BTreeMap<String, String>) -> Map<String, Value> {
    values.into_iter().map(|(key, value)| (key, Value::from(value))).collect()
}

/// Replaces texts of a chat node's attributes with the numbers and lists that they contain.
fn parse_structured_attributes(attributes: &mut Map<String, Value>) {
    for name in ["api_calls", "retries", "tool_calls", "usage"] {
        let parsed = attributes.get(name).and_then(|text| serde_json::from_str(text.as_str()?).ok());
        if let Some(parsed) = parsed {
            attributes.insert(name.to_string(), parsed);
        }
    }
}
