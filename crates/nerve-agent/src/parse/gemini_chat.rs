//! Parser for Gemini CLI's session file (`~/.gemini/tmp/<project>/chats/session-<time>-<id>.jsonl`, version 0.61), which
//! has the model's markdown where the screen has rows.
//!
//! The format is undocumented and changes: unknown lines are counted, not rejected. A message is appended when it is
//! complete, and again when its tools have ended. `$set` lines repeat the history and are skipped: they lack the prompts
//! whose turn failed.

use std::collections::HashMap;

use nerve_types::TsNs;
use serde_json::Value;

use super::rows::compact;
use super::transcript::{TranscriptTurn, is_late_enough, json_lines};
use super::{Section, SectionKind};

/// Finds the last prompt that equals `prompt`, and collects the answer to it.
///
/// Ignores whitespace and control characters. Prompts stamped before `since` (compared in milliseconds) do not match,
/// because the same prompt may have been sent before. An empty prompt matches nothing.
pub fn parse_chat<'a>(
    lines: impl Iterator<Item = &'a str>,
    prompt: &str,
    since: Option<TsNs>,
) -> TranscriptTurn {
    let mut reader = Reader { wanted: compact(prompt), since, ..Reader::default() };
    for line in json_lines::<Value>(lines) {
        match line {
            Some(line) => reader.line(&line),
            None => reader.turn.unknown += 1,
        }
    }
    reader.finish()
}

/// Returns the text of a user's prompt; `None` for other messages, such as tool results and inserted context.
pub(crate) fn prompt_text(message: &Value) -> Option<&str> {
    let content = &message["content"];
    let first = content.as_str().or_else(|| content[0]["text"].as_str())?;
    (message["type"] == "user" && !first.starts_with("<session_context>")).then_some(first)
}

/// Returns the result of a tool: the text that the model received.
pub(crate) fn tool_result(call: &Value) -> String {
    let responses = call["result"].as_array().into_iter().flatten().map(|part| {
        let response = &part["functionResponse"]["response"];
        let text = response["output"].as_str().or_else(|| response["error"].as_str());
        text.or_else(|| part["text"].as_str()).unwrap_or_default()
    });
    responses.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Returns the text of a thought.
pub(crate) fn thought_text(thought: &Value) -> String {
    let parts = ["subject", "description"].map(|part| thought[part].as_str().unwrap_or_default());
    parts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

#[derive(Default)]
struct Reader {
    wanted: String,
    since: Option<TsNs>,
    turn: TranscriptTurn,
    /// The answer's messages in order, each in its last form.
    messages: Vec<Value>,
    /// Index in the messages of the message with this id.
    known: HashMap<String, usize>,
}

impl Reader {
    fn line(&mut self, line: &Value) {
        if line.get("$rewindTo").is_some() {
            self.turn.is_found = false;
        } else if let Some(session) = line["sessionId"].as_str() {
            self.turn.session_id = Some(session.to_string());
        } else if let Some(text) = prompt_text(line) {
            self.prompt(text, line["timestamp"].as_str());
        } else if self.turn.is_found && !self.turn.is_complete && line.get("$set").is_none() {
            self.message(line);
        }
    }

    /// Begins the turn at its prompt, and ends it at the next one.
    fn prompt(&mut self, text: &str, timestamp: Option<&str>) {
        if is_late_enough(timestamp, self.since) && !self.wanted.is_empty() && compact(text) == self.wanted {
            self.turn.is_found = true;
            self.turn.is_complete = false;
            self.messages.clear();
            self.known.clear();
        } else if self.turn.is_found {
            self.turn.is_complete = true;
        }
    }

    fn message(&mut self, message: &Value) {
        let Some(id) = message["id"].as_str() else {
            self.turn.unknown += 1;
            return;
        };
        match self.known.get(id) {
            Some(&at) => self.messages[at] = message.clone(),
            None => {
                self.known.insert(id.to_string(), self.messages.len());
                self.messages.push(message.clone());
            }
        }
    }

    fn finish(mut self) -> TranscriptTurn {
        if !self.turn.is_found {
            return TranscriptTurn { unknown: self.turn.unknown, ..TranscriptTurn::default() };
        }
        for message in std::mem::take(&mut self.messages) {
            let text = message["content"].as_str().unwrap_or_default();
            match message["type"].as_str() {
                Some("gemini") => self.answer(&message, text),
                Some("error") => self.end(SectionKind::Error, text),
                Some("info") if text.starts_with("Request cancelled") => {
                    self.end(SectionKind::Interrupted, text);
                }
                Some("user" | "info" | "warning") => {}
                _ => self.turn.unknown += 1,
            }
        }
        self.turn
    }

    fn answer(&mut self, message: &Value, text: &str) {
        for thought in message["thoughts"].as_array().into_iter().flatten() {
            self.push(SectionKind::Thinking, &thought_text(thought));
        }
        self.push(SectionKind::Text, text);
        let calls = message["toolCalls"].as_array().map_or(&[][..], Vec::as_slice);
        for call in calls {
            let word = |key: &str| call[key].as_str().unwrap_or_default();
            let status = match word("status") {
                "success" => "ok",
                "cancelled" => "rejected",
                other => other,
            };
            let section = Section::new(SectionKind::ToolCall, tool_result(call).trim_end());
            let section = section.with("tool", word("name")).with("id", word("id")).with("status", status);
            self.turn.sections.push(section.with("args", call["args"].to_string()));
        }
        self.turn.said_end = calls.is_empty() && !text.trim().is_empty();
        let usage = &message["tokens"];
        if usage.is_object() {
            let tokens = self.turn.tokens.get_or_insert_default();
            let count = |name: &str| usage[name].as_u64().unwrap_or(0);
            tokens.input = Some(tokens.input.unwrap_or(0).saturating_add(count("input")));
            let output = count("output").saturating_add(count("thoughts"));
            tokens.output = Some(tokens.output.unwrap_or(0).saturating_add(output));
        }
    }

    /// Ends the turn with an error or an interruption.
    fn end(&mut self, kind: SectionKind, text: &str) {
        self.push(kind, text);
        self.turn.is_complete = true;
        self.turn.said_end = false;
    }

    fn push(&mut self, kind: SectionKind, text: &str) {
        let text = text.trim_start_matches('\n').trim_end();
        if !text.is_empty() {
            self.turn.sections.push(Section::new(kind, text));
        }
    }
}
