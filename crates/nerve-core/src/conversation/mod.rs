//! Conversations that outlive their nodes. The messages of a chat in a workspace are stored, and given to an agent that has not
//! seen them.

mod message;
mod prompt;
mod seen_messages;
mod store;

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantNames};

pub use message::{Message, Role, parse_messages};
pub use prompt::{MAX_CONTEXT, prompt_with_context};
pub use store::{ConversationStore, Loaded, MAX_FILE, MAX_HISTORY};

pub(crate) use seen_messages::ProgramSession;

use crate::error::{EngineError, ErrorKind};

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
    pub const MAX_NAME: usize = 512;

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
            let message = format!("the conversation's {what} {problem}");
            return Err(EngineError::new(ErrorKind::InvalidRequest, message)
                .hint("a conversation is named by a workspace and a chat"));
        }
        Ok(())
    }
}

/// Policy for prepending earlier messages to the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum UseContext {
    /// Those that the node's program has not seen; none if the program would run them as commands.
    #[default]
    Auto,
    /// All messages.
    Always,
    /// No messages. The turn is stored all the same.
    Never,
}

impl UseContext {
    /// Returns the name on the wire.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns the value of that name.
    pub fn parse(name: &str) -> Option<UseContext> {
        name.parse().ok()
    }
}

/// Conversation options of a prompt.
#[derive(Debug, Clone, Default)]
pub struct Conversation {
    /// Conversation that stores the turn. `None`: the node's own conversation, if it has one.
    pub id: Option<ConversationId>,
    /// Additional earlier messages for this prompt only. They follow the stored ones and are not stored.
    pub history: Vec<Message>,
    /// Policy for prepending earlier messages to the prompt.
    pub context: UseContext,
}
