//! Conversations that outlive their nodes. The messages of a chat in a workspace are stored, and given to an agent that has not
//! seen them.

mod id;
mod message;
mod programs;
mod prompt;
mod seen_messages;
mod store;

pub use id::ConversationId;
pub use message::Message;
pub use nerve_api::value::{Role, UseContext};
pub use prompt::prompt_with_context;

pub(crate) use programs::Programs;
pub(crate) use store::{ConversationStore, StoredConversation};

use seen_messages::ProgramSession;

/// Conversation options of a prompt.
#[derive(Debug, Clone, Default)]
pub struct ConversationRequest {
    /// Conversation that stores the turn. `None`: the node's own conversation, if it has one.
    pub id: Option<ConversationId>,
    /// Additional earlier messages for this prompt only. They follow the stored ones and are not stored.
    pub history: Vec<Message>,
    /// Policy for prepending earlier messages to the prompt.
    pub context: UseContext,
}
