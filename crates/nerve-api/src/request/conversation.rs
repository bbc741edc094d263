//! Parameters that concern conversations: what was said before, and where a turn is kept.

use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a prompt, or all prompts of a node, have to do with a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConversationOptions {
    /// The workspace; given with `chat` or not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The chat in it.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "chat_id", alias = "chatId")]
    pub chat: Option<String>,
    /// What was said before, for this prompt only; comes after what is kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "messages")]
    pub history: Vec<ConversationMessage>,
    /// `auto` (what the node does not know already), `always`, `never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
}

/// One thing that was said.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConversationMessage {
    /// `user` or `assistant`.
    pub role: String,
    /// What.
    pub content: String,
    /// When: milliseconds since the Unix epoch.
    #[serde(default, deserialize_with = "milliseconds")]
    pub timestamp: u64,
}

/// An error names the message.
fn messages<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ConversationMessage>, D::Error> {
    let list = Option::<Vec<Value>>::deserialize(deserializer)?.unwrap_or_default();
    let read = |(index, message): (usize, Value)| {
        serde_json::from_value(message)
            .map_err(|error| de::Error::custom(format!("history[{index}]: {error}")))
    };
    list.into_iter().enumerate().map(read).collect()
}

/// Other programs write times with a fraction.
fn milliseconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let number = Option::<serde_json::Number>::deserialize(deserializer)?;
    // A cast of a float ends at the bounds of the type.
    Ok(number.and_then(|number| number.as_u64().or_else(|| number.as_f64().map(|ms| ms as u64))).unwrap_or(0))
}
