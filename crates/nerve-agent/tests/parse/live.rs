//! Activities of recorded session files (see `rollout` and `session_turns`) as they are reported while the files grow.

use nerve_agent::activity::ActivityReader;
use nerve_agent::parse::opencode_session::StoredMessage;
use nerve_agent::profile::TranscriptKind;
use nerve_types::activity::{Activity, TsMs};
use serde_json::{Value, json};

use crate::session_turns::messages;

const ROLLOUT: &str = include_str!("../fixtures/transcripts/codex-rollout.jsonl");
const CHAT: &str = include_str!("../fixtures/transcripts/gemini-chat.jsonl");

fn read(kind: TranscriptKind, lines: &str) -> Vec<String> {
    let mut reader = ActivityReader::new(kind);
    lines.lines().flat_map(|line| reader.read_line(line, TsMs(7))).map(|one| brief(&one)).collect()
}

/// Formats an activity briefly.
fn brief(activity: &Activity) -> String {
    let first = |text: &str| text.lines().next().unwrap_or_default().chars().take(30).collect::<String>();
    match activity {
        Activity::Thought { text, .. } => format!("thought {}", first(text)),
        Activity::ToolStart { name, args, execution, .. } => format!("start {execution} {name} {args}"),
        Activity::ToolOutput { name, output, execution, status, .. } => {
            format!("output {execution} {name} {} {}", status.as_str(), first(output))
        }
        Activity::FileEdit { path, added, removed, description, .. } => {
            format!("edit {path} +{added} -{removed} {}", description.as_deref().unwrap_or("-"))
        }
        Activity::Error { message, .. } => format!("error {}", first(message)),
        Activity::Usage { input, output, cache_read, cache_write, model, .. } => {
            let model = model.as_deref().unwrap_or("-");
            format!("usage {input} {output} {cache_read} {cache_write} {model}")
        }
        other => format!("{other:?}"),
    }
}

/// Separates usage from the other activities.
fn split_usage(activities: Vec<String>) -> (Vec<String>, Vec<String>) {
    activities.into_iter().partition(|activity| activity.starts_with("usage "))
}

#[test]
fn codex_tools_and_errors_are_reported() {
    let expected = [
        r#"start c1 exec_command {"cmd": "echo hi"}"#,
        "usage 10 5 0 0 -",
        "output c1 exec_command completed Chunk ID: 18da38",
        "usage 10 5 0 0 -",
        r#"error {"error": {"message": "a very "#,
        "usage 10 5 0 0 -",
    ];
    assert_eq!(read(TranscriptKind::Codex, ROLLOUT), expected);
}

#[test]
fn codex_edits_thoughts_and_failures_are_reported() {
    let item = |payload: Value| json!({ "type": "response_item", "payload": payload }).to_string();
    let event = |payload: Value| json!({ "type": "event_msg", "payload": payload }).to_string();
    let call =
        |id: &str| item(json!({ "type": "function_call", "name": "exec", "arguments": "{}", "call_id": id }));
    let completed = |item: Value| event(json!({ "type": "item_completed", "item": item }));
    let changes = json!({
        "/w/old.txt": { "type": "update", "unified_diff": "@@ -1,2 +1,3 @@\n a\n-b\n+B\n+C\n", "move_path": null },
        "/w/new.txt": { "type": "add", "content": "1\n2\n" },
    });
    let lines = [
        item(json!({ "type": "reasoning", "summary": [{ "type": "summary_text", "text": "I think" }] })),
        item(json!({ "type": "message", "role": "assistant", "content": [{ "text": "I will edit." }] })),
        call("c1"),
        call("c2"),
        call("c3"),
        completed(json!({ "type": "FileChange", "id": "c1", "changes": changes, "status": "completed" })),
        item(json!({ "type": "function_call_output", "call_id": "c1", "output": "done\n" })),
        completed(json!({ "type": "CommandExecution", "id": "c2", "status": "failed", "exit_code": 3 })),
        item(json!({ "type": "function_call_output", "call_id": "c2", "output": "code 3" })),
        event(json!({ "type": "turn_aborted", "reason": "interrupted" })),
    ];
    let mut activities = read(TranscriptKind::Codex, &lines.join("\n"));
    activities[5..7].sort();
    let expected = [
        "thought I think",
        "thought I will edit.",
        "start c1 exec {}",
        "start c2 exec {}",
        "start c3 exec {}",
        "edit /w/new.txt +2 -0 created",
        "edit /w/old.txt +2 -1 -",
        "output c1 exec completed done",
        "output c2 exec failed code 3",
        "output c3 exec cancelled ",
    ];
    assert_eq!(activities, expected);
}

#[test]
fn gemini_tools_are_reported_once() {
    let (usage, activities) = split_usage(read(TranscriptKind::Gemini, CHAT));
    assert_eq!(usage.len(), 8, "{usage:#?}");
    assert_eq!(usage[2], "usage 6175 6 0 0 gemini-2.5-flash", "in two lines of the file");
    let read_file = "read_file__read_file_1795719423769_0";
    assert_eq!(activities.len(), 7, "{activities:#?}");
    let expected = [
        "thought I will read the file.".to_string(),
        format!(r#"start {read_file} read_file {{"file_path":"/home/me/project/notes.txt"}}"#),
        format!("output {read_file} read_file completed alpha note"),
    ];
    assert_eq!(activities[..3], expected);
    assert!(activities[6].starts_with("error [API Error"), "{}", activities[6]);
}

#[test]
fn gemini_edits_are_reported() {
    let diff = "--- n\n+++ n\n@@ -1,1 +1,2 @@\n-a\n+b\n+c\n";
    let message = |calls: Value| {
        json!({ "id": "m", "type": "gemini", "content": "", "thoughts": [{ "subject": "Hard", "description": "so" }],
            "toolCalls": calls })
        .to_string()
    };
    let call = |status: &str| {
        json!([{ "id": "w", "name": "write_file", "args": {}, "status": status,
            "resultDisplay": { "fileDiff": diff, "filePath": "/w/n", "isNewFile": status == "success" } }])
    };
    let lines =
        [message(json!([])), message(call("executing")), message(call("success")), message(call("success"))];
    let expected = [
        "thought Hard",
        "start w write_file {}",
        "output w write_file completed ",
        "edit /w/n +2 -1 created",
    ];
    assert_eq!(read(TranscriptKind::Gemini, &lines.join("\n")), expected);
}

#[test]
fn codex_usage_names_model_and_separates_cache() {
    let context = json!({ "type": "turn_context", "payload": { "model": "gpt-5.5" } });
    let usage = json!({ "input_tokens": 100, "cached_input_tokens": 60, "cache_write_input_tokens": 10,
        "output_tokens": 7, "reasoning_output_tokens": 3, "total_tokens": 107 });
    let record = json!({ "type": "token_usage_record", "payload": { "response_id": "r", "usage": usage } });
    let lines = format!("{context}\n{record}\n");
    assert_eq!(read(TranscriptKind::Codex, &lines), ["usage 30 7 60 10 gpt-5.5"]);
}

#[test]
fn gemini_usage_may_follow_the_message() {
    let line = |tokens: Value| {
        json!({ "id": "m", "type": "gemini", "content": "Hi", "model": "g", "tokens": tokens }).to_string()
    };
    let tokens = json!({ "input": 100, "output": 5, "cached": 40, "thoughts": 2, "tool": 0, "total": 107 });
    let lines = [line(Value::Null), line(tokens.clone()), line(tokens)];
    assert_eq!(read(TranscriptKind::Gemini, &lines.join("\n")), ["usage 60 7 40 0 g"]);
}

#[test]
fn opencode_usage_follows_the_end_of_the_message() {
    let tokens = json!({ "input": 9, "output": 5, "reasoning": 2, "cache": { "read": 40, "write": 3 } });
    let message = |completed: Option<u64>, tokens: &Value| {
        let time = json!({ "created": 1, "completed": completed });
        let info = json!({ "role": "assistant", "modelID": "m", "time": time, "tokens": tokens });
        StoredMessage { id: "m".into(), info: info.to_string(), parts: Vec::new() }
    };
    let none = json!({ "input": 0, "output": 0, "reasoning": 0, "cache": { "read": 0, "write": 0 } });
    let stages =
        [message(None, &none), message(None, &tokens), message(Some(2), &tokens), message(Some(2), &tokens)];
    assert_eq!(opencode(&stages[..2]), [""; 0]);
    assert_eq!(opencode(&stages), ["usage 9 7 40 3 m"]);
    assert_eq!(opencode(&[message(Some(2), &none)]), [""; 0], "no response");
}

/// Returns the activities of messages that are read one after the other.
fn opencode(messages: &[StoredMessage]) -> Vec<String> {
    let mut reader = ActivityReader::new(TranscriptKind::Opencode);
    messages.iter().flat_map(|message| reader.read_message(message, TsMs(7))).map(|one| brief(&one)).collect()
}

#[test]
fn opencode_tools_are_reported_once() {
    let twice: Vec<StoredMessage> =
        messages().into_iter().flat_map(|message| [message.clone(), message]).collect();
    let (usage, activities) = split_usage(opencode(&twice));
    assert_eq!(usage.len(), 8, "{usage:#?}");
    assert_eq!(usage[0], "usage 2438 6 0 0 fake-model");
    let expected = [
        "thought I will read the file.",
        r#"start call_mock_000004_0 read {"filePath":"/home/me/project/notes.txt"}"#,
        "output call_mock_000004_0 read completed <path>/home/me/project/notes.t",
    ];
    assert_eq!(activities[..3], expected, "{activities:#?}");
    assert_eq!(activities.last().map(String::as_str), Some("error scripted error"));
}

#[test]
fn opencode_parts_are_reported_when_they_are_complete() {
    let text =
        |end: Option<u64>| json!({ "type": "reasoning", "text": "Hm", "time": { "start": 1, "end": end } });
    let tool = |status: &str, more: Value| {
        let mut state = json!({ "status": status, "input": { "a": 1 } });
        state.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        json!({ "type": "tool", "tool": "edit", "callID": "c", "state": state })
    };
    let diff = "Index: /w/n\n--- /w/n\n+++ /w/n\n@@ -1 +1 @@\n-a\n+b\n";
    let done = json!({ "output": "ok", "metadata": { "diff": diff, "filediff": { "file": "/w/n" } } });
    let stages = [
        vec![text(None), tool("running", json!({}))],
        vec![text(Some(2)), tool("pending", json!({}))],
        vec![text(Some(2)), tool("running", json!({}))],
        vec![text(Some(2)), tool("completed", done)],
    ];
    let stages: Vec<StoredMessage> = stages
        .iter()
        .map(|parts| StoredMessage {
            id: "m".into(),
            info: json!({ "role": "assistant" }).to_string(),
            parts: parts.iter().map(Value::to_string).collect(),
        })
        .collect();
    let after = |count: usize| opencode(&stages[..count]);
    assert_eq!(after(1), [""; 0]);
    assert_eq!(after(2), ["thought Hm"]);
    assert_eq!(after(3), ["thought Hm", r#"start c edit {"a":1}"#]);
    assert_eq!(after(4)[2..], ["output c edit completed ok", "edit /w/n +1 -1 -"]);
}

#[test]
fn unknown_entries_are_counted() {
    for kind in [TranscriptKind::Codex, TranscriptKind::Gemini] {
        let mut reader = ActivityReader::new(kind);
        for line in ["{", "[]", r#"{"type":"novelty","id":"n"}"#] {
            assert_eq!(reader.read_line(line, TsMs(0)), [], "{line}");
        }
        assert_eq!(reader.unknown(), 3);
        assert_eq!(reader.read_line(r#"{"type":"turn_context","$set":{}}"#, TsMs(0)), []);
        assert_eq!(reader.unknown(), 3);
    }
}
