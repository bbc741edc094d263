//! Decoder for the session file of Kimi Code (`~/.kimi-code/sessions/<workspace>/<id>/agents/main/wire.jsonl`, protocol 1.5 of
//! version 2.1.0), which has the model's markdown where the screen has rows.
//!
//! The file has the events of the main agent; those of subagents are in files of their own. Unknown kinds are counted, not
//! rejected.

use nerve_types::activity::TsMs;
use nerve_types::token_usage::TokenUsage;
use serde_json::Value;

use crate::parse::entry::{CallStatus, Entry, Item, ResponseUsage};
use crate::parse::line_decoder::{LineDecoder, text_field};

/// The first words of the known kinds of events.
const KINDS: [&str; 42] = [
    "agent",
    "assistant",
    "compaction",
    "config",
    "context",
    "cron",
    "error",
    "event",
    "file_history",
    "forked",
    "full_compaction",
    "goal",
    "hook",
    "interaction",
    "interruptionReminder",
    "llm",
    "mcp",
    "metadata",
    "micro_compaction",
    "permission",
    "plan",
    "plan_mode",
    "plugin",
    "plugin_command",
    "profile",
    "prompt",
    "runtime",
    "session",
    "shell",
    "skill",
    "subagent",
    "swarm_mode",
    "task",
    "thinking",
    "token_counting",
    "tool",
    "tools",
    "tower",
    "tower_mode",
    "turn",
    "usage",
    "warning",
];

/// Returns the number of turns that the line removes from the conversation.
pub(crate) fn undone_turns(line: &Value) -> Option<usize> {
    let count = line["count"].as_u64().filter(|_| line["type"] == "context.undo")?;
    Some(usize::try_from(count).unwrap_or(usize::MAX))
}

/// Decodes the lines of one conversation in order.
#[derive(Debug, Default)]
pub(crate) struct WireDecoder {
    /// Ids of tools of this turn that the user rejected.
    rejected: Vec<String>,
    /// The edits by tools of this turn, with the ids of the tools.
    edits: Vec<(String, Item)>,
}

impl LineDecoder for WireDecoder {
    type Line = Value;

    fn decode(&mut self, line: &Value, emit: &mut dyn FnMut(Entry)) {
        let at = line["time"].as_u64().map(TsMs);
        let mut add = |item| emit(Entry { at, item });
        match line["type"].as_str().unwrap_or_default() {
            "turn.prompt" => {
                *self = WireDecoder::default();
                add(prompt(line));
            }
            "turn.steer" => add(Item::Context(text(&line["input"]))),
            "context.append_loop_event" => self.loop_event(&line["event"], add),
            "context.undo" => add(Item::Rewind),
            "permission.record_approval_result" if line["result"]["decision"] != "approved" => {
                self.rejected.push(text_field(line, "toolCallId"));
            }
            "usage.record" => usage(line).map(Item::Usage).into_iter().for_each(add),
            "turn.ended" => add(end(line)),
            kind if is_known(kind) => {}
            _ => add(Item::Unknown),
        }
    }
}

impl WireDecoder {
    fn loop_event(&mut self, event: &Value, mut add: impl FnMut(Item)) {
        match event["type"].as_str().unwrap_or_default() {
            "content.part" => match event["part"]["type"].as_str() {
                Some("text") => add(Item::Text(text_field(&event["part"], "text"))),
                Some("think") => add(Item::Thinking(text_field(&event["part"], "think"))),
                _ => add(Item::Unknown),
            },
            "tool.call" => {
                let id = text_field(event, "toolCallId");
                self.edits.extend(edit(&event["display"]).map(|edit| (id.clone(), edit)));
                add(Item::Call { id, name: text_field(event, "name"), args: event["args"].to_string() });
            }
            "tool.result" => self.tool_result(event, add),
            "step.begin" | "step.end" => {}
            _ => add(Item::Unknown),
        }
    }

    fn tool_result(&mut self, event: &Value, mut add: impl FnMut(Item)) {
        let (id, result) = (text_field(event, "toolCallId"), &event["result"]);
        let status = match () {
            () if self.rejected.contains(&id) => CallStatus::Rejected,
            () if result["isError"] == true => CallStatus::Error,
            () => CallStatus::Ok,
        };
        let edit = self.edits.iter().position(|(call, _)| *call == id).map(|at| self.edits.swap_remove(at).1);
        edit.filter(|_| status == CallStatus::Ok).into_iter().for_each(&mut add);
        add(Item::Output { id, text: text(&result["output"]), status });
    }
}

/// Returns a message in the user's name: a prompt, or one that the program wrote.
fn prompt(line: &Value) -> Item {
    let text = text(&line["input"]);
    if line["origin"]["kind"] == "user" { Item::Prompt(text) } else { Item::Context(text) }
}

/// Returns the end of a turn.
fn end(line: &Value) -> Item {
    match line["reason"].as_str() {
        Some("completed") => Item::End,
        Some("cancelled") => Item::Interrupted("Interrupted by user".to_string()),
        reason => Item::Error(match line["error"]["message"].as_str() {
            Some(message) => message.to_string(),
            None => format!("the turn ended: {}", reason.unwrap_or("no reason")),
        }),
    }
}

/// Returns the edit of a tool that replaces text in a file. A tool that writes a whole file does not name the text before.
fn edit(display: &Value) -> Option<Item> {
    let (before, after) = (display["before"].as_str()?, display["after"].as_str()?);
    let (before, after): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let head = count_equal(before.iter().zip(&after));
    let tail = count_equal(before[head..].iter().rev().zip(after[head..].iter().rev()));
    let count = |lines: &[&str]| u64::try_from(lines.len() - head - tail).unwrap_or(u64::MAX);
    let (added, removed) = (count(&after), count(&before));
    Some(Item::Edit { path: text_field(display, "path"), added, removed, description: None })
}

/// Returns the number of equal pairs at the beginning.
fn count_equal<'a>(pairs: impl Iterator<Item = (&'a &'a str, &'a &'a str)>) -> usize {
    pairs.take_while(|(before, after)| before == after).count()
}

/// Returns the tokens of a response; `None` for one that was interrupted.
fn usage(line: &Value) -> Option<ResponseUsage> {
    let count = |name: &str| line["usage"][name].as_u64().unwrap_or(0);
    let tokens = TokenUsage {
        input: count("inputOther"),
        output: count("output"),
        cache_read: count("inputCacheRead"),
        cache_write: count("inputCacheCreation"),
    };
    let usage = ResponseUsage { tokens, model: line["model"].as_str().map(str::to_string) };
    (usage.tokens != TokenUsage::default()).then_some(usage)
}

fn is_known(kind: &str) -> bool {
    KINDS.contains(&kind.split('.').next().unwrap_or_default())
}

/// Returns the text of a content: a string, or blocks.
fn text(content: &Value) -> String {
    let blocks = content.as_array().into_iter().flatten().filter_map(|block| block["text"].as_str());
    content.as_str().map_or_else(|| blocks.collect::<Vec<_>>().join("\n"), str::to_string)
}
