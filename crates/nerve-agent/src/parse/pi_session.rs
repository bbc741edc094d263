//! Decoder for pi's session file (`~/.pi/agent/sessions/--<folder>--/<time>_<id>.jsonl`, version 3 of pi 1.5), which
//! distinguishes what the screen shows alike.
//!
//! Entries form a tree: each names its parent, and pi appends to the file only. Unknown entries are counted, not
//! rejected.

use nerve_types::token_usage::TokenUsage;
use serde_json::Value;

use super::entry::{CallStatus, Entry, Item, ResponseUsage, time};
use super::line_decoder::{LineDecoder, json_lines, text_field};

/// Kinds of entries that are no part of the conversation.
const SILENT: [&str; 10] = [
    "model_change",
    "thinking_level_change",
    "usage",
    "compaction",
    "context_edit",
    "branch_summary",
    "custom",
    "custom_message",
    "label",
    "session_info",
];

/// Roles of messages that are neither prompts nor answers.
const SILENT_ROLES: [&str; 5] = ["system", "bashExecution", "custom", "branchSummary", "compactionSummary"];

/// Decodes the lines of one conversation in order.
#[derive(Debug, Default)]
pub(crate) struct PiDecoder;

impl LineDecoder for PiDecoder {
    type Line = Value;

    fn decode(&mut self, line: &Value, emit: &mut dyn FnMut(Entry)) {
        let at = line["timestamp"].as_str().and_then(time);
        let mut add = |item| emit(Entry { at, item });
        let message = &line["message"];
        match (line["type"].as_str().unwrap_or_default(), role(line)) {
            ("session", _) => add(Item::Session(text_field(line, "id"))),
            ("message", "user") => add(Item::Prompt(text(&message["content"]))),
            ("message", "assistant") => decode_answer(message, add),
            ("message", "toolResult") => {
                let status = if message["isError"] == true { CallStatus::Error } else { CallStatus::Ok };
                let text = text(&message["content"]);
                add(Item::Output { id: text_field(message, "toolCallId"), text, status });
            }
            ("message", role) if SILENT_ROLES.contains(&role) => {}
            (kind, _) if SILENT.contains(&kind) => {}
            _ => add(Item::Unknown),
        }
    }

    /// Reads the lines. Of an answer that failed and was requested again, the `stopReason` is removed.
    fn read_lines<'a>(lines: impl Iterator<Item = &'a str>) -> impl Iterator<Item = Option<Value>> {
        let mut lines = json_lines::<Value>(lines).peekable();
        std::iter::from_fn(move || {
            let mut line = lines.next()?;
            if let (Some(line), Some(Some(next))) = (&mut line, lines.peek())
                && is_removal(next, line)
            {
                line["message"]["stopReason"] = Value::Null;
            }
            Some(line)
        })
    }
}

fn decode_answer(message: &Value, mut add: impl FnMut(Item)) {
    for part in message["content"].as_array().into_iter().flatten() {
        match part["type"].as_str() {
            Some("text") => add(Item::Text(text_field(part, "text"))),
            Some("thinking") => add(Item::Thinking(text_field(part, "thinking"))),
            Some("toolCall") => add(Item::Call {
                id: text_field(part, "id"),
                name: text_field(part, "name"),
                args: part["arguments"].to_string(),
            }),
            _ => add(Item::Unknown),
        }
    }
    if message["usage"].is_object() {
        add(Item::Usage(usage(message)));
    }
    match message["stopReason"].as_str() {
        Some("error") => add(Item::Error(text_field(message, "errorMessage"))),
        Some("aborted") => add(Item::Interrupted(text_field(message, "errorMessage"))),
        Some("stop" | "length") => add(Item::End),
        _ => {}
    }
}

fn usage(message: &Value) -> ResponseUsage {
    let count = |name: &str| message["usage"][name].as_u64().unwrap_or(0);
    let tokens = TokenUsage {
        input: count("input"),
        output: count("output"),
        cache_read: count("cacheRead"),
        cache_write: count("cacheWrite"),
    };
    ResponseUsage { tokens, model: message["model"].as_str().map(str::to_string) }
}

/// Returns true if the next line removes a failed answer from the conversation: pi sends the request again.
fn is_removal(next: &Value, line: &Value) -> bool {
    let is_failure = role(line) == "assistant" && line["message"]["stopReason"] == "error";
    let removes = next["type"] == "context_edit" && next["replacement"].is_null();
    is_failure && removes && next["targetId"] == line["id"]
}

fn role(line: &Value) -> &str {
    line["message"]["role"].as_str().unwrap_or_default()
}

/// Returns the text of a content: a string, or blocks.
fn text(content: &Value) -> String {
    let blocks = content.as_array().into_iter().flatten().filter_map(|block| block["text"].as_str());
    content.as_str().map_or_else(|| blocks.collect::<Vec<_>>().join("\n"), str::to_string)
}
