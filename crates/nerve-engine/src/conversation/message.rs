//! A message of a conversation.

use nerve_api::value::Role;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// A message as stored in a conversation's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The author.
    pub role: Role,
    /// The text.
    pub content: String,
    /// Milliseconds since the Unix epoch; 0 if unknown.
    #[serde(default, deserialize_with = "milliseconds")]
    pub timestamp: u64,
    /// Programs that have seen the message: see [`super::ProgramSession`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) seen_by: Vec<String>,
}

impl Message {
    /// Creates a message. `timestamp`: milliseconds since the Unix epoch.
    pub fn new(role: Role, content: impl Into<String>, timestamp: u64) -> Message {
        Message { role, content: content.into(), timestamp, seen_by: Vec::new() }
    }

    /// Returns true if author, text and time are equal.
    pub(super) fn is_same(&self, other: &Message) -> bool {
        (self.timestamp, self.role) == (other.timestamp, other.role) && self.content == other.content
    }
}

/// Parses a list of messages.
///
/// # Errors
/// Returns the reason. It names the first invalid message, counted from 0.
pub(crate) fn parse_messages(value: Value) -> Result<Vec<Message>, String> {
    let Value::Array(list) = value else { return Err("not a list of messages".to_string()) };
    let read = |(index, message): (usize, Value)| {
        serde_json::from_value(message).map_err(|error| format!("message {index}: {error}"))
    };
    list.into_iter().enumerate().map(read).collect()
}

/// Reads a time that may have a fraction, as other programs write it.
fn milliseconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let number = serde_json::Number::deserialize(deserializer)?;
    // A float cast saturates.
    Ok(number.as_u64().or_else(|| number.as_f64().map(|ms| ms as u64)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn files_of_first_version_are_read() {
        let list = json!([
            { "role": "user", "content": "Hello", "timestamp": 1_770_000_000_000_u64 },
            { "role": "assistant", "content": "Hi there!", "timestamp": 1.5e12, "more": true },
            { "role": "user", "content": "" },
        ]);
        let messages = parse_messages(list).unwrap();
        assert_eq!(messages[0], Message::new(Role::User, "Hello", 1_770_000_000_000));
        assert_eq!(messages[1].timestamp, 1_500_000_000_000);
        assert_eq!(messages[2].timestamp, 0);
    }

    #[test]
    fn invalid_message_is_named() {
        let wrong = [
            json!({ "role": "system", "content": "x" }),
            json!({ "role": "user", "content": 7 }),
            json!({ "role": "user" }),
            json!({ "role": "user", "content": "x", "timestamp": "now" }),
            json!("x"),
            json!(null),
        ];
        for message in wrong {
            let error = parse_messages(json!([{ "role": "user", "content": "x" }, message])).unwrap_err();
            assert!(error.starts_with("message 1: "), "{error}");
        }
        assert!(parse_messages(json!({})).is_err());
    }
}
