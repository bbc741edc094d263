//! Converts a node's history to messages of agentapi.

use serde::Serialize;
use serde_json::Value;

/// A message of the user or the agent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Message {
    /// Increases with time, with gaps.
    pub(super) id: u64,
    pub(super) content: String,
    /// `user` or `agent`.
    pub(super) role: &'static str,
    /// RFC 3339, in UTC.
    pub(super) time: String,
}

impl Message {
    /// Returns the prompt and the answer of a turn. Raw input is no message.
    pub(super) fn of(entry: &Value) -> Vec<Message> {
        if !["send", "send_stream"].iter().any(|op| entry["op"] == *op) {
            return Vec::new();
        }
        let text = |field: &str| entry[field].as_str().unwrap_or_default().to_string();
        let seq = entry["seq"].as_u64().unwrap_or_default();
        let prompt = Message { id: 2 * seq, content: text("input"), role: "user", time: text("ts_start") };
        let sections = entry["response"]["sections"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is_text = |section: &&Value| section["type"] == "text";
        let parts: Vec<&str> =
            sections.iter().filter(is_text).filter_map(|section| section["content"].as_str()).collect();
        let time = if entry["ts_end"].is_string() { text("ts_end") } else { text("ts_start") };
        let answer = Message { id: 2 * seq + 1, content: parts.join("\n\n"), role: "agent", time };
        vec![prompt, answer]
    }
}

/// Returns true if `entries`, the last ones of a history of which `requested` were requested, contain everything
/// after the message `last_sent`.
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
        assert_eq!((messages[0].id, messages[0].role, messages[0].content.as_str()), (6, "user", "hi"));
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
