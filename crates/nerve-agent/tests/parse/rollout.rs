//! Codex's session file. `codex-rollout.jsonl` was written by Codex 0.169.0 with a scripted model: a tool, an API error,
//! an interruption and a short answer. Instructions, settings and paths were shortened.

use std::fs;

use nerve_agent::parse::transcript::TranscriptTurn;
use nerve_agent::parse::{Tokens, parse_session_file};
use nerve_agent::profile::TranscriptKind;
use nerve_types::TsNs;
use serde_json::json;

use crate::screens::{dump_sections, expect_text};

fn rollout() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/transcripts/codex-rollout.jsonl"))
        .expect("the fixture")
}

fn turn(prompt: &str) -> TranscriptTurn {
    parse_session_file(TranscriptKind::Codex, rollout().lines(), prompt, None)
}

#[track_caller]
fn expect(turn: &TranscriptTurn, expected: &str) {
    let end = if turn.is_complete { "complete" } else { "incomplete" };
    expect_text(&format!("{}{end}\n", dump_sections(&turn.sections)), expected);
}

#[test]
fn turn_with_tool_and_tokens() {
    let turn = turn("TOOL please");
    expect(
        &turn,
        r#"
        tool_call args={"cmd": "echo hi"} id=c1 status=ok tool=exec_command
          Chunk ID: 18da38
          Wall time: 0.0249 seconds
          Process exited with code 0
          Original token count: 1
          Output:
          hi
        text
          Fixed the bug.
        complete"#,
    );
    assert_eq!(turn.tokens, Some(Tokens { input: Some(20), output: Some(10), total: None }));
    assert_eq!((turn.is_found, turn.said_end, turn.unknown), (true, true, 0));
    assert!(turn.session_id.is_some_and(|id| id.starts_with("01a20d6b")));
}

#[test]
fn api_error_is_a_section() {
    let turn = turn("ERR400 now");
    let error = nerve_agent::parse::final_error(&turn.sections).expect("an error");
    assert!(error.starts_with("{\"error\": {\"message\": \"a very long scripted error message"), "{error}");
    assert!(turn.is_complete && turn.sections.len() == 1);
}

#[test]
fn interruption_ends_turn() {
    expect(&turn("LONG please"), "interrupted\n  interrupted\ncomplete");
}

#[test]
fn running_turn_is_not_complete() {
    let text = rollout();
    let end = text.lines().count() - 3;
    let turn = parse_session_file(TranscriptKind::Codex, text.lines().take(end), "FIX it", None);
    expect(&turn, "text\n  Fixed the bug.\nincomplete");
    assert!(turn.said_end);
    // A truncated line is still being written; a malformed one counts.
    let cut = format!("{}\n{{\"timestamp\": \"20", text.lines().take(end).collect::<Vec<_>>().join("\n"));
    assert_eq!(parse_session_file(TranscriptKind::Codex, cut.lines(), "FIX it", None).unknown, 0);
    assert_eq!(
        parse_session_file(TranscriptKind::Codex, format!("{{x\n{text}").lines(), "FIX it", None).unknown,
        1
    );
}

#[test]
fn unknown_and_earlier_prompts_are_not_found() {
    assert!(!turn("another").is_found);
    assert!(!turn("").is_found);
    let since = |text: &str| {
        let at: jiff::Timestamp = text.parse().expect("a time");
        TsNs(u64::try_from(at.as_nanosecond()).expect("after 1970"))
    };
    let found =
        |at| parse_session_file(TranscriptKind::Codex, rollout().lines(), "FIX it", Some(since(at))).is_found;
    assert_eq!((found("2026-11-24T11:58:22.037Z"), found("2026-11-24T11:58:22.038Z")), (true, false));
}

#[test]
fn next_prompt_ends_turn_but_context_does_not() {
    let message = |role: &str, text: &str| {
        let content = json!([{ "type": "text", "text": text }]);
        json!({ "type": "response_item", "payload": { "type": "message", "role": role, "content": content } })
            .to_string()
    };
    let lines = [
        message("user", "one"),
        message("assistant", "first"),
        message("user", "<environment_context>…</environment_context>"),
        message("assistant", "second"),
        message("user", "two"),
        message("assistant", "third"),
        json!({ "type": "response_item", "payload": { "type": "novelty" } }).to_string(),
    ];
    expect(
        &parse_session_file(TranscriptKind::Codex, lines.iter().map(String::as_str), "one", None),
        "text\n  first\ntext\n  second\ncomplete",
    );
    let last = parse_session_file(TranscriptKind::Codex, lines.iter().map(String::as_str), "two", None);
    assert_eq!((last.sections.len(), last.unknown, last.is_complete), (1, 1, false));
}
