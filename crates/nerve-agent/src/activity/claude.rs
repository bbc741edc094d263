//! Parses lines of Claude Code's session transcript into activities.
//!
//! The format is undocumented and changes (this is that of 2.1.330): known lines are reported, unknown ones are counted. Every block
//! of a message is a line of its own, written when the block is complete.

use std::collections::VecDeque;

use nerve_types::activity::{Activity, Status, TsMs};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{MAX_CALLS, thought, truncate, usage_activity};
use crate::parse::entry::{ResponseUsage, SeenIds, time};
use crate::parse::transcript::{Usage, is_known_block, is_known_line};

/// Reads the lines of one conversation in order. It tracks running tools, because their results do not name them.
#[derive(Debug, Default)]
pub(super) struct ClaudeReader {
    /// Id and name of running tools, oldest first.
    calls: VecDeque<(String, String)>,
    /// A text that is a thought if a tool use of the same message follows, and otherwise an answer.
    pending: Option<PendingText>,
    /// The usage of a message that may still grow.
    usage: Option<PendingUsage>,
    /// Ids of messages whose usage was reported.
    counted: SeenIds,
}

#[derive(Debug)]
struct PendingText {
    message: Option<String>,
    text: String,
    at: TsMs,
}

#[derive(Debug)]
struct PendingUsage {
    message: String,
    usage: ResponseUsage,
    at: TsMs,
}

/// The relevant fields of a line. serde skips the others without building them. Lines outside the conversation may have fields of
/// the same names and other types.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Line {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default, deserialize_with = "lenient")]
    timestamp: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    message: Option<Message>,
    tool_use_result: Option<Value>,
    tool_denial_kind: Option<Value>,
    origin: Option<Value>,
    #[serde(default, deserialize_with = "lenient")]
    is_api_error_message: Option<bool>,
}

#[derive(Deserialize)]
struct Message {
    id: Option<String>,
    #[serde(default)]
    content: Value,
    #[serde(default, deserialize_with = "lenient")]
    model: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    stop_reason: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    usage: Option<Usage>,
}

impl ClaudeReader {
    /// Adds the activities of a line. `now` is the time for lines without one. Returns the number of unknown kinds.
    ///
    /// | in the transcript | activity |
    /// |---|---|
    /// | thinking; text before a tool use of the same message | thought |
    /// | a tool use | tool start, running; its arguments are JSON |
    /// | a tool's result | tool output: completed, failed (`is_error`), cancelled (rejected by the user), running (in the background) |
    /// | the notification that background work ended | tool output, completed or failed |
    /// | a result with a patch, or a new file | file edit |
    /// | an error of the API | error |
    /// | the usage of a message, which all its lines repeat | usage, once |
    ///
    /// A subagent's lines are reported like its parent's. Prompts and answers are not reported, because the turn contains them.
    pub(super) fn read(&mut self, line: &Line, now: TsMs, activities: &mut Vec<Activity>) -> usize {
        let at = line.timestamp.as_deref().and_then(time).unwrap_or(now);
        match (line.kind.as_str(), &line.message) {
            ("assistant" | "user", None) => return 1,
            ("assistant", Some(message)) if line.is_api_error_message == Some(true) => {
                activities.push(Activity::Error { message: truncate(content_text(&message.content)), at });
            }
            ("assistant", Some(message)) => return self.read_assistant(message, at, activities),
            ("user", Some(message)) if is_task_notification(line) => {
                activities.extend(self.read_background_end(&content_text(&message.content), at));
            }
            ("user", Some(message)) => {
                let is_result = |block: &&Value| block["type"] == "tool_result";
                let mut results = blocks(&message.content).iter().filter(is_result).peekable();
                if results.peek().is_none() {
                    self.report_usage(activities);
                }
                results.for_each(|block| self.read_tool_result(block, line, at, activities));
            }
            (kind, _) => return usize::from(!is_known_line(kind)),
        }
        0
    }

    fn read_assistant(&mut self, message: &Message, at: TsMs, activities: &mut Vec<Activity>) -> usize {
        let blocks = blocks(&message.content);
        for block in blocks {
            self.read_assistant_block(block, message.id.as_deref(), at, activities);
        }
        self.read_usage(message, at, activities);
        let is_known =
            |block: &Value| block.is_string() || block["type"].as_str().is_some_and(is_known_block);
        blocks.iter().filter(|block| !is_known(block)).count()
    }

    fn read_assistant_block(
        &mut self,
        block: &Value,
        message: Option<&str>,
        at: TsMs,
        activities: &mut Vec<Activity>,
    ) {
        let text = |key: &str| block[key].as_str().unwrap_or_default();
        match block["type"].as_str() {
            Some("thinking") => activities.extend(thought(text("thinking"), at)),
            Some("text") => {
                let message = message.map(str::to_string);
                self.pending = Some(PendingText { message, text: text("text").to_string(), at });
            }
            Some("tool_use") => {
                let pending = self.pending.take().filter(|pending| pending.message.as_deref() == message);
                activities.extend(pending.and_then(|pending| thought(&pending.text, pending.at)));
                let (name, execution) = (text("name").to_string(), text("id").to_string());
                self.calls.push_back((execution.clone(), name.clone()));
                if self.calls.len() > MAX_CALLS {
                    self.calls.pop_front();
                }
                let args = truncate(block["input"].to_string());
                activities.push(Activity::ToolStart { name, args, execution, status: Status::Running, at });
            }
            _ => {}
        }
    }

    /// Reads the usage in a line of a message. The counts are final once there is a stop reason; an interrupted message has none.
    fn read_usage(&mut self, message: &Message, at: TsMs, activities: &mut Vec<Activity>) {
        if self.usage.as_ref().is_some_and(|pending| Some(&pending.message) != message.id.as_ref()) {
            self.report_usage(activities);
        }
        let usage = message.usage.and_then(|usage| usage.of_response(message.model.as_deref()));
        if let (Some(usage), Some(id)) = (usage, &message.id) {
            self.usage = Some(PendingUsage { message: id.clone(), usage, at });
        }
        if message.stop_reason.is_some() {
            self.report_usage(activities);
        }
    }

    /// Reports the pending usage, unless it was reported.
    fn report_usage(&mut self, activities: &mut Vec<Activity>) {
        if let Some(pending) = self.usage.take().filter(|pending| self.counted.is_new(&pending.message)) {
            activities.extend(usage_activity(pending.usage, pending.at));
        }
    }

    fn read_tool_result(&mut self, block: &Value, line: &Line, at: TsMs, activities: &mut Vec<Activity>) {
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
        let name = self.tool_name(&execution, status != Status::Running).unwrap_or_default();
        let output = truncate(content_text(&block["content"]));
        activities.push(Activity::ToolOutput { name, output, execution, status, at });
        activities.extend(more.filter(|_| status == Status::Completed).and_then(|more| file_edit(more, at)));
    }

    /// Reports the end of a tool that ran in the background. The notification may be repeated; only the first counts.
    fn read_background_end(&mut self, note: &str, at: TsMs) -> Option<Activity> {
        let (head, _) = note.split_once("<result>").unwrap_or((note, ""));
        let execution = tag(head, "tool-use-id")?.to_string();
        let name = self.tool_name(&execution, true)?;
        let status = match tag(head, "status") {
            Some("completed") => Status::Completed,
            Some("killed" | "stopped") => Status::Cancelled,
            _ => Status::Failed,
        };
        let output = tag(note, "result").or(tag(head, "summary")).unwrap_or_default();
        Some(Activity::ToolOutput { name, output: truncate(output.to_string()), execution, status, at })
    }

    /// Returns the name of a running tool. With `ends`, the tool is no longer tracked.
    fn tool_name(&mut self, execution: &str, ends: bool) -> Option<String> {
        let at = self.calls.iter().position(|(id, _)| id == execution)?;
        if ends { self.calls.remove(at).map(|(_, name)| name) } else { Some(self.calls[at].1.clone()) }
    }
}

/// Returns the file edit in a tool's result: the patch it applied, or the file it created.
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
        // The file was rewritten with the same content.
        return None;
    } else {
        (count('+'), count('-'), None)
    };
    Some(Activity::FileEdit { path, added, removed, description, at })
}

/// Returns true for the message that a task in the background has ended.
fn is_task_notification(line: &Line) -> bool {
    line.origin.as_ref().is_some_and(|origin| origin["kind"] == "task-notification")
}

/// Deserializes a value; `None` if it has another type.
fn lenient<'de, T: DeserializeOwned, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).ok())
}

fn blocks(content: &Value) -> &[Value] {
    content.as_array().map_or(std::slice::from_ref(content), Vec::as_slice)
}

/// Returns the text of a string, a block or a list of blocks. Blocks without text are shown by their type.
fn content_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().map(content_text).collect::<Vec<_>>().join("\n"),
        Value::Object(block) => match (block.get("text"), block.get("type")) {
            (Some(Value::String(text)), _) => text.clone(),
            (_, Some(Value::String(kind))) => format!("[{kind}]"),
            _ => String::new(),
        },
        _ => String::new(),
    }
}

/// Returns the text between the first `<name>` and `</name>`.
fn tag<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(inner, _)| inner)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::super::{ActivityReader, TEXT_LIMIT};
    use super::*;
    use crate::profile::TranscriptKind;

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
        let undated = json!({ "type": "assistant", "message": { "content": [{ "type": "thinking", "thinking": "x" }] } });
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
        let result =
            json!([{ "type": "tool_result", "tool_use_id": "t", "is_error": true, "content": "no" }]);
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
        assert!(
            output.ends_with(&format!("\n[{} more bytes are not shown]", TEXT_LIMIT + "\n[image]".len()))
        );
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
        let empty = json!([{ "type": "thinking", "thinking": " ", "signature": "s" }, { "type": "redacted_thinking" }]);
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
        let mut reader = ClaudeReader::default();
        for at in 0..1000 {
            let tool = json!([{ "type": "tool_use", "id": at.to_string(), "name": "Bash", "input": {} }]);
            let line = serde_json::from_str(&message("assistant", &tool)).unwrap();
            reader.read(&line, TsMs(0), &mut Vec::new());
        }
        assert_eq!(reader.calls.len(), MAX_CALLS);
    }
}
