//! Translates Anthropic's Messages API to OpenAI's Chat Completions and back. Does no I/O.
//!
//! Differences between the two:
//!
//! | Anthropic | OpenAI |
//! |---|---|
//! | thinking in the conversation | omitted: it is signed for one vendor |
//! | `thinking`, requested | `reasoning_effort` with [`TranslationOptions::reasoning`], otherwise omitted |
//! | thinking in the answer | from `reasoning_content` or `reasoning`, unsigned |
//! | `is_error` of a tool result | `Error: ` before its text |
//! | an image in a tool result | in a user message after the results |
//! | `top_k`, `metadata`, `cache_control`, `service_tier` | omitted |
//! | tools that run on Anthropic's servers | rejected |
//! | the matched stop sequence | only if the server reports it (`stop_reason`, vLLM) |
//! | `count_tokens` | an estimate |

mod blocks;
mod count;
mod error;
mod ids;
mod messages;
mod names;
mod request;
mod response;
mod response_fields;
mod stream;
mod tools;

pub use count::count_tokens;
pub use error::{api_error, error_event};
pub use request::{TranslatedRequest, translate_request};
pub use response::translate_response;
pub use stream::StreamTranslator;

use names::ToolNames;

/// Options of the translation.
#[derive(Debug, Clone, Default)]
pub struct TranslationOptions {
    /// Model that replaces the requested one.
    pub model: Option<String>,
    /// Sends the token limit as `max_completion_tokens`, which OpenAI's newer models require, instead of `max_tokens`.
    pub use_max_completion_tokens: bool,
    /// Caps the token limit.
    pub max_output: Option<u64>,
    /// Translates thinking to `reasoning_effort`.
    pub reasoning: bool,
}

/// The parts of a request that are needed to translate its answer.
#[derive(Debug, Clone, Default)]
pub struct ResponsePlan {
    model: String,
    names: ToolNames,
    stop_sequences: Vec<String>,
}
