//! A transcript cut after a turn. `nine-turns.jsonl` was written by Claude Code 2.1.330; the others are made for their case.

use std::fs;

use nerve_term::parse::transcript::{CutError, cut, parse_turn, turns};
use serde_json::{Value, json};

use crate::screens::fixtures;

const NEW: &str = "cccccccc-3333-4333-8333-cccccccccccc";

fn nine_turns() -> String {
    fs::read_to_string(fixtures().join("transcripts/nine-turns.jsonl")).expect("the fixture")
}

/// Lines of a conversation, from short words: `prompt`, `answer` and so on, each with its id and its parent's.
fn lines(words: &[(&str, &str, &str)]) -> String {
    let line = |&(what, id, parent): &(&str, &str, &str)| {
        let parent = if parent.is_empty() { Value::Null } else { Value::from(parent) };
        let mut line = json!({ "uuid": id, "parentUuid": parent, "sessionId": "old" });
        let (kind, content) = match what {
            "prompt" => ("user", json!(format!("prompt {id}"))),
            "answer" => ("assistant", json!([{ "type": "text", "text": format!("answer {id}") }])),
            "result" => ("user", json!([{ "type": "tool_result", "tool_use_id": "t", "content": id }])),
            "command" => ("user", json!("<command-name>/review</command-name>")),
            "boundary" => ("system", Value::Null),
            other => (other, Value::Null),
        };
        line["type"] = json!(kind);
        match what {
            "boundary" => {
                line["subtype"] = json!("compact_boundary");
                line["logicalParentUuid"] = line["parentUuid"].take();
            }
            _ if !content.is_null() => line["message"] = json!({ "role": kind, "content": content }),
            _ => {}
        }
        line.to_string() + "\n"
    };
    words.iter().map(line).collect()
}

/// The ids of the lines that are left.
fn left(text: &str, turn: u64) -> Vec<String> {
    let cut = cut(text, turn, NEW).expect("it can be cut");
    let lines = cut.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line"));
    lines.map(|line| line["uuid"].as_str().or(line["type"].as_str()).expect("a name").to_string()).collect()
}

#[test]
fn a_real_transcript_is_cut_after_each_of_its_turns() {
    let text = nine_turns();
    assert_eq!(turns(&text), Ok(9));
    for turn in 1..=9 {
        let part = cut(&text, turn, NEW).unwrap();
        assert_eq!(turns(&part), Ok(turn), "as many turns as were asked for");
        let mut named = 0;
        for line in part.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            for key in ["sessionId", "session_id"] {
                named += line.get(key).map_or(0, |id| {
                    assert_eq!(id, NEW, "{line}");
                    1
                });
            }
        }
        assert!(named > 0);
        let whole = parse_turn(part.lines(), "", None);
        assert!(whole.is_found && !whole.sections.is_empty(), "turn {turn} has its answer");
    }
    assert!(cut(&text, 1, NEW).unwrap().len() < cut(&text, 2, NEW).unwrap().len());
    let first = cut(&text, 1, NEW).unwrap();
    assert!(first.contains("hello there") && !first.contains("THINK about it"), "nothing of what came later");
}

#[test]
fn all_but_the_session_stays_to_the_byte() {
    let text = nine_turns();
    let old = "aeff5fb2-0ecc-43b5-bcb3-4ebcc4f6b704";
    let part = cut(&text, 9, NEW).unwrap();
    let known: Vec<String> = text.lines().map(|line| line.replace(old, NEW)).collect();
    assert!(part.lines().all(|line| known.iter().any(|known| known == line)));
}

#[test]
fn a_turn_that_is_not_there_says_how_many_are() {
    for turn in [0, 10, u64::MAX] {
        let error = cut(&nine_turns(), turn, NEW).unwrap_err();
        assert_eq!(error, CutError::NoSuchTurn { turn, turns: 9 });
        assert_eq!(error.to_string(), format!("there is no turn {turn}: it has 9"));
    }
}

#[test]
fn only_the_branch_that_goes_on_counts() {
    // Taken back to its first answer: p2 was left for p3.
    let text = lines(&[
        ("prompt", "p1", ""),
        ("answer", "a1", "p1"),
        ("prompt", "p2", "a1"),
        ("answer", "a2", "p2"),
        ("prompt", "p3", "a1"),
        ("answer", "a3", "p3"),
    ]);
    assert_eq!(turns(&text), Ok(2));
    assert_eq!(left(&text, 1), ["p1", "a1"]);
    assert_eq!(left(&text, 2), ["p1", "a1", "p3", "a3"]);
}

#[test]
fn results_of_tools_that_ran_side_by_side_stay_with_their_turn() {
    let text = lines(&[
        ("prompt", "p1", ""),
        ("answer", "a1", "p1"),
        ("answer", "a2", "a1"),
        ("result", "r1", "a1"),
        ("result", "r2", "a2"),
        ("answer", "a3", "r2"),
        ("prompt", "p2", "a3"),
        ("answer", "a4", "p2"),
    ]);
    assert_eq!(left(&text, 1), ["p1", "a1", "a2", "r1", "r2", "a3"]);
}

#[test]
fn lines_of_no_message_go_with_the_line_before_or_with_the_message_they_name() {
    let p1 = lines(&[("prompt", "p1", ""), ("answer", "a1", "p1")]);
    let p2 = lines(&[("prompt", "p2", "a1"), ("answer", "a2", "p2")]);
    let text = format!(
        "{}\n{p1}{}\n{}\n{}\n{p2}{}\n{}\n",
        r#"{"type":"mode","mode":"normal","sessionId":"old"}"#,
        r#"{"type":"brand-new","sessionId":"old","x":[1]}"#,
        r#"{"type":"file-history-snapshot","messageId":"p2"}"#,
        r#"{"type":"summary","summary":"s","leafUuid":"a1"}"#,
        r#"{"type":"last-prompt","leafUuid":"a2","sessionId":"old"}"#,
        r#"{"type":"summary","summary":"late","leafUuid":"a1"}"#,
    );
    assert_eq!(left(&text, 1), ["mode", "p1", "a1", "brand-new", "summary"]);
    assert_eq!(left(&text, 2).len(), 10);
}

#[test]
fn what_subagents_said_goes_with_the_turn_it_was_said_in() {
    let side = |id: &str| {
        format!(
            "{}\n",
            json!({"type": "assistant", "isSidechain": true, "uuid": id, "message": {"content": "x"}})
        )
    };
    let text = format!(
        "{}{}{}{}",
        lines(&[("prompt", "p1", ""), ("answer", "a1", "p1")]),
        side("s1"),
        lines(&[("prompt", "p2", "a1"), ("answer", "a2", "p2")]),
        side("s2"),
    );
    assert_eq!(turns(&text), Ok(2));
    assert_eq!(left(&text, 1), ["p1", "a1", "s1"]);
    assert_eq!(left(&text, 2), ["p1", "a1", "s1", "p2", "a2", "s2"]);
}

#[test]
fn turns_before_a_summary_are_there_without_it() {
    let text = lines(&[
        ("prompt", "p1", ""),
        ("answer", "a1", "p1"),
        ("prompt", "p2", "a1"),
        ("answer", "a2", "p2"),
        ("boundary", "b", "a2"),
        ("prompt", "p3", "b"),
        ("answer", "a3", "p3"),
    ]);
    assert_eq!(turns(&text), Ok(3));
    assert_eq!(left(&text, 2), ["p1", "a1", "p2", "a2"]);
    assert_eq!(left(&text, 3), ["p1", "a1", "p2", "a2", "b", "p3", "a3"]);
}

#[test]
fn a_command_is_a_turn_only_if_the_agent_answered() {
    let text = lines(&[
        ("command", "c1", ""),
        ("prompt", "p1", "c1"),
        ("answer", "a1", "p1"),
        ("command", "c2", "a1"),
        ("answer", "a2", "c2"),
    ]);
    assert_eq!(turns(&text), Ok(2));
    assert_eq!(left(&text, 1), ["c1", "p1", "a1"]);
    assert_eq!(turns(&lines(&[("command", "c1", "")])), Ok(0), "only /clear: nothing was said");
}

#[test]
fn a_lost_parent_and_a_circle_are_lived_with() {
    let lost = lines(&[
        ("prompt", "p1", ""),
        ("answer", "a1", "p1"),
        ("prompt", "p2", "gone"),
        ("answer", "a2", "p2"),
    ]);
    assert_eq!(turns(&lost), Ok(2));
    let circle = lines(&[("answer", "a", "b"), ("prompt", "b", "a")]);
    assert_eq!(turns(&circle), Ok(1));
}

#[test]
fn what_cannot_be_read_is_an_error_that_says_so() {
    let whole = lines(&[("prompt", "p1", ""), ("answer", "a1", "p1")]);
    let cut_off = &whole[..whole.len() - 9];
    assert_eq!(cut(cut_off, 1, NEW), Err(CutError::Truncated));
    assert_eq!(cut(&format!("{cut_off}\n{whole}"), 1, NEW), Err(CutError::Malformed { line: 2 }));
    assert_eq!(cut(&format!("{whole}[]\n"), 1, NEW), Err(CutError::Malformed { line: 3 }));
    for newer in ["", "\n", "{\"type\":\"turn\",\"v\":9}\n", "{\"type\":\"user\",\"text\":\"hi\"}\n"] {
        assert_eq!(cut(newer, 1, NEW), Err(CutError::Unknown), "{newer:?}");
    }
}

#[test]
fn a_session_named_in_another_way_is_renamed_too() {
    let text = "{\"type\": \"user\", \"uuid\": \"p\", \"sessionId\": \"old\", \"message\": {\"content\": \"say \\\"sessionId\\\":\\\"old\\\"\"}}\n";
    let line: Value = serde_json::from_str(&cut(text, 1, NEW).unwrap()).unwrap();
    assert_eq!(line["sessionId"], NEW);
    assert_eq!(line["message"]["content"], "say \"sessionId\":\"old\"", "what was said is left as it is");
}
