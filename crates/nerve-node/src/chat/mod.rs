//! Conversations with a model's API, without a terminal.
//!
//! `node` takes a prompt, `turn_queue` runs the turn and ends it, and `turn` calls the API and runs the requested tools until
//! there is an answer. Requests are sent only in `request`; `file` stores conversations. The formats of the APIs are in
//! [`nerve_llm`].

mod error;
mod file;
pub(crate) mod node;
mod request;
mod response;
mod settings;
pub(crate) mod setup;
mod tools;
mod turn;
mod turn_execution;

pub use self::node::ChatNode;
pub use self::settings::{check, fork_settings};
pub use self::tools::TOOL_HINT;
pub use nerve_api::request::{ChatSettings, ToolChoice};
pub use nerve_api::value::Provider;
pub use nerve_llm::answer::Usage;
pub use nerve_llm::message::{Message, ToolCall, ToolResult};
