//! Anthropic's Messages API: builds requests, and reads answers.

use serde_json::{Map, Value, json};

use super::answer::{PartialAnswer, number, text};
use super::error::ApiError;
use super::message::{Message, ToolCall};
use super::request::{ModelRequest, ToolDefinition, ToolSelection};

/// The supported version of the API, sent as a header.
pub const VERSION: &str = "2023-06-01";

/// Builds the body of a request.
pub fn request(request: &ModelRequest<'_>) -> Value {
    let mut body = json!({
        "model": request.model,
        "max_tokens": request.max_tokens,
        "stream": true,
        "messages": request.messages.iter().filter_map(message).collect::<Vec<Value>>(),
    });
    if let Some(system) = request.system.filter(|system| !system.trim().is_empty()) {
        body["system"] = system.into();
    }
    if let Some(temperature) = request.temperature {
        body["temperature"] = temperature.into();
    }
    if !request.tools.is_empty() {
        let tool = |tool: &&ToolDefinition| json!({ "name": tool.name, "description": tool.description, "input_schema": tool.schema });
        body["tools"] = request.tools.iter().map(tool).collect();
        let mut choice = match request.selection {
            ToolSelection::Auto => json!({ "type": "auto" }),
            ToolSelection::None => json!({ "type": "none" }),
            ToolSelection::Required => json!({ "type": "any" }),
            ToolSelection::Tool(name) => json!({ "type": "tool", "name": name }),
        };
        if !request.parallel_tool_calls && choice["type"] != "none" {
            choice["disable_parallel_tool_use"] = true.into();
        }
        body["tool_choice"] = choice;
    }
    body
}

/// Converts a message. `None` for an empty answer, because the API rejects empty texts.
fn message(message: &Message) -> Option<Value> {
    Some(match message {
        Message::User { text } => json!({ "role": "user", "content": text }),
        Message::Assistant { text, tool_calls } => {
            let text = Some(text).filter(|text| !text.trim().is_empty());
            let mut blocks: Vec<Value> =
                text.map(|text| json!({ "type": "text", "text": text })).into_iter().collect();
            blocks.extend(tool_calls.iter().map(tool_use));
            if blocks.is_empty() {
                return None;
            }
            json!({ "role": "assistant", "content": blocks })
        }
        Message::Tools { results } => {
            let result = |result: &super::message::ToolResult| {
                let mut block =
                    json!({ "type": "tool_result", "tool_use_id": result.id, "content": result.content });
                if result.is_error {
                    block["is_error"] = true.into();
                }
                block
            };
            json!({ "role": "user", "content": results.iter().map(result).collect::<Vec<Value>>() })
        }
    })
}

/// Converts a call. Arguments that are not an object were reported to the model as an error; here they become an empty object.
fn tool_use(call: &ToolCall) -> Value {
    let input = call.input().unwrap_or_else(|_| Map::new());
    json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": input })
}

/// Applies an event of a stream and returns the text that it adds.
///
/// # Errors
/// The API reported an error, or the event is malformed.
pub fn event(partial: &mut PartialAnswer, data: &str) -> Result<Option<String>, ApiError> {
    let event: Value = serde_json::from_str(data).map_err(|error| ApiError::Malformed(error.to_string()))?;
    let index = number(&event, "/index").unwrap_or(0);
    match text(&event, "/type") {
        "message_start" => {
            apply_model(partial, &event["message"]);
            apply_usage(partial, &event["message"]["usage"]);
        }
        "content_block_start" => return block(partial, index, &event["content_block"]),
        "content_block_delta" => match text(&event, "/delta/type") {
            "text_delta" => return Ok(append_text(partial, text(&event, "/delta/text"))),
            "thinking_delta" => partial.thinking.push_str(text(&event, "/delta/thinking")),
            "input_json_delta" => partial.arguments(index, text(&event, "/delta/partial_json")),
            _ => {}
        },
        "message_delta" => {
            apply_finish(partial, &event["delta"]);
            apply_usage(partial, &event["usage"]);
        }
        "message_stop" => partial.ended = true,
        "error" => return Err(ApiError::reported(&event["error"])),
        // `ping`, the end of a block, and unknown events.
        _ => {}
    }
    Ok(None)
}

/// Applies an answer that was not streamed and returns its text.
///
/// # Errors
/// The answer is malformed.
pub fn whole(partial: &mut PartialAnswer, message: &Value) -> Result<Option<String>, ApiError> {
    let Some(blocks) = message["content"].as_array() else {
        return Err(ApiError::Malformed("the answer has no content".to_string()));
    };
    apply_model(partial, message);
    apply_finish(partial, message);
    apply_usage(partial, &message["usage"]);
    for (index, content) in blocks.iter().enumerate() {
        let index = index as u64;
        block(partial, index, content)?;
        if content["input"].is_object() {
            partial.arguments(index, &content["input"].to_string());
        }
        partial.thinking.push_str(text(content, "/thinking"));
    }
    partial.ended = true;
    Ok(Some(partial.text.clone()).filter(|text| !text.is_empty()))
}

/// Applies the start of a content block.
fn block(partial: &mut PartialAnswer, index: u64, block: &Value) -> Result<Option<String>, ApiError> {
    match text(block, "/type") {
        "text" => {
            let mut piece = text(block, "/text").to_string();
            // For example, another text after a tool that the API ran itself.
            if !partial.text.is_empty() && !partial.text.ends_with('\n') {
                piece.insert(0, '\n');
            }
            Ok(append_text(partial, &piece))
        }
        "tool_use" => partial.call(index, text(block, "/id"), text(block, "/name")).map(|()| None),
        _ => Ok(None),
    }
}

fn append_text(partial: &mut PartialAnswer, piece: &str) -> Option<String> {
    partial.text.push_str(piece);
    Some(piece.to_string()).filter(|piece| !piece.is_empty())
}

fn apply_model(partial: &mut PartialAnswer, message: &Value) {
    partial.model = message["model"].as_str().map(str::to_string).or(partial.model.take());
}

fn apply_finish(partial: &mut PartialAnswer, delta: &Value) {
    let reason = match delta["stop_reason"].as_str() {
        None => return,
        Some("end_turn" | "stop_sequence") => "stop",
        Some("tool_use") => "tool_calls",
        Some("max_tokens" | "model_context_window_exceeded") => super::answer::LENGTH,
        Some("refusal") => "content_filter",
        Some(other) => other,
    };
    partial.finish = Some(reason.to_string());
}

/// Updates the token counts. They are sent at the beginning and at the end; the last ones count.
fn apply_usage(partial: &mut PartialAnswer, usage: &Value) {
    if let Some(input) = number(usage, "/input_tokens") {
        let cached = ["/cache_creation_input_tokens", "/cache_read_input_tokens"];
        let cached: u64 = cached.iter().filter_map(|part| number(usage, part)).fold(0, u64::saturating_add);
        partial.usage.prompt = input.saturating_add(cached);
    }
    if let Some(output) = number(usage, "/output_tokens") {
        partial.usage.completion = output;
    }
}

#[cfg(test)]
mod tests {
    use super::super::answer::Usage;
    use super::super::message::ToolResult;
    use super::*;

    fn fold(events: &[Value]) -> Result<(Vec<String>, super::super::answer::Answer), ApiError> {
        let mut partial = PartialAnswer::default();
        let mut pieces = Vec::new();
        for data in events {
            pieces.extend(event(&mut partial, &data.to_string())?);
        }
        Ok((pieces, partial.finish()?))
    }

    fn start() -> Value {
        json!({ "type": "message_start", "message": { "model": "m-1", "usage": { "input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 1 } } })
    }

    fn delta(index: u64, delta: Value) -> Value {
        json!({ "type": "content_block_delta", "index": index, "delta": delta })
    }

    #[test]
    fn stream_is_assembled_into_answer() {
        let (pieces, answer) = fold(&[
            start(),
            json!({ "type": "ping" }),
            json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "thinking", "thinking": "" } }),
            delta(0, json!({ "type": "thinking_delta", "thinking": "hm" })),
            json!({ "type": "content_block_start", "index": 1, "content_block": { "type": "text", "text": "" } }),
            delta(1, json!({ "type": "text_delta", "text": "Hel" })),
            delta(1, json!({ "type": "text_delta", "text": "lo" })),
            json!({ "type": "content_block_start", "index": 2, "content_block": { "type": "tool_use", "id": "t1", "name": "b_run", "input": {} } }),
            delta(2, json!({ "type": "input_json_delta", "partial_json": "{\"command\":" })),
            delta(2, json!({ "type": "input_json_delta", "partial_json": "\"ls\"}" })),
            json!({ "type": "something_new" }),
            json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" }, "usage": { "output_tokens": 9 } }),
            json!({ "type": "message_stop" }),
        ])
        .unwrap();
        assert_eq!(pieces, ["Hel", "lo"]);
        assert_eq!(
            (answer.text.as_str(), answer.thinking.as_str(), answer.finish.as_str()),
            ("Hello", "hm", "tool_calls")
        );
        assert_eq!(answer.tool_calls[0].input().unwrap()["command"], "ls");
        assert_eq!(answer.usage, Usage { prompt: 7, completion: 9 });
        assert_eq!(answer.model.as_deref(), Some("m-1"));
    }

    #[test]
    fn incomplete_stream_is_an_error() {
        let partial = delta(0, json!({ "type": "text_delta", "text": "Hel" }));
        assert!(matches!(fold(&[start(), partial]), Err(ApiError::ClosedEarly)));
        assert!(matches!(event(&mut PartialAnswer::default(), "{\"type\": "), Err(ApiError::Malformed(_))));
        let error =
            json!({ "type": "error", "error": { "type": "overloaded_error", "message": "Overloaded" } });
        assert!(matches!(fold(&[error]), Err(ApiError::Reported { kind, .. }) if kind == "overloaded_error"));
    }

    #[test]
    fn conversation_is_converted_to_request() {
        let call = ToolCall { id: "t1".into(), name: "b_run".into(), arguments: "no json".into() };
        let result = ToolResult { id: "t1".into(), content: "bad".into(), is_error: true };
        let messages = [
            Message::User { text: "q".into() },
            Message::Assistant { text: " ".into(), tool_calls: vec![call] },
            Message::Tools { results: vec![result] },
            Message::Assistant { text: String::new(), tool_calls: Vec::new() },
        ];
        let body = request(&ModelRequest {
            system: Some("be brief"),
            temperature: Some(0.5),
            ..ModelRequest::sample(&messages, &ToolSelection::Auto)
        });
        assert_eq!(
            body,
            json!({
                "model": "m", "max_tokens": 4096, "stream": true, "system": "be brief", "temperature": 0.5,
                "messages": [
                    { "role": "user", "content": "q" },
                    { "role": "assistant", "content": [{ "type": "tool_use", "id": "t1", "name": "b_run", "input": {} }] },
                    { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "t1", "content": "bad", "is_error": true }] },
                ],
            })
        );
    }

    #[test]
    fn tool_choices_are_converted() {
        let tool = ToolDefinition::sample();
        let of = |selection| {
            let sample = ModelRequest::sample(&[], &selection);
            let body = request(&ModelRequest { parallel_tool_calls: false, tools: vec![&tool], ..sample });
            body["tool_choice"].clone()
        };
        assert_eq!(of(ToolSelection::Auto), json!({ "type": "auto", "disable_parallel_tool_use": true }));
        assert_eq!(of(ToolSelection::None), json!({ "type": "none" }));
        assert_eq!(of(ToolSelection::Required)["type"], "any");
        assert_eq!(of(ToolSelection::Tool("b_run".into()))["name"], "b_run");
    }

    #[test]
    fn unstreamed_answer_is_read() {
        let message = json!({
            "model": "m", "stop_reason": "max_tokens", "usage": { "input_tokens": 1, "output_tokens": 2 },
            "content": [{ "type": "text", "text": "hi" }, { "type": "tool_use", "id": "t", "name": "n", "input": { "a": 1 } }],
        });
        let mut partial = PartialAnswer::default();
        assert_eq!(whole(&mut partial, &message).unwrap().as_deref(), Some("hi"));
        let answer = partial.finish().unwrap();
        assert_eq!(
            (answer.finish.as_str(), answer.tool_calls[0].input().unwrap()["a"].clone()),
            ("length", json!(1))
        );
        assert!(whole(&mut PartialAnswer::default(), &json!({ "hello": 1 })).is_err());
    }
}
