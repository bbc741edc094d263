//! Anthropic's Messages API in the words of OpenAI's Chat Completions, and back. Nothing here does I/O.
//!
//! What is not the same on both sides:
//!
//! | Anthropic | OpenAI |
//! |---|---|
//! | thinking in the conversation | left out: it is signed for one vendor |
//! | `thinking`, asked for | `reasoning_effort`, if [`Options::reasoning`] says so; else left out |
//! | thinking in the answer | from `reasoning_content` or `reasoning`, unsigned |
//! | `is_error` of a tool's result | `Error: ` before its text |
//! | an image in a tool's result | in a message of the user behind the results |
//! | `top_k`, `metadata`, `cache_control`, `service_tier` | left out |
//! | tools that Anthropic's servers run | refused |
//! | which stop sequence it was | only where the server tells (`stop_reason`, vLLM) |
//! | `count_tokens` | an estimate |

mod blocks;
mod count;
mod error;
mod ids;
mod messages;
mod names;
mod request;
mod response;
mod stop_reason;
mod stream;
mod tools;

pub use count::count_tokens;
pub use error::{failure, fault};
pub use request::{Request, request};
pub use response::response;
pub use stream::Stream;

use names::Names;

/// How requests are translated.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The model that requests are for; `None`: the one they ask for.
    pub model: Option<String>,
    /// The limit of tokens is called `max_completion_tokens`, as OpenAI's own newer models want it, and not `max_tokens`.
    pub newer_limit: bool,
    /// The largest limit of tokens that is asked for.
    pub max_output: Option<u64>,
    /// Thinking is asked for, as `reasoning_effort`.
    pub reasoning: bool,
}

/// What of a request is needed to read its answer.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    model: String,
    names: Names,
    stop_sequences: Vec<String>,
}
