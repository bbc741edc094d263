//! Decoder for pi's session file (`~/.pi/agent/sessions/--<folder>--/<time>_<id>.jsonl`, version 3 of pi 1.5), which
//! distinguishes what the screen shows alike.
//!
//! Entries form a tree: each names its parent, and pi appends to the file only. Unknown entries are counted, not
//! rejected.

use nerve_types::TsNs;
use nerve_types::token_usage::TokenUsage;
use serde_json::Value;

use super::entry::{CallStatus, Entry, Item, ResponseUsage, TurnFold, time};
use super::transcript::{TranscriptTurn, json_lines};

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

/// Finds the last prompt that equals `prompt`, and collects the answer to it.
///
/// Ignores whitespace and control characters. Prompts stamped before `since` (compared in milliseconds) do not match,
/// because the same prompt may have been sent before. An empty prompt matches nothing.
pub fn parse_pi<'a>(
    lines: impl Iterator<Item = &'a str>,
    prompt: &str,
    since: Option<TsNs>,
) -> TranscriptTurn {
    let mut fold = TurnFold::new(prompt, since);
    fold.add_lines(read_lines(lines), decode);
    fold.finish()
}

/// Reads the lines; `None` for a malformed one. An answer that failed and was requested again has no `stopReason`.
pub(super) fn read_lines<'a>(lines: impl Iterator<Item = &'a str>) -> impl Iterator<Item = Option<Value>> {
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

/// Passes the entries of a line to `emit`.
pub(crate) fn decode(line: &Value, emit: &mut dyn FnMut(Entry)) {
    let at = line["timestamp"].as_str().and_then(time);
    let mut add = |item| emit(Entry { at, item });
    let message = &line["message"];
    match (line["type"].as_str().unwrap_or_default(), role(line)) {
        ("session", _) => add(Item::Session(word(line, "id"))),
        ("message", "user") => add(Item::Prompt(text(&message["content"]))),
        ("message", "assistant") => decode_answer(message, add),
        ("message", "toolResult") => {
            let status = if message["isError"] == true { CallStatus::Error } else { CallStatus::Ok };
            let text = text(&message["content"]);
            add(Item::Output { id: word(message, "toolCallId"), text, status });
        }
        ("message", role) if SILENT_ROLES.contains(&role) => {}
        (kind, _) if SILENT.contains(&kind) => {}
        _ => add(Item::Unknown),
    }
}

fn decode_answer(message: &Value, mut add: impl FnMut(Item)) {
    for part in message["content"].as_array().into_iter().flatten() {
        match part["type"].as_str() {
            Some("text") => add(Item::Text(word(part, "text"))),
            Some("thinking") => add(Item::Thinking(word(part, "thinking"))),
            Some("toolCall") => add(Item::Call {
                id: word(part, "id"),
                name: word(part, "name"),
                args: part["arguments"].to_string(),
            }),
            _ => add(Item::Unknown),
        }
    }
    if message["usage"].is_object() {
        add(Item::Usage(usage(message)));
    }
    match message["stopReason"].as_str() {
        Some("error") => add(Item::Error(word(message, "errorMessage"))),
        Some("aborted") => add(Item::Interrupted(word(message, "errorMessage"))),
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

fn word(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_string()
}

/// Returns the text of a content: a string, or blocks.
fn text(content: &Value) -> String {
    let blocks = content.as_array().into_iter().flatten().filter_map(|block| block["text"].as_str());
    content.as_str().map_or_else(|| blocks.collect::<Vec<_>>().join("\n"), str::to_string)
}
