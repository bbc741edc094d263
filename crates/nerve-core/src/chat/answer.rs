//! An answer of a model, put together from the events of a stream.

use std::ops::AddAssign;

use serde_json::Value;

use super::error::Fault;
use super::message::ToolCall;
use crate::telemetry::Span;

/// Tools that one answer may ask for.
const MAX_CALLS: usize = 128;
/// The reason of an answer that was cut at its limit of tokens.
pub(super) const LENGTH: &str = "length";

/// Tokens, as the API counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Of what the model was given, what came from a cache included.
    pub prompt: u64,
    /// Of what it said.
    pub completion: u64,
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) thinking: String,
    pub(super) tool_calls: Vec<ToolCall>,
    /// The model that answered, in the API's words.
    pub(super) model: Option<String>,
    /// Why it ended, in OpenAI's words: `stop`, `tool_calls`, `length`, `content_filter`; others as the API has them.
    pub(super) finish: String,
    pub(super) usage: Usage,
}

impl Answer {
    /// Tells a span what came; nothing of what was said.
    pub(super) fn describe(&self, span: &mut Span) {
        let facts = &mut span.attributes;
        facts.set_some("gen_ai.response.model", self.model.clone());
        facts.set("gen_ai.response.finish_reasons", vec![self.finish.clone()]);
        facts.set("gen_ai.usage.input_tokens", self.usage.prompt);
        facts.set("gen_ai.usage.output_tokens", self.usage.completion);
    }
}

/// What is known of an answer so far.
#[derive(Debug, Default)]
pub(super) struct Growing {
    pub(super) text: String,
    pub(super) thinking: String,
    calls: Vec<Call>,
    pub(super) model: Option<String>,
    pub(super) finish: Option<String>,
    pub(super) usage: Usage,
    /// Its last event came.
    pub(super) ended: bool,
}

#[derive(Debug)]
struct Call {
    /// Which one it is in the API's own count.
    index: u64,
    id: String,
    name: String,
    arguments: String,
}

impl Usage {
    /// Both.
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

impl Growing {
    /// The call at `index`, made if it is not there.
    ///
    /// # Errors
    /// There are too many.
    pub(super) fn call(&mut self, index: u64, id: &str, name: &str) -> Result<(), Fault> {
        let count = self.calls.len();
        match self.calls.iter_mut().find(|call| call.index == index) {
            // Some repeat both in each piece, some send an empty text then.
            Some(call) => {
                for (known, said) in [(&mut call.id, id), (&mut call.name, name)] {
                    if !said.is_empty() {
                        *known = said.to_string();
                    }
                }
            }
            None if count >= MAX_CALLS => {
                return Err(Fault::Garbled(format!("it asks for more than {MAX_CALLS} tools at once")));
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

    /// A piece of the arguments of the call at `index`.
    pub(super) fn arguments(&mut self, index: u64, piece: &str) {
        if let Some(call) = self.calls.iter_mut().find(|call| call.index == index) {
            call.arguments.push_str(piece);
        }
    }

    /// The number of the last call, for those who do not count.
    pub(super) fn last_call(&self) -> Option<u64> {
        self.calls.last().map(|call| call.index)
    }

    /// The whole answer, if it came to its end.
    ///
    /// # Errors
    /// It did not, or a call has no name.
    pub(super) fn finish(self) -> Result<Answer, Fault> {
        let finish = match (self.finish, self.ended) {
            (Some(finish), true) => finish,
            (None, true) => "stop".to_string(),
            (_, false) => return Err(Fault::ClosedEarly),
        };
        let mut tool_calls = Vec::new();
        for (at, call) in self.calls.into_iter().enumerate() {
            let Call { id, name, arguments, .. } = call;
            if name.is_empty() {
                return Err(Fault::Garbled("it asks for a tool without a name".to_string()));
            }
            let id = if id.is_empty() { format!("call_{at}") } else { id };
            tool_calls.push(ToolCall { id, name, arguments });
        }
        let Growing { text, thinking, model, usage, .. } =
            Growing { calls: Vec::new(), finish: None, ..self };
        Ok(Answer { text, thinking, tool_calls, model, finish, usage })
    }
}

/// A text in a JSON value; empty where there is none.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A number in a JSON value, if it is there.
pub(super) fn number(value: &Value, pointer: &str) -> Option<u64> {
    value.pointer(pointer).and_then(Value::as_u64)
}
