//! A line of Claude Code's session transcript → what the agent did.
//!
//! The format is not documented and changes (seen: 2.1.330): what is known is told, the rest is passed over. Every block of a message
//! has a line of its own, written when the block is there.

use std::collections::VecDeque;

use nerve_record::activity::{Activity, Status, TsMs};
use serde::Deserialize;
use serde_json::Value;

/// The most bytes of a text that are told: a thought, arguments, an output. The rest is cut off with a note.
pub const TEXT_LIMIT: usize = 64 << 10;
/// Tools that may run at once; of more, the oldest are told without their names.
const MAX_CALLS: usize = 256;

/// Reads the lines of one conversation, in their order. It remembers which tools run, because their results do not name them.
#[derive(Debug, Default)]
pub struct ClaudeReader {
    /// Id and name, oldest first.
    calls: VecDeque<(String, String)>,
    /// Words that are a thought if a tool use of the same message follows them, and an answer if not.
    said: Option<Said>,
}

#[derive(Debug)]
struct Said {
    message: Option<String>,
    text: String,
    at: TsMs,
}

/// The fields of a line that matter here; serde skips the rest without building it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    timestamp: Option<String>,
    message: Option<Message>,
    tool_use_result: Option<Value>,
    tool_denial_kind: Option<Value>,
    origin: Option<Value>,
    is_api_error_message: Option<bool>,
}

#[derive(Deserialize)]
struct Message {
    id: Option<String>,
    #[serde(default)]
    content: Value,
}

impl ClaudeReader {
    /// What this line tells. `now` is when, for lines that do not say it.
    ///
    /// | in the transcript | told |
    /// |---|---|
    /// | thinking; words before a tool use of the same message | thought |
    /// | a tool use | tool start, running; its arguments are JSON |
    /// | a tool's result | tool output: completed, failed (`is_error`), cancelled (the user refused it), running (goes on in the background) |
    /// | the note that background work ended | tool output, completed or failed |
    /// | a result with a patch, or a new file | file edit |
    /// | an error of the API | error |
    ///
    /// A subagent's lines are told like its parent's. Prompts and answers are not told: whoever runs the turn has them.
    pub fn read(&mut self, line: &str, now: TsMs) -> Vec<Activity> {
        let Ok(line) = serde_json::from_str::<Line>(line) else { return Vec::new() };
        let Some(message) = &line.message else { return Vec::new() };
        let at = line.timestamp.as_deref().and_then(time).unwrap_or(now);
        let mut told = Vec::new();
        match line.kind.as_str() {
            "assistant" if line.is_api_error_message == Some(true) => {
                told.push(Activity::Error { message: cut(text_of(&message.content)), at });
            }
            "assistant" => {
                for block in blocks(&message.content) {
                    self.assistant(block, message.id.as_deref(), at, &mut told);
                }
            }
            "user" if line.origin.as_ref().is_some_and(|origin| origin["kind"] == "task-notification") => {
                told.extend(self.background(&text_of(&message.content), at));
            }
            "user" => {
                for block in blocks(&message.content).iter().filter(|block| block["type"] == "tool_result") {
                    self.result(block, &line, at, &mut told);
                }
            }
            _ => {}
        }
        told
    }

    fn assistant(&mut self, block: &Value, message: Option<&str>, at: TsMs, told: &mut Vec<Activity>) {
        let text = |key: &str| block[key].as_str().unwrap_or_default();
        match block["type"].as_str() {
            Some("thinking") => told.extend(thought(text("thinking"), at)),
            Some("text") => {
                let message = message.map(str::to_string);
                self.said = Some(Said { message, text: text("text").to_string(), at });
            }
            Some("tool_use") => {
                let said = self.said.take().filter(|said| said.message.as_deref() == message);
                told.extend(said.and_then(|said| thought(&said.text, said.at)));
                let (name, execution) = (text("name").to_string(), text("id").to_string());
                self.calls.push_back((execution.clone(), name.clone()));
                if self.calls.len() > MAX_CALLS {
                    self.calls.pop_front();
                }
                let args = cut(block["input"].to_string());
                told.push(Activity::ToolStart { name, args, execution, status: Status::Running, at });
            }
            _ => {}
        }
    }

    fn result(&mut self, block: &Value, line: &Line, at: TsMs, told: &mut Vec<Activity>) {
        let execution = block["tool_use_id"].as_str().unwrap_or_default().to_string();
        let more = line.tool_use_result.as_ref();
        let status = if line.tool_denial_kind.is_some() {
            Status::Cancelled
        } else if block["is_error"] == true {
            Status::Failed
        } else if more.is_some_and(|more| more["status"] == "async_launched") {
            Status::Running
        } else {
            Status::Completed
        };
        let name = self.name_of(&execution, status != Status::Running).unwrap_or_default();
        let output = cut(text_of(&block["content"]));
        told.push(Activity::ToolOutput { name, output, execution, status, at });
        told.extend(more.filter(|_| status == Status::Completed).and_then(|more| file_edit(more, at)));
    }

    /// The end of a tool that went on in the background. It may be told again and again: the first time counts.
    fn background(&mut self, note: &str, at: TsMs) -> Option<Activity> {
        let (head, _) = note.split_once("<result>").unwrap_or((note, ""));
        let execution = tag(head, "tool-use-id")?.to_string();
        let name = self.name_of(&execution, true)?;
        let status = match tag(head, "status") {
            Some("completed") => Status::Completed,
            Some("killed" | "stopped") => Status::Cancelled,
            _ => Status::Failed,
        };
        let output = tag(note, "result").or(tag(head, "summary")).unwrap_or_default();
        Some(Activity::ToolOutput { name, output: cut(output.to_string()), execution, status, at })
    }

    /// The name of a tool that runs; with `ends`, it runs no more.
    fn name_of(&mut self, execution: &str, ends: bool) -> Option<String> {
        let at = self.calls.iter().position(|(id, _)| id == execution)?;
        if ends { self.calls.remove(at).map(|(_, name)| name) } else { Some(self.calls[at].1.clone()) }
    }
}

fn time(text: &str) -> Option<TsMs> {
    let time: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(time.as_millisecond()).ok().map(TsMs)
}

/// Thinking that the API leaves out stands there as an empty text.
fn thought(text: &str, at: TsMs) -> Option<Activity> {
    let text = text.trim();
    (!text.is_empty()).then(|| Activity::Thought { text: cut(text.to_string()), reasoning: None, at })
}

/// What a tool that changed a file says of it: the patch it made, or that the file is new.
fn file_edit(result: &Value, at: TsMs) -> Option<Activity> {
    let path = result["filePath"].as_str()?.to_string();
    let hunks = result["structuredPatch"].as_array()?;
    let lines = || hunks.iter().filter_map(|hunk| hunk["lines"].as_array()).flatten();
    let count = |sign: char| {
        let lines = lines().filter(|line| line.as_str().is_some_and(|line| line.starts_with(sign)));
        u64::try_from(lines.count()).unwrap_or(u64::MAX)
    };
    let is_new = result["type"] == "create";
    let (added, removed, description) = if is_new && hunks.is_empty() {
        let content = result["content"].as_str().unwrap_or_default();
        (u64::try_from(content.lines().count()).unwrap_or(u64::MAX), 0, Some("created".to_string()))
    } else if hunks.is_empty() {
        // Written as it was.
        return None;
    } else {
        (count('+'), count('-'), None)
    };
    Some(Activity::FileEdit { path, added, removed, description, at })
}

fn blocks(content: &Value) -> &[Value] {
    content.as_array().map_or(std::slice::from_ref(content), Vec::as_slice)
}

/// Text of a string, a block, or a list of blocks; of other blocks their type stands there.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().map(text_of).collect::<Vec<_>>().join("\n"),
        Value::Object(block) => match (block.get("text"), block.get("type")) {
            (Some(Value::String(text)), _) => text.clone(),
            (_, Some(Value::String(kind))) => format!("[{kind}]"),
            _ => String::new(),
        },
        _ => String::new(),
    }
}

/// What stands between `<name>` and `</name>`, the first time.
fn tag<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(inner, _)| inner)
}

/// At most [`TEXT_LIMIT`] bytes of the text, and a note of what is missing.
fn cut(mut text: String) -> String {
    let whole = text.len();
    if whole > TEXT_LIMIT {
        let end = (0..=TEXT_LIMIT).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
        let missing = whole - text.len();
        text.push_str(&format!("\n[{missing} more bytes are not shown]"));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    /// Lines of Claude Code 2.1.330 against a scripted model.
    const CONVERSATION: &str = include_str!("../../tests/fixtures/claude-activity.jsonl");
    const SUBAGENT: &str = include_str!("../../tests/fixtures/claude-subagent.jsonl");

    fn read(lines: &str) -> Vec<Activity> {
        let mut reader = ClaudeReader::default();
        lines.lines().flat_map(|line| reader.read(line, TsMs(7))).collect()
    }

    /// An activity in few words.
    fn words(activity: &Activity) -> String {
        match activity {
            Activity::Thought { text, .. } => format!("thought {text}"),
            Activity::ToolStart { name, args, execution, status, .. } => {
                // How an object is ordered depends on a feature of serde_json that other crates may turn on.
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
            other => format!("{other:?}"),
        }
    }

    fn message(kind: &str, content: &Value) -> String {
        json!({ "type": kind, "timestamp": "2026-01-02T03:04:05.678Z", "message": { "id": "m", "content": content } })
            .to_string()
    }

    #[test]
    fn a_real_conversation_is_told_once_and_in_order() {
        let told: Vec<String> = read(CONVERSATION).iter().map(words).collect();
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
        assert_eq!(told, expected);
    }

    #[test]
    fn times_are_those_of_the_lines() {
        let told = read(CONVERSATION);
        assert_eq!(told[0].at().iso(), "2026-11-22T02:28:10.714Z");
        assert!(told.windows(2).all(|two| two[0].at() <= two[1].at()));
        let undated = json!({ "type": "assistant", "message": { "content": [{ "type": "thinking", "thinking": "x" }] } });
        assert_eq!(read(&undated.to_string())[0].at(), TsMs(7));
    }

    #[test]
    fn a_subagent_is_told_like_its_parent() {
        let told: Vec<String> = read(SUBAGENT).iter().map(words).collect();
        let start = r#"start toolu_p13_0 Bash {"command":"echo from-sub","description":"d"} running"#;
        assert_eq!(told, [start, "output toolu_p13_0 Bash completed from-sub"]);
    }

    #[test]
    fn words_before_a_tool_are_a_thought_and_an_answer_is_not() {
        let said = |text: &str| json!([{ "type": "text", "text": text }]);
        let tool = json!([{ "type": "tool_use", "id": "t", "name": "Bash", "input": {} }]);
        let lines = [
            message("assistant", &said("I will look.")),
            message("assistant", &tool),
            message("assistant", &said("Here is what I found.")),
            message("user", &said("a prompt")),
        ];
        let told: Vec<String> = read(&lines.join("\n")).iter().map(words).collect();
        assert_eq!(told, ["thought I will look.", "start t Bash {} running"]);
    }

    #[test]
    fn a_refused_tool_is_cancelled() {
        let result =
            json!([{ "type": "tool_result", "tool_use_id": "t", "is_error": true, "content": "no" }]);
        let mut line: Value = serde_json::from_str(&message("user", &result)).unwrap();
        line["toolDenialKind"] = "user-rejected".into();
        let told = read(&line.to_string());
        assert!(matches!(&told[..], [Activity::ToolOutput { status: Status::Cancelled, .. }]), "{told:?}");
    }

    #[test]
    fn long_outputs_are_cut_with_a_note() {
        let long = "\u{e4}".repeat(TEXT_LIMIT);
        let result = json!([{ "type": "tool_result", "tool_use_id": "t", "content": [
            { "type": "text", "text": long }, { "type": "image", "source": {} },
        ] }]);
        let told = read(&message("user", &result));
        let [Activity::ToolOutput { output, .. }] = &told[..] else { panic!("{told:?}") };
        assert!(output.len() < TEXT_LIMIT + 100);
        assert!(
            output.ends_with(&format!("\n[{} more bytes are not shown]", TEXT_LIMIT + "\n[image]".len()))
        );
    }

    #[test]
    fn what_is_not_known_is_passed_over() {
        for line in
            ["", "{", "[]", "null", r#"{"type":"user"}"#, r#"{"type":"assistant","message":{"content":7}}"#]
        {
            assert_eq!(read(line), [], "{line}");
        }
        let empty = json!([{ "type": "thinking", "thinking": " ", "signature": "s" }, { "type": "redacted_thinking" }]);
        assert_eq!(read(&message("assistant", &empty)), [], "thinking the API leaves out");
    }

    #[test]
    fn tools_that_never_end_do_not_pile_up() {
        let mut reader = ClaudeReader::default();
        for at in 0..1000 {
            let tool = json!([{ "type": "tool_use", "id": at.to_string(), "name": "Bash", "input": {} }]);
            reader.read(&message("assistant", &tool), TsMs(0));
        }
        assert_eq!(reader.calls.len(), MAX_CALLS);
    }
}
