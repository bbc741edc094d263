//! A model's answer, assembled from the events of a stream.

use std::ops::AddAssign;

use nerve_types::token_usage::TokenUsage;
use serde_json::Value;

use super::error::ApiError;
use super::message::ToolCall;

/// Maximum number of tool calls in one answer.
const MAX_CALLS: usize = 128;
/// The finish reason of an answer that was cut at its token limit.
pub const LENGTH: &str = "length";

/// Token counts as reported by the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Input tokens, including those from a cache.
    pub prompt: u64,
    /// Output tokens.
    pub completion: u64,
}

impl From<Usage> for TokenUsage {
    /// Counts cached tokens as input: the API does not report them apart.
    fn from(usage: Usage) -> TokenUsage {
        TokenUsage { input: usage.prompt, output: usage.completion, ..TokenUsage::default() }
    }
}

/// A complete answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The text.
    pub text: String,
    /// The model's reasoning, as far as the API shows it.
    pub thinking: String,
    /// The calls of tools, in the model's order.
    pub tool_calls: Vec<ToolCall>,
    /// The model that answered, as named by the API.
    pub model: Option<String>,
    /// Finish reason: `stop`, `tool_calls`, `length`, `content_filter` as in OpenAI's API; other values as received.
    pub finish: String,
    /// Token counts.
    pub usage: Usage,
}

/// An answer that is still being received.
#[derive(Debug, Default)]
pub struct PartialAnswer {
    /// The text so far.
    pub text: String,
    /// The model's reasoning so far.
    pub thinking: String,
    calls: Vec<Call>,
    /// The model that answers, as named by the API.
    pub model: Option<String>,
    /// Finish reason, if it was received.
    pub finish: Option<String>,
    /// The last token counts.
    pub usage: Usage,
    /// The last event was received.
    pub ended: bool,
}

#[derive(Debug)]
struct Call {
    /// The index of the call in the API's own numbering.
    index: u64,
    id: String,
    name: String,
    arguments: String,
}

impl Usage {
    /// Returns the sum of both counts.
    pub fn total(self) -> u64 {
        self.prompt.saturating_add(self.completion)
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Usage) {
        self.prompt = self.prompt.saturating_add(other.prompt);
        self.completion = self.completion.saturating_add(other.completion);
    }
}

impl PartialAnswer {
    /// Returns the call at `index` after creating it if it does not exist.
    ///
    /// # Errors
    /// There are too many calls.
    pub fn call(&mut self, index: u64, id: &str, name: &str) -> Result<(), ApiError> {
        let count = self.calls.len();
        match self.calls.iter_mut().find(|call| call.index == index) {
            // Some APIs repeat id and name in each piece, others send empty strings.
            Some(call) => {
                for (field, value) in [(&mut call.id, id), (&mut call.name, name)] {
                    if !value.is_empty() {
                        *field = value.to_string();
                    }
                }
            }
            None if count >= MAX_CALLS => {
                return Err(ApiError::Malformed(format!("more than {MAX_CALLS} tool calls in one answer")));
            }
            None => self.calls.push(Call {
                index,
                id: id.to_string(),
                name: name.to_string(),
                arguments: String::new(),
            }),
        }
        Ok(())
    }

    /// Appends to the arguments of the call at `index`.
    pub fn arguments(&mut self, index: u64, piece: &str) {
        if let Some(call) = self.calls.iter_mut().find(|call| call.index == index) {
            call.arguments.push_str(piece);
        }
    }

    /// Returns the index of the last call, for APIs that send no indices.
    pub(crate) fn last_call(&self) -> Option<u64> {
        self.calls.last().map(|call| call.index)
    }

    /// Returns the answer if it is complete.
    ///
    /// # Errors
    /// The answer is incomplete, or a call has no name.
    pub fn finish(self) -> Result<Answer, ApiError> {
        let finish = match (self.finish, self.ended) {
            (Some(finish), true) => finish,
            (None, true) => "stop".to_string(),
            (_, false) => return Err(ApiError::ClosedEarly),
        };
        let mut tool_calls = Vec::new();
        for (at, call) in self.calls.into_iter().enumerate() {
            let Call { id, name, arguments, .. } = call;
            if name.is_empty() {
                return Err(ApiError::Malformed("a tool call has no name".to_string()));
            }
            let id = if id.is_empty() { format!("call_{at}") } else { id };
            tool_calls.push(ToolCall { id, name, arguments });
        }
        let PartialAnswer { text, thinking, model, usage, .. } =
            PartialAnswer { calls: Vec::new(), finish: None, ..self };
        Ok(Answer { text, thinking, tool_calls, model, finish, usage })
    }
}

/// Returns the string at a JSON pointer, or an empty one.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the number at a JSON pointer.
pub(super) fn number(value: &Value, pointer: &str) -> Option<u64> {
    value.pointer(pointer).and_then(Value::as_u64)
}
