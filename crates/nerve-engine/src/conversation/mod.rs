//! Conversations that outlive their nodes. The messages of a chat in a workspace are stored, and given to an agent that has not
//! seen them.

mod message;
mod prompt;
mod seen_messages;
mod store;

use strum::{EnumString, IntoStaticStr, VariantNames};

pub use message::{Message, Role, parse_messages};
pub use prompt::{MAX_CONTEXT, prompt_with_context};
pub use store::{ConversationStore, Loaded, MAX_FILE, MAX_HISTORY};

pub(crate) use seen_messages::ProgramSession;

pub use nerve_node::conversation_id::ConversationId;

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
