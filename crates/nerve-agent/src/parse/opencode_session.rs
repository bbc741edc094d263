//! Parser for a session in opencode's database (`~/.local/share/opencode/opencode.db`, version 1.18), which is complete
//! where the alternate screen is not.
//!
//! The format is undocumented and changes: unknown parts are counted, not rejected. Each message and each part is a JSON
//! object. Answers name their prompt as their parent.

use nerve_types::TsNs;
use serde_json::Value;

use super::rows::compact;
use super::transcript::TranscriptTurn;
use super::{Section, SectionKind, Tokens};

/// A message of a session with its parts in order, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoredMessage {
    /// Id of the message.
    pub id: String,
    /// The message without its parts.
    pub info: String,
    /// The parts.
    pub parts: Vec<String>,
}

/// Finds the last prompt that equals `prompt` in a session's messages, oldest first, and collects the answer to it.
///
/// Ignores whitespace and control characters. Prompts stamped before `since` (compared in milliseconds) do not match,
/// because the same prompt may have been sent before. An empty prompt matches nothing.
pub fn parse_session(messages: &[StoredMessage], prompt: &str, since: Option<TsNs>) -> TranscriptTurn {
    let wanted = compact(prompt);
    let messages: Vec<Message> = messages.iter().map(Message::new).collect();
    let is_asked = |message: &Message| {
        let at = message.info["time"]["created"].as_u64();
        let is_late = at.is_none_or(|at| since.is_none_or(|since| at >= since.0 / 1_000_000));
        is_late && message.is_prompt() && !wanted.is_empty() && compact(&message.text()) == wanted
    };
    let mut turn = TranscriptTurn::default();
    let Some(asked) = messages.iter().rposition(is_asked) else { return turn };
    turn.is_found = true;
    let is_answer = |message: &&Message| message.info["parentID"] == messages[asked].id;
    let answers: Vec<&Message> = messages[asked + 1..].iter().filter(is_answer).collect();
    for answer in &answers {
        answer.parts.iter().for_each(|part| add_part(&mut turn, part));
        add_usage(&mut turn, &answer.info["tokens"]);
        add_error(&mut turn, &answer.info["error"]);
    }
    let is_over = answers.last().is_some_and(|last| last.is_final());
    turn.is_complete = is_over || messages[asked + 1..].iter().any(Message::is_prompt);
    turn
}

struct Message {
    id: String,
    info: Value,
    parts: Vec<Value>,
}

impl Message {
    fn new(stored: &StoredMessage) -> Message {
        let parse = |text: &String| serde_json::from_str(text).unwrap_or_default();
        Message {
            id: stored.id.clone(),
            info: parse(&stored.info),
            parts: stored.parts.iter().map(parse).collect(),
        }
    }

    /// Returns true for a prompt. opencode adds messages of its own in the user's name, all of whose texts are synthetic.
    fn is_prompt(&self) -> bool {
        self.info["role"] == "user" && self.parts.iter().any(is_text)
    }

    fn text(&self) -> String {
        let texts = self.parts.iter().filter(|part| is_text(part)).filter_map(|part| part["text"].as_str());
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Returns true if no further message belongs to the turn.
    fn is_final(&self) -> bool {
        let has_more = matches!(self.info["finish"].as_str(), None | Some("tool-calls" | "unknown"));
        self.info["error"].is_object() || (self.info["time"]["completed"].is_u64() && !has_more)
    }
}

fn is_text(part: &Value) -> bool {
    part["type"] == "text" && part["synthetic"] != true && part["ignored"] != true
}

fn add_part(turn: &mut TranscriptTurn, part: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().trim_end().to_string();
    match part["type"].as_str() {
        Some("text") if !is_text(part) => {}
        Some("text") => push(turn, SectionKind::Text, &text(&part["text"])),
        Some("reasoning") => push(turn, SectionKind::Thinking, &text(&part["text"])),
        Some("tool") => {
            let state = &part["state"];
            let status = match state["status"].as_str().unwrap_or_default() {
                "completed" => "ok",
                "error" if text(&state["error"]).contains("rejected permission") => "rejected",
                other => other,
            };
            let result = if state["output"].is_string() { &state["output"] } else { &state["error"] };
            let call = Section::new(SectionKind::ToolCall, text(result)).with("tool", text(&part["tool"]));
            let call = call.with("id", text(&part["callID"])).with("status", status);
            turn.sections.push(call.with("args", state["input"].to_string()));
        }
        Some(
            "step-start" | "step-finish" | "snapshot" | "patch" | "file" | "agent" | "subtask" | "retry"
            | "compaction",
        ) => {}
        _ => turn.unknown += 1,
    }
}

/// Adds the usage of one request. Input includes tokens read from and written to the cache.
fn add_usage(turn: &mut TranscriptTurn, usage: &Value) {
    if !usage.is_object() {
        return;
    }
    let sum = |counts: [&Value; 3], before: Option<u64>| {
        Some(counts.into_iter().filter_map(Value::as_u64).fold(before.unwrap_or(0), u64::saturating_add))
    };
    let Tokens { input, output, .. } = turn.tokens.get_or_insert_default();
    *input = sum([&usage["input"], &usage["cache"]["read"], &usage["cache"]["write"]], *input);
    *output = sum([&usage["output"], &usage["reasoning"], &Value::Null], *output);
}

fn add_error(turn: &mut TranscriptTurn, error: &Value) {
    let name = error["name"].as_str().unwrap_or_default();
    let message = error["data"]["message"].as_str().filter(|message| !message.is_empty()).unwrap_or(name);
    match name {
        "MessageAbortedError" => push(turn, SectionKind::Interrupted, "interrupted"),
        _ => push(turn, SectionKind::Error, message),
    }
}

fn push(turn: &mut TranscriptTurn, kind: SectionKind, text: &str) {
    let text = text.trim_start_matches('\n');
    if !text.is_empty() {
        turn.sections.push(Section::new(kind, text));
    }
}
