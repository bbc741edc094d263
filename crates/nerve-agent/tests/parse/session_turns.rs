//! Session files of Gemini CLI 0.61.0 and opencode 1.18.33 with a scripted model: short and long answers, tools, a paste,
//! an interruption and an API error. Texts and paths were shortened.

use nerve_agent::parse::opencode_session::{StoredMessage, parse_session};
use nerve_agent::parse::transcript::TranscriptTurn;
use nerve_agent::parse::{SectionKind, Tokens, parse_session_file};
use nerve_agent::profile::TranscriptKind;
use nerve_types::TsNs;
use serde_json::Value;

use crate::screens::{dump_sections, expect_text};

const CHAT: &str = include_str!("../fixtures/transcripts/gemini-chat.jsonl");
const SESSION: &str = include_str!("../fixtures/transcripts/opencode-session.json");

fn gemini(prompt: &str) -> TranscriptTurn {
    parse_session_file(TranscriptKind::Gemini, CHAT.lines(), prompt, None)
}

pub(crate) fn messages() -> Vec<StoredMessage> {
    let messages: Vec<Value> = serde_json::from_str(SESSION).expect("the fixture");
    let stored = |message: &Value| StoredMessage {
        id: message["id"].as_str().expect("an id").to_string(),
        info: message["info"].to_string(),
        parts: message["parts"].as_array().expect("parts").iter().map(Value::to_string).collect(),
    };
    messages.iter().map(stored).collect()
}

fn opencode(prompt: &str) -> TranscriptTurn {
    parse_session(&messages(), prompt, None)
}

fn kinds(turn: &TranscriptTurn) -> Vec<(SectionKind, &str)> {
    turn.sections.iter().map(|section| (section.kind, section.content.as_str())).collect()
}

#[test]
fn gemini_turn_with_tool_and_tokens() {
    let turn = gemini("READTOOL FILE=/home/me/project/notes.txt");
    expect_text(
        &dump_sections(&turn.sections),
        r#"
        text
          I will read the file.
        tool_call args={"file_path":"/home/me/project/notes.txt"} id=read_file__read_file_1795719423769_0 status=ok tool=read_file
          alpha note
          beta note
        text
          The tool said: alpha note
          beta note

          END-OF-TOOL
        "#,
    );
    assert_eq!(turn.tokens, Some(Tokens { input: Some(6175 + 6271), output: Some(6 + 12), total: None }));
    assert!(turn.is_complete && turn.said_end && turn.unknown == 0, "{turn:?}");
}

#[test]
fn gemini_answer_keeps_its_markdown() {
    let turn = gemini("HUGE answer please");
    assert!(turn.sections[0].content.starts_with("# Huge\n\n- line 001"), "{turn:?}");
}

#[test]
fn gemini_turn_is_incomplete_until_its_last_text() {
    let lines = |count: usize| CHAT.lines().take(count);
    let started = parse_session_file(TranscriptKind::Gemini, lines(3), "hello number 1", None);
    assert!(started.is_found && !started.said_end && started.sections.is_empty(), "{started:?}");
    let ended = parse_session_file(TranscriptKind::Gemini, lines(5), "hello number 1", None);
    assert!(ended.said_end && !ended.is_complete, "{ended:?}");
    // The tool has ended, and the answer to its result is missing.
    let tool = CHAT.lines().position(|line| line.contains("toolCalls")).expect("a tool") + 1;
    let turn = parse_session_file(
        TranscriptKind::Gemini,
        lines(tool),
        "READTOOL FILE=/home/me/project/notes.txt",
        None,
    );
    assert!(!turn.said_end && !turn.is_complete, "{turn:?}");
}

#[test]
fn gemini_failures_end_the_turn() {
    let interrupted = gemini("ENDLESS answer please");
    assert_eq!(kinds(&interrupted), [(SectionKind::Interrupted, "Request cancelled.")]);
    let failed = gemini("ERR 400 now");
    assert!(matches!(kinds(&failed)[..], [(SectionKind::Error, text)] if text.contains("scripted error")));
    assert!(interrupted.is_complete && failed.is_complete);
}

#[test]
fn opencode_turn_with_tool_and_tokens() {
    let turn = opencode("READTOOL FILE=/home/me/project/notes.txt");
    let sections = kinds(&turn);
    assert_eq!(sections[0], (SectionKind::Text, "I will read the file."));
    let call = &turn.sections[1];
    let metadata = ["tool", "id", "status", "args"].map(|key| call.metadata[key].as_str());
    let args = r#"{"filePath":"/home/me/project/notes.txt"}"#;
    assert_eq!(metadata, ["read", "call_mock_000004_0", "ok", args]);
    assert!(call.content.contains("1: alpha note"), "{call:?}");
    assert!(sections[2].1.ends_with("END-OF-TOOL") && sections.len() == 3, "{sections:?}");
    assert_eq!(turn.tokens, Some(Tokens { input: Some(8469 + 8573), output: Some(6 + 42), total: None }));
    assert!(turn.is_complete && turn.unknown == 0);
}

#[test]
fn opencode_failures_keep_the_text_before() {
    let interrupted = opencode("ENDLESS answer please");
    let text = (SectionKind::Text, "One word after the other 0");
    assert_eq!(kinds(&interrupted), [text, (SectionKind::Interrupted, "interrupted")]);
    let failed = opencode("ERR 400 now");
    assert_eq!(kinds(&failed), [(SectionKind::Error, "scripted error")]);
    assert!(interrupted.is_complete && failed.is_complete);
}

#[test]
fn opencode_turn_is_incomplete_until_its_last_message() {
    let all = messages();
    let prompt = "READTOOL FILE=/home/me/project/notes.txt";
    for (count, is_complete) in [(5, false), (6, false), (7, true)] {
        let turn = parse_session(&all[..count], prompt, None);
        assert_eq!((turn.is_found, turn.is_complete), (true, is_complete), "{count} messages");
    }
}

#[test]
fn other_and_earlier_prompts_do_not_match() {
    let since = |ms: u64| Some(TsNs(ms * 1_000_000));
    let found = |prompt, ms| {
        let gemini = parse_session_file(TranscriptKind::Gemini, CHAT.lines(), prompt, since(ms)).is_found;
        (gemini, parse_session(&messages(), prompt, since(ms)).is_found)
    };
    assert_eq!(found("another", 0), (false, false));
    assert_eq!(found("", 0), (false, false));
    assert_eq!(found("hello number 1", 1_795_719_420_952), (true, true));
    assert_eq!(found("hello number 1", 1_795_719_420_953), (false, true));
    assert_eq!(found("hello number 1", 1_795_719_429_793), (false, false));
}
