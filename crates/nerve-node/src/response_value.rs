//! A finished turn as the reply to EXECUTE_INPUT and as the result of a graph step. Both contain the current field names (`sections`,
//! `is_ready` …) and those of nerve's first version (`success`, `output`, `attributes.sections` …).

use std::collections::BTreeMap;

use nerve_api::reply::{Turn, TurnResponse};
use nerve_api::value::ResponseSource;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::command::Response;
use crate::turn_failure::TurnFailure;

impl From<Response> for Turn {
    fn from(turn: Response) -> Turn {
        let (failure, interrupted) = (turn.failure(), turn.is_interrupted());
        let success = failure.is_none();
        let (error, error_type, hint) = match failure {
            Some(TurnFailure { kind, message, hint }) => (Some(message), Some(kind), hint),
            None => (None, None, None),
        };
        let mut attributes = string_map(turn.attributes);
        if let Some(code) = attributes.get("exit_code").and_then(|code| code.as_str()?.parse::<i64>().ok()) {
            attributes.insert("exit_code".to_string(), Value::from(code));
        }
        if turn.source == ResponseSource::Api {
            parse_structured_attributes(&mut attributes);
        }
        attributes.insert("sections".to_string(), to_json(&turn.sections));
        attributes.insert("tokens".to_string(), to_json(&turn.tokens));
        attributes.insert("ended_by".to_string(), Value::from(turn.ended_by));
        attributes.insert("bytes".to_string(), json!([turn.bytes.0, turn.bytes.1]));
        attributes.insert("started_at".to_string(), Value::from(turn.time.0.seconds()));
        attributes.insert("ended_at".to_string(), Value::from(turn.time.1.seconds()));
        let response = TurnResponse {
            raw: turn.raw,
            text: turn.text.clone(),
            sections: turn.sections,
            tokens: turn.tokens,
            usage: turn.usage,
            is_complete: turn.is_complete,
            is_ready: turn.is_ready,
            source: turn.source,
            delivery: turn.delivery,
            interrupted,
            success,
            error,
            error_type,
            hint,
            output: turn.text,
            attributes,
        };
        Turn { response, node_id: turn.node, turn: turn.turn }
    }
}

impl Response {
    /// Converts the response into the result of a graph step: one object, with `success: false` if the turn ended in a failure.
    pub fn into_value(self) -> Value {
        let Turn { response, node_id, turn } = Turn::from(self);
        let mut value = to_json(&response);
        value["node_id"] = Value::from(node_id);
        value["turn"] = Value::from(turn);
        value
    }
}

/// Replies contain only strings, numbers, lists and maps with string keys, so this cannot fail.
fn to_json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
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
