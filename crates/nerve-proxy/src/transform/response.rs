//! Translates answers that are not streamed.

use http::StatusCode;
use serde_json::{Value, json};

use super::{ResponsePlan, error, ids, response_fields};
use crate::api_error::ApiError;

/// Translates a completion to a message.
///
/// # Errors
/// 502 if it is not a completion, or if the arguments of a tool call are not a JSON object.
pub fn translate_response(completion: &Value, plan: &ResponsePlan) -> Result<Value, ApiError> {
    if !completion["error"].is_null() {
        return Err(error::api_error(StatusCode::BAD_GATEWAY, completion));
    }
    let choice = &completion["choices"][0];
    let message = &choice["message"];
    if !message.is_object() {
        return Err(ApiError::bad_gateway(
            "the upstream's answer has no message: does it speak Chat Completions?",
        ));
    }
    let finish = choice["finish_reason"].as_str();
    let id = response_fields::message_id(&completion["id"]);
    let mut content = Vec::new();
    let thinking = response_fields::thinking(message);
    if !thinking.is_empty() {
        content.push(json!({ "type": "thinking", "thinking": thinking, "signature": "" }));
    }
    let text = response_fields::visible_text(message);
    if !text.is_empty() {
        content.push(json!({ "type": "text", "text": text }));
    }
    let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (at, call) in calls.iter().enumerate() {
        match translate_tool_use(call, plan, &format!("{id}_{at}")) {
            Ok(block) => content.push(block),
            // The output was cut inside the call: drop it.
            Err(_) if finish == Some("length") => {}
            Err(error) => return Err(error),
        }
    }
    let (stop_reason, stop_sequence) =
        response_fields::stop_reason(plan, finish, !calls.is_empty(), &choice["stop_reason"]);
    let mut tokens = response_fields::Tokens::default();
    tokens.update(&completion["usage"]);
    Ok(json!({
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": completion["model"].as_str().unwrap_or(&plan.model),
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": stop_sequence,
        "usage": tokens.to_json(),
    }))
}

fn translate_tool_use(call: &Value, plan: &ResponsePlan, fallback: &str) -> Result<Value, ApiError> {
    let function = &call["function"];
    let name = plan.names.to_anthropic(function["name"].as_str().unwrap_or_default());
    let input = match &function["arguments"] {
        // Ollama sends an object.
        Value::Object(arguments) => Value::Object(arguments.clone()),
        arguments => match arguments.as_str().unwrap_or_default().trim() {
            "" => json!({}),
            text => serde_json::from_str(text).unwrap_or_default(),
        },
    };
    if !input.is_object() || name.is_empty() {
        let message = format!("invalid call of the tool '{name}': its arguments are not a JSON object");
        return Err(ApiError::bad_gateway(message));
    }
    let id = ids::to_anthropic(call["id"].as_str().unwrap_or_default(), fallback);
    Ok(json!({ "type": "tool_use", "id": id, "name": name, "input": input }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completion(message: Value, finish: &str) -> Value {
        json!({
            "id": "chatcmpl-1", "model": "gpt-x", "choices": [{ "index": 0, "message": message, "finish_reason": finish }],
            "usage": { "prompt_tokens": 7, "completion_tokens": 9, "total_tokens": 16 },
        })
    }

    #[test]
    fn text_is_translated() {
        let message = translate_response(
            &completion(json!({ "role": "assistant", "content": "hi" }), "stop"),
            &ResponsePlan::default(),
        );
        assert_eq!(
            message.unwrap(),
            json!({
                "id": "msg_chatcmpl-1", "type": "message", "role": "assistant", "model": "gpt-x",
                "content": [{ "type": "text", "text": "hi" }], "stop_reason": "end_turn", "stop_sequence": null,
                "usage": { "input_tokens": 7, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 9 },
            })
        );
    }

    #[test]
    fn thinking_text_and_calls_keep_order() {
        let call = |id: &str, arguments: Value| json!({ "id": id, "type": "function", "function": { "name": "Bash", "arguments": arguments } });
        let said = json!({
            "content": "let me look", "reasoning_content": "hm",
            "tool_calls": [call("c1", json!("{\"command\":\"ls\"}")), call("f.b:1", json!("")), call("", json!({ "a": 1 }))],
        });
        let message = translate_response(&completion(said, "tool_calls"), &ResponsePlan::default()).unwrap();
        assert_eq!(
            message["content"],
            json!([
                { "type": "thinking", "thinking": "hm", "signature": "" },
                { "type": "text", "text": "let me look" },
                { "type": "tool_use", "id": "toolu_oai_c1", "name": "Bash", "input": { "command": "ls" } },
                { "type": "tool_use", "id": "toolu_hex_662e623a31", "name": "Bash", "input": {} },
                { "type": "tool_use", "id": "toolu_gen_msg_chatcmpl-1_2", "name": "Bash", "input": { "a": 1 } },
            ])
        );
        assert_eq!(message["stop_reason"], "tool_use");
    }

    #[test]
    fn invalid_answers_are_rejected() {
        let half = json!({ "content": "x", "tool_calls": [{ "id": "c", "function": { "name": "n", "arguments": "{\"a\":" } }] });
        let of = |value: &Value| translate_response(value, &ResponsePlan::default());
        assert_eq!(of(&completion(half.clone(), "stop")).unwrap_err().status, 502);
        let cut = of(&completion(half, "length")).unwrap();
        assert_eq!(
            (cut["content"].as_array().unwrap().len(), cut["stop_reason"].as_str()),
            (1, Some("max_tokens"))
        );
        assert!(of(&json!({ "hello": 1 })).is_err());
        assert!(of(&json!({ "error": { "message": "sorry" } })).unwrap_err().message.contains("sorry"));
    }
}
