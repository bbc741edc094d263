//! All turns of a session file, in order. [`super::transcript`] and its siblings find one turn by its prompt instead.

use std::collections::HashMap;

use nerve_types::activity::TsMs;
use serde_json::Value;

use super::copilot_events::CopilotDecoder;
use super::entry::{Entry, Item, TurnFold};
use super::gemini_chat::ChatDecoder;
use super::kimi::wire::{WireDecoder, undone_turns};
use super::line_decoder::{LineDecoder, text_field};
use super::opencode_session::{self, StoredMessage};
use super::pi_session::PiDecoder;
use super::qwen_chat::QwenDecoder;
use super::rollout::RolloutDecoder;
use super::transcript::{self, TranscriptTurn};
use crate::profile::TranscriptKind;

/// A prompt in a session file, and the answer to it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TurnRecord {
    /// The prompt; empty if the answer precedes the first prompt.
    pub prompt: String,
    /// Time of the prompt, if the file says so.
    pub started: Option<TsMs>,
    /// Time of the last entry of the answer.
    pub ended: Option<TsMs>,
    /// The answer.
    pub answer: TranscriptTurn,
}

/// The turns of a session file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TurnList {
    /// The turns of the current branch, oldest first. Turns that were rewound are left out.
    pub turns: Vec<TurnRecord>,
    /// Id of the conversation.
    pub session_id: Option<String>,
    /// Number of unknown entries and of malformed lines.
    pub unknown: usize,
}

impl TurnList {
    /// Reads the text of a session file. An incomplete last line is still being written and is ignored.
    /// opencode and Kilo have no such file: see [`TurnList::of_messages`].
    pub fn read(kind: TranscriptKind, text: &str) -> TurnList {
        match kind {
            TranscriptKind::Claude => transcript::turn_list(text),
            TranscriptKind::Codex => read_rollout(text),
            TranscriptKind::Gemini => read_chat(text),
            TranscriptKind::Pi => {
                read_tree::<PiDecoder>(text, ["id", "parentId"], |line| line["message"]["role"] == "user")
            }
            TranscriptKind::Qwen => {
                read_tree::<QwenDecoder>(text, ["uuid", "parentUuid"], |line| line["type"] == "user")
            }
            TranscriptKind::Copilot => {
                read_lines::<CopilotDecoder>(text, |line, decoder, fold| fold.add_line(line, decoder))
            }
            TranscriptKind::Kimi => read_kimi(text),
            TranscriptKind::Opencode | TranscriptKind::Kilo => TurnList::default(),
        }
    }

    /// Reads the messages of a session of opencode or Kilo, oldest first.
    pub fn of_messages(messages: &[StoredMessage]) -> TurnList {
        let mut fold = TurnListFold::default();
        let mut decoder = opencode_session::SessionDecoder::default();
        for message in messages {
            decoder.decode(message, |entry| fold.add(entry));
        }
        fold.finish()
    }
}

/// Reads the lines in order. `add` adds a line.
fn read_lines<D: LineDecoder>(
    text: &str,
    mut add: impl FnMut(&D::Line, &mut D, &mut TurnListFold),
) -> TurnList {
    let (mut fold, mut decoder) = (TurnListFold::default(), D::default());
    for line in D::read_lines(text.lines()) {
        match line {
            Some(line) => add(&line, &mut decoder, &mut fold),
            None => fold.list.unknown += 1,
        }
    }
    fold.finish()
}

fn read_rollout(text: &str) -> TurnList {
    let mut list = read_lines::<RolloutDecoder>(text, |line, decoder, fold| match line.rolled_back() {
        Some(turns) => fold.truncate(fold.count().saturating_sub(turns)),
        None => fold.add_line(line, decoder),
    });
    // The end of a task is in the file, so a text alone ends no turn.
    list.turns.iter_mut().for_each(|turn| turn.answer.said_end = false);
    list
}

/// Returns true for a message that Codex writes in the user's name. A user may also type a text that begins with a tag.
fn is_codex_context(text: &str) -> bool {
    const TAGS: [&str; 8] = [
        "<environment_context>",
        "<user_instructions>",
        "<permissions instructions>",
        "<INSTRUCTIONS>",
        "<skill>",
        "<turn_aborted>",
        "<user_shell_command>",
        "# AGENTS.md instructions for ",
    ];
    TAGS.iter().any(|tag| text.starts_with(tag))
}

fn read_chat(text: &str) -> TurnList {
    // The ids of the prompts, as rewinds name them.
    let mut prompts: Vec<String> = Vec::new();
    read_lines::<ChatDecoder>(text, |line, decoder, fold| {
        if let Some(target) = line["$rewindTo"].as_str() {
            match prompts.iter().position(|id| id == target) {
                Some(turn) => {
                    prompts.truncate(turn);
                    fold.truncate(turn);
                }
                None => fold.list.unknown += 1,
            }
            return;
        }
        let turns = fold.count();
        fold.add_line(line, decoder);
        if fold.count() > turns {
            prompts.push(text_field(line, "id"));
        }
    })
}

fn read_kimi(text: &str) -> TurnList {
    read_lines::<WireDecoder>(text, |line, decoder, fold| match undone_turns(line) {
        Some(turns) => fold.truncate(fold.count().saturating_sub(turns)),
        None => fold.add_line(line, decoder),
    })
}

/// Reads a file whose entries name their parents, in the fields `id` and `parent`. A prompt replaces the turns that are not
/// on its path.
fn read_tree<D: LineDecoder<Line = Value>>(
    text: &str,
    [id, parent]: [&str; 2],
    is_prompt: impl Fn(&Value) -> bool,
) -> TurnList {
    // The number of prompts on the path to each entry.
    let mut prompts: HashMap<String, usize> = HashMap::new();
    read_lines::<D>(text, |line, decoder, fold| {
        // An unknown parent may be in the missing beginning of the file.
        let before = match line[parent].as_str() {
            Some(parent) => prompts.get(parent).copied().unwrap_or(fold.count()),
            None => 0,
        };
        let is_prompt = is_prompt(line);
        if let Some(id) = line[id].as_str() {
            prompts.insert(id.to_string(), before + usize::from(is_prompt));
        }
        if is_prompt && before < fold.count() {
            fold.truncate(before);
        }
        fold.add_line(line, decoder);
    })
}

/// Collects turns from entries.
#[derive(Debug, Default)]
struct TurnListFold {
    list: TurnList,
    /// The turn to which entries belong.
    current: Option<CurrentTurn>,
}

#[derive(Debug)]
struct CurrentTurn {
    prompt: String,
    started: Option<TsMs>,
    ended: Option<TsMs>,
    answer: TurnFold,
}

impl CurrentTurn {
    fn new(prompt: String, started: Option<TsMs>) -> CurrentTurn {
        let mut answer = TurnFold::default();
        answer.begin();
        CurrentTurn { prompt, started, ended: started, answer }
    }

    fn finish(self) -> TurnRecord {
        let CurrentTurn { prompt, started, ended, answer } = self;
        TurnRecord { prompt, started, ended, answer: answer.finish() }
    }
}

impl TurnListFold {
    fn add_line<D: LineDecoder>(&mut self, line: &D::Line, decoder: &mut D) {
        decoder.decode(line, &mut |entry| self.add(entry));
    }

    fn add(&mut self, entry: Entry) {
        match entry.item {
            Item::Session(id) => {
                self.list.session_id.get_or_insert(id);
            }
            Item::Prompt(text) | Item::Context(text) if !is_codex_context(&text) => {
                self.end_turn(true);
                self.current = Some(CurrentTurn::new(text, entry.at));
            }
            // Texts that the agent adds in the user's name.
            Item::Prompt(_) | Item::Context(_) | Item::Rewind => {}
            Item::Unknown => self.list.unknown += 1,
            _ => {
                let current = self.current.get_or_insert_with(|| CurrentTurn::new(String::new(), entry.at));
                current.ended = entry.at.or(current.ended);
                // Another answer may follow an error.
                current.answer.reopen();
                current.answer.add(entry);
            }
        }
    }

    /// Returns the number of turns so far.
    fn count(&self) -> usize {
        self.list.turns.len() + usize::from(self.current.is_some())
    }

    /// Keeps the first turns.
    fn truncate(&mut self, turns: usize) {
        self.end_turn(false);
        self.list.turns.truncate(turns);
    }

    fn end_turn(&mut self, is_followed: bool) {
        let Some(current) = self.current.take() else { return };
        let mut turn = current.finish();
        turn.answer.is_complete |= is_followed;
        self.list.turns.push(turn);
    }

    fn finish(mut self) -> TurnList {
        self.end_turn(false);
        self.list
    }
}
