//! Gemini's generateContent API.

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::answer::{Part, Reply, estimate};
use super::script::Prompt;
use super::stream::Event;

/// Parses a request.
pub(super) fn prompt(body: &Value) -> Prompt {
    let (text, tool_result) = last_words(body);
    let config = &body["generationConfig"];
    let wants_json = config["responseMimeType"] == "application/json";
    let schema = ["responseJsonSchema", "responseSchema"].iter().find_map(|name| config.get(name).cloned());
    let schema = wants_json.then(|| schema.unwrap_or_else(|| json!({ "type": "object" })));
    let declarations = body["tools"].as_array().into_iter().flatten();
    let tools: Vec<String> =
        declarations.flat_map(|group| super::names(&group["functionDeclarations"], "/name")).collect();
    let system = body.pointer("/systemInstruction/parts/0/text").and_then(Value::as_str);
    let about_title = system.is_some_and(super::is_about_a_title);
    Prompt { text, tool_result, is_side_request: tools.is_empty() && about_title, tools, schema }
}

fn last_words(body: &Value) -> (String, Option<String>) {
    let contents = body["contents"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut tool_result = None;
    for content in contents.iter().rev().filter(|content| content["role"] != "model") {
        for part in content["parts"].as_array().into_iter().flatten().rev() {
            if let Some(response) = part.pointer("/functionResponse/response") {
                let text = response["output"].as_str().map_or_else(|| response.to_string(), String::from);
                tool_result.get_or_insert(text);
            } else if let Some(text) =
                part["text"].as_str().filter(|text| !text.trim_start().starts_with('<'))
            {
                return (text.to_owned(), tool_result);
            }
        }
    }
    (String::new(), tool_result)
}

/// Formats the body of an error.
pub(super) fn error(status: StatusCode, message: &str) -> Value {
    let name = match status.as_u16() {
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 => "UNAVAILABLE",
        _ => "INTERNAL",
    };
    json!({ "error": { "code": status.as_u16(), "message": message, "status": name } })
}

/// Counts the tokens of a request.
pub(super) fn count_tokens(body: &Value) -> Value {
    json!({ "totalTokens": estimate(&body["contents"].to_string()) })
}

/// Formats the whole reply.
pub(super) fn whole(reply: &Reply, body: &Value, tools: &[String]) -> Value {
    let parts: Vec<Value> = reply.parts.iter().flat_map(|part| parts(part, tools)).collect();
    chunk(parts, Some(usage(reply, body)))
}

/// Formats the reply as a stream.
pub(super) fn events(reply: &Reply, body: &Value, tools: &[String]) -> Vec<Event> {
    let mut events = Vec::new();
    for part in &reply.parts {
        for (at, part) in parts(part, tools).into_iter().enumerate() {
            let pause = if at == 0 { std::time::Duration::ZERO } else { reply.every };
            events.push(Event::data(&chunk(vec![part], None)).after(pause));
        }
    }
    let end = chunk(vec![json!({ "text": "" })], Some(usage(reply, body)));
    events.push(Event::data(&end));
    events
}

fn parts(part: &Part, tools: &[String]) -> Vec<Value> {
    match part {
        Part::Thinking(thought) => vec![json!({ "text": thought, "thought": true })],
        Part::Text(pieces) => pieces.iter().map(|piece| json!({ "text": piece })).collect(),
        Part::Tool(call) => {
            let (name, args) = call.with(tools);
            vec![json!({ "functionCall": { "name": name, "args": args } })]
        }
    }
}

/// Formats a response; only the last one has `usage` and the finish reason.
fn chunk(parts: Vec<Value>, usage: Option<Value>) -> Value {
    let mut candidate = json!({ "index": 0, "content": { "role": "model", "parts": parts } });
    let mut chunk = json!({ "modelVersion": "mock" });
    if let Some(usage) = usage {
        candidate["finishReason"] = "STOP".into();
        chunk["usageMetadata"] = usage;
    }
    chunk["candidates"] = json!([candidate]);
    chunk
}

fn usage(reply: &Reply, body: &Value) -> Value {
    let (input, out) = (estimate(&body["contents"].to_string()), reply.tokens());
    json!({ "promptTokenCount": input, "candidatesTokenCount": out, "totalTokenCount": input + out })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_are_the_users() {
        let body = json!({ "contents": [
            { "role": "user", "parts": [{ "text": "<session_context>x" }] },
            { "role": "user", "parts": [{ "text": "TOUCHTOOL" }] },
            { "role": "model", "parts": [{ "functionCall": {} }] },
            { "role": "user", "parts": [{ "functionResponse": { "name": "n", "response": { "output": "done" } } }] },
        ]});
        assert_eq!(last_words(&body), ("TOUCHTOOL".to_owned(), Some("done".to_owned())));
    }

    #[test]
    fn a_request_for_json_gives_a_schema() {
        let config =
            json!({ "responseMimeType": "application/json", "responseSchema": { "type": "STRING" } });
        let body = json!({ "contents": [], "generationConfig": config });
        assert_eq!(prompt(&body).schema, Some(json!({ "type": "STRING" })));
    }
}
