//! Reads a request for an answer. Errors name the parameter.

use http::HeaderValue;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::error::ApiError;
use super::types::{ChatMessage, ChatRequest};
use crate::http::query::short;

/// Maximum number of messages.
const MAX_MESSAGES: usize = 10_000;
/// Maximum number of ignored parameters that a response names.
const MAX_IGNORED: usize = 32;

/// A parameter that an agent in a terminal cannot follow, unless its value says the same as its absence.
struct Unsupported {
    name: &'static str,
    /// Returns true for values that change nothing.
    is_default: fn(&Value) -> bool,
    reason: &'static str,
}

const TOOLS: &str = "the agent uses its own tools, and cannot call those of the client";

/// Parameters whose effect a client relies on.
const UNSUPPORTED: [Unsupported; 12] = [
    Unsupported { name: "tools", is_default: is_empty, reason: TOOLS },
    Unsupported { name: "functions", is_default: is_empty, reason: TOOLS },
    Unsupported { name: "tool_choice", is_default: is_free_choice, reason: TOOLS },
    Unsupported { name: "function_call", is_default: is_free_choice, reason: TOOLS },
    Unsupported { name: "n", is_default: |value| *value == 1, reason: "a turn has one answer" },
    Unsupported { name: "audio", is_default: is_empty, reason: "answers are text" },
    Unsupported {
        name: "modalities",
        is_default: |value| *value == json!(["text"]),
        reason: "answers are text",
    },
    Unsupported { name: "logprobs", is_default: |value| *value == false, reason: "agents do not show them" },
    Unsupported { name: "top_logprobs", is_default: |value| *value == 0, reason: "agents do not show them" },
    Unsupported { name: "logit_bias", is_default: is_empty, reason: "agents do not take it" },
    Unsupported { name: "response_format", is_default: is_text, reason: "agents do not guarantee a format" },
    Unsupported { name: "stop", is_default: is_empty, reason: "an answer ends where the agent ends it" },
];

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

fn is_free_choice(value: &Value) -> bool {
    *value == "auto" || *value == "none"
}

fn is_text(value: &Value) -> bool {
    value["type"] == "text"
}

impl ChatRequest {
    /// Reads the body of a request.
    ///
    /// # Errors
    /// A parameter is missing, has the wrong type, or is not supported.
    pub(super) fn read(body: &[u8]) -> Result<ChatRequest, ApiError> {
        let mut fields: Map<String, Value> = serde_json::from_slice(body).map_err(|error| {
            let message = format!("the body is not a JSON object: {}", short(&error.to_string()));
            ApiError::invalid("body", message)
        })?;
        let model: String = required(&mut fields, "model")?;
        let list: Vec<Value> = required(&mut fields, "messages")?;
        if list.len() > MAX_MESSAGES {
            return Err(ApiError::invalid("messages", format!("more than {MAX_MESSAGES} messages")));
        }
        let message = |(at, message): (usize, Value)| {
            let param = format!("messages[{at}]");
            serde_json::from_value(message).map_err(|error| wrong_type(&param, &error))
        };
        let messages: Vec<ChatMessage> =
            list.into_iter().enumerate().map(message).collect::<Result<_, _>>()?;
        let stream = take(&mut fields, "stream")?.unwrap_or_default();
        let stream_options = take(&mut fields, "stream_options")?.unwrap_or_default();
        for Unsupported { name, is_default, reason } in UNSUPPORTED {
            if fields.shift_remove(name).is_some_and(|value| !value.is_null() && !is_default(&value)) {
                return Err(ApiError::unsupported(name, format!("{name} is not supported: {reason}")));
            }
        }
        Ok(ChatRequest { model, messages, stream, stream_options, others: fields })
    }

    /// Returns the names of the parameters that have no effect, for a header; `None` if there are none.
    pub(super) fn ignored(&self) -> Option<HeaderValue> {
        let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let given = self.others.iter().filter(|(name, value)| !value.is_null() && is_name(name));
        let names: Vec<&str> = given.map(|(name, _)| name.as_str()).take(MAX_IGNORED).collect();
        (!names.is_empty()).then(|| HeaderValue::from_str(&names.join(",")).ok()).flatten()
    }
}

fn required<T: DeserializeOwned>(fields: &mut Map<String, Value>, name: &str) -> Result<T, ApiError> {
    take(fields, name)?.ok_or_else(|| ApiError::invalid(name, format!("{name} is missing")))
}

fn take<T: DeserializeOwned>(fields: &mut Map<String, Value>, name: &str) -> Result<Option<T>, ApiError> {
    match fields.shift_remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => serde_json::from_value(value).map(Some).map_err(|error| wrong_type(name, &error)),
    }
}

fn wrong_type(param: &str, error: &serde_json::Error) -> ApiError {
    ApiError::invalid(param, format!("{param}: {}", short(&error.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn param(body: Value) -> Value {
        let error = ChatRequest::read(body.to_string().as_bytes()).unwrap_err();
        serde_json::from_slice::<Value>(&error.body()).unwrap()["error"]["param"].take()
    }

    fn request(name: &str, value: Value) -> Value {
        json!({ "model": "me", "messages": [{ "role": "user", "content": "hi" }], name: value })
    }

    #[test]
    fn error_names_the_parameter() {
        for (body, name) in [
            (json!([]), "body"),
            (json!({ "messages": [] }), "model"),
            (json!({ "model": 7, "messages": [] }), "model"),
            (json!({ "model": "me" }), "messages"),
            (json!({ "model": "me", "messages": ["hi"] }), "messages[0]"),
            (json!({ "model": "me", "messages": [{ "role": "robot", "content": "hi" }] }), "messages[0]"),
            (request("stream", json!("yes")), "stream"),
            (request("stream_options", json!(7)), "stream_options"),
        ] {
            assert_eq!(param(body.clone()), name, "{body}");
        }
    }

    #[test]
    fn parameters_without_effect_are_accepted_and_others_refused() {
        let tool = json!([{ "type": "function", "function": { "name": "f" } }]);
        for (name, default, other) in [
            ("tools", json!([]), tool.clone()),
            ("functions", json!([]), tool),
            ("tool_choice", json!("auto"), json!("required")),
            ("function_call", json!("none"), json!({ "name": "f" })),
            ("n", json!(1), json!(2)),
            ("audio", json!(null), json!({ "voice": "x" })),
            ("modalities", json!(["text"]), json!(["text", "audio"])),
            ("logprobs", json!(false), json!(true)),
            ("top_logprobs", json!(0), json!(3)),
            ("logit_bias", json!({}), json!({ "1": 2 })),
            ("response_format", json!({ "type": "text" }), json!({ "type": "json_object" })),
            ("stop", json!([]), json!("END")),
        ] {
            let read = ChatRequest::read(request(name, default).to_string().as_bytes()).unwrap();
            assert_eq!(read.ignored(), None, "{name}");
            assert_eq!(param(request(name, other)), name);
        }
    }

    #[test]
    fn ignored_parameters_are_listed() {
        let body = json!({
            "model": "me", "messages": [], "temperature": 0.5, "max_tokens": null, "user": "x", "a b": 1,
        });
        let read = ChatRequest::read(body.to_string().as_bytes()).unwrap();
        assert_eq!(read.ignored().unwrap(), "temperature,user");
        assert!(!read.stream && !read.stream_options.include_usage);
    }
}
