//! Decoder for the session file of GitHub Copilot CLI (`~/.copilot/session-state/<id>/events.jsonl`, version 1.0.102), which
//! has the model's markdown where the screen has rows.
//!
//! Its package describes the events in a JSON schema. Unknown kinds are counted, not rejected. A rewind removes the events of
//! the turns from the file. The text of a response that broke off or was interrupted is only on the screen.

use nerve_types::token_usage::TokenUsage;
use serde_json::Value;

use super::entry::{CallStatus, Entry, Item, ResponseUsage, edit_of_diff, time};
use super::line_decoder::{LineDecoder, text_field};

/// The first words of the known kinds of events.
const KINDS: [&str; 28] = [
    "agent",
    "assistant",
    "auto_mode_switch",
    "capabilities",
    "command",
    "commands",
    "elicitation",
    "exit_plan_mode",
    "external_tool",
    "hook",
    "human_response",
    "mcp",
    "mcp_app",
    "model",
    "pending_messages",
    "permission",
    "sampling",
    "sandbox",
    "session",
    "session_limits_exhausted",
    "skill",
    "subagent",
    "system",
    "tool",
    "tool_search",
    "ui",
    "user_input",
    "workflow",
];

/// Decodes the lines of one conversation in order.
#[derive(Debug, Default)]
pub(crate) struct CopilotDecoder {
    /// The last message requests no tool.
    has_answer: bool,
    /// Ids of the tools of the last message that have not ended.
    open_calls: Vec<String>,
}

impl LineDecoder for CopilotDecoder {
    type Line = Value;

    fn decode(&mut self, line: &Value, emit: &mut dyn FnMut(Entry)) {
        let at = line["timestamp"].as_str().and_then(time);
        let mut add = |item| emit(Entry { at, item });
        let data = &line["data"];
        match line["type"].as_str().unwrap_or_default() {
            "session.usage_record" if data["usage"]["inputTokens"].is_u64() => {
                add(Item::Usage(usage(&data["usage"])))
            }
            // Subagents write into the same file.
            _ if line["agentId"].is_string() => {}
            "session.start" => {
                if let Some(id) = data["sessionId"].as_str() {
                    add(Item::Session(id.to_string()));
                }
            }
            "user.message" => {
                *self = CopilotDecoder::default();
                add(prompt(data));
            }
            "assistant.message" => self.message(data, add),
            "tool.execution_complete" => self.tool_end(data, add),
            "assistant.turn_end" => self.turn_end(add),
            "session.error" => add(Item::Error(text_field(data, "message"))),
            "abort" => add(Item::Interrupted("Operation cancelled by user".to_string())),
            kind if is_known(kind) => {}
            _ => add(Item::Unknown),
        }
    }
}

impl CopilotDecoder {
    fn message(&mut self, data: &Value, mut add: impl FnMut(Item)) {
        if let Some(thought) = data["reasoningText"].as_str() {
            add(Item::Thinking(thought.to_string()));
        }
        if let Some(text) = data["content"].as_str() {
            add(Item::Text(text.to_string()));
        }
        self.open_calls.clear();
        for request in data["toolRequests"].as_array().into_iter().flatten() {
            let id = text_field(request, "toolCallId");
            self.open_calls.push(id.clone());
            add(Item::Call { id, name: text_field(request, "name"), args: arguments(request) });
        }
        self.has_answer = self.open_calls.is_empty();
    }

    fn tool_end(&mut self, data: &Value, mut add: impl FnMut(Item)) {
        let id = text_field(data, "toolCallId");
        self.open_calls.retain(|open| *open != id);
        let edits = data["fileEdits"].as_array().map(Vec::as_slice).unwrap_or_default();
        // The diff of several files does not say which lines belong to which one.
        if let ([edit], Some(diff)) = (edits, data["result"]["detailedContent"].as_str()) {
            add(edit_of_diff(&text_field(edit, "path"), diff, None));
        }
        let (text, status) = match data["error"]["code"].as_str() {
            _ if data["success"] == true => (text_field(&data["result"], "content"), CallStatus::Ok),
            Some("denied" | "rejected") => (text_field(&data["error"], "message"), CallStatus::Rejected),
            _ => (text_field(&data["error"], "message"), CallStatus::Error),
        };
        add(Item::Output { id, text, status });
    }

    /// Ends a round of one response and its tools. An error or an interruption follows it.
    fn turn_end(&mut self, mut add: impl FnMut(Item)) {
        for id in self.open_calls.drain(..) {
            add(Item::Output { id, text: String::new(), status: CallStatus::Rejected });
        }
        if std::mem::take(&mut self.has_answer) {
            add(Item::End);
        }
    }
}

/// Returns a message in the user's name: a prompt, or one that the program wrote.
fn prompt(data: &Value) -> Item {
    let text = text_field(data, "content");
    let is_typed = data["source"].as_str().is_none_or(|source| source == "user");
    match is_typed && data["isAutopilotContinuation"] != true {
        true => Item::Prompt(text),
        false => Item::Context(text),
    }
}

fn is_known(kind: &str) -> bool {
    kind.split_once('.').is_some_and(|(first, _)| KINDS.contains(&first))
}

/// Returns the arguments as JSON, or the text of invalid ones.
fn arguments(request: &Value) -> String {
    let arguments = &request["arguments"];
    arguments.as_str().map_or_else(|| arguments.to_string(), str::to_string)
}

fn usage(usage: &Value) -> ResponseUsage {
    let count = |name: &str| usage[name].as_u64().unwrap_or(0);
    let tokens = TokenUsage::with_cache_in_input(
        count("inputTokens"),
        count("outputTokens"),
        count("cacheReadTokens"),
        count("cacheWriteTokens"),
    );
    ResponseUsage { tokens, model: usage["model"].as_str().map(str::to_string) }
}
