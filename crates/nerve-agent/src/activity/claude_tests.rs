//! The activities in transcripts of Claude Code.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;

/// Lines of Claude Code 2.1.330 against a scripted model.
const CONVERSATION: &str = include_str!("../../tests/fixtures/transcripts/claude-activity.jsonl");
const SUBAGENT: &str = include_str!("../../tests/fixtures/transcripts/claude-subagent.jsonl");

const TURNS: &str = include_str!("../../tests/fixtures/transcripts/nine-turns.jsonl");

fn read(lines: &str) -> Vec<Activity> {
    let (activities, unknown) = read_counting(lines);
    assert_eq!(unknown, 0);
    activities
}

/// Returns the activities and the number of unknown kinds.
fn read_counting(lines: &str) -> (Vec<Activity>, usize) {
    let mut reader = ActivityReader::new(TranscriptKind::Claude);
    let activities = lines.lines().flat_map(|line| reader.read_line(line, TsMs(7))).collect();
    (activities, reader.unknown())
}

/// Formats an activity briefly.
fn words(activity: &Activity) -> String {
    match activity {
        Activity::Thought { text, .. } => format!("thought {text}"),
        Activity::ToolStart { name, args, execution, status, .. } => {
            // The order of keys depends on a feature of serde_json that other crates may enable.
            let args: BTreeMap<String, Value> = serde_json::from_str(args).unwrap();
            let args = serde_json::to_string(&args).unwrap();
            format!("start {execution} {name} {args} {}", status.as_str())
        }
        Activity::ToolOutput { name, output, execution, status, .. } => {
            let first = output.lines().next().unwrap_or_default();
            format!("output {execution} {name} {} {}", status.as_str(), &first[..first.len().min(20)])
        }
        Activity::FileEdit { path, added, removed, description, .. } => {
            format!("edit {path} +{added} -{removed} {description:?}")
        }
        Activity::Error { message, .. } => format!("error {message}"),
        Activity::Usage { input, output, cache_read, cache_write, model, .. } => {
            let model = model.as_deref().unwrap_or("-");
            format!("usage {input} {output} {cache_read} {cache_write} {model}")
        }
        other => format!("{other:?}"),
    }
}

fn message(kind: &str, content: &Value) -> String {
    json!({ "type": kind, "timestamp": "2026-01-02T03:04:05.678Z", "message": { "id": "m", "content": content } })
        .to_string()
}

#[test]
fn real_conversation_is_reported_once_and_in_order() {
    let activities: Vec<String> = read(CONVERSATION).iter().map(words).collect();
    let path = "/home/me/project/n.txt";
    let expected = [
        "thought I ponder.".to_string(),
        format!(r#"start toolu_p2_0 Write {{"content":"a\nb\nc\n","file_path":"{path}"}} running"#),
        "output toolu_p2_0 Write completed File created success".to_string(),
        format!(r#"edit {path} +3 -0 Some("created")"#),
        format!(
            r#"start toolu_p4_0 Edit {{"file_path":"{path}","new_string":"b1\nb2","old_string":"b","replace_all":false}} running"#
        ),
        "output toolu_p4_0 Edit completed The file /home/me/pr".to_string(),
        format!("edit {path} +2 -1 None"),
        format!(r#"start toolu_p6_0 Write {{"content":"a\nb\nc\n","file_path":"{path}"}} running"#),
        "output toolu_p6_0 Write completed The file /home/me/pr".to_string(),
        format!("edit {path} +1 -2 None"),
        format!(r#"start toolu_p8_0 Read {{"file_path":"{path}"}} running"#),
        "output toolu_p8_0 Read completed 1\ta".to_string(),
        r#"start toolu_p10_0 Bash {"command":"echo one","description":"d"} running"#.to_string(),
        r#"start toolu_p10_1 Bash {"command":"echo two; exit 3","description":"d"} running"#.to_string(),
        "output toolu_p10_0 Bash completed one".to_string(),
        "output toolu_p10_1 Bash failed Exit code 3".to_string(),
        r#"start toolu_p12_0 Agent {"description":"d","prompt":"SUBX do it","subagent_type":"general-purpose"} running"#
            .to_string(),
        "output toolu_p12_0 Agent running Async agent launched".to_string(),
        "output toolu_p12_0 Agent completed done".to_string(),
        "error API Error: 400 scripted".to_string(),
    ];
    assert_eq!(activities, expected);
}

#[test]
fn times_come_from_the_lines() {
    let activities = read(CONVERSATION);
    assert_eq!(activities[0].at().iso(), "2026-11-22T02:28:10.714Z");
    assert!(activities.windows(2).all(|two| two[0].at() <= two[1].at()));
    let undated =
        json!({ "type": "assistant", "message": { "content": [{ "type": "thinking", "thinking": "x" }] } });
    assert_eq!(read(&undated.to_string())[0].at(), TsMs(7));
}

#[test]
fn subagent_is_reported_like_its_parent() {
    let activities: Vec<String> = read(SUBAGENT).iter().map(words).collect();
    let start = r#"start toolu_p13_0 Bash {"command":"echo from-sub","description":"d"} running"#;
    assert_eq!(activities, [start, "output toolu_p13_0 Bash completed from-sub"]);
}

#[test]
fn text_before_a_tool_is_a_thought_and_an_answer_is_not() {
    let pending = |text: &str| json!([{ "type": "text", "text": text }]);
    let tool = json!([{ "type": "tool_use", "id": "t", "name": "Bash", "input": {} }]);
    let lines = [
        message("assistant", &pending("I will look.")),
        message("assistant", &tool),
        message("assistant", &pending("Here is what I found.")),
        message("user", &pending("a prompt")),
    ];
    let activities: Vec<String> = read(&lines.join("\n")).iter().map(words).collect();
    assert_eq!(activities, ["thought I will look.", "start t Bash {} running"]);
}

#[test]
fn rejected_tool_is_cancelled() {
    let result = json!([{ "type": "tool_result", "tool_use_id": "t", "is_error": true, "content": "no" }]);
    let mut line: Value = serde_json::from_str(&message("user", &result)).unwrap();
    line["toolDenialKind"] = "user-rejected".into();
    let activities = read(&line.to_string());
    assert!(
        matches!(&activities[..], [Activity::ToolOutput { status: Status::Cancelled, .. }]),
        "{activities:?}"
    );
}

#[test]
fn long_outputs_are_cut_with_a_note() {
    let long = "\u{e4}".repeat(TEXT_LIMIT);
    let result = json!([{ "type": "tool_result", "tool_use_id": "t", "content": [
        { "type": "text", "text": long }, { "type": "image", "source": {} },
    ] }]);
    let activities = read(&message("user", &result));
    let [Activity::ToolOutput { output, .. }] = &activities[..] else { panic!("{activities:?}") };
    assert!(output.len() < TEXT_LIMIT + 100);
    assert!(output.ends_with(&format!("\n[{} more bytes are not shown]", TEXT_LIMIT + "\n[image]".len())));
}

#[test]
fn unknown_lines_are_skipped_and_counted() {
    for (line, expected) in [
        ("", 0),
        ("\0\0", 0),
        ("{", 1),
        ("[]", 1),
        ("null", 1),
        (r#"{"type":"user"}"#, 1),
        (r#"{"type":"novelty","uuid":"u"}"#, 1),
        (r#"{"type":"assistant","message":{"content":7}}"#, 1),
        (r#"{"type":"assistant","message":{"content":[{"type":"hologram"},{"type":"text"}]}}"#, 1),
        (r#"{"type":"assistant","message":{"content":"plain"}}"#, 0),
        (r#"{"type":"assistant","message":{"content":[{"type":"server_tool_use"}]}}"#, 0),
        (r#"{"type":"cost-state","timestamp":17,"message":"of another type"}"#, 0),
    ] {
        assert_eq!(read_counting(line), (Vec::new(), expected), "{line}");
    }
    let empty =
        json!([{ "type": "thinking", "thinking": " ", "signature": "s" }, { "type": "redacted_thinking" }]);
    assert_eq!(read(&message("assistant", &empty)), [], "thinking the API leaves out");
}

#[test]
fn real_transcripts_have_no_unknown_kinds() {
    for lines in [CONVERSATION, SUBAGENT, TURNS] {
        assert_eq!(read_counting(lines).1, 0);
    }
}

/// Returns the usage that lines report.
fn read_usage(lines: &str) -> Vec<String> {
    read(lines).iter().map(words).filter(|activity| activity.starts_with("usage ")).collect()
}

#[test]
fn usage_is_reported_once_per_response() {
    let whole = "usage 1000 42 300 20 claude-opus-5-5";
    // The sixth response was interrupted. The seventh is an error that the program made up.
    let interrupted = "usage 1000 1 300 20 claude-opus-5-5";
    assert_eq!(read_usage(TURNS), [&[whole; 5][..], &[interrupted], &[whole; 3]].concat());
}

#[test]
fn growing_usage_is_reported_when_final() {
    let line = |id: &str, output: u64, stop: Option<&str>| {
        let usage = json!({ "input_tokens": 9, "output_tokens": output });
        json!({ "type": "assistant", "message":
            { "id": id, "model": "m", "content": "x", "usage": usage, "stop_reason": stop } })
        .to_string()
    };
    let result = message("user", &json!([{ "type": "tool_result", "tool_use_id": "t", "content": "" }]));
    let (first, last) = (line("a", 1, None), line("a", 7, Some("tool_use")));
    assert_eq!(read_usage(&first), [""; 0]);
    let lines = [first, result, last.clone(), last, line("b", 2, None), line("c", 3, None)];
    assert_eq!(read_usage(&lines.join("\n")), ["usage 9 7 0 0 m", "usage 9 2 0 0 m"]);
}

#[test]
fn tools_that_never_end_do_not_pile_up() {
    let mut reader = ActivityReader::new(TranscriptKind::Claude);
    for at in 0..1000 {
        let tool = json!([{ "type": "tool_use", "id": at.to_string(), "name": "Bash", "input": {} }]);
        reader.read_line(&message("assistant", &tool), TsMs(0));
    }
    assert_eq!(reader.fold.calls.len(), MAX_CALLS);
}
