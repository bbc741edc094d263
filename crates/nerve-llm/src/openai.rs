//! The Chat Completions API of OpenAI and compatible vendors: builds requests, and reads answers.

use serde_json::{Value, json};

use super::answer::{PartialAnswer, number, text};
use super::error::ApiError;
use super::message::Message;
use super::request::{ModelRequest, ToolDefinition, ToolSelection};

/// The data of the last event of a stream.
const DONE: &str = "[DONE]";

/// Builds the body of a request.
pub fn request(request: &ModelRequest<'_>) -> Value {
    let system = request.system.filter(|system| !system.trim().is_empty());
    let system = system.map(|system| json!({ "role": "system", "content": system }));
    let messages = request.messages.iter().flat_map(message);
    let mut body = json!({
        "model": request.model,
        "stream": true,
        "stream_options": { "include_usage": true },
        "messages": system.into_iter().chain(messages).collect::<Vec<Value>>(),
    });
    // OpenAI's newer models reject the older name, and most compatible APIs know only that.
    let limit = if request.is_openai { "max_completion_tokens" } else { "max_tokens" };
    body[limit] = request.max_tokens.into();
    if let Some(temperature) = request.temperature {
        body["temperature"] = temperature.into();
    }
    if !request.tools.is_empty() {
        let tool = |tool: &&ToolDefinition| {
            let function =
                json!({ "name": tool.name, "description": tool.description, "parameters": tool.schema });
            json!({ "type": "function", "function": function })
        };
        body["tools"] = request.tools.iter().map(tool).collect();
        body["tool_choice"] = match request.selection {
            ToolSelection::Auto => json!("auto"),
            ToolSelection::None => json!("none"),
            ToolSelection::Required => json!("required"),
            ToolSelection::Tool(name) => json!({ "type": "function", "function": { "name": name } }),
        };
        if !request.parallel_tool_calls {
            body["parallel_tool_calls"] = false.into();
        }
    }
    body
}

fn message(message: &Message) -> Vec<Value> {
    match message {
        Message::User { text } => vec![json!({ "role": "user", "content": text })],
        Message::Assistant { text, tool_calls } => {
            let mut message = json!({ "role": "assistant", "content": text });
            if !tool_calls.is_empty() {
                let call = |call: &super::message::ToolCall| {
                    let function = json!({ "name": call.name, "arguments": call.arguments });
                    json!({ "id": call.id, "type": "function", "function": function })
                };
                message["tool_calls"] = tool_calls.iter().map(call).collect();
            }
            vec![message]
        }
        // The API has no error flag, so the text begins with it.
        Message::Tools { results } => results
            .iter()
            .map(|result| {
                let error = if result.is_error { "Error: " } else { "" };
                json!({ "role": "tool", "tool_call_id": result.id, "content": format!("{error}{}", result.content) })
            })
            .collect(),
    }
}

/// Applies an event of a stream and returns the text that it adds.
///
/// # Errors
/// The API reported an error, or the event is malformed.
pub fn event(partial: &mut PartialAnswer, data: &str) -> Result<Option<String>, ApiError> {
    if data.trim() == DONE {
        partial.ended = true;
        return Ok(None);
    }
    let chunk: Value = serde_json::from_str(data).map_err(|error| ApiError::Malformed(error.to_string()))?;
    if chunk["error"].is_object() || chunk["error"].is_string() {
        return Err(ApiError::reported(&chunk["error"]));
    }
    apply_metadata(partial, &chunk);
    let piece = apply_message(partial, &chunk["choices"][0]["delta"])?;
    // Not every API sends the last event after this.
    partial.ended |= partial.finish.is_some();
    Ok(piece)
}

/// Applies an answer that was not streamed and returns its text.
///
/// # Errors
/// The answer is malformed.
pub fn whole(partial: &mut PartialAnswer, completion: &Value) -> Result<Option<String>, ApiError> {
    let message = &completion["choices"][0]["message"];
    if !message.is_object() {
        return Err(ApiError::Malformed("the answer has no message".to_string()));
    }
    apply_metadata(partial, completion);
    let piece = apply_message(partial, message)?;
    partial.ended = true;
    Ok(piece)
}

fn apply_metadata(partial: &mut PartialAnswer, chunk: &Value) {
    partial.model = chunk["model"].as_str().map(str::to_string).or(partial.model.take());
    if let Some(reason) = chunk["choices"][0]["finish_reason"].as_str() {
        partial.finish = Some(if reason == "function_call" { "tool_calls" } else { reason }.to_string());
    }
    if let Some(prompt) = number(chunk, "/usage/prompt_tokens") {
        partial.usage.prompt = prompt;
    }
    if let Some(completion) = number(chunk, "/usage/completion_tokens") {
        partial.usage.completion = completion;
    }
}

/// Applies a message or a piece of one.
fn apply_message(partial: &mut PartialAnswer, message: &Value) -> Result<Option<String>, ApiError> {
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        let (id, name) = (text(call, "/id"), text(call, "/function/name"));
        let index = number(call, "/index").unwrap_or_else(|| match partial.last_call() {
            // APIs without indices send whole calls, or continue the last one.
            Some(last) if id.is_empty() => last,
            Some(last) => last + 1,
            None => 0,
        });
        partial.call(index, id, name)?;
        partial.arguments(index, text(call, "/function/arguments"));
    }
    // Some models send their reasoning here.
    partial.thinking.push_str(text(message, "/reasoning_content"));
    let piece = format!("{}{}", text(message, "/content"), text(message, "/refusal"));
    partial.text.push_str(&piece);
    Ok(Some(piece).filter(|piece| !piece.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::super::answer::{Answer, Usage};
    use super::super::message::{ToolCall, ToolResult};
    use super::*;

    fn fold(events: &[&str]) -> Result<(Vec<String>, Answer), ApiError> {
        let mut partial = PartialAnswer::default();
        let mut pieces = Vec::new();
        for data in events {
            pieces.extend(event(&mut partial, data)?);
        }
        Ok((pieces, partial.finish()?))
    }

    #[test]
    fn stream_is_assembled_into_answer() {
        let (pieces, answer) = fold(&[
            r#"{"model": "m-1", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": null}]}"#,
            r#"{"choices": [{"delta": {"reasoning_content": "hm"}}]}"#,
            r#"{"choices": [{"delta": {"content": "Hel"}}]}"#,
            r#"{"choices": [{"delta": {"content": "lo"}}]}"#,
            r#"{"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "b_run", "arguments": ""}}]}}]}"#,
            r#"{"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "{\"command\":"}}, {"index": 1, "id": "c2", "function": {"name": "f_call", "arguments": "{}"}}]}}]}"#,
            r#"{"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "\"ls\"}"}}]}}]}"#,
            r#"{"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}"#,
            r#"{"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 9, "total_tokens": 16}}"#,
            "[DONE]",
        ])
        .unwrap();
        assert_eq!(pieces, ["Hel", "lo"]);
        assert_eq!(
            (answer.text.as_str(), answer.thinking.as_str(), answer.finish.as_str()),
            ("Hello", "hm", "tool_calls")
        );
        assert_eq!(answer.tool_calls[0].input().unwrap()["command"], "ls");
        assert_eq!((answer.tool_calls[1].id.as_str(), answer.tool_calls[1].name.as_str()), ("c2", "f_call"));
        assert_eq!(answer.usage, Usage { prompt: 7, completion: 9 });
    }

    #[test]
    fn calls_without_indices_are_separate() {
        let (_, answer) = fold(&[
            r#"{"choices": [{"delta": {"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}, {"id": "b", "function": {"name": "g", "arguments": "{}"}}]}}]}"#,
            "[DONE]",
        ])
        .unwrap();
        let names: Vec<&str> = answer.tool_calls.iter().map(|call| call.name.as_str()).collect();
        assert_eq!(names, ["f", "g"]);
    }

    #[test]
    fn incomplete_stream_is_an_error() {
        assert!(matches!(
            fold(&[r#"{"choices": [{"delta": {"content": "Hel"}}]}"#]),
            Err(ApiError::ClosedEarly)
        ));
        assert!(matches!(fold(&["{\"choices\""]), Err(ApiError::Malformed(_))));
        assert!(matches!(
            fold(&[r#"{"error": {"type": "server_error", "message": "sorry"}}"#]),
            Err(ApiError::Reported { .. })
        ));
        let many: Vec<Value> =
            (0..200).map(|index| json!({ "index": index, "function": { "name": "f" } })).collect();
        let many = json!({ "choices": [{ "delta": { "tool_calls": many } }] }).to_string();
        assert!(matches!(fold(&[&many]), Err(ApiError::Malformed(_))));
    }

    #[test]
    fn conversation_is_converted_to_request() {
        let call = ToolCall { id: "c1".into(), name: "b_run".into(), arguments: "{}".into() };
        let result = ToolResult { id: "c1".into(), content: "bad".into(), is_error: true };
        let messages = [
            Message::User { text: "q".into() },
            Message::Assistant { text: String::new(), tool_calls: vec![call] },
            Message::Tools { results: vec![result] },
        ];
        let tool = ToolDefinition::sample();
        let body = request(&ModelRequest {
            system: Some("be brief"),
            parallel_tool_calls: false,
            tools: vec![&tool],
            ..ModelRequest::sample(&messages, &ToolSelection::Required)
        });
        assert_eq!(
            body["messages"],
            json!([
                { "role": "system", "content": "be brief" },
                { "role": "user", "content": "q" },
                { "role": "assistant", "content": "", "tool_calls": [
                    { "id": "c1", "type": "function", "function": { "name": "b_run", "arguments": "{}" } },
                ] },
                { "role": "tool", "tool_call_id": "c1", "content": "Error: bad" },
            ])
        );
        assert_eq!((&body["max_tokens"], &body["tool_choice"]), (&json!(4096), &json!("required")));
        assert_eq!(body["parallel_tool_calls"], false);
        let sample = ModelRequest::sample(&[], &ToolSelection::Auto);
        let own = request(&ModelRequest { is_openai: true, ..sample });
        assert_eq!((&own["max_completion_tokens"], own.get("max_tokens")), (&json!(4096), None));
    }

    #[test]
    fn unstreamed_answer_is_read() {
        let completion = json!({ "model": "m", "choices": [{ "message": { "role": "assistant", "content": "hi" }, "finish_reason": "stop" }] });
        let mut partial = PartialAnswer::default();
        assert_eq!(whole(&mut partial, &completion).unwrap().as_deref(), Some("hi"));
        assert_eq!(partial.finish().unwrap().finish, "stop");
        assert!(whole(&mut PartialAnswer::default(), &json!({ "hello": 1 })).is_err());
    }
}
