//! Conversations that outlive the nodes they are held with: what was said in a chat of a workspace is kept, and given to an agent that does
//! not know it (seed conversation-history-async).

mod message;
mod prompt;
mod seen_messages;
mod store;

use serde::{Deserialize, Serialize};

pub use message::{Message, Role, parse_messages};
pub use prompt::{MAX_CONTEXT, prompt_with_context};
pub use store::{ConversationStore, Loaded, MAX_FILE, MAX_HISTORY};

pub(crate) use seen_messages::Listener;

use crate::error::{EngineError, ErrorKind};

/// Which conversation: a chat of a workspace. Both are any text; the names of their files are made from them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ConversationId {
    /// The workspace.
    pub workspace: String,
    /// The chat in it.
    pub chat: String,
}

impl ConversationId {
    /// Bytes a name may have.
    pub const MAX_NAME: usize = 512;

    /// A conversation by its names.
    pub fn new(workspace: impl Into<String>, chat: impl Into<String>) -> ConversationId {
        ConversationId { workspace: workspace.into(), chat: chat.into() }
    }

    /// Both names are there, and not endless.
    ///
    /// # Errors
    /// InvalidRequest, with the name that is wrong.
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
                .hint("a conversation has a workspace and a chat, each with a name of its own"));
        }
        Ok(())
    }
}

/// Is what was said before put in front of the prompt?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UseContext {
    /// As far as the node's program does not know it already; never where it would be run as commands.
    #[default]
    Auto,
    /// All of it.
    Always,
    /// Nothing; the turn is kept all the same.
    Never,
}

impl UseContext {
    /// All of them.
    pub const ALL: [UseContext; 3] = [UseContext::Auto, UseContext::Always, UseContext::Never];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            UseContext::Auto => "auto",
            UseContext::Always => "always",
            UseContext::Never => "never",
        }
    }

    /// The one of that name.
    pub fn parse(name: &str) -> Option<UseContext> {
        UseContext::ALL.into_iter().find(|context| context.as_str() == name)
    }
}

/// What a prompt has to do with a conversation.
#[derive(Debug, Clone, Default)]
pub struct Conversation {
    /// Where it is kept; the node's own conversation if `None`, and nowhere if it has none.
    pub id: Option<ConversationId>,
    /// What was said before, for this prompt only; comes after what is kept, and is not kept itself.
    pub history: Vec<Message>,
    /// Is what was said before put in front of the prompt?
    pub context: UseContext,
}
