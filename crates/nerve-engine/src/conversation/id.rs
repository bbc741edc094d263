//! The id of a conversation, which a node can be part of.

use nerve_node::error::EngineError;
use serde::{Deserialize, Serialize};

/// Identifies a conversation: a chat of a workspace. Both names may be any text; file names are derived from them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ConversationId {
    /// The workspace.
    pub workspace: String,
    /// The chat in it.
    pub chat: String,
}

impl ConversationId {
    /// Maximum length of a name in bytes.
    pub(crate) const MAX_NAME: usize = 512;

    /// Creates an id from its names.
    pub fn new(workspace: impl Into<String>, chat: impl Into<String>) -> ConversationId {
        ConversationId { workspace: workspace.into(), chat: chat.into() }
    }

    /// Checks that neither name is empty or too long.
    ///
    /// # Errors
    /// InvalidRequest: names the invalid part.
    pub fn check(&self) -> Result<(), EngineError> {
        for (what, name) in [("workspace", &self.workspace), ("chat", &self.chat)] {
            let problem = match name.len() {
                _ if name.trim().is_empty() => "is empty".to_string(),
                length if length > ConversationId::MAX_NAME => {
                    format!("has {length} bytes, more than {}", ConversationId::MAX_NAME)
                }
                _ => continue,
            };
            return Err(EngineError::invalid_request(format!("the conversation's {what} {problem}"))
                .hint("a conversation is named by a workspace and a chat"));
        }
        Ok(())
    }
}
