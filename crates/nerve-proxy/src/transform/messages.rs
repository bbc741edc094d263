//! Translates the messages of a conversation.

use serde_json::{Value, json};

use super::{blocks, ids, names};
use crate::api_error::ApiError;

/// Translates the messages of a request; the system prompt comes first.
pub(super) fn translate(body: &Value) -> Result<Vec<Value>, ApiError> {
    let mut output = Vec::new();
    let system = blocks::text(&body["system"], "system")?;
    if !system.is_empty() {
        output.push(json!({ "role": "system", "content": system }));
    }
    let Some(messages) = body["messages"].as_array() else {
        return Err(ApiError::bad_request("messages: not a list"));
    };
    for (at, message) in messages.iter().enumerate() {
        let path = format!("messages[{at}].content");
        match message["role"].as_str() {
            Some("user") => translate_user(&message["content"], &path, &mut output)?,
            Some("assistant") => output.extend(translate_assistant(&message["content"], &path)?),
            Some("system" | "developer") => {
                let text = blocks::text(&message["content"], &path)?;
                output.push(json!({ "role": "system", "content": text }));
            }
            _ => {
                return Err(ApiError::bad_request(format!(
                    "messages[{at}].role: neither user nor assistant"
                )));
            }
        }
    }
    Ok(output)
}

/// Translates a user message. Tool results come first and in order, because they must directly follow their calls.
fn translate_user(content: &Value, path: &str, output: &mut Vec<Value>) -> Result<(), ApiError> {
    let mut parts = Vec::new();
    let mut user_parts = Vec::new();
    for (at, block) in blocks::to_blocks(content, path)?.iter().enumerate() {
        let path = format!("{path}[{at}]");
        if block["type"] == "tool_result" {
            let (result, with) = translate_tool_result(block, &path)?;
            output.push(result);
            user_parts.extend(with);
        } else {
            parts.extend(blocks::translate(block, &path)?);
        }
    }
    user_parts.append(&mut parts);
    match &user_parts[..] {
        [] => {}
        // Not every server accepts parts, and a single text needs none.
        [only] if only["type"] == "text" => output.push(json!({ "role": "user", "content": only["text"] })),
        _ => output.push(json!({ "role": "user", "content": user_parts })),
    }
    Ok(())
}

/// Returns the tool message of a result, and the parts of it that only a user message can contain.
fn translate_tool_result(block: &Value, path: &str) -> Result<(Value, Vec<Value>), ApiError> {
    let id = ids::to_openai(block["tool_use_id"].as_str().unwrap_or_default());
    let path = format!("{path}.content");
    let mut texts = Vec::new();
    let mut user_parts = Vec::new();
    for (at, inner) in blocks::to_blocks(&block["content"], &path)?.iter().enumerate() {
        match blocks::translate(inner, &format!("{path}[{at}]"))? {
            Some(part) if part["type"] == "text" => {
                texts.push(part["text"].as_str().unwrap_or_default().to_string());
            }
            other => user_parts.extend(other),
        }
    }
    if !user_parts.is_empty() {
        texts.push(format!("(the other content is in the next message, as the result of {id})"));
        user_parts.insert(0, json!({ "type": "text", "text": format!("The result of {id}:") }));
    }
    // OpenAI has no error flag for results: the text contains it.
    let error = if block["is_error"] == true { "Error: " } else { "" };
    let content = format!("{error}{}", texts.join("\n"));
    Ok((json!({ "role": "tool", "tool_call_id": id, "content": content }), user_parts))
}

/// Translates an assistant message; `None` if it contains only thinking.
fn translate_assistant(content: &Value, path: &str) -> Result<Option<Value>, ApiError> {
    let mut texts = Vec::new();
    let mut calls = Vec::new();
    for (at, block) in blocks::to_blocks(content, path)?.iter().enumerate() {
        match block["type"].as_str() {
            Some("thinking" | "redacted_thinking") => {}
            Some("tool_use") => calls.push(translate_tool_use(block)),
            _ => match block["text"].as_str() {
                Some(text) => texts.push(text.to_string()),
                None => return Err(blocks::unsupported(block, &format!("{path}[{at}]"))),
            },
        }
    }
    let text = texts.join("\n");
    if calls.is_empty() {
        return Ok((!text.is_empty()).then(|| json!({ "role": "assistant", "content": text })));
    }
    let text = if text.is_empty() { Value::Null } else { text.into() };
    Ok(Some(json!({ "role": "assistant", "content": text, "tool_calls": calls })))
}

fn translate_tool_use(block: &Value) -> Value {
    let input = if block["input"].is_null() { "{}".to_string() } else { block["input"].to_string() };
    let name = names::to_openai(block["name"].as_str().unwrap_or_default());
    let id = ids::to_openai(block["id"].as_str().unwrap_or_default());
    json!({ "id": id, "type": "function", "function": { "name": name, "arguments": input } })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (case, Anthropic's `messages`, OpenAI's `messages`)
    fn check(cases: &[(&str, Value, Value)]) {
        for (what, asked, expected) in cases {
            let output = translate(&json!({ "messages": asked }));
            assert_eq!(output.map(Value::from).as_ref(), Ok(expected), "{what}");
        }
    }

    #[test]
    fn user_messages_are_translated() {
        let text = |text| json!({ "type": "text", "text": text });
        let url = |url| json!({ "type": "image_url", "image_url": { "url": url } });
        check(&[
            (
                "a text",
                json!([{ "role": "user", "content": "hi" }]),
                json!([{ "role": "user", "content": "hi" }]),
            ),
            (
                "one block",
                json!([{ "role": "user", "content": [text("hi")] }]),
                json!([{ "role": "user", "content": "hi" }]),
            ),
            (
                "several blocks keep their bounds",
                json!([{ "role": "user", "content": [text("<reminder>"), text(""), { "type": "text", "text": "hi", "cache_control": { "type": "ephemeral" } }] }]),
                json!([{ "role": "user", "content": [text("<reminder>"), text("hi")] }]),
            ),
            (
                "images",
                json!([{ "role": "user", "content": [
                    { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "AAAA" } },
                    { "type": "image", "source": { "type": "url", "url": "https://h/i.png" } },
                    text("what is it?"),
                ] }]),
                json!([{ "role": "user", "content": [url("data:image/png;base64,AAAA"), url("https://h/i.png"), text("what is it?")] }]),
            ),
            (
                "documents",
                json!([{ "role": "user", "content": [
                    { "type": "document", "source": { "type": "text", "media_type": "text/plain", "data": "plain" } },
                    { "type": "document", "title": "a.pdf", "source": { "type": "base64", "media_type": "application/pdf", "data": "AAAA" } },
                ] }]),
                json!([{ "role": "user", "content": [
                    text("plain"),
                    { "type": "file", "file": { "filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA" } },
                ] }]),
            ),
            (
                "the system in the middle",
                json!([{ "role": "user", "content": "a" }, { "role": "system", "content": [text("b"), text("c")] }]),
                json!([{ "role": "user", "content": "a" }, { "role": "system", "content": "b\nc" }]),
            ),
            ("nothing", json!([{ "role": "user", "content": [] }]), json!([])),
        ]);
    }

    #[test]
    fn assistant_messages_are_translated() {
        let call = |id, name, arguments| json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } });
        check(&[
            (
                "thinking is left out",
                json!([{ "role": "assistant", "content": [{ "type": "thinking", "thinking": "hm", "signature": "s" }, { "type": "redacted_thinking", "data": "d" }, { "type": "text", "text": "a" }] }]),
                json!([{ "role": "assistant", "content": "a" }]),
            ),
            (
                "only thinking",
                json!([{ "role": "assistant", "content": [{ "type": "thinking", "thinking": "hm" }] }]),
                json!([]),
            ),
            (
                "calls with and without words",
                json!([
                    { "role": "assistant", "content": [
                        { "type": "text", "text": "let me look" },
                        { "type": "tool_use", "id": "toolu_oai_c1", "name": "Bash", "input": { "command": "ls" } },
                        { "type": "tool_use", "id": "toolu_01X", "name": "Read", "input": {} },
                    ] },
                    { "role": "assistant", "content": [{ "type": "tool_use", "id": "toolu_hex_662e62", "name": "b" }] },
                ]),
                json!([
                    { "role": "assistant", "content": "let me look", "tool_calls": [call("c1", "Bash", r#"{"command":"ls"}"#), call("toolu_01X", "Read", "{}")] },
                    { "role": "assistant", "content": null, "tool_calls": [call("f.b", "b", "{}")] },
                ]),
            ),
        ]);
    }

    #[test]
    fn tool_results_are_translated() {
        let image = json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "AA" } });
        check(&[
            (
                "results come first and in their order, with their ids and errors",
                json!([{ "role": "user", "content": [
                    { "type": "text", "text": "before" },
                    { "type": "tool_result", "tool_use_id": "toolu_oai_b", "content": "two" },
                    { "type": "tool_result", "tool_use_id": "toolu_oai_a", "content": [{ "type": "text", "text": "one" }, { "type": "text", "text": "more" }], "is_error": true },
                    { "type": "tool_result", "tool_use_id": "toolu_oai_c", "is_error": false },
                    { "type": "text", "text": "after" },
                ] }]),
                json!([
                    { "role": "tool", "tool_call_id": "b", "content": "two" },
                    { "role": "tool", "tool_call_id": "a", "content": "Error: one\nmore" },
                    { "role": "tool", "tool_call_id": "c", "content": "" },
                    { "role": "user", "content": [{ "type": "text", "text": "before" }, { "type": "text", "text": "after" }] },
                ]),
            ),
            (
                "an image of a result is shown by the user",
                json!([{ "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "toolu_oai_a", "content": [image] }, { "type": "tool_result", "tool_use_id": "toolu_oai_b", "content": "x" }] }]),
                json!([
                    { "role": "tool", "tool_call_id": "a", "content": "(the other content is in the next message, as the result of a)" },
                    { "role": "tool", "tool_call_id": "b", "content": "x" },
                    { "role": "user", "content": [{ "type": "text", "text": "The result of a:" }, { "type": "image_url", "image_url": { "url": "data:image/png;base64,AA" } }] },
                ]),
            ),
        ]);
    }

    #[test]
    fn unsupported_content_is_rejected_with_its_path() {
        let cases = [
            (json!({ "messages": "x" }), "messages: not a list"),
            (json!({ "messages": [{ "role": "tool", "content": "x" }] }), "messages[0].role"),
            (json!({ "messages": [{ "role": "user", "content": 5 }] }), "messages[0].content: neither"),
            (
                json!({ "messages": [{ "role": "user", "content": [{ "type": "image", "source": { "type": "file", "file_id": "f" } }] }] }),
                "messages[0].content[0]: 'image' from file",
            ),
            (
                json!({ "messages": [{ "role": "assistant", "content": [{ "type": "server_tool_use" }] }] }),
                "messages[0].content[0]: 'server_tool_use'",
            ),
        ];
        for (body, words) in cases {
            let error = translate(&body).unwrap_err();
            assert!(error.status == 400 && error.message.contains(words), "{error:?}");
        }
    }
}
