//! Conversations with a model's API, without a terminal (seed: StatefulLLMNode).
//!
//! A turn: `node` takes a prompt, `turn_queue` sees to it that the turn ends, `turn` asks the API and runs the tools it asks for until it
//! has an answer. What is pure has a file of its own: requests and events of each API (`anthropic`, `openai`), server-sent events
//! (`sse`), when to try again (`retry`). Requests go out in `request` alone; `file` keeps conversations.

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
