//! The entries of the session files of all agents, in one form. A turn's answer ([`TurnFold`]) and
//! the activities ([`crate::activity`]) are two folds over them, so each format has one decoder.

use std::collections::{HashMap, VecDeque};

use nerve_types::TsNs;
use nerve_types::activity::TsMs;
use nerve_types::token_usage::TokenUsage;

use super::rows::compact;
use super::transcript_turn::TranscriptTurn;
use super::{Section, SectionKind};

/// Maximum number of ids that a decoder remembers.
const MAX_IDS: usize = 1024;

/// A part of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Time at which it was written, if the file says so.
    pub(crate) at: Option<TsMs>,
    /// The content.
    pub(crate) item: Item,
}

/// The contents of entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Item {
    /// The id of the conversation.
    Session(String),
    /// A prompt of the user.
    Prompt(String),
    /// A message in the user's name that may be a prompt or may come from the agent.
    Context(String),
    /// The conversation was rewound to an earlier message.
    Rewind,
    Text(String),
    Thinking(String),
    /// A tool starts.
    Call {
        id: String,
        name: String,
        /// JSON, or text if the agent gives text.
        args: String,
    },
    /// A tool ended, or has not ended yet ([`CallStatus::Running`]).
    Output {
        id: String,
        text: String,
        status: CallStatus,
    },
    /// A tool in the background ended. May be repeated.
    BackgroundEnd {
        id: String,
        text: String,
        status: CallStatus,
    },
    /// A tool changed a file.
    Edit {
        path: String,
        added: u64,
        removed: u64,
        description: Option<String>,
    },
    /// The usage of one response.
    Usage(ResponseUsage),
    /// An error that ended the turn.
    Error(String),
    Interrupted(String),
    /// The text before it is marked as the last one of its turn.
    Final,
    /// The turn is over.
    End,
    /// An entry of an unknown kind.
    Unknown,
}

/// The tokens of one response of a model's API.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResponseUsage {
    /// The tokens.
    pub tokens: TokenUsage,
    /// The model, if it is known.
    pub model: Option<String>,
}

/// The state of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallStatus {
    Running,
    Ok,
    Error,
    Rejected,
}

impl CallStatus {
    /// Returns the value of `status` in a section's metadata.
    fn as_str(self) -> &'static str {
        match self {
            CallStatus::Running => "running",
            CallStatus::Ok => "ok",
            CallStatus::Error => "error",
            CallStatus::Rejected => "rejected",
        }
    }
}

/// Ids of parts that a file repeats, oldest first.
#[derive(Debug, Default)]
pub(crate) struct SeenIds(VecDeque<String>);

impl SeenIds {
    /// Returns true at the first call with this id.
    pub(crate) fn is_new(&mut self, id: &str) -> bool {
        if self.0.iter().any(|seen| seen == id) {
            return false;
        }
        self.0.push_back(id.to_string());
        if self.0.len() > MAX_IDS {
            self.0.pop_front();
        }
        true
    }
}

/// Parses a timestamp.
pub(crate) fn time(text: &str) -> Option<TsMs> {
    let time: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(time.as_millisecond()).ok().map(TsMs)
}

/// Returns false for a message written before `since`, compared in milliseconds.
pub(super) fn is_recent_enough(at: Option<TsMs>, since: Option<TsNs>) -> bool {
    at.is_none_or(|at| since.is_none_or(|since| at >= since.into()))
}

/// Returns the added and removed lines of a unified diff of one file as an edit.
pub(crate) fn edit_of_diff(path: &str, diff: &str, description: Option<String>) -> Item {
    let count = |sign: char| {
        // In the header, `---` and `+++` name the file.
        let hunks = diff.lines().skip_while(|line| !line.starts_with("@@"));
        u64::try_from(hunks.filter(|line| line.starts_with(sign)).count()).unwrap_or(u64::MAX)
    };
    Item::Edit { path: path.to_string(), added: count('+'), removed: count('-'), description }
}

/// Collects the answer to the last prompt that equals the wanted one.
#[derive(Debug, Default)]
pub(super) struct TurnFold {
    wanted: String,
    since: Option<TsNs>,
    turn: TranscriptTurn,
    /// Index in the sections of the call with this id.
    calls: HashMap<String, usize>,
    /// The session file marks the last text of a turn.
    marks_final: bool,
}

impl TurnFold {
    /// Creates the fold of the turn of `prompt`.
    ///
    /// Ignores whitespace and control characters. Prompts stamped before `since` (compared in milliseconds) do not
    /// match, because the same prompt may have been sent before. An empty prompt matches nothing.
    pub(super) fn new(prompt: &str, since: Option<TsNs>) -> TurnFold {
        TurnFold { wanted: compact(prompt), since, ..TurnFold::default() }
    }

    /// Creates the fold of a turn of Claude Code whose prompt was found.
    pub(super) fn of_claude(session_id: Option<String>) -> TurnFold {
        let turn = TranscriptTurn { is_found: true, session_id, ..TranscriptTurn::default() };
        TurnFold { turn, marks_final: true, ..TurnFold::default() }
    }

    /// Counts a malformed line.
    pub(super) fn count_malformed_line(&mut self) {
        self.turn.unknown += 1;
    }

    pub(super) fn add(&mut self, entry: Entry) {
        match entry.item {
            Item::Session(id) => self.turn.session_id = Some(id),
            Item::Rewind => self.turn.is_found = false,
            Item::Prompt(text) | Item::Context(text) if self.is_wanted(&text, entry.at) => self.begin(),
            Item::Prompt(_) => self.turn.is_complete |= self.turn.is_found,
            _ if !self.turn.is_found || self.turn.is_complete => {}
            item => self.add_to_turn(item),
        }
    }

    pub(super) fn finish(self) -> TranscriptTurn {
        match self.turn.is_found {
            true => self.turn,
            false => TranscriptTurn { unknown: self.turn.unknown, ..TranscriptTurn::default() },
        }
    }

    /// Returns true if a message is the wanted prompt.
    pub(super) fn is_wanted(&self, text: &str, at: Option<TsMs>) -> bool {
        is_recent_enough(at, self.since) && !self.wanted.is_empty() && compact(text) == self.wanted
    }

    /// Begins the turn.
    pub(super) fn begin(&mut self) {
        let (unknown, session_id) = (self.turn.unknown, self.turn.session_id.take());
        self.turn = TranscriptTurn { is_found: true, unknown, session_id, ..TranscriptTurn::default() };
        self.calls.clear();
    }

    /// Continues a turn that seemed to be over.
    pub(super) fn reopen(&mut self) {
        self.turn.is_complete = false;
    }

    /// Adds an item of the answer, also after its end.
    pub(super) fn add_to_turn(&mut self, item: Item) {
        match item {
            Item::Text(text) => {
                self.turn.said_end = !self.marks_final && !text.trim().is_empty();
                self.push(SectionKind::Text, &text);
            }
            Item::Thinking(text) => self.push(SectionKind::Thinking, &text),
            Item::Call { id, name, args } => {
                self.turn.said_end = false;
                self.calls.insert(id.clone(), self.turn.sections.len());
                let call = Section::new(SectionKind::ToolCall, "").with("tool", name).with("id", id);
                self.turn.sections.push(call.with("args", args));
            }
            Item::Output { id, text, status } => self.add_output(&id, &text, status),
            Item::Usage(usage) => self.add_usage(usage.tokens),
            Item::Error(text) => self.end(SectionKind::Error, &text),
            Item::Interrupted(text) => self.end(SectionKind::Interrupted, &text),
            Item::Final => self.turn.said_end = true,
            Item::End => self.turn.is_complete = true,
            Item::Unknown => self.turn.unknown += 1,
            // A hook may make the agent continue.
            Item::Context(_) => self.turn.said_end = false,
            Item::Session(_)
            | Item::Prompt(_)
            | Item::Rewind
            | Item::Edit { .. }
            | Item::BackgroundEnd { .. } => {}
        }
    }

    fn add_output(&mut self, id: &str, text: &str, status: CallStatus) {
        self.turn.said_end = false;
        let Some(call) = self.calls.get(id).and_then(|&at| self.turn.sections.get_mut(at)) else {
            self.turn.unknown += 1;
            return;
        };
        call.content = text.trim_end().to_string();
        call.metadata.insert("status".to_string(), status.as_str().to_string());
    }

    /// Adds the tokens of a response. The turn's input includes tokens read from and written to the cache.
    fn add_usage(&mut self, usage: TokenUsage) {
        let tokens = self.turn.tokens.get_or_insert_default();
        for (sum, count) in [(&mut tokens.input, usage.whole_input()), (&mut tokens.output, usage.output)] {
            *sum = Some(sum.unwrap_or(0).saturating_add(count));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_that_look_like_headers_are_counted() {
        let diff = "--- a.sql\n+++ a.sql\n@@ -1,3 +1,2 @@\n--- old\n-x\n+++ new\n y\n@@ -9 +8 @@\n-z\n";
        let expected = Item::Edit { path: "a.sql".into(), added: 1, removed: 3, description: None };
        assert_eq!(edit_of_diff("a.sql", diff, None), expected);
    }
}
