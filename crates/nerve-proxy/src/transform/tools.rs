//! Translates tools and the choice between them.

use serde_json::{Value, json};

use super::names;
use crate::api_error::ApiError;

/// Translates the tools of a request.
pub(super) fn translate(body: &Value) -> Result<Vec<Value>, ApiError> {
    let tools = body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    tools.iter().enumerate().map(|(at, offered)| translate_tool(offered, at)).collect()
}

fn translate_tool(tool: &Value, at: usize) -> Result<Value, ApiError> {
    let name = tool["name"].as_str().unwrap_or_default();
    if !tool["input_schema"].is_object() {
        let kind: String = tool["type"].as_str().unwrap_or("?").chars().take(60).collect();
        return Err(ApiError::bad_request(format!(
            "tools[{at}]: '{kind}' runs on Anthropic's own servers, which this proxy does not use"
        )));
    }
    let mut function = json!({ "name": names::to_openai(name), "parameters": tool["input_schema"] });
    for member in ["description", "strict"] {
        if !tool[member].is_null() {
            function[member] = tool[member].clone();
        }
    }
    Ok(json!({ "type": "function", "function": function }))
}

/// Translates `tool_choice`; `None` if it is not set.
pub(super) fn translate_choice(body: &Value) -> Result<Option<Value>, ApiError> {
    let choice = &body["tool_choice"];
    Ok(match choice["type"].as_str() {
        None => None,
        Some("auto") => Some("auto".into()),
        Some("any") => Some("required".into()),
        Some("none") => Some("none".into()),
        Some("tool") => {
            let name = names::to_openai(choice["name"].as_str().unwrap_or_default());
            Some(json!({ "type": "function", "function": { "name": name } }))
        }
        Some(_) => return Err(ApiError::bad_request("tool_choice.type: must be auto, any, tool or none")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_choice_is_translated() {
        let of =
            |value: Value| translate_choice(&json!({ "tool_choice": value })).map(Option::unwrap_or_default);
        let cases = [
            (json!(null), json!(null)),
            (json!({ "type": "auto", "disable_parallel_tool_use": true }), json!("auto")),
            (json!({ "type": "any" }), json!("required")),
            (json!({ "type": "none" }), json!("none")),
            (
                json!({ "type": "tool", "name": "Bash" }),
                json!({ "type": "function", "function": { "name": "Bash" } }),
            ),
        ];
        for (asked, expected) in cases {
            assert_eq!(of(asked), Ok(expected));
        }
        assert!(of(json!({ "type": "maybe" })).is_err());
    }

    #[test]
    fn tools_keep_shared_fields() {
        let schema = json!({ "type": "object", "properties": { "b": {}, "a": {} } });
        let body = json!({ "tools": [
            { "name": "Bash", "description": "runs", "input_schema": schema, "cache_control": { "type": "ephemeral" } },
            { "type": "custom", "name": "n", "input_schema": {}, "strict": true },
        ] });
        assert_eq!(
            translate(&body).unwrap(),
            [
                json!({ "type": "function", "function": { "name": "Bash", "description": "runs", "parameters": schema } }),
                json!({ "type": "function", "function": { "name": "n", "parameters": {}, "strict": true } }),
            ]
        );
        let error = translate(&json!({ "tools": [{ "type": "web_search_20250305", "name": "web_search" }] }))
            .unwrap_err();
        assert!(error.message.contains("tools[0]: 'web_search_20250305'"), "{error:?}");
    }
}
