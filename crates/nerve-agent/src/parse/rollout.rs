//! Decoder for Codex's session file (`~/.codex/sessions/<date>/rollout-<time>-<id>.jsonl`, version 0.169), which is
//! complete where the alternate screen is not.
//!
//! The format is undocumented and changes: unknown lines are counted, not rejected. Lines follow each other in time: a
//! turn extends from its prompt to the end of its task or to the next prompt.

use std::collections::VecDeque;

use nerve_types::activity::TsMs;
use nerve_types::token_usage::TokenUsage;
use serde::Deserialize;
use serde_json::Value;

use super::entry::{CallStatus, Entry, Item, ResponseUsage, edit_of_diff, time};
use super::line_decoder::{LineDecoder, json_lines};
use super::usage_list::UsageList;

/// Maximum number of tools whose outcome is remembered until their output.
const MAX_OUTCOMES: usize = 256;

/// Reads the usage of all responses. Versions without usage records have only counts in events.
pub(super) fn read_usage(text: &str) -> UsageList {
    let (mut list, mut turn) = (UsageList::default(), 0);
    let (mut decoder, mut counts) = (RolloutDecoder::default(), UsageList::default());
    let (mut thread, mut total, mut has_records) = (Value::Null, Value::Null, false);
    for line in json_lines::<Line>(text.lines()) {
        let Some(line) = line else {
            list.damaged += 1;
            continue;
        };
        let payload = &line.payload;
        if line.kind == "session_meta" && thread.is_null() {
            thread = payload["id"].clone();
        }
        if line.kind == "token_usage_record" {
            has_records = true;
            // A fork repeats the usage of its source.
            if payload["thread_id"] != thread {
                continue;
            }
        }
        let info = &payload["info"];
        // An event may be repeated without a new response.
        if payload["type"] == "token_count" && info["total_token_usage"] != total {
            total = info["total_token_usage"].clone();
            let usage = decoder.usage(&info["last_token_usage"]);
            counts.add_entry(Entry { at: line.timestamp.as_deref().and_then(time), item: usage }, &mut turn);
        }
        decoder.decode(&line, &mut |entry| list.add_entry(entry, &mut turn));
    }
    if !has_records {
        list.records = counts.records;
    }
    list
}

/// A line; its payload depends on the type.
#[derive(Deserialize)]
pub(crate) struct Line {
    timestamp: Option<String>,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    payload: Value,
}

impl Line {
    /// Returns the number of turns that the user took back, if the line says so.
    pub(crate) fn rolled_back(&self) -> Option<usize> {
        let is_rollback = self.kind == "event_msg" && self.payload["type"] == "thread_rolled_back";
        let turns = self.payload["num_turns"].as_u64().filter(|_| is_rollback)?;
        Some(usize::try_from(turns).unwrap_or(usize::MAX))
    }
}

/// Decodes the lines of one conversation in order.
#[derive(Debug, Default)]
pub(crate) struct RolloutDecoder {
    /// Outcomes of tools, by id, that an event reports before the tool's output. Oldest first.
    outcomes: VecDeque<(String, CallStatus)>,
    /// The model of the current turn.
    model: Option<String>,
}

impl LineDecoder for RolloutDecoder {
    type Line = Line;

    fn decode(&mut self, line: &Line, emit: &mut dyn FnMut(Entry)) {
        let at = line.timestamp.as_deref().and_then(time);
        let payload = &line.payload;
        let kind = payload["type"].as_str().unwrap_or_default();
        let mut add = |item| emit(Entry { at, item });
        match (line.kind.as_str(), kind) {
            ("session_meta", _) => {
                payload["id"].as_str().into_iter().for_each(|id| add(Item::Session(id.to_string())))
            }
            ("response_item", _) => self.decode_item(kind, payload, add),
            ("token_usage_record", _) => add(self.usage(&payload["usage"])),
            ("event_msg", "item_completed") => self.decode_completed(&payload["item"], at, emit),
            ("event_msg", "task_complete") => add(match payload["error"]["message"].as_str() {
                Some(error) => Item::Error(error.to_string()),
                None => Item::End,
            }),
            ("event_msg", "turn_aborted") => {
                add(Item::Interrupted(payload["reason"].as_str().unwrap_or("interrupted").to_string()));
            }
            ("turn_context", _) => {
                self.model = payload["model"].as_str().map(str::to_string).or(self.model.take());
            }
            // Other events repeat the items.
            ("event_msg" | "world_state" | "compacted", _) => {}
            _ => add(Item::Unknown),
        }
    }
}

impl RolloutDecoder {
    /// Returns the usage of a response to the current turn's model.
    fn usage(&self, usage: &Value) -> Item {
        let count = |name: &str| usage[name].as_u64().unwrap_or(0);
        let tokens = TokenUsage::with_cache_in_input(
            count("input_tokens"),
            count("output_tokens"),
            count("cached_input_tokens"),
            count("cache_write_input_tokens"),
        );
        Item::Usage(ResponseUsage { tokens, model: self.model.clone() })
    }

    /// Decodes an item of the Responses API.
    fn decode_item(&mut self, kind: &str, payload: &Value, mut add: impl FnMut(Item)) {
        let word = |key: &str| payload[key].as_str();
        match kind {
            "message" if payload["role"] == "user" => {
                let text = text_of(&payload["content"]);
                // Codex adds messages of its own in the user's name, all of which begin with a tag.
                add(if text.starts_with('<') { Item::Context(text) } else { Item::Prompt(text) });
            }
            "message" if payload["role"] == "assistant" => add(Item::Text(text_of(&payload["content"]))),
            // Instructions for the model.
            "message" => {}
            "reasoning" => add(Item::Thinking(text_of(&payload["summary"]))),
            "function_call" | "custom_tool_call" | "local_shell_call" | "web_search_call" => {
                let args = [&payload["arguments"], &payload["input"], &payload["action"]];
                let args = args.into_iter().find(|args| !args.is_null());
                let args = args.map(|args| args.as_str().map_or_else(|| args.to_string(), str::to_string));
                let name = word("name").unwrap_or(kind.trim_end_matches("_call")).to_string();
                let id = word("call_id").or(word("id")).unwrap_or_default().to_string();
                add(Item::Call { id: id.clone(), name, args: args.unwrap_or_default() });
                // Written when it has ended, without an output.
                if kind == "web_search_call" {
                    add(Item::Output { id, text: String::new(), status: CallStatus::Ok });
                }
            }
            "function_call_output" | "custom_tool_call_output" => {
                let id = word("call_id").unwrap_or_default().to_string();
                let known = self.outcomes.iter().position(|(known, _)| *known == id);
                let known = known.and_then(|at| self.outcomes.remove(at)).map(|(_, status)| status);
                let is_failed = payload["output"]["success"] == false;
                let status = known.unwrap_or(if is_failed { CallStatus::Error } else { CallStatus::Ok });
                add(Item::Output { id, text: text_of(&payload["output"]), status });
            }
            _ => add(Item::Unknown),
        }
    }

    /// Decodes the event that a tool has ended, which precedes the tool's output.
    fn decode_completed(&mut self, item: &Value, at: Option<TsMs>, mut emit: impl FnMut(Entry)) {
        let status = match item["status"].as_str() {
            Some("completed") => CallStatus::Ok,
            Some("failed") => CallStatus::Error,
            Some("declined") => CallStatus::Rejected,
            _ => return,
        };
        self.outcomes.push_back((item["id"].as_str().unwrap_or_default().to_string(), status));
        if self.outcomes.len() > MAX_OUTCOMES {
            self.outcomes.pop_front();
        }
        let changes = item["changes"].as_object().filter(|_| status == CallStatus::Ok);
        for (path, change) in changes.into_iter().flatten() {
            emit(Entry { at, item: edit(path, change) });
        }
    }
}

fn edit(path: &str, change: &Value) -> Item {
    let content = change["content"].as_str().unwrap_or_default();
    let lines = u64::try_from(content.lines().count()).unwrap_or(u64::MAX);
    let (added, removed, description) = match change["type"].as_str() {
        Some("add") => (lines, 0, "created"),
        Some("delete") => (0, lines, "deleted"),
        _ => {
            let moved = change["move_path"].as_str().map(|to| format!("moved to {to}"));
            return edit_of_diff(path, change["unified_diff"].as_str().unwrap_or_default(), moved);
        }
    };
    Item::Edit { path: path.to_string(), added, removed, description: Some(description.to_string()) }
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
