//! Conversations with a model's API, without a terminal.
//!
//! `node` takes a prompt, `turn_queue` runs the turn and ends it, and `turn` calls the API and runs the requested tools until
//! there is an answer. Pure code has files of its own: the requests and events of each API (`anthropic`, `openai`), server-sent
//! events (`sse`), and the retry policy (`retry`). Requests are sent only in `request`; `file` stores conversations.

mod answer;
mod anthropic;
mod error;
mod file;
mod message;
pub(crate) mod node;
mod openai;
mod request;
mod response;
mod retry;
pub(crate) mod setup;
mod spec;
mod sse;
mod tools;
mod turn;
mod turn_queue;

pub use self::answer::Usage;
pub use self::message::{Message, ToolCall, ToolResult};
pub use self::node::ChatNode;
pub use self::spec::{ChatSpec, Provider, ToolChoice};
pub(crate) use self::tools::TOOL_HINT;
