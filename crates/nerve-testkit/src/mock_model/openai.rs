//! The parts of OpenAI's Responses, Chat Completions and Models APIs that agents need.

use serde_json::{Value, json};

use super::answer::{Part, Reply, estimate};
use super::script::Prompt;
use super::stream::Event;

/// Formats the body of an error.
pub(super) fn error(message: &str) -> Value {
    json!({ "error": { "message": message, "type": "scripted_error", "param": null, "code": null } })
}

/// The list of models. Any other name is answered, too.
pub(super) fn models() -> Value {
    let model = json!({ "id": "fake-model", "object": "model", "created": 0, "owned_by": "nerve" });
    json!({ "object": "list", "data": [model] })
}

/// Parses a request of the Responses API.
pub(super) fn responses_prompt(body: &Value) -> Prompt {
    let items = match &body["input"] {
        Value::String(text) => vec![json!({ "role": "user", "content": text })],
        Value::Array(items) => items.clone(),
        _ => Vec::new(),
    };
    let (text, tool_result) = last_words(&items, |item| {
        let is_result = item["type"].as_str().is_some_and(|kind| kind.ends_with("_call_output"));
        is_result.then(|| flatten(&item["output"]))
    });
    let schema = body.pointer("/text/format/schema").cloned();
    let tools = super::names(&body["tools"], "/name");
    let about_title = body["instructions"].as_str().is_some_and(super::is_about_a_title);
    Prompt { text, tool_result, is_side_request: tools.is_empty() && about_title, tools, schema }
}

/// Parses a request of the Chat Completions API.
pub(super) fn chat_prompt(body: &Value) -> Prompt {
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    let (text, tool_result) =
        last_words(&messages, |message| (message["role"] == "tool").then(|| flatten(&message["content"])));
    let schema = body.pointer("/response_format/json_schema/schema").cloned();
    let tools = super::names(&body["tools"], "/function/name");
    let system = messages.iter().filter(|message| message["role"] == "system");
    let about_title =
        system.map(|message| flatten(&message["content"])).any(|text| super::is_about_a_title(&text));
    Prompt { text, tool_result, is_side_request: tools.is_empty() && about_title, tools, schema }
}

/// Returns the last text of the user, and the result of a tool if that came later.
fn last_words(items: &[Value], result: impl Fn(&Value) -> Option<String>) -> (String, Option<String>) {
    let mut tool_result = None;
    for item in items.iter().rev() {
        if let Some(result) = result(item) {
            tool_result.get_or_insert(result);
        } else if item["role"] == "user" {
            let text = flatten(&item["content"]);
            if !text.trim_start().starts_with('<') {
                return (text, tool_result);
            }
        }
    }
    (String::new(), tool_result)
}

/// Returns the text of a content: a string, or blocks. Blocks in angle brackets are the agent's own.
fn flatten(content: &Value) -> String {
    match content {
        Value::String(text) => without_time(text).to_string(),
        Value::Array(blocks) => {
            let texts = blocks.iter().filter_map(|block| block["text"].as_str());
            let texts: Vec<&str> = texts.map(without_time).collect();
            let user_texts = texts.iter().filter(|text| !text.trim_start().starts_with('<')).copied();
            let user_texts: Vec<&str> = user_texts.collect();
            if user_texts.is_empty() { texts.join("\n") } else { user_texts.join("\n") }
        }
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Returns the text without the time that GitHub Copilot CLI puts before it.
fn without_time(text: &str) -> &str {
    let rest =
        text.strip_prefix("<current_datetime>").and_then(|text| text.split_once("</current_datetime>"));
    rest.map_or(text, |(_, text)| text.trim_start())
}

/// Formats the whole reply of the Responses API.
pub(super) fn response(reply: &Reply, body: &Value, id: u64, tools: &[String]) -> Value {
    let output: Vec<Value> =
        reply.parts.iter().enumerate().filter_map(|(at, part)| item(part, id, at, tools)).collect();
    let (input, out) = (estimate(&body["input"].to_string()), reply.tokens());
    json!({
        "id": format!("resp_mock_{id:06}"),
        "object": "response",
        "status": "completed",
        "model": body["model"],
        "output": output,
        "usage": {
            "input_tokens": input,
            "input_tokens_details": { "cached_tokens": 0 },
            "output_tokens": out,
            "output_tokens_details": { "reasoning_tokens": 0 },
            "total_tokens": input + out,
        },
    })
}

/// Formats the reply as a stream of the Responses API.
pub(super) fn response_events(reply: &Reply, body: &Value, id: u64, tools: &[String]) -> Vec<Event> {
    let whole = response(reply, body, id, tools);
    let created = json!({ "id": whole["id"], "object": "response", "status": "in_progress", "model": body["model"], "output": [] });
    let mut events = vec![Event::typed(&json!({ "type": "response.created", "response": created }))];
    let items =
        reply.parts.iter().enumerate().filter_map(|(at, part)| Some((part, item(part, id, at, tools)?)));
    for (index, (part, item)) in items.enumerate() {
        let opened = match part {
            Part::Text(_) => {
                json!({ "type": "message", "id": item["id"], "role": "assistant", "status": "in_progress", "content": [] })
            }
            _ => item.clone(),
        };
        events.push(Event::typed(
            &json!({ "type": "response.output_item.added", "output_index": index, "item": opened }),
        ));
        if let Part::Text(pieces) = part {
            for (at, piece) in pieces.iter().enumerate() {
                let pause = if at == 0 { std::time::Duration::ZERO } else { reply.every };
                let delta = json!({
                    "type": "response.output_text.delta",
                    "item_id": item["id"],
                    "output_index": index,
                    "content_index": 0,
                    "delta": piece,
                });
                events.push(Event::typed(&delta).after(pause));
            }
        }
        events.push(Event::typed(
            &json!({ "type": "response.output_item.done", "output_index": index, "item": item }),
        ));
    }
    events.push(Event::typed(&json!({ "type": "response.completed", "response": whole })));
    events
}

fn item(part: &Part, id: u64, at: usize, tools: &[String]) -> Option<Value> {
    match part {
        Part::Thinking(_) => None,
        Part::Text(pieces) => Some(json!({
            "type": "message",
            "id": format!("msg_mock_{id:06}_{at}"),
            "role": "assistant",
            "status": "completed",
            "content": [{ "type": "output_text", "text": pieces.concat(), "annotations": [] }],
        })),
        Part::Tool(call) => {
            let (name, input) = call.with(tools);
            Some(json!({
                "type": "function_call",
                "id": format!("fc_mock_{id:06}_{at}"),
                "call_id": format!("call_mock_{id:06}_{at}"),
                "name": name,
                "arguments": input.to_string(),
                "status": "completed",
            }))
        }
    }
}

/// Formats the whole reply of the Chat Completions API.
pub(super) fn completion(reply: &Reply, body: &Value, id: u64, tools: &[String]) -> Value {
    let mut message = json!({ "role": "assistant", "content": reply.text() });
    let calls = tool_calls(reply, body, id, tools);
    let finish = finish_reason(&calls);
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let mut whole = chunk(body, id, "chat.completion");
    whole["choices"] = json!([{ "index": 0, "message": message, "finish_reason": finish }]);
    whole["usage"] = chat_usage(reply, body);
    whole
}

/// Formats the reply as a stream of the Chat Completions API.
pub(super) fn completion_events(reply: &Reply, body: &Value, id: u64, tools: &[String]) -> Vec<Event> {
    let with = |delta: Value, finish: Value| {
        let mut chunk = chunk(body, id, "chat.completion.chunk");
        chunk["choices"] = json!([{ "index": 0, "delta": delta, "finish_reason": finish }]);
        chunk
    };
    let mut events = vec![Event::data(&with(json!({ "role": "assistant", "content": "" }), Value::Null))];
    for part in &reply.parts {
        let Part::Text(pieces) = part else { continue };
        for (at, piece) in pieces.iter().enumerate() {
            let pause = if at == 0 { std::time::Duration::ZERO } else { reply.every };
            events.push(Event::data(&with(json!({ "content": piece }), Value::Null)).after(pause));
        }
    }
    let calls = tool_calls(reply, body, id, tools);
    let finish = finish_reason(&calls);
    let deltas = calls.iter().flat_map(tool_call_deltas);
    events.extend(deltas.map(|delta| Event::data(&with(json!({ "tool_calls": [delta] }), Value::Null))));
    events.push(Event::data(&with(json!({}), finish.into())));
    if body["stream_options"]["include_usage"] == true {
        let mut usage = chunk(body, id, "chat.completion.chunk");
        usage["choices"] = json!([]);
        usage["usage"] = chat_usage(reply, body);
        events.push(Event::data(&usage));
    }
    events.push(Event::data(&"[DONE]"));
    events
}

/// Splits a tool call as the API streams it: the name with empty arguments, then pieces of the arguments.
fn tool_call_deltas(call: &Value) -> Vec<Value> {
    let mut first = call.clone();
    first["function"]["arguments"] = json!("");
    let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
    let middle = arguments.char_indices().nth(arguments.chars().count() / 2).map_or(0, |(at, _)| at);
    let (head, tail) = arguments.split_at(middle);
    let delta = |piece| json!({ "index": call["index"], "function": { "arguments": piece } });
    vec![first, delta(head), delta(tail)]
}

fn chunk(body: &Value, id: u64, object: &str) -> Value {
    json!({ "id": format!("chatcmpl_mock_{id:06}"), "object": object, "created": 0, "model": body["model"] })
}

fn tool_calls(reply: &Reply, body: &Value, id: u64, tools: &[String]) -> Vec<Value> {
    let calls = reply.parts.iter().filter_map(|part| match part {
        Part::Tool(call) => {
            let (name, input) = call.with(tools);
            Some((name, rename_path(body, name, input)))
        }
        _ => None,
    });
    let call = |(index, (name, input)): (usize, (&str, Value))| {
        json!({
            "index": index,
            "id": format!("call_mock_{id:06}_{index}"),
            "type": "function",
            "function": { "name": name, "arguments": input.to_string() },
        })
    };
    calls.enumerate().map(call).collect()
}

/// Renames the path among the arguments to `path` if the tool's schema has this name: agents have tools of the same name.
fn rename_path(body: &Value, name: &str, mut input: Value) -> Value {
    let tools = body["tools"].as_array().into_iter().flatten();
    let tool = tools.map(|tool| &tool["function"]).find(|tool| tool["name"] == name);
    let has_path = tool.is_some_and(|tool| tool.pointer("/parameters/properties/path").is_some());
    if has_path && let Some(arguments) = input.as_object_mut() {
        let path = ["filePath", "file_path"].iter().find_map(|other| arguments.remove(*other));
        arguments.extend(path.map(|path| ("path".to_string(), path)));
    }
    input
}

fn finish_reason(calls: &[Value]) -> &'static str {
    if calls.is_empty() { "stop" } else { "tool_calls" }
}

fn chat_usage(reply: &Reply, body: &Value) -> Value {
    let (input, out) = (estimate(&body["messages"].to_string()), reply.tokens());
    json!({ "prompt_tokens": input, "completion_tokens": out, "total_tokens": input + out })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_not_the_users_words() {
        let body = json!({ "input": [
            { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "<environment_context>x" }] },
            { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "hello" }] },
        ], "tools": [{ "type": "function", "name": "exec_command" }] });
        let prompt = responses_prompt(&body);
        assert_eq!((prompt.text.as_str(), prompt.tool_result), ("hello", None));
        assert_eq!(prompt.tools, ["exec_command"]);
    }

    #[test]
    fn tool_results_are_found_in_both() {
        let body = json!({ "input": [
            { "role": "user", "content": "TOUCHTOOL" },
            { "type": "function_call_output", "call_id": "c", "output": "done" },
        ]});
        assert_eq!(responses_prompt(&body).tool_result.as_deref(), Some("done"));
        let body = json!({ "messages": [
            { "role": "user", "content": [{ "type": "text", "text": "TOUCHTOOL" }] },
            { "role": "tool", "tool_call_id": "c", "content": "done" },
        ]});
        assert_eq!(chat_prompt(&body).tool_result.as_deref(), Some("done"));
    }

    #[test]
    fn time_is_not_part_of_the_prompt() {
        let text = "<current_datetime>2026-11-29T11:46:31.224+00:00</current_datetime>\n\nhello";
        for content in [json!(text), json!([{ "type": "text", "text": text }])] {
            let body = json!({ "messages": [{ "role": "user", "content": content }] });
            assert_eq!(chat_prompt(&body).text, "hello");
        }
    }

    #[test]
    fn path_has_the_name_in_the_tools_schema() {
        let body = |name: &str| {
            let parameters = json!({ "type": "object", "properties": { name: { "type": "string" } } });
            json!({ "tools": [{ "type": "function", "function": { "name": "read", "parameters": parameters } }] })
        };
        let input = json!({ "filePath": "/x" });
        assert_eq!(rename_path(&body("path"), "read", input.clone()), json!({ "path": "/x" }));
        assert_eq!(rename_path(&body("filePath"), "read", input.clone()), input);
    }
}
