//! Parser for Claude Code's session transcript (`~/.claude/projects/<cwd>/<session>.jsonl`), which is complete where
//! the screen is not.
//!
//! The format is undocumented and changes: unknown lines are counted, not rejected. Lines form a tree by `parentUuid`.
//! A rewound or forked conversation has several branches in one file, so a line counts only if it does not descend from
//! a message before the prompt.

mod cut;
mod decoder;
mod kinds;
mod turn_list;
mod usage;

pub use super::transcript_turn::TranscriptTurn;
pub use cut::{CutError, TranscriptCut, cut, cut_at, turns};
pub(super) use cut::{PathRewriter, is_after};
pub(crate) use decoder::ClaudeDecoder;
pub(super) use turn_list::turn_list;
pub(super) use usage::read_usage;

use std::collections::{HashMap, HashSet};

use nerve_types::TsNs;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::entry::{Item, ResponseUsage, TurnFold, is_recent_enough, time};
use super::line_decoder::{LineDecoder, json_lines};
use super::rows::compact;
use kinds::is_known_line;
use nerve_types::token_usage::TokenUsage;

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
    let mut decoded = Vec::new();
    for line in json_lines::<Line>(lines) {
        match line {
            Some(line) => decoded.push(line),
            None => reader.unknown += 1,
        }
    }
    in_tree_order(decoded).for_each(|line| reader.read_line(line));
    reader.finish()
}

/// Moves each line behind the one that it continues. Claude Code 2.1.200 may write its first answer before the prompt.
fn in_tree_order(lines: Vec<Line>) -> impl Iterator<Item = Line> {
    // Of repeated lines, the first counts.
    let named = lines.iter().enumerate().rev().filter_map(|(at, line)| Some((line.uuid.as_deref()?, at)));
    let index: HashMap<&str, usize> = named.collect();
    let parent = |line: &Line| index.get(line.parent_uuid.as_deref()?).copied();
    let parents: Vec<Option<usize>> = lines.iter().map(parent).collect();
    let (mut order, mut is_placed) = (Vec::with_capacity(lines.len()), vec![false; lines.len()]);
    for at in 0..lines.len() {
        let (mut chain, mut next) = (Vec::new(), Some(at));
        while let Some(at) = next.filter(|at| !is_placed[*at]) {
            is_placed[at] = true;
            chain.push(at);
            next = parents[at];
        }
        order.extend(chain.into_iter().rev());
    }
    let mut lines: Vec<Option<Line>> = lines.into_iter().map(Some).collect();
    order.into_iter().filter_map(move |at| lines[at].take())
}

/// The relevant fields of a line. serde skips the others without building them. Lines outside the conversation may have
/// fields of the same names and other types.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Line {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default, deserialize_with = "lenient")]
    uuid: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    parent_uuid: Option<String>,
    /// Line that the first line after a compaction continues.
    #[serde(default, deserialize_with = "lenient")]
    logical_parent_uuid: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    session_id: Option<String>,
    /// The session with which the process began.
    #[serde(default, rename = "session_id", deserialize_with = "lenient")]
    process_session_id: Option<String>,
    /// The message to which the line belongs.
    #[serde(default, deserialize_with = "lenient")]
    leaf_uuid: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    message_id: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    timestamp: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    subtype: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    message: Option<Message>,
    tool_use_result: Option<Value>,
    tool_denial_kind: Option<Value>,
    origin: Option<Value>,
    #[serde(default, deserialize_with = "lenient")]
    is_sidechain: Option<bool>,
    #[serde(default, deserialize_with = "lenient")]
    is_meta: Option<bool>,
    #[serde(default, deserialize_with = "lenient")]
    is_compact_summary: Option<bool>,
    #[serde(default, deserialize_with = "lenient")]
    is_api_error_message: Option<bool>,
}

impl Line {
    fn is_sidechain(&self) -> bool {
        self.is_sidechain == Some(true)
    }

    fn is_api_error(&self) -> bool {
        self.is_api_error_message == Some(true)
    }
}

#[derive(Deserialize)]
struct Message {
    #[serde(default, deserialize_with = "lenient")]
    id: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    model: Option<String>,
    #[serde(default)]
    content: Value,
    #[serde(default, deserialize_with = "lenient")]
    stop_reason: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    usage: Option<Usage>,
}

/// The usage of a response. All lines of one message repeat it; it may still grow in earlier ones.
#[derive(Deserialize, Clone, Copy, Debug)]
pub(super) struct Usage {
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
    pub(super) fn of_response(self, model: Option<&str>) -> Option<ResponseUsage> {
        let tokens = TokenUsage {
            input: self.input_tokens.unwrap_or(0),
            output: self.output_tokens.unwrap_or(0),
            cache_read: self.cache_read_input_tokens.unwrap_or(0),
            cache_write: self.cache_creation_input_tokens.unwrap_or(0),
        };
        let model = model.map(str::to_string);
        (model.as_deref() != Some("<synthetic>")).then_some(ResponseUsage { tokens, model })
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

/// A turn that is being collected.
#[derive(Default)]
struct Turn {
    decoder: ClaudeDecoder,
    fold: TurnFold,
    /// Another prompt follows, so no further line belongs to this turn.
    is_closed: bool,
}

impl Reader {
    fn read_line(&mut self, line: Line) {
        if line.is_sidechain() {
            return;
        }
        let Some(user_text) = user_text(&line) else {
            match self.belongs_to_turn(&line).then_some(self.turn.as_mut()).flatten() {
                Some(turn) => turn.add_line(&line),
                None => self.unknown += usize::from(!is_known_line(&line.kind)),
            }
            return;
        };
        if self.is_wanted_prompt(&user_text, line.timestamp.as_deref()) {
            self.outside.extend(self.inside.drain());
            let earlier = self.turn.replace(Turn::new(line.session_id));
            self.unknown += earlier.map_or(0, |turn| turn.finish().unknown);
            self.inside.extend(line.uuid);
        } else if self.belongs_to_turn(&line)
            && let Some(turn) = &mut self.turn
        {
            turn.is_closed = true;
        }
    }

    fn is_wanted_prompt(&self, user_text: &str, timestamp: Option<&str>) -> bool {
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

    fn finish(self) -> TranscriptTurn {
        let mut turn = self.turn.map(Turn::finish).unwrap_or_default();
        turn.unknown += self.unknown;
        turn
    }
}

impl Turn {
    fn new(session_id: Option<String>) -> Turn {
        Turn { fold: TurnFold::of_claude(session_id), ..Turn::default() }
    }

    /// Adds a line of the answer.
    fn add_line(&mut self, line: &Line) {
        if line.kind == "assistant" {
            // Another answer may follow a seeming end.
            self.fold.reopen();
        }
        self.decoder.decode(line, &mut |entry| self.fold.add_to_turn(entry.item));
    }

    fn finish(mut self) -> TranscriptTurn {
        self.decoder.finish(|entry| self.fold.add_to_turn(entry.item));
        if self.is_closed {
            self.fold.add_to_turn(Item::End);
        }
        self.fold.finish()
    }
}

/// Returns the text typed by the user; `None` for tool results, interruptions and text added by the program.
fn user_text(line: &Line) -> Option<String> {
    if line.kind != "user" || line.is_meta == Some(true) || line.is_compact_summary == Some(true) {
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

/// Deserializes a value; `None` if it has another type.
fn lenient<'de, T: DeserializeOwned, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).ok())
}

fn blocks(content: &Value) -> &[Value] {
    content.as_array().map_or(std::slice::from_ref(content), Vec::as_slice)
}

/// Returns the text of a string, a block or a list of blocks. Blocks without text are shown by their type.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().map(text_of).collect::<Vec<_>>().join("\n"),
        Value::Object(block) => match (block.get("text"), block.get("type")) {
            (Some(Value::String(text)), _) => text.clone(),
            (_, Some(Value::String(kind))) => format!("[{kind}]"),
            _ => String::new(),
        },
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
