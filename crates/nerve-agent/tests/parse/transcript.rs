//! Claude Code's session transcript. `nine-turns.jsonl` was written by Claude Code 2.1.330 with a scripted model: nine
//! prompts, the first one repeated at the end. Paths were changed, attachments and request dumps emptied.

use std::fs;

use nerve_agent::parse::Tokens;
use nerve_agent::parse::transcript::{TranscriptTurn, parse_turn};
use nerve_types::TsNs;
use serde_json::json;

use crate::screens::{dump_sections, expect_text};

fn nine_turns() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/transcripts/nine-turns.jsonl"))
        .expect("the fixture")
}

fn turn(prompt: &str) -> TranscriptTurn {
    parse_turn(nine_turns().lines(), prompt, None)
}

#[track_caller]
fn expect(turn: &TranscriptTurn, expected: &str) {
    let end = if turn.is_complete { "complete" } else { "incomplete" };
    expect_text(&format!("{}{end}\n", dump_sections(&turn.sections)), expected);
}

#[test]
fn short_answer_has_text_and_tokens() {
    let turn = turn("hello there");
    expect(&turn, "text\n  You said: hello there\ncomplete");
    assert_eq!(turn.tokens, Some(Tokens { input: Some(1320), output: Some(42), total: None }));
    assert_eq!(turn.session_id.as_deref(), Some("aeff5fb2-0ecc-43b5-bcb3-4ebcc4f6b704"));
    assert!(turn.is_found);
}

#[test]
fn answer_written_before_its_prompt_is_found() {
    let message = json!({
        "id": "m", "stop_reason": "end_turn", "content": [{ "type": "text", "text": "Hi." }]
    });
    let lines = [
        json!({ "type": "assistant", "uuid": "a", "parentUuid": "t", "message": message }),
        json!({ "type": "user", "uuid": "u", "message": { "content": "go" } }),
        json!({ "type": "attachment", "uuid": "t", "parentUuid": "u" }),
    ];
    let text = lines.map(|line| line.to_string()).join("\n");
    let turn = parse_turn(text.lines(), "go", None);
    expect(&turn, "text\n  Hi.\nincomplete");
    assert!(turn.said_end);
}

#[test]
fn thinking_is_its_own_section() {
    expect(
        &turn("THINK about it"),
        "
        thinking
          Let me think about it.

          Step two.
        text
          You said: THINK about it
        complete",
    );
}

#[test]
fn tools_with_their_results() {
    // The results are in a different order than the calls; one is an error.
    let turn = turn("TOOLS please");
    expect(
        &turn,
        r#"
        text
          I will run two commands.
        tool_call args={"command":"echo one","description":"Print one"} id=toolu_17953023535551 status=ok tool=Bash
          one
        tool_call args={"file_path":"/srv/work/missing.txt"} id=toolu_17953023535552 status=error tool=Read
          File does not exist. Note: your current working directory is /srv/work.
        text
          The tool said: one
        complete"#,
    );
    // Four lines of one message and one of another: each message counts once.
    assert_eq!(turn.tokens, Some(Tokens { input: Some(2640), output: Some(84), total: None }));
}

#[test]
fn rejected_tool_and_interruption() {
    let refused = turn("WRITE please");
    assert_eq!(refused.sections[1].metadata["status"], "rejected");
    assert_eq!(refused.sections[2].content, "Request interrupted by user for tool use");
    assert!(refused.is_complete);
    expect(
        &turn("SLOW please"),
        "
        text
          slow words keep coming slow words keep coming slow words keep coming slow words
        interrupted
          Request interrupted by user
        complete",
    );
}

#[test]
fn api_error_is_an_error_section() {
    let turn = turn("ERR400 now");
    expect(&turn, "error\n  API Error: 400 scripted error\ncomplete");
    assert_eq!(turn.tokens, None, "a synthetic message has no usage");
}

#[test]
fn pasted_prompt_is_found_in_its_wrapper() {
    let prompt: Vec<String> = (1..=30).map(|n| format!("paste row {n}")).collect();
    let turn = turn(&prompt.join("\n"));
    assert!(turn.is_found && turn.is_complete);
    assert_eq!(turn.sections.len(), 1);
    assert!(turn.sections[0].content.starts_with("You said: \n\n<pasted_content"));
    assert!(self::turn("two lines\n\nwith a gap").is_found);
}

#[test]
fn last_of_two_equal_prompts_and_since() {
    let text = nine_turns();
    let repeated: Vec<&str> =
        text.lines().filter(|line| line.contains("\"content\":\"hello there\"")).collect();
    assert_eq!(repeated.len(), 2);
    // 2026-11-21T23:06:15.485Z, the second prompt. Half a millisecond later it still matches, a second later it does
    // not.
    let second = TsNs(1_795_302_375_485_500_000);
    let repeated_turn = parse_turn(text.lines(), "hello there", Some(second));
    assert!(repeated_turn.is_found && repeated_turn.is_complete);
    assert!(!parse_turn(text.lines(), "hello there", Some(TsNs(second.0 + 1_000_000_000))).is_found);
}

#[test]
fn running_turn_is_incomplete() {
    let text = nine_turns();
    let all: Vec<&str> = text.lines().collect();
    let call = all.iter().position(|line| line.contains("\"name\":\"Bash\"")).expect("the call");
    expect(
        &parse_turn(all[..=call].iter().copied(), "TOOLS please", None),
        r#"
        text
          I will run two commands.
        tool_call args={"command":"echo one","description":"Print one"} id=toolu_17953023535551 tool=Bash
        incomplete"#,
    );
}

#[test]
fn final_message_is_marked() {
    let text = nine_turns();
    let all: Vec<&str> = text.lines().collect();
    let up_to = |content: &str, prompt: &str| {
        let line = all
            .iter()
            .rposition(|line| line.contains("\"assistant\"") && line.contains(content))
            .expect("turn");
        parse_turn(all[..=line].iter().copied(), prompt, None)
    };
    let answered = up_to("You said: THINK", "THINK about it");
    assert!(answered.said_end && !answered.is_complete, "before the turn's duration is written");
    let thought = up_to("\"type\":\"thinking\"", "THINK about it");
    assert!(!thought.said_end, "the last message, still without text");
    assert!(!up_to("I will run two commands", "TOOLS please").said_end);
    assert!(!up_to("\"name\":\"Read\"", "TOOLS please").said_end, "a result follows");
    assert!(up_to("The tool said: one", "TOOLS please").said_end);
    assert!(!turn("SLOW please").said_end && turn("SLOW please").is_complete, "interrupted");
    assert!(turn("hello there").said_end && turn("hello there").is_complete);
}

#[test]
fn hook_makes_agent_continue() {
    let prompt_line = json!({"type": "user", "uuid": "u", "message": {"content": "q"}}).to_string();
    let end = |uuid: &str, parent: &str, reason: &str| {
        let message = json!({"id": uuid, "stop_reason": reason, "content": [{"type": "text", "text": uuid}]});
        json!({"type": "assistant", "uuid": uuid, "parentUuid": parent, "message": message}).to_string()
    };
    let more = json!({"type": "user", "uuid": "h", "parentUuid": "a", "isMeta": true, "message": {"content": "continue"}});
    let lines = [prompt_line, end("a", "u", "end_turn"), more.to_string(), end("b", "h", "stop_sequence")];
    let ends: Vec<bool> =
        (1..=4).map(|n| parse_turn(lines[..n].iter().map(String::as_str), "q", None).said_end).collect();
    assert_eq!(ends, [false, true, false, true]);
}

#[test]
fn missing_prompt_gives_no_turn() {
    let turn = turn("never said");
    assert!(!turn.is_found && !turn.is_complete && turn.sections.is_empty());
    assert_eq!(parse_turn(std::iter::empty(), "x", None), TranscriptTurn::default());
}

#[test]
fn empty_prompt_matches_last_message() {
    expect(&turn(""), "text\n  You said: hello there\ncomplete");
}

#[test]
fn malformed_and_unknown_lines_are_counted() {
    let prompt_line =
        json!({"type": "user", "uuid": "u", "message": {"role": "user", "content": "q"}}).to_string();
    let answer =
        json!({"type": "assistant", "uuid": "a", "parentUuid": "u", "message": {"id": "m", "content": [
        {"type": "text", "text": "yes"}, {"type": "hologram", "data": 1}]}})
        .to_string();
    let cut = &answer[..answer.len() / 2];
    let lines = ["{not json", "", "[1]", "{\"type\":\"weather\"}", &prompt_line, "\u{0}", &answer, cut];
    let turn = parse_turn(lines.into_iter(), "q", None);
    assert_eq!(turn.sections[0].content, "yes");
    // Three malformed lines, one unknown type and one unknown block. The truncated line is still being written.
    assert_eq!(turn.unknown, 5);
    let again = parse_turn(lines.into_iter().chain([prompt_line.as_str()]), "q", None);
    assert_eq!(again.unknown, 6, "malformed if another line follows");
}

#[test]
fn other_branches_and_side_chains_are_excluded() {
    let line = |kind: &str, uuid: &str, parent: Option<&str>, text: &str| {
        json!({"type": kind, "uuid": uuid, "parentUuid": parent, "message": {"id": uuid, "content": text}})
            .to_string()
    };
    let side = json!({"type": "assistant", "uuid": "s", "parentUuid": "u2", "isSidechain": true, "message": {"content": "no"}});
    let lines = [
        line("user", "u1", None, "q"),
        line("assistant", "a1", Some("u1"), "old"),
        // Rewound to before the first prompt and repeated.
        line("user", "u2", None, "q"),
        side.to_string(),
        line("assistant", "a2", Some("u2"), "new"),
        line("assistant", "a1b", Some("a1"), "late words of the old branch"),
        line("assistant", "a3", Some("a2"), "more"),
        line("assistant", "a4", Some("never seen"), "and more"),
        line("user", "u3", Some("a4"), "another question"),
        line("assistant", "a5", Some("u3"), "not ours"),
    ];
    let turn = parse_turn(lines.iter().map(String::as_str), "q", None);
    expect(&turn, "text\n  new\ntext\n  more\ntext\n  and more\ncomplete");
}

#[test]
fn blocks_and_reminders_in_the_prompt() {
    let prompt_line = json!({"type": "user", "uuid": "u", "message": {"content": [
        {"type": "text", "text": "<system-reminder>be kind</system-reminder>"}, {"type": "text", "text": "if a < b:\n\treturn"}]}});
    let lines = [prompt_line.to_string()];
    assert!(parse_turn(lines.iter().map(String::as_str), "if a < b: return", None).is_found);
    let meta = json!({"type": "user", "isMeta": true, "uuid": "u", "message": {"content": "q"}}).to_string();
    assert!(!parse_turn([meta.as_str()].into_iter(), "q", None).is_found);
}

#[test]
fn five_megabyte_line_is_parsed() {
    let text = "word ".repeat(1_000_000);
    let prompt_line = json!({"type": "user", "uuid": "u", "message": {"content": "q"}}).to_string();
    let answer =
        json!({"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}}).to_string();
    let turn = parse_turn([prompt_line.as_str(), answer.as_str()].into_iter(), "q", None);
    assert_eq!(turn.sections[0].content.len(), text.len() - 1);
}

#[test]
fn lines_with_fields_of_other_types_are_not_damaged() {
    let other =
        json!({ "type": "cost-state", "timestamp": 17, "message": "of another type", "uuid": 5 }).to_string();
    let turns = nine_turns();
    let lines = turns.lines().chain([other.as_str(), ""]);
    assert_eq!(parse_turn(lines, "hello there", None).unknown, 0);
    assert!(nerve_agent::parse::transcript::turns(&format!("{turns}{other}\n")).is_ok(), "can be cut");
}
