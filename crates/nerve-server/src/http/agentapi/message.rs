//! The objects of agentapi, and the conversion of a node's history to its messages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Status of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct AgentStatus {
    /// Profile or kind of the node.
    pub(super) agent_type: String,
    /// State of the agent.
    pub(super) status: AgentActivity,
    /// Connection to the agent.
    pub(super) transport: AgentTransport,
}

/// Activities of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AgentActivity {
    /// Runs a turn.
    Running,
    /// Waits for input, possibly in a dialog.
    Stable,
}

/// Connections to an agent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AgentTransport {
    /// A terminal.
    Pty,
}

/// Messages of both sides, oldest first.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MessageList {
    /// The messages.
    pub(super) messages: Vec<Message>,
}

/// A message of the user or the agent.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "AgentMessage")]
pub(crate) struct Message {
    /// Number of the message. Increases with time, with gaps.
    pub(super) id: u64,
    /// Text of the message.
    pub(super) content: String,
    /// Author of the message.
    pub(super) role: MessageAuthor,
    /// Time of the message, RFC 3339, in UTC.
    pub(super) time: String,
}

/// A new message in the event stream, which calls the content `message`.
#[derive(Debug, Serialize)]
pub(super) struct MessageUpdate {
    id: u64,
    message: String,
    role: MessageAuthor,
    time: String,
}

impl From<Message> for MessageUpdate {
    fn from(message: Message) -> MessageUpdate {
        let Message { id, content, role, time } = message;
        MessageUpdate { id, message: content, role, time }
    }
}

/// Authors of messages.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MessageAuthor {
    /// The author of the prompts.
    User,
    /// The agent.
    Agent,
}

/// A message to the agent.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct MessageRequest {
    /// Text of the message.
    pub(super) content: String,
    /// Kind of the message.
    #[serde(rename = "type")]
    pub(super) kind: MessageKind,
}

/// Kinds of messages to the agent.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MessageKind {
    /// A prompt. The agent must be ready.
    User,
    /// Data for the terminal, as it is.
    Raw,
}

/// Reply to a message.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MessageAccepted {
    /// True: the agent has received the message.
    pub(super) ok: bool,
}

impl Message {
    /// Returns the prompt and the answer of a turn. Raw input is no message.
    pub(super) fn of(entry: &Value) -> Vec<Message> {
        if !["send", "send_stream"].iter().any(|op| entry["op"] == *op) {
            return Vec::new();
        }
        let text = |field: &str| entry[field].as_str().unwrap_or_default().to_string();
        let seq = entry["seq"].as_u64().unwrap_or_default();
        let prompt = Message {
            id: 2 * seq,
            content: text("input"),
            role: MessageAuthor::User,
            time: text("ts_start"),
        };
        let sections = entry["response"]["sections"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is_text = |section: &&Value| section["type"] == "text";
        let parts: Vec<&str> =
            sections.iter().filter(is_text).filter_map(|section| section["content"].as_str()).collect();
        let time = if entry["ts_end"].is_string() { text("ts_end") } else { text("ts_start") };
        let answer =
            Message { id: 2 * seq + 1, content: parts.join("\n\n"), role: MessageAuthor::Agent, time };
        vec![prompt, answer]
    }
}

/// Returns true if `entries`, the last ones of a history, contain every message after `last_sent`. Fewer than
/// `requested` are the whole history.
pub(super) fn covers(entries: &[Value], requested: usize, last_sent: u64) -> bool {
    entries.len() < requested
        || entries.first().and_then(|entry| entry["seq"].as_u64()).is_some_and(|seq| 2 * seq <= last_sent)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn turn_becomes_two_messages() {
        let entry = json!({
            "seq": 3, "op": "send", "ts_start": "a", "ts_end": "b", "input": "hi",
            "response": { "sections": [{ "type": "thinking", "content": "x" }, { "type": "text", "content": "yes" }] },
        });
        let messages = Message::of(&entry);
        assert_eq!(
            (messages[0].id, messages[0].role, messages[0].content.as_str()),
            (6, MessageAuthor::User, "hi")
        );
        assert_eq!(
            (messages[1].id, messages[1].content.as_str(), messages[1].time.as_str()),
            (7, "yes", "b")
        );
        assert_eq!(Message::of(&json!({ "seq": 4, "op": "write", "input": "x" })), []);
        assert_eq!(Message::of(&json!({})), []);
    }

    #[test]
    fn entries_cover_messages_after_last_sent() {
        let entries: Vec<Value> = [5, 7, 8].map(|seq| json!({ "seq": seq })).into();
        // 11 is the answer of turn 5.
        assert!(covers(&entries, 3, 11));
        assert!(covers(&entries, 3, 15));
        assert!(!covers(&entries, 3, 9));
        assert!(covers(&entries, 4, 9));
        assert!(covers(&[], 3, 9));
    }
}
