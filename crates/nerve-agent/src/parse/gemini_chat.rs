//! Decoder for Gemini CLI's session file (`~/.gemini/tmp/<project>/chats/session-<time>-<id>.jsonl`, version 0.61), which
//! has the model's markdown where the screen has rows.
//!
//! The format is undocumented and changes: unknown lines are counted, not rejected. A message is appended when it is
//! complete, and again when its tools have ended: only then it has the tools. `$set` lines repeat the history and are
//! skipped: they lack the prompts whose turn failed.

use nerve_types::token_usage::TokenUsage;
use serde_json::Value;

use super::entry::{CallStatus, Entry, Item, ResponseUsage, SeenIds, edit_of_diff, time};
use super::line_decoder::{LineDecoder, text_field};

/// Decodes the lines of one conversation in order. Repeated parts are decoded once.
#[derive(Debug, Default)]
pub(crate) struct ChatDecoder {
    seen: SeenIds,
}

impl LineDecoder for ChatDecoder {
    type Line = Value;

    fn decode(&mut self, line: &Value, emit: &mut dyn FnMut(Entry)) {
        let at = line["timestamp"].as_str().and_then(time);
        let text = text_field(line, "content");
        let mut add = |item| emit(Entry { at, item });
        if line.get("$rewindTo").is_some() {
            return add(Item::Rewind);
        } else if let Some(session) = line["sessionId"].as_str() {
            return add(Item::Session(session.to_string()));
        } else if let Some(prompt) = prompt_text(line) {
            return add(Item::Prompt(prompt.to_string()));
        } else if line.get("$set").is_some() {
            return;
        }
        let Some(id) = line["id"].as_str() else { return add(Item::Unknown) };
        match line["type"].as_str() {
            Some("gemini") => self.decode_answer(line, id, text, emit),
            Some("error") => add(Item::Error(text)),
            Some("info") if text.starts_with("Request cancelled") => add(Item::Interrupted(text)),
            Some("user" | "info" | "warning") => {}
            _ => add(Item::Unknown),
        }
    }
}

impl ChatDecoder {
    fn decode_answer(&mut self, message: &Value, id: &str, text: String, mut emit: impl FnMut(Entry)) {
        let at = message["timestamp"].as_str().and_then(time);
        let mut add = |at, item| emit(Entry { at, item });
        if self.seen.is_new(id) {
            for thought in message["thoughts"].as_array().into_iter().flatten() {
                add(at, Item::Thinking(thought_text(thought)));
            }
            add(at, Item::Text(text));
        }
        // Written after the message's first line.
        if message["tokens"].is_object() && self.seen.is_new(&format!("{id} usage")) {
            add(at, Item::Usage(usage(message)));
        }
        for call in message["toolCalls"].as_array().into_iter().flatten() {
            let id = text_field(call, "id");
            let status = match call["status"].as_str() {
                Some("success") => CallStatus::Ok,
                Some("cancelled") => CallStatus::Rejected,
                Some("error") => CallStatus::Error,
                _ => CallStatus::Running,
            };
            if self.seen.is_new(&id) {
                add(
                    at,
                    Item::Call {
                        id: id.clone(),
                        name: text_field(call, "name"),
                        args: call["args"].to_string(),
                    },
                );
            }
            if status != CallStatus::Running && self.seen.is_new(&format!("{id} ended")) {
                let at = call["timestamp"].as_str().and_then(time).or(at);
                add(at, Item::Output { id, text: tool_result(call), status });
                let shown = &call["resultDisplay"];
                if let (CallStatus::Ok, Some(diff)) = (status, shown["fileDiff"].as_str()) {
                    let path = shown["filePath"].as_str().or(shown["fileName"].as_str()).unwrap_or_default();
                    let created = (shown["isNewFile"] == true).then(|| "created".to_string());
                    add(at, edit_of_diff(path, diff, created));
                }
            }
        }
    }
}

/// Returns the text of a user's prompt; `None` for other messages, such as tool results and inserted context.
fn prompt_text(message: &Value) -> Option<&str> {
    let content = &message["content"];
    let first = content.as_str().or_else(|| content[0]["text"].as_str())?;
    (message["type"] == "user" && !first.starts_with("<session_context>")).then_some(first)
}

/// Returns the usage of a message's response.
fn usage(message: &Value) -> ResponseUsage {
    let count = |name: &str| message["tokens"][name].as_u64().unwrap_or(0);
    let output = count("output").saturating_add(count("thoughts"));
    let tokens = TokenUsage::with_cache_in_input(count("input"), output, count("cached"), 0);
    ResponseUsage { tokens, model: message["model"].as_str().map(str::to_string) }
}

/// Returns the result of a tool: the text that the model received.
fn tool_result(call: &Value) -> String {
    let responses = call["result"].as_array().into_iter().flatten().map(|part| {
        let response = &part["functionResponse"]["response"];
        let text = response["output"].as_str().or_else(|| response["error"].as_str());
        text.or_else(|| part["text"].as_str()).unwrap_or_default()
    });
    responses.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Returns the text of a thought.
fn thought_text(thought: &Value) -> String {
    let parts = ["subject", "description"].map(|part| thought[part].as_str().unwrap_or_default());
    parts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}
