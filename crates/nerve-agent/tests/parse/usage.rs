//! The usage in session files of real agents.

use nerve_agent::parse::opencode_session::StoredMessage;
use nerve_agent::parse::turn_list::TurnList;
use nerve_agent::parse::usage::{UsageList, UsageRecord};
use nerve_agent::profile::TranscriptKind;

use crate::session_turns::messages;

const CLAUDE: &str = include_str!("../fixtures/transcripts/nine-turns.jsonl");
const CODEX: &str = include_str!("../fixtures/transcripts/codex-rollout.jsonl");
const GEMINI: &str = include_str!("../fixtures/transcripts/gemini-chat.jsonl");

fn counts(record: &UsageRecord) -> (u64, u64, u64, u64) {
    let usage = record.usage.tokens;
    (usage.input, usage.output, usage.cache_read, usage.cache_write)
}

/// Compares the sums with those of the turns, which are read in another way.
fn assert_sums(list: &UsageList, turns: &TurnList) {
    let tokens: Vec<_> = turns.turns.iter().filter_map(|turn| turn.answer.tokens).collect();
    let input: u64 = tokens.iter().filter_map(|tokens| tokens.input).sum();
    let output: u64 = tokens.iter().filter_map(|tokens| tokens.output).sum();
    let sums = list.records.iter().map(counts);
    let sums = sums
        .fold((0, 0), |(input, output), (new, out, read, write)| (input + new + read + write, output + out));
    assert_eq!(sums, (input, output));
    assert!(input > 0 && list.damaged == 0);
    assert!(list.records.iter().all(|record| record.at.is_some() && record.turn > 0), "{list:?}");
    let mut keys: Vec<_> = list.records.iter().map(|record| &record.key).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), list.records.len(), "each response has its own key");
}

#[test]
fn claude_message_in_several_lines_counts_once() {
    let list = UsageList::read(TranscriptKind::Claude, CLAUDE);
    assert_sums(&list, &TurnList::read(TranscriptKind::Claude, CLAUDE));
    assert_eq!(counts(&list.records[0]), (1000, 42, 300, 20));
    assert_eq!(list.records[0].usage.model.as_deref(), Some("claude-opus-5-5"));
    let lines = CLAUDE.lines().filter(|line| line.contains("\"usage\":{")).count();
    assert!(list.records.len() < lines, "{} of {lines} lines", list.records.len());
}

#[test]
fn claude_rewound_and_sidechain_responses_count() {
    let line = |id: &str, is_sidechain: bool, output: u64| {
        let usage = serde_json::json!({ "input_tokens": 1, "output_tokens": output });
        serde_json::json!({ "type": "assistant", "uuid": id, "isSidechain": is_sidechain, "parentUuid": "p",
            "timestamp": "2026-01-01T00:00:00Z", "message": { "id": id, "model": "m", "usage": usage } })
        .to_string()
    };
    let prompt = r#"{"type":"user","uuid":"p","parentUuid":null,"message":{"role":"user","content":"x"}}"#;
    let lines =
        [prompt, &line("a", false, 2), &line("b", false, 3), &line("c", true, 4), &line("b", false, 5)];
    let list = UsageList::read(TranscriptKind::Claude, &lines.join("\n"));
    let outputs: Vec<u64> = list.records.iter().map(|record| record.usage.tokens.output).collect();
    assert_eq!(outputs, [2, 5, 4], "the last line of a message counts");
}

#[test]
fn damaged_lines_are_counted_and_others_read() {
    let whole = UsageList::read(TranscriptKind::Claude, CLAUDE);
    let damaged = format!("\u{0}\u{0}\n{CLAUDE}\n{{\"type\":\"assistant\",\"mess\n{{}}\n{{\"type\":\"as");
    let list = UsageList::read(TranscriptKind::Claude, &damaged);
    assert_eq!((list.records, list.damaged), (whole.records, 3));
    for kind in [TranscriptKind::Codex, TranscriptKind::Gemini] {
        assert_eq!(UsageList::read(kind, "x\n{\"type\":\"x\"}\n").damaged, 1);
    }
}

#[test]
fn codex_records_count_without_those_of_the_source_of_a_fork() {
    let list = UsageList::read(TranscriptKind::Codex, CODEX);
    assert_sums(&list, &TurnList::read(TranscriptKind::Codex, CODEX));
    assert_eq!(counts(&list.records[0]), (10, 5, 0, 0));
    let id = "01a20d6b-8d03-7ce3-9bf2-0efc9613510d";
    let (first, rest) = CODEX.split_once('\n').unwrap();
    assert!(first.contains("session_meta") && first.contains(id));
    let fork = format!("{}\n{first}\n{rest}", first.replace(id, "01a20d6b-0000-7000-8000-000000000000"));
    assert_eq!(UsageList::read(TranscriptKind::Codex, &fork).records, []);
}

#[test]
fn codex_events_count_in_older_versions() {
    let context = "\"type\":\"turn_context\",\"payload\":{";
    let text = CODEX.replace(&format!("{context}}}"), &format!("{context}\"model\":\"gpt-x\"}}"));
    let whole = UsageList::read(TranscriptKind::Codex, &text);
    let is_old = |line: &&str| !line.contains("\"token_usage_record\"");
    let old: Vec<&str> = text.lines().filter(is_old).collect();
    let list = UsageList::read(TranscriptKind::Codex, &old.join("\n"));
    let sums = |list: &UsageList| list.records.iter().map(counts).collect::<Vec<_>>();
    assert_eq!(sums(&list), sums(&whole));
    for record in list.records.iter().chain(&whole.records) {
        assert_eq!(record.usage.model.as_deref(), Some("gpt-x"));
    }
}

#[test]
fn gemini_usage_is_read() {
    let list = UsageList::read(TranscriptKind::Gemini, GEMINI);
    assert_sums(&list, &TurnList::read(TranscriptKind::Gemini, GEMINI));
    assert_eq!(list.records[0].usage.model.as_deref(), Some("gemini-2.5-flash"));
}

#[test]
fn opencode_usage_has_its_cost() {
    let messages = messages();
    let list = UsageList::of_messages(&messages);
    assert_sums(&list, &TurnList::of_messages(&messages));
    assert!(list.records.iter().all(|record| record.cost_usd.is_none()), "0 means that there is no price");
    let info = r#"{"role":"assistant","modelID":"m","cost":0.25,"tokens":{"input":1,"output":2,"reasoning":3,
        "cache":{"read":4,"write":5}},"time":{"created":7,"completed":8}}"#;
    let stored = |info: &str| StoredMessage { id: "a".into(), info: info.into(), parts: Vec::new() };
    let list = UsageList::of_messages(&[stored("{"), stored(info)]);
    assert_eq!((list.damaged, list.records[0].cost_usd), (1, Some(0.25)));
    assert_eq!((counts(&list.records[0]), list.records[0].at.unwrap().0), ((1, 5, 4, 5), 8));
}
