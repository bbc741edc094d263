//! Parameters for conversations: earlier messages, and where a turn is stored.

use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::value::{Role, UseContext};

/// Conversation of a prompt, or of all prompts of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConversationOptions {
    /// Workspace of the conversation. Requires `chat`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Chat within the workspace. Requires `workspace`.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "chat_id", alias = "chatId")]
    pub chat: Option<String>,
    /// Earlier messages for this prompt only; they follow the stored ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "messages")]
    pub history: Vec<ConversationMessage>,
    /// Messages that are sent with the prompt: `auto` (those the node does not know yet), `always` or `never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<UseContext>,
}

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConversationMessage {
    /// Author of the message: `user` or `assistant`.
    pub role: Role,
    /// Text of the message.
    pub content: String,
    /// Time in milliseconds since the Unix epoch.
    #[serde(default, deserialize_with = "milliseconds")]
    pub timestamp: u64,
}

/// Reads the messages. An error names the index of the message.
fn messages<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ConversationMessage>, D::Error> {
    let list = Option::<Vec<Value>>::deserialize(deserializer)?.unwrap_or_default();
    let read = |(index, message): (usize, Value)| {
        serde_json::from_value(message)
            .map_err(|error| de::Error::custom(format!("history[{index}]: {error}")))
    };
    list.into_iter().enumerate().map(read).collect()
}

/// Reads a time. Some programs write it with a fraction.
fn milliseconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let number = Option::<serde_json::Number>::deserialize(deserializer)?;
    // A cast of a float saturates at the bounds of the type.
    Ok(number.and_then(|number| number.as_u64().or_else(|| number.as_f64().map(|ms| ms as u64))).unwrap_or(0))
}
