//! Reads an agent's session file as it is written and reports each activity once.
//!
//! The formats are undocumented and change: known lines are reported, unknown ones are counted. Prompts and answers are not
//! reported, because the turn contains them.

#[cfg(test)]
mod claude_tests;

use std::collections::VecDeque;

use nerve_types::activity::{Activity, Status, TsMs};
use nerve_types::token_usage::TokenUsage;

use crate::parse::copilot_events::CopilotDecoder;
use crate::parse::entry::{CallStatus, Entry, Item, ResponseUsage};
use crate::parse::gemini_chat::ChatDecoder;
use crate::parse::kimi::wire::WireDecoder;
use crate::parse::line_decoder::LineDecoder;
use crate::parse::opencode_session::{SessionDecoder, StoredMessage};
use crate::parse::pi_session::PiDecoder;
use crate::parse::qwen_chat::QwenDecoder;
use crate::parse::rollout::RolloutDecoder;
use crate::parse::transcript::ClaudeDecoder;
use crate::profile::TranscriptKind;

/// Maximum size of a reported text in bytes: a thought, arguments, an output. The rest is cut off with a note.
const TEXT_LIMIT: usize = 64 << 10;
/// Maximum number of running tools that are tracked. If there are more, the oldest are reported without their names.
const MAX_CALLS: usize = 256;

/// Reads one conversation in order.
#[derive(Debug)]
pub struct ActivityReader {
    decoder: Decoder,
    fold: ActivityFold,
    unknown: usize,
}

#[derive(Debug)]
enum Decoder {
    Claude(ClaudeDecoder),
    Codex(RolloutDecoder),
    Gemini(ChatDecoder),
    Opencode(SessionDecoder),
    Pi(PiDecoder),
    Qwen(QwenDecoder),
    Copilot(CopilotDecoder),
    Kimi(WireDecoder),
}

impl ActivityReader {
    /// Creates a reader at the beginning of a conversation.
    pub fn new(kind: TranscriptKind) -> ActivityReader {
        let decoder = match kind {
            TranscriptKind::Claude => Decoder::Claude(ClaudeDecoder::default()),
            TranscriptKind::Codex => Decoder::Codex(RolloutDecoder::default()),
            TranscriptKind::Gemini => Decoder::Gemini(ChatDecoder::default()),
            TranscriptKind::Opencode | TranscriptKind::Kilo => Decoder::Opencode(SessionDecoder::default()),
            TranscriptKind::Pi => Decoder::Pi(PiDecoder),
            TranscriptKind::Qwen => Decoder::Qwen(QwenDecoder::default()),
            TranscriptKind::Copilot => Decoder::Copilot(CopilotDecoder::default()),
            TranscriptKind::Kimi => Decoder::Kimi(WireDecoder::default()),
        };
        ActivityReader { decoder, fold: ActivityFold::default(), unknown: 0 }
    }

    /// Returns the activities of a line. `now` is the time for lines without one.
    ///
    /// | in the session file | activity |
    /// |---|---|
    /// | reasoning; text before a tool | thought |
    /// | a tool | tool start, running; its arguments are JSON if the agent's are |
    /// | its result | tool output: completed, failed, cancelled (rejected), running (in the background) |
    /// | a changed file | file edit |
    /// | an error that ends the turn | error |
    /// | the tokens of a response | usage, once |
    pub fn read_line(&mut self, line: &str, now: TsMs) -> Vec<Activity> {
        let mut activities = Vec::new();
        // A machine that lost power may leave zeros.
        let line = line.trim_matches(|c: char| c == '\0' || c.is_whitespace());
        if line.is_empty() {
            return activities;
        }
        let add = &mut |entry| self.unknown += self.fold.add(entry, now, &mut activities);
        let decoded = match &mut self.decoder {
            Decoder::Claude(decoder) => decoder.decode_text(line, add),
            Decoder::Codex(decoder) => decoder.decode_text(line, add),
            Decoder::Gemini(decoder) => decoder.decode_text(line, add),
            Decoder::Pi(decoder) => decoder.decode_text(line, add),
            Decoder::Qwen(decoder) => decoder.decode_text(line, add),
            Decoder::Copilot(decoder) => decoder.decode_text(line, add),
            Decoder::Kimi(decoder) => decoder.decode_text(line, add),
            Decoder::Opencode(_) => Ok(()),
        };
        self.unknown += usize::from(decoded.is_err());
        activities
    }

    /// Returns the activities of a message that is new or has changed.
    pub fn read_message(&mut self, message: &StoredMessage, now: TsMs) -> Vec<Activity> {
        let mut activities = Vec::new();
        if let Decoder::Opencode(decoder) = &mut self.decoder {
            decoder.decode(message, |entry| self.unknown += self.fold.add(entry, now, &mut activities));
        }
        activities
    }

    /// Returns the number of entries of unknown kinds so far.
    pub fn unknown(&self) -> usize {
        self.unknown
    }
}

/// Turns entries into activities. It tracks running tools, because their results do not name them.
#[derive(Debug, Default)]
struct ActivityFold {
    /// Id and name of running tools, oldest first.
    calls: VecDeque<(String, String)>,
    /// Id and name of tools that run in the background: their calls have results already.
    background: VecDeque<(String, String)>,
    /// A text that is a thought if a tool follows, and otherwise an answer.
    pending: Option<(String, TsMs)>,
}

impl ActivityFold {
    /// Adds the activities of an entry. Returns 1 for an entry of an unknown kind, otherwise 0.
    fn add(&mut self, entry: Entry, now: TsMs, activities: &mut Vec<Activity>) -> usize {
        let at = entry.at.unwrap_or(now);
        match entry.item {
            Item::Text(text) if text.trim().is_empty() => {}
            Item::Text(text) => self.pending = Some((text, at)),
            Item::Thinking(text) => activities.extend(thought(&text, at)),
            Item::Call { id, name, args } => {
                activities.extend(self.pending.take().and_then(|(text, at)| thought(&text, at)));
                track(&mut self.calls, (id.clone(), name.clone()));
                let args = truncate(args);
                activities.push(Activity::ToolStart {
                    name,
                    args,
                    execution: id,
                    status: Status::Running,
                    at,
                });
            }
            Item::Output { id, text, status } => {
                let name = untrack(&mut self.calls, &id).unwrap_or_default();
                if status == CallStatus::Running {
                    track(&mut self.background, (id.clone(), name.clone()));
                }
                activities.push(tool_output(id, name, &text, status, at));
            }
            Item::BackgroundEnd { id, text, status } => {
                let name = untrack(&mut self.background, &id);
                activities.extend(name.map(|name| tool_output(id, name, &text, status, at)));
            }
            Item::Edit { path, added, removed, description } => {
                activities.push(Activity::FileEdit { path, added, removed, description, at });
            }
            Item::Error(message) => activities.push(Activity::Error { message: truncate(message), at }),
            // Tools that were running have no result.
            Item::Interrupted(_) => activities.extend(self.calls.drain(..).map(|(execution, name)| {
                let (output, status) = (String::new(), Status::Cancelled);
                Activity::ToolOutput { name, output, execution, status, at }
            })),
            Item::Prompt(_) | Item::Final | Item::End => self.pending = None,
            Item::Usage(usage) => activities.extend(usage_activity(usage, at)),
            Item::Session(_) | Item::Context(_) | Item::Rewind => {}
            Item::Unknown => return 1,
        }
        0
    }
}

/// Adds a tool to those that are tracked.
fn track(calls: &mut VecDeque<(String, String)>, call: (String, String)) {
    calls.push_back(call);
    if calls.len() > MAX_CALLS {
        calls.pop_front();
    }
}

/// Removes a tool and returns its name.
fn untrack(calls: &mut VecDeque<(String, String)>, id: &str) -> Option<String> {
    let position = calls.iter().position(|(call, _)| call == id)?;
    calls.remove(position).map(|(_, name)| name)
}

fn tool_output(execution: String, name: String, text: &str, status: CallStatus, at: TsMs) -> Activity {
    let status = match status {
        CallStatus::Running => Status::Running,
        CallStatus::Ok => Status::Completed,
        CallStatus::Error => Status::Failed,
        CallStatus::Rejected => Status::Cancelled,
    };
    Activity::ToolOutput { name, output: truncate(text.trim_end().to_string()), execution, status, at }
}

/// Returns a thought; `None` for an empty text, such as thinking that the API omits.
fn thought(text: &str, at: TsMs) -> Option<Activity> {
    let text = text.trim();
    (!text.is_empty()).then(|| Activity::Thought { text: truncate(text.to_string()), reasoning: None, at })
}

/// Returns the usage of a response; `None` without tokens, as after an error or an interruption.
fn usage_activity(usage: ResponseUsage, at: TsMs) -> Option<Activity> {
    let TokenUsage { input, output, cache_read, cache_write } = usage.tokens;
    let model = usage.model.map(truncate);
    (usage.tokens.total() > 0).then_some(Activity::Usage {
        input,
        output,
        cache_read,
        cache_write,
        model,
        at,
    })
}

/// Cuts a text at [`TEXT_LIMIT`] bytes and adds a note about the rest.
fn truncate(mut text: String) -> String {
    let whole = text.len();
    if whole > TEXT_LIMIT {
        text.truncate(text.floor_char_boundary(TEXT_LIMIT));
        let missing = whole - text.len();
        text.push_str(&format!("\n[{missing} more bytes are not shown]"));
    }
    text
}
