//! Parser for Claude Code's session transcript (`~/.claude/projects/<cwd>/<session>.jsonl`), which is complete where
//! the screen is not.
//!
//! The format is undocumented and changes: unknown lines are counted, not rejected. Lines form a tree by `parentUuid`.
//! A rewound or forked conversation has several branches in one file, so a line counts only if it does not descend from
//! a message before the prompt.

mod cut;
mod kinds;
mod turn_list;
mod usage;

pub(super) use cut::PathRewriter;
pub use cut::{CutError, TranscriptCut, cut, cut_at, turns};
pub(crate) use kinds::{is_known_block, is_known_line};
pub(super) use turn_list::turn_list;
pub(super) use usage::read_usage;

use std::collections::{BTreeMap, HashMap, HashSet};

use nerve_types::TsNs;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::entry::{ResponseUsage, is_recent_enough, time};
use super::rows::compact;
use super::{Section, SectionKind, Tokens};

/// One turn of a transcript.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TranscriptTurn {
    /// The prompt is in the transcript. If not, only `unknown` is meaningful.
    pub is_found: bool,
    /// The sections in order. Tool calls have `tool`, `args` (compact JSON) and `id`; once there is a result, also
    /// `status` (`ok`, `error`, `rejected`) and the result as content.
    pub sections: Vec<Section>,
    /// Sums over the turn's requests, each counted once. Input includes tokens read from and written to the cache.
    pub tokens: Option<Tokens>,
    /// The turn is over: its duration was written, it was interrupted, the API rejected it, or another prompt follows.
    pub is_complete: bool,
    /// The last message is marked as final (`stop_reason` `end_turn` or `stop_sequence`) and has text. Meaningful only
    /// together with another signal that the turn is over: each block of a message has its own line, and a hook may
    /// make the agent continue.
    pub said_end: bool,
    /// The session of the prompt.
    pub session_id: Option<String>,
    /// Number of unknown lines and blocks and of malformed lines. A truncated last line is still being written and does
    /// not count.
    pub unknown: usize,
}

/// Finds the last user message that equals `prompt`, and collects the answer to it.
///
/// Ignores whitespace, control characters, system reminders and the wrappers of pasted text. An empty prompt matches
/// the user's last message. Messages stamped before `since` (compared in milliseconds) do not match, because the same
/// prompt may have been sent before.
pub fn parse_turn<'a>(
    lines: impl Iterator<Item = &'a str>,
    prompt: &str,
    since: Option<TsNs>,
) -> TranscriptTurn {
    let mut reader = Reader { wanted: compact(&strip_wrappers(prompt)), since, ..Reader::default() };
    for line in json_lines::<Line>(lines) {
        match line {
            Some(line) => reader.line(line),
            None => reader.unknown += 1,
        }
    }
    reader.finish()
}

/// The relevant fields of a line; serde skips the rest without building it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    uuid: Option<String>,
    parent_uuid: Option<String>,
    /// Line that the first line after a compaction continues.
    #[serde(default, deserialize_with = "optional_string")]
    logical_parent_uuid: Option<String>,
    session_id: Option<String>,
    /// The session with which the process began.
    #[serde(default, rename = "session_id", deserialize_with = "optional_string")]
    process_session_id: Option<String>,
    /// The message to which the line belongs.
    #[serde(default, deserialize_with = "optional_string")]
    leaf_uuid: Option<String>,
    #[serde(default, deserialize_with = "optional_string")]
    message_id: Option<String>,
    timestamp: Option<String>,
    subtype: Option<String>,
    message: Option<Message>,
    tool_denial_kind: Option<Value>,
    #[serde(default)]
    is_sidechain: bool,
    #[serde(default)]
    is_meta: bool,
    #[serde(default)]
    is_compact_summary: bool,
    #[serde(default)]
    is_api_error_message: bool,
}

#[derive(Deserialize)]
struct Message {
    id: Option<String>,
    model: Option<String>,
    #[serde(default)]
    content: Value,
    stop_reason: Option<String>,
    usage: Option<Usage>,
}

/// The usage of a response. All lines of one message have the same, or that so far.
#[derive(Deserialize, Clone, Copy, Debug)]
pub(crate) struct Usage {
    #[serde(default)]
    input_tokens: Option<u64>,
    #[serde(default)]
    cache_creation_input_tokens: Option<u64>,
    #[serde(default)]
    cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens: Option<u64>,
}

impl Usage {
    /// Returns the usage of a response of `model`; `None` for a message made up by the program, which costs nothing.
    pub(crate) fn of_response(self, model: Option<&str>) -> Option<ResponseUsage> {
        (model != Some("<synthetic>")).then(|| ResponseUsage {
            input: self.input_tokens.unwrap_or(0),
            output: self.output_tokens.unwrap_or(0),
            cache_read: self.cache_read_input_tokens.unwrap_or(0),
            cache_write: self.cache_creation_input_tokens.unwrap_or(0),
            model: model.map(str::to_string),
        })
    }
}

#[derive(Default)]
struct Reader {
    wanted: String,
    since: Option<TsNs>,
    unknown: usize,
    /// Messages before the prompt or on other branches.
    outside: HashSet<String>,
    inside: HashSet<String>,
    turn: Option<Turn>,
}

#[derive(Default)]
struct Turn {
    sections: Vec<Section>,
    /// Index in `sections` of the call with this id.
    calls: HashMap<String, usize>,
    usage: BTreeMap<String, ResponseUsage>,
    is_complete: bool,
    said_end: bool,
    /// Another prompt follows, so no further line belongs to this turn.
    is_closed: bool,
    session_id: Option<String>,
}

impl Reader {
    fn line(&mut self, line: Line) {
        if line.is_sidechain {
            return;
        }
        if !is_known_line(&line.kind) {
            self.unknown += 1;
        }
        let Some(user_text) = user_text(&line) else {
            if self.belongs_to_turn(&line) {
                self.answer(line);
            }
            return;
        };
        if self.matches(&user_text, line.timestamp.as_deref()) {
            self.outside.extend(self.inside.drain());
            self.turn = Some(Turn { session_id: line.session_id, ..Turn::default() });
            self.inside.extend(line.uuid);
        } else if self.belongs_to_turn(&line)
            && let Some(turn) = &mut self.turn
        {
            turn.is_complete = true;
            turn.is_closed = true;
        }
    }

    fn matches(&self, user_text: &str, timestamp: Option<&str>) -> bool {
        is_recent_enough(timestamp.and_then(time), self.since)
            && (self.wanted.is_empty() || compact(&strip_wrappers(user_text)) == self.wanted)
    }

    /// Returns true if the line belongs to the turn, and records its side of the prompt. A line without a known parent
    /// belongs to it.
    fn belongs_to_turn(&mut self, line: &Line) -> bool {
        let is_outside = self.turn.as_ref().is_none_or(|turn| turn.is_closed)
            || line.parent_uuid.as_ref().is_some_and(|parent| self.outside.contains(parent));
        let side = if is_outside { &mut self.outside } else { &mut self.inside };
        side.extend(line.uuid.clone());
        !is_outside
    }

    fn answer(&mut self, line: Line) {
        if let Some(turn) = &mut self.turn {
            self.unknown += turn.add_line(line);
        }
    }

    fn finish(self) -> TranscriptTurn {
        match self.turn {
            Some(turn) => turn.finish(self.unknown),
            None => TranscriptTurn { unknown: self.unknown, ..TranscriptTurn::default() },
        }
    }
}

impl Turn {
    fn finish(self, unknown: usize) -> TranscriptTurn {
        let sum =
            |part: fn(&ResponseUsage) -> u64| self.usage.values().map(part).fold(0, u64::saturating_add);
        let tokens = (!self.usage.is_empty()).then(|| Tokens {
            input: Some(sum(ResponseUsage::whole_input)),
            output: Some(sum(|usage| usage.output)),
            total: None,
        });
        TranscriptTurn {
            is_found: true,
            sections: self.sections,
            tokens,
            is_complete: self.is_complete,
            said_end: self.said_end,
            session_id: self.session_id,
            unknown,
        }
    }

    /// Adds a line of the answer and returns the number of unknown blocks.
    fn add_line(&mut self, line: Line) -> usize {
        match (line.kind.as_str(), line.message) {
            ("system", _) => {
                self.is_complete |= line.subtype.as_deref() == Some("turn_duration");
                0
            }
            ("assistant", Some(message)) => self.assistant(message, line.is_api_error_message),
            ("user", Some(message)) => self.tool_results(&message.content, line.tool_denial_kind.is_some()),
            _ => 0,
        }
    }

    /// Adds the blocks of an assistant line and returns the number of unknown ones.
    fn assistant(&mut self, message: Message, is_api_error: bool) -> usize {
        if let Some(usage) = message.usage.and_then(|usage| usage.of_response(message.model.as_deref())) {
            // Each block has its own line with the usage so far: the last one counts.
            self.usage.insert(message.id.unwrap_or_default(), usage);
        }
        self.is_complete = is_api_error;
        let blocks = match message.content {
            Value::Array(blocks) => blocks,
            Value::String(text) => vec![serde_json::json!({ "type": "text", "text": text })],
            _ => return 1,
        };
        let is_last = matches!(message.stop_reason.as_deref(), Some("end_turn" | "stop_sequence"));
        let unknown = blocks.iter().filter(|block| !self.block(block, is_api_error)).count();
        let has_words =
            blocks.iter().any(|block| block["type"] == "text" && !content_text(block).trim().is_empty());
        self.said_end = is_last && has_words;
        unknown
    }

    /// Adds a block; returns false for an unknown kind.
    fn block(&mut self, block: &Value, is_api_error: bool) -> bool {
        let text = |key: &str| block[key].as_str().unwrap_or_default().trim_start_matches('\n').trim_end();
        match block["type"].as_str() {
            Some("text") if is_api_error => self.push(SectionKind::Error, text("text")),
            Some("text") => self.push(SectionKind::Text, text("text")),
            Some("thinking") => self.push(SectionKind::Thinking, text("thinking")),
            Some("tool_use") => {
                let call = Section::new(SectionKind::ToolCall, "")
                    .with("tool", text("name"))
                    .with("args", block["input"].to_string());
                self.calls.insert(text("id").to_string(), self.sections.len());
                self.sections.push(call.with("id", text("id")));
            }
            kind => return kind.is_some_and(is_known_block),
        }
        true
    }

    fn push(&mut self, kind: SectionKind, text: &str) {
        if !text.is_empty() {
            self.sections.push(Section::new(kind, text));
        }
    }

    /// Attaches results to their calls and adds interruptions. Returns the number of results without a call.
    fn tool_results(&mut self, content: &Value, is_denied: bool) -> usize {
        self.said_end = false;
        let whole = std::slice::from_ref(content);
        let mut orphans = 0;
        for block in content.as_array().map_or(whole, Vec::as_slice) {
            if block["type"] == "tool_result" {
                let id = block["tool_use_id"].as_str().unwrap_or_default();
                let Some(call) = self.calls.get(id).and_then(|&at| self.sections.get_mut(at)) else {
                    orphans += 1;
                    continue;
                };
                let is_error = block["is_error"].as_bool().unwrap_or(false);
                let status = if is_denied {
                    "rejected"
                } else if is_error {
                    "error"
                } else {
                    "ok"
                };
                call.content = content_text(&block["content"]).trim_end().to_string();
                call.metadata.insert("status".to_string(), status.to_string());
            } else if let Some(words) = interruption(&content_text(block)) {
                self.sections.push(Section::new(SectionKind::Interrupted, words));
                self.is_complete = true;
            }
        }
        orphans
    }
}

/// Decodes the lines of a session file, without empty ones. `None` stands for a malformed line. A malformed last line ends the
/// iteration, because it is still being written.
pub(super) fn json_lines<'a, T: DeserializeOwned>(
    lines: impl Iterator<Item = &'a str>,
) -> impl Iterator<Item = Option<T>> {
    let mut lines = lines.map(str::trim).filter(|line| !line.is_empty()).peekable();
    std::iter::from_fn(move || {
        let decoded = serde_json::from_str(lines.next()?).ok();
        (decoded.is_some() || lines.peek().is_some()).then_some(decoded)
    })
}

/// Returns the text typed by the user; `None` for tool results, interruptions and text added by the program.
fn user_text(line: &Line) -> Option<String> {
    if line.kind != "user" || line.is_meta || line.is_compact_summary {
        return None;
    }
    let content = &line.message.as_ref()?.content;
    let user_text = match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) if blocks.iter().any(|block| block["type"] == "tool_result") => return None,
        Value::Array(blocks) => {
            blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => return None,
    };
    if interruption(&user_text).is_some() { None } else { Some(user_text) }
}

/// Deserializes a string; any other type becomes `None`.
fn optional_string<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => Some(text),
        _ => None,
    })
}

/// Returns the text of a string, a text block or a list of them.
fn content_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().map(content_text).collect::<Vec<_>>().join("\n"),
        Value::Object(block) => block.get("text").and_then(Value::as_str).unwrap_or_default().to_string(),
        _ => String::new(),
    }
}

/// Returns the words inside `[Request interrupted by user]` or `[Request interrupted by user for tool use]`.
fn interruption(text: &str) -> Option<&str> {
    let words = text.trim().strip_prefix('[')?.strip_suffix(']')?;
    words.starts_with("Request interrupted by user").then_some(words)
}

/// Removes system reminders and the wrappers of pasted text.
fn strip_wrappers(user_text: &str) -> String {
    let mut text = String::with_capacity(user_text.len());
    let mut rest = user_text;
    while let Some(open) = rest.find('<') {
        text.push_str(&rest[..open]);
        rest = &rest[open..];
        if let Some(inner) = rest.strip_prefix("<system-reminder>")
            && let Some(end) = inner.find("</system-reminder>")
        {
            rest = &inner[end + "</system-reminder>".len()..];
        } else if (rest.starts_with("<pasted_content ") || rest.starts_with("</pasted_content"))
            && let Some(end) = rest.find('>')
        {
            rest = &rest[end + 1..];
        } else {
            text.push('<');
            rest = &rest[1..];
        }
    }
    text + rest
}
