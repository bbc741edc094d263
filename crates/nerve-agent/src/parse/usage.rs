//! The token usage of all responses in a session file, also of those that were rewound: they cost as much.

use nerve_types::activity::TsMs;
use serde_json::Value;

use super::copilot_events::CopilotDecoder;
use super::gemini_chat::ChatDecoder;
use super::kimi::wire::WireDecoder;
use super::line_decoder::LineDecoder;
use super::opencode_session::{self, StoredMessage};
use super::pi_session::PiDecoder;
use super::qwen_chat::QwenDecoder;
pub use super::usage_list::{UsageList, UsageRecord};
use super::{rollout, transcript};
use crate::profile::TranscriptKind;

impl UsageList {
    /// Reads the text of a session file. An incomplete last line is still being written and is ignored.
    /// opencode and Kilo have no such file: see [`UsageList::of_messages`].
    pub fn read(kind: TranscriptKind, text: &str) -> UsageList {
        match kind {
            TranscriptKind::Claude => transcript::read_usage(text),
            TranscriptKind::Codex => rollout::read_usage(text),
            TranscriptKind::Gemini => read_lines::<ChatDecoder>(text),
            TranscriptKind::Pi => read_lines::<PiDecoder>(text),
            TranscriptKind::Qwen => read_lines::<QwenDecoder>(text),
            TranscriptKind::Copilot => read_lines::<CopilotDecoder>(text),
            TranscriptKind::Kimi => read_lines::<WireDecoder>(text),
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

/// Reads the usage that the lines report.
fn read_lines<D: LineDecoder>(text: &str) -> UsageList {
    let (mut list, mut turn, mut decoder) = (UsageList::default(), 0, D::default());
    for line in D::read_lines(text.lines()) {
        match line {
            Some(line) => decoder.decode(&line, &mut |entry| list.add_entry(entry, &mut turn)),
            None => list.damaged += 1,
        }
    }
    list
}
