//! Cuts of transcripts. `nine-turns.jsonl` was written by Claude Code 2.1.330; the others are hand-made.

use std::fs;
use std::path::Path;

use nerve_agent::parse::transcript::{CutError, cut, cut_at, parse_turn, turns};
use nerve_types::TsNs;
use serde_json::{Value, json};

const NEW: &str = "cccccccc-3333-4333-8333-cccccccccccc";

fn nine_turns() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/transcripts/nine-turns.jsonl"))
        .expect("the fixture")
}

/// Builds the lines of a conversation from short names (`prompt`, `answer`, …), each with its id and its parent's id.
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

/// Returns the ids of the remaining lines.
fn remaining_ids(text: &str, turn: u64) -> Vec<String> {
    let cut = cut(text, turn, NEW).expect("a valid cut");
    let lines = cut.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line"));
    lines.map(|line| line["uuid"].as_str().or(line["type"].as_str()).expect("a name").to_string()).collect()
}

#[test]
fn recorded_transcript_is_cut_after_each_turn() {
    let text = nine_turns();
    assert_eq!(turns(&text), Ok(9));
    for turn in 1..=9 {
        let part = cut(&text, turn, NEW).unwrap();
        assert_eq!(turns(&part), Ok(turn), "the requested number of turns");
        let mut id_count = 0;
        for line in part.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            for key in ["sessionId", "session_id"] {
                id_count += line.get(key).map_or(0, |id| {
                    assert_eq!(id, NEW, "{line}");
                    1
                });
            }
        }
        assert!(id_count > 0);
        let complete = parse_turn(part.lines(), "", None);
        assert!(complete.is_found && !complete.sections.is_empty(), "turn {turn} has its answer");
    }
    assert!(cut(&text, 1, NEW).unwrap().len() < cut(&text, 2, NEW).unwrap().len());
    let first = cut(&text, 1, NEW).unwrap();
    assert!(first.contains("hello there") && !first.contains("THINK about it"), "later message not cut");
}

#[test]
fn cut_changes_only_the_session() {
    let text = nine_turns();
    let old = "aeff5fb2-0ecc-43b5-bcb3-4ebcc4f6b704";
    let part = cut(&text, 9, NEW).unwrap();
    let known: Vec<String> = text.lines().map(|line| line.replace(old, NEW)).collect();
    assert!(part.lines().all(|line| known.iter().any(|known| known == line)));
}

#[test]
fn missing_turn_error_contains_number_of_turns() {
    for turn in [0, 10, u64::MAX] {
        let error = cut(&nine_turns(), turn, NEW).unwrap_err();
        assert_eq!(error, CutError::NoSuchTurn { turn, turns: 9 });
    }
}

#[test]
fn only_current_branch_counts() {
    // Rewound to the first answer: p3 replaced p2.
    let text = lines(&[
        ("prompt", "p1", ""),
        ("answer", "a1", "p1"),
        ("prompt", "p2", "a1"),
        ("answer", "a2", "p2"),
        ("prompt", "p3", "a1"),
        ("answer", "a3", "p3"),
    ]);
    assert_eq!(turns(&text), Ok(2));
    assert_eq!(remaining_ids(&text, 1), ["p1", "a1"]);
    assert_eq!(remaining_ids(&text, 2), ["p1", "a1", "p3", "a3"]);
}

#[test]
fn parallel_tool_results_stay_with_their_turn() {
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
    assert_eq!(remaining_ids(&text, 1), ["p1", "a1", "a2", "r1", "r2", "a3"]);
}

#[test]
fn other_lines_follow_previous_line_or_named_message() {
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
    assert_eq!(remaining_ids(&text, 1), ["mode", "p1", "a1", "brand-new", "summary"]);
    assert_eq!(remaining_ids(&text, 2).len(), 10);
}

#[test]
fn subagent_lines_stay_with_their_turn() {
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
    assert_eq!(remaining_ids(&text, 1), ["p1", "a1", "s1"]);
    assert_eq!(remaining_ids(&text, 2), ["p1", "a1", "s1", "p2", "a2", "s2"]);
}

#[test]
fn turns_before_compaction_are_kept() {
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
    assert_eq!(remaining_ids(&text, 2), ["p1", "a1", "p2", "a2"]);
    assert_eq!(remaining_ids(&text, 3), ["p1", "a1", "p2", "a2", "b", "p3", "a3"]);
}

#[test]
fn command_is_a_turn_only_if_answered() {
    let text = lines(&[
        ("command", "c1", ""),
        ("prompt", "p1", "c1"),
        ("answer", "a1", "p1"),
        ("command", "c2", "a1"),
        ("answer", "a2", "c2"),
    ]);
    assert_eq!(turns(&text), Ok(2));
    assert_eq!(remaining_ids(&text, 1), ["c1", "p1", "a1"]);
    assert_eq!(turns(&lines(&[("command", "c1", "")])), Ok(0), "only /clear: no conversation yet");
}

#[test]
fn missing_parent_and_cycle_are_tolerated() {
    let lost = lines(&[
        ("prompt", "p1", ""),
        ("answer", "a1", "p1"),
        ("prompt", "p2", "gone"),
        ("answer", "a2", "p2"),
    ]);
    assert_eq!(turns(&lost), Ok(2));
    let cycle = lines(&[("answer", "a", "b"), ("prompt", "b", "a")]);
    assert_eq!(turns(&cycle), Ok(1));
}

#[test]
fn unreadable_transcript_is_an_error() {
    let complete = lines(&[("prompt", "p1", ""), ("answer", "a1", "p1")]);
    let truncated = &complete[..complete.len() - 9];
    assert_eq!(cut(truncated, 1, NEW), Err(CutError::Truncated));
    assert_eq!(cut(&format!("{truncated}\n{complete}"), 1, NEW), Err(CutError::Malformed { line: 2 }));
    assert_eq!(cut(&format!("{complete}[]\n"), 1, NEW), Err(CutError::Malformed { line: 3 }));
    for newer in ["", "\n", "{\"type\":\"turn\",\"v\":9}\n", "{\"type\":\"user\",\"text\":\"hi\"}\n"] {
        assert_eq!(cut(newer, 1, NEW), Err(CutError::Unknown), "{newer:?}");
    }
}

#[test]
fn other_session_fields_are_renamed() {
    let text = "{\"type\": \"user\", \"uuid\": \"p\", \"sessionId\": \"old\", \"message\": {\"content\": \"say \\\"sessionId\\\":\\\"old\\\"\"}}\n";
    let line: Value = serde_json::from_str(&cut(text, 1, NEW).unwrap()).unwrap();
    assert_eq!(line["sessionId"], NEW);
    assert_eq!(line["message"]["content"], "say \"sessionId\":\"old\"", "user text is unchanged");
}

/// Returns a time on the day of the nine turns, in nanoseconds.
fn at(time: &str) -> Option<TsNs> {
    let time: jiff::Timestamp = format!("2026-11-21T{time}Z").parse().expect("a time");
    Some(TsNs(u64::try_from(time.as_nanosecond()).expect("after 1970")))
}

/// Returns the number of turns and the beginning of the last message's id.
fn cut_then(text: &str, time: &str) -> (u64, String) {
    let cut = cut_at(text, at(time), NEW, None).expect("a valid cut");
    let lines = cut.text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line"));
    let mut messages = lines.filter(|line| !line["message"].is_null());
    let last = messages.next_back().map(|line| line["uuid"].as_str().expect("an id")[..6].to_string());
    (cut.turns, last.unwrap_or_default())
}

#[test]
fn recorded_transcript_is_cut_at_any_moment() {
    let text = nine_turns();
    for (time, turns, last) in [
        ("23:05:48.000", 0, ""),
        ("23:05:49.000", 1, "778b3f"),
        ("23:05:50.000", 1, "6c5557"),
        // Only thoughts so far.
        ("23:05:51.285", 2, "0ada3d"),
        ("23:05:51.287", 2, "0b44ff"),
        // Two tools are running: none, one and both have returned.
        ("23:05:53.700", 3, "83e80d"),
        ("23:05:53.820", 3, "83e80d"),
        ("23:05:53.850", 3, "71a12b"),
        ("23:05:54.000", 3, "ab848c"),
        ("23:06:13.200", 8, "5df5b5"),
        ("23:59:59.000", 9, "07d6b6"),
    ] {
        assert_eq!(cut_then(&text, time), (turns, last.to_string()), "{time}");
    }
    let all = cut_at(&text, None, NEW, None).unwrap();
    assert_eq!((all.turns, all.total_turns), (9, 9));
    assert_eq!(all.text, cut(&text, 9, NEW).unwrap());
    assert!(!all.text.contains("aeff5fb2"), "the other session is named nowhere");
}

#[test]
fn lines_of_later_messages_are_excluded() {
    let part = cut_at(&nine_turns(), at("23:05:50.000"), NEW, None).unwrap().text;
    let ids: Vec<Value> = part.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for line in ids.iter().filter(|line| line["type"] == "file-history-snapshot") {
        assert!(ids.iter().any(|other| other["uuid"] == line["messageId"]), "{line}");
    }
}

#[test]
fn incomplete_transcript_is_cut() {
    let text = nine_turns();
    let half = &text[..text.len() - 20];
    assert_eq!(cut_at(half, at("23:05:50.000"), NEW, None).unwrap().turns, 1);
    assert_eq!(cut_at(half, None, NEW, None).unwrap().turns, 9);
    assert_eq!(cut_at("{\"type\":\"newer\"}\n", None, NEW, None), Err(CutError::Unknown));
    assert_eq!(cut_at("nonsense\n{}\n", None, NEW, None), Err(CutError::Malformed { line: 1 }));
}

#[test]
fn paths_are_rewritten_except_in_signed_content() {
    let line = |content: &Value| {
        let message = json!({ "role": "user", "content": content });
        json!({ "type": "user", "uuid": "a", "sessionId": "old", "cwd": "/srv/a b", "message": message })
            .to_string()
    };
    let moved = |content: &Value| {
        let text = line(content) + "\n";
        let cut =
            cut_at(&text, None, NEW, Some((Path::new("/srv/a b"), Path::new("/new/\"place\"")))).unwrap();
        let line: Value = serde_json::from_str(cut.text.trim_end()).unwrap();
        (line["message"]["content"].clone(), line["cwd"].clone())
    };
    let (content, cwd) = moved(&json!("see\n/srv/a b/x.rs, '/srv/a b' and /srv/a b."));
    assert_eq!(cwd, "/new/\"place\"");
    assert_eq!(content, "see\n/new/\"place\"/x.rs, '/new/\"place\"' and /new/\"place\".");
    let other = json!("/srv/a bc /srv/a b-2 /srv/a b.git /mnt/srv/a b");
    assert_eq!(moved(&other).0, other, "other folders");
    let signed = json!([{ "type": "text", "text": "/srv/a b", "signature": "x" }]);
    assert_eq!(moved(&signed), (signed, json!("/new/\"place\"")));
}

/// Returns a line of directory `cwd` with this content, after the move.
fn moved(from: &str, cwd: &str, content: &Value) -> Value {
    let line =
        json!({ "type": "user", "uuid": "a", "cwd": cwd, "message": { "role": "user", "content": content } });
    let text = format!("{line}\n");
    let cut = cut_at(&text, None, NEW, Some((Path::new(from), Path::new("/new/1")))).expect("a valid cut");
    serde_json::from_str(cut.text.trim_end()).expect("a line")
}

#[test]
fn root_folder_is_not_rewritten() {
    let content = |from, text: &str| moved(from, from, &json!(text))["message"]["content"].clone();
    assert_eq!(content("/app", "see /app/x.rs\n/app: it"), "see /new/1/x.rs\n/new/1: it");
    let other = "/srv/app ~/app ${HOME}/app https://app/x ../app */app /apps <app></app>";
    assert_eq!(content("/app", other), other);
    assert_eq!(moved("/app", "/app/sub", &json!("x"))["cwd"], "/new/1/sub");
    assert_eq!(content("/", "in /srv or /"), "in /srv or /", "every path begins with it");
}

#[test]
fn signed_lines_get_new_working_directory() {
    let signed = json!([{ "type": "text", "text": "/app/sub", "signature": "x", "cwd": "/app/sub" }]);
    for (cwd, new) in [("/app", "/new/1"), ("/app/sub", "/new/1/sub"), ("/apps", "/apps"), ("/srv", "/srv")] {
        let line = moved("/app", cwd, &signed);
        assert_eq!((&line["cwd"], &line["message"]["content"]), (&json!(new), &signed), "{cwd}");
    }
}
