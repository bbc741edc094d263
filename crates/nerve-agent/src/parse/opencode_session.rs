//! Decoder for a session in the database of opencode 1.18 (`~/.local/share/opencode/opencode.db`) or Kilo 7.7
//! (`~/.local/share/kilo/kilo.db`), which is complete where the alternate screen is not.
//!
//! The format is undocumented and changes: unknown parts are counted, not rejected. Each message and each part is a JSON
//! object that is replaced while it grows. Answers name their prompt as their parent.

use nerve_types::TsNs;
use nerve_types::activity::TsMs;
use nerve_types::token_usage::TokenUsage;
use serde_json::Value;

use super::entry::{CallStatus, Entry, Item, ResponseUsage, SeenIds, TurnFold, edit_of_diff};
use super::transcript::TranscriptTurn;

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
    let mut fold = TurnFold::new(prompt, since);
    let messages: Vec<Message> = messages.iter().map(Message::new).collect();
    let is_wanted =
        |message: &Message| message.is_prompt() && fold.is_wanted(&message.text(), message.time("created"));
    let Some(prompt_index) = messages.iter().rposition(is_wanted) else { return fold.finish() };
    fold.begin();
    let is_answer = |message: &&Message| message.info["parentID"] == messages[prompt_index].id;
    let answers: Vec<&Message> = messages[prompt_index + 1..].iter().filter(is_answer).collect();
    for answer in &answers {
        answer.decode(|_, entry| fold.add(entry));
        // Another answer may follow an error.
        fold.reopen();
    }
    let is_over = answers.last().is_some_and(|last| last.is_final());
    let mut turn = fold.finish();
    turn.is_complete = is_over || messages[prompt_index + 1..].iter().any(Message::is_prompt);
    // The text may still grow.
    turn.said_end = false;
    turn
}

/// Decodes messages of one conversation, each as often as it changes. Parts are decoded once, when they are complete.
#[derive(Debug, Default)]
pub(crate) struct SessionDecoder {
    seen: SeenIds,
}

impl SessionDecoder {
    /// Passes the new entries of a message to `emit`.
    pub(crate) fn decode(&mut self, message: &StoredMessage, mut emit: impl FnMut(Entry)) {
        let message = Message::new(message);
        if message.is_prompt() {
            if self.seen.is_new(&message.id) {
                emit(Entry { at: message.time("created"), item: Item::Prompt(message.text()) });
            }
        } else if message.info["role"] == "assistant" {
            // A text is written when the tool behind it has already started: keep their order.
            let mut is_waiting = false;
            message.decode(|state, entry| match state {
                PartState::Open => is_waiting |= matches!(entry.item, Item::Text(_) | Item::Thinking(_)),
                PartState::Complete(key) if !is_waiting && self.seen.is_new(&key) => emit(entry),
                PartState::Complete(_) => {}
            });
        }
    }
}

/// States of an entry, which grows until it is complete.
enum PartState {
    /// The entry may still grow.
    Open,
    /// The entry is complete. Contains its unique key.
    Complete(String),
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

    fn time(&self, name: &str) -> Option<TsMs> {
        self.info["time"][name].as_u64().map(TsMs)
    }

    /// Returns true if no further message belongs to the turn.
    fn is_final(&self) -> bool {
        let has_more = matches!(self.info["finish"].as_str(), None | Some("tool-calls" | "unknown"));
        self.info["error"].is_object() || (self.info["time"]["completed"].is_u64() && !has_more)
    }

    /// Passes the entries of an answer to `emit`.
    fn decode(&self, mut emit: impl FnMut(PartState, Entry)) {
        let is_complete = self.time("completed").is_some();
        for (index, part) in self.parts.iter().enumerate() {
            decode_part(part, |is_open, at, name, item| {
                let state = match is_open && !is_complete {
                    true => PartState::Open,
                    false => PartState::Complete(format!("{} {index} {name}", self.id)),
                };
                emit(state, Entry { at: at.or(self.time("created")), item });
            });
        }
        let at = self.time("completed");
        let state = |name: &str| match at {
            Some(_) => PartState::Complete(format!("{} {name}", self.id)),
            None => PartState::Open,
        };
        if self.info["tokens"].is_object() {
            emit(state("usage"), Entry { at, item: Item::Usage(usage(&self.info)) });
        }
        let error = &self.info["error"];
        if error.is_object() {
            emit(state("error"), Entry { at, item: failure(error) });
        }
    }
}

fn is_text(part: &Value) -> bool {
    part["type"] == "text" && part["synthetic"] != true && part["ignored"] != true
}

/// Passes the entries of a part to `emit`: whether it still grows, its time, its name and its content.
fn decode_part(part: &Value, mut emit: impl FnMut(bool, Option<TsMs>, &str, Item)) {
    let time = |value: &Value, name: &str| value["time"][name].as_u64().map(TsMs);
    let text = |value: &Value| value.as_str().unwrap_or_default().trim_end().to_string();
    let (started, ended) = (time(part, "start"), time(part, "end"));
    let is_open = started.is_some() && ended.is_none();
    match part["type"].as_str() {
        Some("text") if !is_text(part) => {}
        Some("text") => emit(is_open, ended, "text", Item::Text(text(&part["text"]))),
        Some("reasoning") => emit(is_open, ended, "text", Item::Thinking(text(&part["text"]))),
        Some("tool") => {
            let (state, id) = (&part["state"], text(&part["callID"]));
            let status = match state["status"].as_str() {
                Some("completed") => CallStatus::Ok,
                Some("error") if text(&state["error"]).contains("rejected permission") => {
                    CallStatus::Rejected
                }
                Some("error") => CallStatus::Error,
                _ => CallStatus::Running,
            };
            let (name, args) = (text(&part["tool"]), state["input"].to_string());
            let call = Item::Call { id: id.clone(), name, args };
            emit(state["status"] == "pending", time(state, "start"), "call", call);
            let result = if state["output"].is_string() { &state["output"] } else { &state["error"] };
            let (is_open, at) = (status == CallStatus::Running, time(state, "end"));
            emit(is_open, at, "output", Item::Output { id, text: text(result), status });
            if status == CallStatus::Ok {
                edit(state).into_iter().for_each(|edit| emit(false, at, "edit", edit));
            }
        }
        Some(
            "step-start" | "step-finish" | "snapshot" | "patch" | "file" | "agent" | "subtask" | "retry"
            | "compaction",
        ) => {}
        _ => emit(false, None, "unknown", Item::Unknown),
    }
}

/// Returns the edit of a tool that changed one file.
fn edit(state: &Value) -> Option<Item> {
    let metadata = &state["metadata"];
    let diff = metadata["diff"].as_str()?;
    let paths = [&metadata["filepath"], &metadata["filediff"]["file"], &state["input"]["filePath"]];
    let path = paths.into_iter().find_map(Value::as_str)?;
    let created = (metadata["exists"] == false).then(|| "created".to_string());
    Some(edit_of_diff(path, diff, created))
}

/// Returns the usage of a message's response.
pub(super) fn usage(info: &Value) -> ResponseUsage {
    let tokens = &info["tokens"];
    let count = |count: &Value| count.as_u64().unwrap_or(0);
    let tokens = TokenUsage {
        input: count(&tokens["input"]),
        output: count(&tokens["output"]).saturating_add(count(&tokens["reasoning"])),
        cache_read: count(&tokens["cache"]["read"]),
        cache_write: count(&tokens["cache"]["write"]),
    };
    ResponseUsage { tokens, model: info["modelID"].as_str().map(str::to_string) }
}

fn failure(error: &Value) -> Item {
    let name = error["name"].as_str().unwrap_or_default();
    let message = error["data"]["message"].as_str().filter(|message| !message.is_empty()).unwrap_or(name);
    match name {
        "MessageAbortedError" => Item::Interrupted("interrupted".to_string()),
        _ => Item::Error(message.to_string()),
    }
}
