//! The list of a session file's turns agrees with the turns that are found by their prompts.

use nerve_agent::parse::opencode_session::parse_session;
use nerve_agent::parse::transcript::{TranscriptTurn, parse_turn};
use nerve_agent::parse::turn_list::{TurnList, TurnRecord};
use nerve_agent::parse::{SectionKind, parse_session_file};
use nerve_agent::profile::TranscriptKind;

use crate::session_turns::messages;

const CLAUDE: &str = include_str!("../fixtures/transcripts/nine-turns.jsonl");
const CODEX: &str = include_str!("../fixtures/transcripts/codex-rollout.jsonl");
const GEMINI: &str = include_str!("../fixtures/transcripts/gemini-chat.jsonl");

fn prompts(list: &TurnList) -> Vec<&str> {
    list.turns.iter().map(|turn| turn.prompt.as_str()).collect()
}

/// Compares each turn with the one that `find` finds by its prompt, where the prompt is unique.
fn assert_agrees(list: &TurnList, find: impl Fn(&str) -> TranscriptTurn) {
    assert!(list.turns.len() > 2, "{list:?}");
    for turn in &list.turns {
        let is_unique = list.turns.iter().filter(|other| other.prompt == turn.prompt).count() == 1;
        if !is_unique {
            continue;
        }
        let found = find(&turn.prompt);
        assert!(found.is_found, "{}", turn.prompt);
        assert_eq!(turn.answer.sections, found.sections, "{}", turn.prompt);
        assert_eq!(turn.answer.tokens, found.tokens, "{}", turn.prompt);
    }
}

fn assert_in_order(turns: &[TurnRecord]) {
    let times: Vec<_> = turns.iter().flat_map(|turn| [turn.started, turn.ended]).collect();
    assert!(times.iter().all(Option::is_some) && times.is_sorted(), "{times:?}");
}

#[test]
fn claude_turns_agree_with_search_by_prompt() {
    let list = TurnList::read(TranscriptKind::Claude, CLAUDE);
    assert_eq!(list.turns.len(), 9, "{:?}", prompts(&list));
    assert_agrees(&list, |prompt| parse_turn(CLAUDE.lines(), prompt, None));
    assert_in_order(&list.turns);
    assert!(list.session_id.is_some());
}

#[test]
fn codex_turns_agree_with_search_by_prompt() {
    let list = TurnList::read(TranscriptKind::Codex, CODEX);
    assert_agrees(&list, |prompt| parse_session_file(TranscriptKind::Codex, CODEX.lines(), prompt, None));
    assert_in_order(&list.turns);
}

#[test]
fn gemini_turns_agree_with_search_by_prompt() {
    let list = TurnList::read(TranscriptKind::Gemini, GEMINI);
    assert_agrees(&list, |prompt| parse_session_file(TranscriptKind::Gemini, GEMINI.lines(), prompt, None));
    assert_in_order(&list.turns);
}

#[test]
fn opencode_turns_agree_with_search_by_prompt() {
    let list = TurnList::of_messages(&messages());
    assert_agrees(&list, |prompt| parse_session(&messages(), prompt, None));
    assert_in_order(&list.turns);
}

/// Returns a line of Claude Code's transcript.
fn line(kind: &str, id: &str, parent: Option<&str>, content: &str) -> String {
    let message = serde_json::json!({"id": id, "role": kind, "content": content});
    serde_json::json!({"type": kind, "uuid": id, "parentUuid": parent, "sessionId": "s",
        "timestamp": "2026-01-31T10:30:00.000Z", "message": message})
    .to_string()
}

#[test]
fn claude_branch_that_was_rewound_is_left_out() {
    let lines = [
        line("user", "1", None, "first"),
        line("assistant", "2", Some("1"), "one"),
        line("user", "3", Some("2"), "abandoned"),
        line("assistant", "4", Some("3"), "two"),
        line("user", "5", Some("2"), "second"),
        line("assistant", "6", Some("5"), "three"),
    ];
    let list = TurnList::read(TranscriptKind::Claude, &lines.join("\n"));
    assert_eq!(prompts(&list), ["first", "second"]);
    assert_eq!(list.turns[1].answer.sections[0].content, "three");
    assert!(list.turns[0].answer.is_complete && !list.turns[1].answer.is_complete);
}

#[test]
fn gemini_turns_after_rewind_are_left_out() {
    let user = |id: &str, text: &str| {
        serde_json::json!({"id": id, "type": "user", "content": [{"text": text}], "timestamp": "2026-01-31T10:30:00Z"})
            .to_string()
    };
    let answer = |id: &str, text: &str| {
        serde_json::json!({"id": id, "type": "gemini", "content": text, "timestamp": "2026-01-31T10:30:01Z"})
            .to_string()
    };
    let lines = [
        user("a", "first"),
        answer("b", "one"),
        user("c", "abandoned"),
        answer("d", "two"),
        user("e", "abandoned too"),
        r#"{"$rewindTo": "c"}"#.to_string(),
        user("f", "second"),
        answer("g", "three"),
    ];
    let list = TurnList::read(TranscriptKind::Gemini, &lines.join("\n"));
    assert_eq!(prompts(&list), ["first", "second"]);
    assert_eq!(list.turns[1].answer.sections[0].content, "three");
}

/// Returns a line of Codex's session file.
fn rollout_line(kind: &str, payload: &serde_json::Value) -> String {
    serde_json::json!({"timestamp": "2026-01-31T10:30:00.000Z", "type": kind, "payload": payload}).to_string()
}

fn rollout_message(role: &str, text: &str) -> String {
    let content = serde_json::json!([{"type": "text", "text": text}]);
    let payload = serde_json::json!({"type": "message", "role": role, "content": content});
    rollout_line("response_item", &payload)
}

#[test]
fn codex_context_is_no_prompt_and_rolled_back_turns_are_left_out() {
    let lines = [
        rollout_message("user", "# AGENTS.md instructions for /x\nbe brief"),
        rollout_message("user", "<environment_context>\n</environment_context>"),
        rollout_message("user", "<b>why</b> is this bold?"),
        rollout_message("assistant", "one"),
        rollout_message("user", "abandoned"),
        rollout_message("assistant", "two"),
        rollout_line("event_msg", &serde_json::json!({"type": "thread_rolled_back", "num_turns": 1})),
        rollout_message("user", "second"),
        rollout_message("assistant", "three"),
    ];
    let list = TurnList::read(TranscriptKind::Codex, &lines.join("\n"));
    assert_eq!(prompts(&list), ["<b>why</b> is this bold?", "second"]);
    let last = &list.turns[1].answer;
    assert!(!last.is_complete && !last.said_end, "a text alone ends no turn: {last:?}");
}

#[test]
fn incomplete_last_line_is_ignored_and_malformed_lines_are_counted() {
    let text = format!(
        "{}\nnot JSON\n{}\n{{\"type\": \"us",
        line("user", "1", None, "first"),
        line("assistant", "2", Some("1"), "one")
    );
    let list = TurnList::read(TranscriptKind::Claude, &text);
    assert_eq!((prompts(&list), list.unknown), (vec!["first"], 1));
    assert_eq!(list.turns[0].answer.sections[0].kind, SectionKind::Text);
}
