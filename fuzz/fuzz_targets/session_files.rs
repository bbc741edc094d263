//! Reads an agent's session file: turns, activities, usage, and cuts for branches.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use nerve_agent::activity::ActivityReader;
use nerve_agent::parse::opencode_session::{StoredMessage, parse_session};
use nerve_agent::parse::parse_session_file;
use nerve_agent::parse::session_files::{NewSession, cut_gemini, cut_opencode};
use nerve_agent::parse::transcript::{cut, cut_at, parse_turn, turns};
use nerve_agent::parse::turn_list::TurnList;
use nerve_agent::parse::usage::UsageList;
use nerve_agent::profile::TranscriptKind;
use nerve_fuzz::text;
use nerve_types::TsNs;
use nerve_types::activity::TsMs;

const PROMPT: &str = "go";
/// In the middle of the seeds.
const AT: Option<TsNs> = Some(TsNs(1_785_000_000_000_000_000));

fuzz_target!(|data: &[u8]| {
    let text = text(data);
    let moved = Some((Path::new("/old"), Path::new("/new")));
    for prompt in ["", PROMPT] {
        let _ = parse_turn(text.lines(), prompt, None);
        let _ = parse_session_file(TranscriptKind::Codex, text.lines(), prompt, AT);
        let _ = parse_session_file(TranscriptKind::Gemini, text.lines(), prompt, None);
    }
    for kind in [TranscriptKind::Claude, TranscriptKind::Codex, TranscriptKind::Gemini] {
        let mut activities = ActivityReader::new(kind);
        for line in text.lines() {
            let _ = activities.read_line(line, TsMs(0));
        }
        let _ = (TurnList::read(kind, &text), UsageList::read(kind, &text));
    }
    if let Ok(count) = turns(&text) {
        let _ = (cut(&text, count, "id"), cut(&text, 1, "id"));
    }
    let _ = cut_at(&text, AT, "id", moved);
    let _ = cut_gemini(&text, AT, moved);
    let _ = cut_opencode(&text, AT, NewSession { salt: "salt", cwd: Path::new("/new"), moved });
    let messages: Vec<StoredMessage> = messages(&text);
    let _ = (
        parse_session(&messages, PROMPT, None),
        TurnList::of_messages(&messages),
        UsageList::of_messages(&messages),
    );
    let mut activities = ActivityReader::new(TranscriptKind::Opencode);
    for message in &messages {
        let _ = activities.read_message(message, TsMs(0));
    }
});

/// Reads the messages of an opencode export.
fn messages(text: &str) -> Vec<StoredMessage> {
    let Ok(session) = serde_json::from_str::<serde_json::Value>(text) else { return Vec::new() };
    let messages = session["messages"].as_array().into_iter().flatten();
    let message = |message: &serde_json::Value| StoredMessage {
        id: message["info"]["id"].as_str().unwrap_or_default().to_string(),
        info: message["info"].to_string(),
        parts: message["parts"].as_array().into_iter().flatten().map(ToString::to_string).collect(),
    };
    messages.map(message).collect()
}
