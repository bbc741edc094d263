//! Anthropic's Messages API: parses requests, and formats replies as JSON or events.

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::answer::{Part, Reply, estimate};
use super::script::Prompt;
use super::stream::Event;

/// Parses a request.
pub(super) fn prompt(body: &Value) -> Prompt {
    let schema = body
        .pointer("/output_config/format/schema")
        .or_else(|| body.pointer("/output_format/schema"))
        .cloned();
    let tools: Vec<String> = super::names(&body["tools"], "/name");
    let (text, tool_result) = last_words(body);
    Prompt { text, tool_result, is_side_request: tools.is_empty() && asks_for_a_title(body), tools, schema }
}

/// Returns true if the system prompt asks for a title.
fn asks_for_a_title(body: &Value) -> bool {
    let system = &body["system"];
    let texts = system.as_array().into_iter().flatten().filter_map(|block| block["text"].as_str());
    texts.chain(system.as_str()).any(super::is_about_a_title)
}

/// Returns the last text of the user, and the tool result if that came later. Reminders added by the agent are ignored.
fn last_words(body: &Value) -> (String, Option<String>) {
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut tool_result = None;
    let mut is_last = true;
    for message in messages.iter().rev().filter(|message| message["role"] != "system") {
        if message["role"] == "user" {
            for block in blocks(&message["content"]).iter().rev() {
                match block["type"].as_str() {
                    Some("tool_result") if is_last && tool_result.is_none() => {
                        tool_result = Some(flatten(&block["content"]))
                    }
                    Some("text") => {
                        let text = block["text"].as_str().unwrap_or_default();
                        if is_of_the_user(text) {
                            return (text.to_owned(), tool_result);
                        }
                    }
                    _ => {}
                }
            }
        }
        is_last = false;
    }
    (String::new(), tool_result)
}

fn blocks(content: &Value) -> Vec<Value> {
    match content {
        Value::String(text) => vec![json!({ "type": "text", "text": text })],
        Value::Array(blocks) => blocks.clone(),
        _ => Vec::new(),
    }
}

fn is_of_the_user(text: &str) -> bool {
    let text = text.trim_start();
    !text.is_empty()
        && !text.starts_with("<system-reminder>")
        && !text.starts_with("[Request interrupted by user")
}

fn flatten(content: &Value) -> String {
    let texts: Vec<String> =
        blocks(content).iter().filter_map(|block| block["text"].as_str().map(String::from)).collect();
    texts.join("\n")
}

/// Formats the body of an error.
pub(super) fn error(status: StatusCode, message: &str) -> Value {
    let kind = match status.as_u16() {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    json!({ "type": "error", "error": { "type": kind, "message": message }, "request_id": "req_mock" })
}

/// Counts the tokens of a request.
pub(super) fn count_tokens(body: &Value) -> Value {
    json!({ "input_tokens": estimate(&body["messages"].to_string()) })
}

/// Formats the reply as one message.
pub(super) fn message(reply: &Reply, body: &Value, id: u64, tools: &[String]) -> Value {
    let content: Vec<Value> =
        reply.parts.iter().enumerate().map(|(at, part)| block(part, id, at, tools)).collect();
    let mut message = envelope(body, id);
    message["content"] = content.into();
    message["stop_reason"] = stop_reason(reply).into();
    message["usage"]["output_tokens"] = reply.tokens().into();
    message
}

/// Formats the reply as a stream of events.
pub(super) fn events(reply: &Reply, body: &Value, id: u64, tools: &[String]) -> Vec<Event> {
    let mut events = vec![
        Event::typed(&json!({ "type": "message_start", "message": envelope(body, id) })),
        Event::typed(&json!({ "type": "ping" })),
    ];
    for (index, part) in reply.parts.iter().enumerate() {
        let start = without_content(block(part, id, index, tools));
        events.push(Event::typed(
            &json!({ "type": "content_block_start", "index": index, "content_block": start }),
        ));
        for (at, delta) in deltas(part, tools).into_iter().enumerate() {
            let pause = if at == 0 { std::time::Duration::ZERO } else { reply.every };
            let delta = json!({ "type": "content_block_delta", "index": index, "delta": delta });
            events.push(Event::typed(&delta).after(pause));
        }
        events.push(Event::typed(&json!({ "type": "content_block_stop", "index": index })));
    }
    let stop = json!({ "stop_reason": stop_reason(reply), "stop_sequence": null });
    let usage = json!({ "output_tokens": reply.tokens() });
    events.push(Event::typed(&json!({ "type": "message_delta", "delta": stop, "usage": usage })));
    events.push(Event::typed(&json!({ "type": "message_stop" })));
    events
}

fn envelope(body: &Value, id: u64) -> Value {
    json!({
        "id": format!("msg_mock_{id:06}"),
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": {
            "input_tokens": estimate(&body["messages"].to_string()),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 1,
        },
    })
}

fn stop_reason(reply: &Reply) -> &'static str {
    let uses_tool = reply.parts.iter().any(|part| matches!(part, Part::Tool(_)));
    if uses_tool { "tool_use" } else { "end_turn" }
}

fn block(part: &Part, id: u64, at: usize, tools: &[String]) -> Value {
    match part {
        Part::Thinking(thought) => {
            json!({ "type": "thinking", "thinking": thought, "signature": "c2NyaXB0ZWQ=" })
        }
        Part::Text(pieces) => json!({ "type": "text", "text": pieces.concat() }),
        Part::Tool(call) => {
            let (name, input) = call.with(tools);
            json!({ "type": "tool_use", "id": format!("toolu_mock_{id:06}_{at}"), "name": name, "input": input })
        }
    }
}

/// Returns a content block as a stream starts it.
fn without_content(mut block: Value) -> Value {
    for (member, nothing) in
        [("text", json!("")), ("thinking", json!("")), ("signature", json!("")), ("input", json!({}))]
    {
        if let Some(value) = block.get_mut(member) {
            *value = nothing;
        }
    }
    block
}

fn deltas(part: &Part, tools: &[String]) -> Vec<Value> {
    match part {
        Part::Thinking(thought) => vec![
            json!({ "type": "thinking_delta", "thinking": thought }),
            json!({ "type": "signature_delta", "signature": "c2NyaXB0ZWQ=" }),
        ],
        Part::Text(pieces) => {
            pieces.iter().map(|piece| json!({ "type": "text_delta", "text": piece })).collect()
        }
        Part::Tool(call) => {
            let input = call.with(tools).1.to_string();
            vec![json!({ "type": "input_json_delta", "partial_json": input })]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(content: Value) -> Value {
        json!({ "role": "user", "content": content })
    }

    #[test]
    fn reminders_and_system_messages_are_not_the_users_words() {
        let body = json!({ "messages": [
            user(json!("first")),
            { "role": "assistant", "content": [{ "type": "text", "text": "answer" }] },
            user(json!([
                { "type": "text", "text": "<system-reminder>\nSLOW\n</system-reminder>" },
                { "type": "text", "text": "the prompt" },
                { "type": "text", "text": "<system-reminder>ERR 400</system-reminder>" },
            ])),
            { "role": "system", "content": "HUGE" },
        ]});
        assert_eq!(last_words(&body), ("the prompt".to_owned(), None));
    }

    #[test]
    fn a_tool_result_counts_when_it_is_the_last_thing_said() {
        let result = json!({ "type": "tool_result", "tool_use_id": "t", "content": [{ "type": "text", "text": "done" }] });
        let mut messages = vec![
            user(json!("TOUCHTOOL")),
            user(json!([result, { "type": "text", "text": "<system-reminder>x" }])),
        ];
        assert_eq!(
            last_words(&json!({ "messages": messages })),
            ("TOUCHTOOL".to_owned(), Some("done".to_owned()))
        );
        messages.push(user(json!("next")));
        assert_eq!(last_words(&json!({ "messages": messages })), ("next".to_owned(), None));
    }

    #[test]
    fn a_title_request_is_a_side_request() {
        let body = json!({ "system": [{ "text": "Write a title for this conversation" }], "messages": [user(json!("ERR 500"))] });
        assert!(prompt(&body).is_side_request);
        assert!(!prompt(&json!({ "messages": [user(json!("hello"))] })).is_side_request);
    }
}
