//! Decoder for the lines of Claude Code's transcript (version 2.1.330). Every block of a message is a line of its own, written when
//! the block is complete.

use nerve_types::activity::TsMs;
use serde_json::Value;

use super::super::entry::{CallStatus, Entry, Item, ResponseUsage, SeenIds, time};
use super::super::line_decoder::LineDecoder;
use super::kinds::{is_known_block, is_known_line};
use super::{Line, Message, blocks, interruption, text_of, user_text};

/// Decodes the lines of one conversation in order.
#[derive(Debug, Default)]
pub(crate) struct ClaudeDecoder {
    /// The usage of a message that may still grow.
    pending: Option<PendingUsage>,
    /// Ids of messages whose usage was reported.
    counted: SeenIds,
}

#[derive(Debug)]
struct PendingUsage {
    message: String,
    usage: ResponseUsage,
    at: Option<TsMs>,
}

impl LineDecoder for ClaudeDecoder {
    type Line = Line;

    /// Passes the entries of a line to `emit`. A subagent's lines are decoded like its parent's.
    fn decode(&mut self, line: &Line, emit: &mut dyn FnMut(Entry)) {
        let at = line.timestamp.as_deref().and_then(time);
        match (line.kind.as_str(), &line.message) {
            ("assistant" | "user", None) => emit(Entry { at, item: Item::Unknown }),
            ("assistant", Some(message)) if line.is_api_error() => {
                emit(Entry { at, item: Item::Error(text_of(&message.content)) });
            }
            ("assistant", Some(message)) => self.decode_answer(message, at, emit),
            ("user", Some(message)) => self.decode_user(line, message, at, emit),
            ("system", _) if line.subtype.as_deref() == Some("turn_duration") => {
                emit(Entry { at, item: Item::End });
            }
            (kind, _) if !is_known_line(kind) => emit(Entry { at, item: Item::Unknown }),
            _ => {}
        }
    }
}

impl ClaudeDecoder {
    /// Passes the usage of an unfinished message to `emit`, unless it was reported.
    pub(crate) fn finish(&mut self, mut emit: impl FnMut(Entry)) {
        if let Some(pending) = self.pending.take().filter(|pending| self.counted.is_new(&pending.message)) {
            emit(Entry { at: pending.at, item: Item::Usage(pending.usage) });
        }
    }

    fn decode_answer(&mut self, message: &Message, at: Option<TsMs>, mut emit: impl FnMut(Entry)) {
        let mut has_words = false;
        for block in blocks(&message.content) {
            let text = |key: &str| block[key].as_str().unwrap_or_default().to_string();
            let item = match block["type"].as_str() {
                None if let Value::String(text) = block => Item::Text(text.clone()),
                Some("text") => Item::Text(text("text")),
                Some("thinking") => Item::Thinking(text("thinking")),
                Some("tool_use") => {
                    Item::Call { id: text("id"), name: text("name"), args: block["input"].to_string() }
                }
                Some(kind) if is_known_block(kind) => continue,
                _ => Item::Unknown,
            };
            has_words |= matches!(&item, Item::Text(text) if !text.trim().is_empty());
            emit(Entry { at, item });
        }
        if has_words && matches!(message.stop_reason.as_deref(), Some("end_turn" | "stop_sequence")) {
            emit(Entry { at, item: Item::Final });
        }
        self.decode_usage(message, at, emit);
    }

    /// Decodes the usage in a line of a message. The counts are final once there is a stop reason; an interrupted message has none.
    fn decode_usage(&mut self, message: &Message, at: Option<TsMs>, mut emit: impl FnMut(Entry)) {
        let id = message.id.clone().unwrap_or_default();
        if self.pending.as_ref().is_some_and(|pending| pending.message != id) {
            self.finish(&mut emit);
        }
        if let Some(usage) = message.usage.and_then(|usage| usage.of_response(message.model.as_deref())) {
            self.pending = Some(PendingUsage { message: id, usage, at });
        }
        if message.stop_reason.is_some() {
            self.finish(emit);
        }
    }

    fn decode_user(&mut self, line: &Line, message: &Message, at: Option<TsMs>, mut emit: impl FnMut(Entry)) {
        let is_result = |block: &Value| block["type"] == "tool_result";
        if !blocks(&message.content).iter().any(is_result) {
            self.finish(&mut emit);
        }
        let mut add = |item| emit(Entry { at, item });
        if line.origin.as_ref().is_some_and(|origin| origin["kind"] == "task-notification") {
            return decode_background_end(&text_of(&message.content)).into_iter().for_each(add);
        }
        if let Some(prompt) = user_text(line) {
            return add(Item::Prompt(prompt));
        }
        for block in blocks(&message.content) {
            let text = text_of(block);
            if is_result(block) {
                decode_result(block, line, &mut add);
            } else if let Some(words) = interruption(&text) {
                add(Item::Interrupted(words.to_string()));
            } else {
                add(Item::Context(text));
            }
        }
    }
}

fn decode_result(block: &Value, line: &Line, mut add: impl FnMut(Item)) {
    let result = line.tool_use_result.as_ref();
    let status = if line.tool_denial_kind.is_some() {
        CallStatus::Rejected
    } else if block["is_error"] == true {
        CallStatus::Error
    } else if result.is_some_and(|result| result["status"] == "async_launched") {
        CallStatus::Running
    } else {
        CallStatus::Ok
    };
    let id = block["tool_use_id"].as_str().unwrap_or_default().to_string();
    add(Item::Output { id, text: text_of(&block["content"]), status });
    result.filter(|_| status == CallStatus::Ok).and_then(file_edit).into_iter().for_each(add);
}

/// Decodes the notification that a tool in the background has ended.
fn decode_background_end(note: &str) -> Option<Item> {
    let (head, _) = note.split_once("<result>").unwrap_or((note, ""));
    let id = tag(head, "tool-use-id")?.to_string();
    let status = match tag(head, "status") {
        Some("completed") => CallStatus::Ok,
        Some("killed" | "stopped") => CallStatus::Rejected,
        _ => CallStatus::Error,
    };
    let text = tag(note, "result").or(tag(head, "summary")).unwrap_or_default().to_string();
    Some(Item::BackgroundEnd { id, text, status })
}

/// Returns the text between the first `<name>` and `</name>`.
fn tag<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(inner, _)| inner)
}

/// Returns the file edit in a tool's result: the patch it applied, or the file it created.
fn file_edit(result: &Value) -> Option<Item> {
    let path = result["filePath"].as_str()?.to_string();
    let hunks = result["structuredPatch"].as_array()?;
    let lines = || hunks.iter().filter_map(|hunk| hunk["lines"].as_array()).flatten();
    let count = |sign: char| {
        let lines = lines().filter(|line| line.as_str().is_some_and(|line| line.starts_with(sign)));
        u64::try_from(lines.count()).unwrap_or(u64::MAX)
    };
    let is_new = result["type"] == "create";
    let (added, removed, description) = if is_new && hunks.is_empty() {
        let content = result["content"].as_str().unwrap_or_default();
        (u64::try_from(content.lines().count()).unwrap_or(u64::MAX), 0, Some("created".to_string()))
    } else if hunks.is_empty() {
        // The file was rewritten with the same content.
        return None;
    } else {
        (count('+'), count('-'), None)
    };
    Some(Item::Edit { path, added, removed, description })
}
