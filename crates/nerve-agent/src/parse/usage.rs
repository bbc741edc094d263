//! The token usage of all responses in a session file, also of those that were rewound: they cost as much.

use nerve_types::activity::TsMs;
use serde_json::Value;

use super::opencode_session::{self, StoredMessage};
use super::transcript::{self, json_lines};
pub use super::usage_list::{UsageList, UsageRecord};
use super::{copilot_events, gemini_chat, pi_session, qwen_chat, rollout};
use crate::profile::TranscriptKind;

impl UsageList {
    /// Reads the text of a session file. An incomplete last line is still being written and is ignored.
    /// opencode and Kilo have no such file: see [`UsageList::of_messages`].
    pub fn read(kind: TranscriptKind, text: &str) -> UsageList {
        match kind {
            TranscriptKind::Claude => transcript::read_usage(text),
            TranscriptKind::Codex => rollout::read_usage(text),
            TranscriptKind::Gemini => {
                let mut decoder = gemini_chat::ChatDecoder::default();
                read_lines(text, |line, list, turn| decoder.decode(line, |entry| list.add_entry(entry, turn)))
            }
            TranscriptKind::Pi => read_lines(text, |line, list, turn| {
                pi_session::decode(line, &mut |entry| list.add_entry(entry, turn))
            }),
            TranscriptKind::Qwen => {
                let mut decoder = qwen_chat::QwenDecoder::default();
                read_lines(text, |line, list, turn| decoder.decode(line, |entry| list.add_entry(entry, turn)))
            }
            TranscriptKind::Copilot => {
                let mut decoder = copilot_events::CopilotDecoder::default();
                read_lines(text, |line, list, turn| decoder.decode(line, |entry| list.add_entry(entry, turn)))
            }
            TranscriptKind::Opencode | TranscriptKind::Kilo => UsageList::default(),
        }
    }

    /// Reads the messages of a session of opencode or Kilo, oldest first.
    pub fn of_messages(messages: &[StoredMessage]) -> UsageList {
        let mut list = UsageList::default();
        let mut turn = 0;
        for message in messages {
            let Ok(info) = serde_json::from_str::<Value>(&message.info) else {
                list.damaged += 1;
                continue;
            };
            turn += u64::from(info["role"] == "user");
            if info["role"] != "assistant" || !info["tokens"].is_object() {
                continue;
            }
            let at = [&info["time"]["completed"], &info["time"]["created"]];
            // Without a price opencode counts 0.
            let cost_usd = info["cost"].as_f64().filter(|cost| cost.is_finite() && *cost > 0.0);
            list.add(UsageRecord {
                key: message.id.clone(),
                turn,
                at: at.into_iter().find_map(Value::as_u64).map(TsMs),
                usage: opencode_session::usage(&info),
                cost_usd,
            });
        }
        list
    }
}

/// Reads lines of JSON. `add` gets a line, and the number of prompts so far.
fn read_lines(text: &str, mut add: impl FnMut(&Value, &mut UsageList, &mut u64)) -> UsageList {
    let (mut list, mut turn) = (UsageList::default(), 0);
    for line in json_lines::<Value>(text.lines()) {
        match line {
            Some(line) => add(&line, &mut list, &mut turn),
            None => list.damaged += 1,
        }
    }
    list
}
