//! A finished turn as a value: what a step of a graph gives, and what EXECUTE_INPUT answers (facts: the wire). One object serves
//! readers of the seeds (`sections`, `is_ready` …) and of the first nerve (`success`, `output`, `attributes.sections` …).

use std::collections::BTreeMap;

use nerve_term::event::TsNs;
use nerve_term::parse::{Section, SectionKind, Tokens};
use serde_json::{Map, Value, json};

use crate::command::Response;
use crate::error::ErrorKind;
use crate::proxy::TurnUsage;

impl Response {
    /// As one object, `success: false` if the turn ended and did not do what it was asked.
    pub fn into_value(self) -> Value {
        let failure = self.failure();
        let sections: Vec<Value> = self.sections.into_iter().map(section).collect();
        let tokens = self.tokens.map(tokens).unwrap_or_default();
        let usage = self.usage.map(TurnUsage::to_value);
        let mut attributes = facts(self.attributes);
        if let Some(code) = attributes.get("exit_code").and_then(|code| code.as_str()?.parse::<i64>().ok()) {
            attributes.insert("exit_code".to_string(), Value::from(code));
        }
        if self.source == "api" {
            numbers_and_lists(&mut attributes);
        }
        attributes.insert("sections".to_string(), Value::Array(sections.clone()));
        attributes.insert("tokens".to_string(), tokens.clone());
        attributes.insert("ended_by".to_string(), Value::from(self.ended_by));
        attributes.insert("bytes".to_string(), json!([self.bytes.0, self.bytes.1]));
        attributes.insert("started_at".to_string(), Value::from(seconds(self.time.0)));
        attributes.insert("ended_at".to_string(), Value::from(seconds(self.time.1)));
        let (error, error_type) = failure.unzip();
        let mut value = Map::new();
        let mut add = |key: &str, fact: Value| drop(value.insert(key.to_string(), fact));
        add("raw", Value::from(self.raw));
        add("text", Value::from(self.text.clone()));
        add("sections", Value::Array(sections));
        add("tokens", tokens);
        if let Some(usage) = usage {
            add("usage", usage);
        }
        add("is_complete", Value::from(self.is_complete));
        add("is_ready", Value::from(self.is_ready));
        add("source", Value::from(self.source));
        add("delivery", Value::from(self.delivery));
        add("success", Value::from(error.is_none()));
        add("error", error.map_or(Value::Null, Value::from));
        add("error_type", error_type.map_or(Value::Null, |kind| Value::from(kind.as_str())));
        add("output", Value::from(self.text));
        add("attributes", Value::Object(attributes));
        add("node_id", Value::from(self.node));
        add("turn", Value::from(self.turn));
        Value::Object(value)
    }

    /// The turn came to its end, and the node did what it was asked.
    pub(crate) fn succeeded(&self) -> bool {
        let interrupted = self.attributes.get("interrupted").is_some_and(|interrupted| interrupted == "true");
        self.is_complete && !interrupted && self.failure().is_none()
    }

    /// A turn that ended and did not do what it was asked: a command with another exit code than 0, or an agent that has nothing
    /// but errors to show.
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
    json!({ "type": kind.as_str(), "content": content, "metadata": facts(metadata) })
}

/// Only what is known: absent is not zero.
fn tokens(tokens: Tokens) -> Value {
    let Tokens { input, output, total } = tokens;
    let known = [("input", input), ("output", output), ("total", total)];
    known.into_iter().filter_map(|(name, count)| Some((name.to_string(), Value::from(count?)))).collect()
}

fn facts(facts: BTreeMap<String, String>) -> Map<String, Value> {
    facts.into_iter().map(|(key, fact)| (key, Value::from(fact))).collect()
}

/// What a chat node says of a turn in more than words.
fn numbers_and_lists(attributes: &mut Map<String, Value>) {
    for name in ["api_calls", "retries", "tool_calls", "usage"] {
        let fact = attributes.get(name).and_then(|fact| serde_json::from_str(fact.as_str()?).ok());
        if let Some(fact) = fact {
            attributes.insert(name.to_string(), fact);
        }
    }
}

fn seconds(time: TsNs) -> f64 {
    // Exact to well under a microsecond until the year 2100.
    time.0 as f64 / 1e9
}
