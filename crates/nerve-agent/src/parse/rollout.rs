//! Parser for Codex's session file (`~/.codex/sessions/<date>/rollout-<time>-<id>.jsonl`, version 0.169), which is
//! complete where the alternate screen is not.
//!
//! The format is undocumented and changes: unknown lines are counted, not rejected. Lines follow each other in time: a
//! turn extends from its prompt to the end of its task or to the next prompt.

use std::collections::HashMap;

use nerve_types::TsNs;
use serde::Deserialize;
use serde_json::Value;

use super::rows::compact;
use super::transcript::{TranscriptTurn, is_late_enough, json_lines};
use super::{Section, SectionKind};

/// Finds the last user message that equals `prompt`, and collects the answer to it.
///
/// Ignores whitespace and control characters. Messages stamped before `since` (compared in milliseconds) do not match,
/// because the same prompt may have been sent before. An empty prompt matches nothing.
pub fn parse_rollout<'a>(
    lines: impl Iterator<Item = &'a str>,
    prompt: &str,
    since: Option<TsNs>,
) -> TranscriptTurn {
    let mut reader = Reader { wanted: compact(prompt), since, ..Reader::default() };
    for line in json_lines::<Line>(lines) {
        match line {
            Some(line) => reader.line(&line),
            None => reader.turn.unknown += 1,
        }
    }
    reader.turn
}

/// A line; its payload depends on the type.
#[derive(Deserialize)]
struct Line {
    timestamp: Option<String>,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    payload: Value,
}

#[derive(Default)]
struct Reader {
    wanted: String,
    since: Option<TsNs>,
    turn: TranscriptTurn,
    /// Index in the sections of the call with this id.
    calls: HashMap<String, usize>,
}

impl Reader {
    fn line(&mut self, line: &Line) {
        let payload = &line.payload;
        let kind = payload["type"].as_str().unwrap_or_default();
        match (line.kind.as_str(), kind) {
            ("response_item", "message") if payload["role"] == "user" => {
                self.user_message(&text_of(&payload["content"]), line.timestamp.as_deref());
            }
            ("session_meta", _) => {
                self.turn.session_id = payload["id"].as_str().map(str::to_string);
            }
            _ if !self.turn.is_found || self.turn.is_complete => {}
            ("response_item", _) => self.item(kind, payload),
            ("token_usage_record", _) => self.usage(&payload["usage"]),
            ("event_msg", "task_complete") => {
                if let Some(error) = payload["error"]["message"].as_str() {
                    self.push(SectionKind::Error, error);
                }
                self.turn.is_complete = true;
            }
            ("event_msg", "turn_aborted") => {
                self.push(SectionKind::Interrupted, payload["reason"].as_str().unwrap_or("interrupted"));
                self.turn.is_complete = true;
            }
            // Events repeat the items.
            ("event_msg" | "turn_context" | "world_state" | "compacted", _) => {}
            _ => self.turn.unknown += 1,
        }
    }

    /// Begins the turn at its prompt, and ends it at the next one. Codex adds messages of its own in the user's name,
    /// all of which begin with a tag.
    fn user_message(&mut self, text: &str, timestamp: Option<&str>) {
        if is_late_enough(timestamp, self.since) && !self.wanted.is_empty() && compact(text) == self.wanted {
            let (unknown, session_id) = (self.turn.unknown, self.turn.session_id.take());
            self.turn = TranscriptTurn { is_found: true, unknown, session_id, ..TranscriptTurn::default() };
            self.calls.clear();
        } else if self.turn.is_found && !text.starts_with('<') {
            self.turn.is_complete = true;
        }
    }

    /// Adds an item of the Responses API.
    fn item(&mut self, kind: &str, payload: &Value) {
        match kind {
            "message" if payload["role"] == "assistant" => {
                let text = text_of(&payload["content"]);
                self.push(SectionKind::Text, &text);
                self.turn.said_end = !text.trim().is_empty();
            }
            // Instructions for the model.
            "message" => {}
            "reasoning" => self.push(SectionKind::Thinking, &text_of(&payload["summary"])),
            "function_call" | "custom_tool_call" | "local_shell_call" | "web_search_call" => {
                self.call(kind, payload);
            }
            "function_call_output" | "custom_tool_call_output" => self.call_result(payload),
            _ => self.turn.unknown += 1,
        }
    }

    fn call(&mut self, kind: &str, payload: &Value) {
        let name = payload["name"].as_str().unwrap_or(kind.trim_end_matches("_call"));
        let args = [&payload["arguments"], &payload["input"], &payload["action"]];
        let args = args.into_iter().find(|args| !args.is_null()).map(|args| match args.as_str() {
            Some(text) => text.to_string(),
            None => args.to_string(),
        });
        let id = payload["call_id"].as_str().or(payload["id"].as_str()).unwrap_or_default();
        self.calls.insert(id.to_string(), self.turn.sections.len());
        let call = Section::new(SectionKind::ToolCall, "").with("tool", name).with("id", id);
        self.turn.sections.push(call.with("args", args.unwrap_or_default()));
        self.turn.said_end = false;
    }

    fn call_result(&mut self, payload: &Value) {
        self.turn.said_end = false;
        let id = payload["call_id"].as_str().unwrap_or_default();
        let Some(call) = self.calls.get(id).and_then(|&at| self.turn.sections.get_mut(at)) else {
            self.turn.unknown += 1;
            return;
        };
        call.content = text_of(&payload["output"]).trim_end().to_string();
        let status = if payload["output"]["success"] == false { "error" } else { "ok" };
        call.metadata.insert("status".to_string(), status.to_string());
    }

    fn push(&mut self, kind: SectionKind, text: &str) {
        let text = text.trim_start_matches('\n').trim_end();
        if !text.is_empty() {
            self.turn.sections.push(Section::new(kind, text));
        }
    }

    /// Adds the usage of one request.
    fn usage(&mut self, usage: &Value) {
        let tokens = self.turn.tokens.get_or_insert_default();
        for (sum, name) in [(&mut tokens.input, "input_tokens"), (&mut tokens.output, "output_tokens")] {
            let count = usage[name].as_u64().unwrap_or(0);
            *sum = Some(sum.unwrap_or(0).saturating_add(count));
        }
    }
}

/// Returns the text of a string, a part with a text or content, or a list of parts.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(text_of).collect::<Vec<_>>().join("\n"),
        Value::Object(part) => {
            part.get("text").or_else(|| part.get("content")).map(text_of).unwrap_or_default()
        }
        _ => String::new(),
    }
}
