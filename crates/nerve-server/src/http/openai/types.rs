//! The objects of OpenAI's API, as far as nodes have their content.

use nerve_api::ErrorKind;
use nerve_types::token_usage::TokenUsage;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A request for the answer to the last message.
#[derive(Debug, JsonSchema)]
#[schemars(rename = "ChatCompletionRequest")]
pub(crate) struct ChatRequest {
    /// The node: `NODE` or `SESSION/NODE`, optionally with `:match`, `:node` or `:fork`; or `TEMPLATE:new`.
    pub(super) model: String,
    /// The conversation. It ends with a message of the user.
    pub(super) messages: Vec<ChatMessage>,
    /// Sends the answer in chunks while it grows.
    #[schemars(default)]
    pub(super) stream: bool,
    /// Options of a response in chunks.
    #[schemars(default)]
    pub(super) stream_options: StreamOptions,
    /// Further parameters. Those that an agent cannot follow are refused, others are ignored.
    #[schemars(flatten)]
    pub(super) others: Map<String, Value>,
}

/// Options of a response in chunks.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct StreamOptions {
    /// Sends the usage in a last chunk, if it is known.
    pub(super) include_usage: bool,
}

/// A message of the conversation.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ChatMessage {
    /// The author.
    pub(super) role: ChatRole,
    /// The text. It may be absent in answers.
    #[serde(default)]
    pub(super) content: Option<ChatContent>,
    /// Calls of the client's tools, which are not supported.
    #[serde(default)]
    pub(super) tool_calls: Option<Value>,
}

/// Authors of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ChatRole {
    /// Instructions.
    System,
    /// Instructions, under their newer name.
    Developer,
    /// The prompter.
    User,
    /// The node.
    Assistant,
    /// A tool of the client, which is not supported.
    Tool,
    /// A tool of the client, under its older name.
    Function,
}

/// Content of a message.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum ChatContent {
    /// A text.
    Text(String),
    /// Parts, all of which must be texts.
    Parts(Vec<ContentPart>),
}

/// A part of a message.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ContentPart {
    /// `text`; other kinds are not supported.
    #[serde(rename = "type")]
    pub(super) kind: String,
    /// The text.
    #[serde(default)]
    pub(super) text: Option<String>,
}

/// A complete answer.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ChatCompletion {
    #[serde(flatten)]
    pub(super) head: CompletionHead,
    /// The answer: exactly one.
    pub(super) choices: Vec<Choice>,
    /// Tokens of the turn, if they are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage: Option<CompletionUsage>,
}

/// A part of an answer.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ChatCompletionChunk {
    #[serde(flatten)]
    pub(super) head: CompletionHead,
    /// The part; none in the chunk with the usage.
    pub(super) choices: Vec<ChunkChoice>,
    /// Tokens of the turn, in the last chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage: Option<CompletionUsage>,
}

/// Description of an answer, in the answer and in each chunk.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct CompletionHead {
    /// Id of the answer.
    pub(super) id: String,
    /// `chat.completion` or `chat.completion.chunk`.
    pub(super) object: &'static str,
    /// Time of the request in seconds since the Unix epoch.
    pub(super) created: u64,
    /// The model of the request.
    pub(super) model: String,
}

/// The answer.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Choice {
    /// 0.
    pub(super) index: u32,
    /// The answer.
    pub(super) message: AssistantMessage,
    /// `stop`: the turn has succeeded. All other ends are errors.
    pub(super) finish_reason: FinishReason,
    /// Null.
    pub(super) logprobs: (),
}

/// The message of the node.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AssistantMessage {
    /// `assistant`.
    pub(super) role: ChatRole,
    /// The text.
    pub(super) content: String,
    /// Null.
    pub(super) refusal: (),
}

/// A part of the answer.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ChunkChoice {
    /// 0.
    pub(super) index: u32,
    /// The text that is new.
    pub(super) delta: ChunkDelta,
    /// `stop` in the last part of a turn that has succeeded, otherwise null.
    pub(super) finish_reason: Option<FinishReason>,
    /// Null.
    pub(super) logprobs: (),
}

/// The new part of a message.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct ChunkDelta {
    /// `assistant`, in the first part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<ChatRole>,
    /// Text that follows the earlier parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content: Option<String>,
}

/// The end of an answer.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FinishReason {
    /// The turn has succeeded.
    Stop,
}

/// Tokens of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub(crate) struct CompletionUsage {
    /// Input tokens, including cached ones.
    pub(super) prompt_tokens: u64,
    /// Output tokens.
    pub(super) completion_tokens: u64,
    /// Sum of both.
    pub(super) total_tokens: u64,
    /// Parts of the input.
    pub(super) prompt_tokens_details: PromptTokensDetails,
}

/// Parts of the input tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub(crate) struct PromptTokensDetails {
    /// Tokens read from the cache.
    pub(super) cached_tokens: u64,
}

impl CompletionUsage {
    /// Creates the usage without cached tokens.
    pub(super) fn new(input: u64, output: u64) -> CompletionUsage {
        TokenUsage { input, output, ..TokenUsage::default() }.into()
    }
}

impl From<TokenUsage> for CompletionUsage {
    fn from(tokens: TokenUsage) -> CompletionUsage {
        CompletionUsage {
            prompt_tokens: tokens.whole_input(),
            completion_tokens: tokens.output,
            total_tokens: tokens.total(),
            prompt_tokens_details: PromptTokensDetails { cached_tokens: tokens.cache_read },
        }
    }
}

/// The models.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ModelList {
    /// `list`.
    pub(super) object: &'static str,
    /// The models, sorted by id.
    pub(super) data: Vec<Model>,
}

/// A node, or a template for new nodes.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ChatModel")]
pub(crate) struct Model {
    /// The name for requests.
    pub(super) id: String,
    /// `model`.
    pub(super) object: &'static str,
    /// Time of the last change of the node's state in seconds since the Unix epoch; 0 if there is none.
    pub(super) created: u64,
    /// Profile or kind of the node.
    pub(super) owned_by: String,
}

/// An error in the format of OpenAI's API.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ChatError")]
pub(crate) struct ErrorBody {
    /// The error.
    pub(super) error: ErrorObject,
}

/// Description of an error.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "ChatErrorObject")]
pub(crate) struct ErrorObject {
    /// Message with a hint on how to solve the problem.
    pub(super) message: String,
    /// Kind of error as in OpenAI's API.
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    /// Parameter of the request that caused it.
    pub(super) param: Option<String>,
    /// Code: one of OpenAI's API, otherwise the kind of error of nerve.
    pub(super) code: String,
    /// Facts for clients that know nerve.
    pub(super) nerve: ErrorFacts,
}

/// Facts about an error.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[schemars(rename = "ChatErrorFacts")]
pub(crate) struct ErrorFacts {
    /// Kind of error of nerve.
    pub(super) error_type: ErrorKind,
    /// Id of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node_id: Option<String>,
    /// Session of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session_id: Option<String>,
    /// Hint on how to solve the problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hint: Option<String>,
    /// Choices of the dialog that blocks the node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) choices: Vec<String>,
    /// The part of the answer that arrived before the turn failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
}

#[cfg(test)]
mod tests {
    use nerve_llm::answer::{PartialAnswer, Usage};
    use nerve_llm::openai;
    use serde_json::to_value;

    use super::*;

    fn head(object: &'static str) -> CompletionHead {
        CompletionHead { id: "chatcmpl-1".into(), object, created: 1, model: "me".into() }
    }

    #[test]
    fn answer_is_read_by_a_client_of_model_apis() {
        let usage = Some(CompletionUsage::new(7, 9));
        let message = AssistantMessage { role: ChatRole::Assistant, content: "Hello".into(), refusal: () };
        let choice = Choice { index: 0, message, finish_reason: FinishReason::Stop, logprobs: () };
        let whole = ChatCompletion { head: head("chat.completion"), choices: vec![choice], usage };
        let mut answer = PartialAnswer::default();
        openai::whole(&mut answer, &to_value(&whole).unwrap()).unwrap();
        let whole = answer.finish().unwrap();
        let mut answer = PartialAnswer::default();
        let chunk = |content: &str, finish_reason| ChunkChoice {
            index: 0,
            delta: ChunkDelta { role: None, content: Some(content.into()) },
            finish_reason,
            logprobs: (),
        };
        for (choices, usage) in [
            (vec![chunk("Hel", None)], None),
            (vec![chunk("lo", Some(FinishReason::Stop))], None),
            (vec![], usage),
        ] {
            let chunk = ChatCompletionChunk { head: head("chat.completion.chunk"), choices, usage };
            let data = serde_json::to_string(&chunk).unwrap();
            openai::event(&mut answer, &data).unwrap();
        }
        let streamed = answer.finish().unwrap();
        assert_eq!((streamed.text.as_str(), streamed.finish.as_str()), ("Hello", "stop"));
        assert_eq!(
            (streamed.usage, streamed.model.as_deref()),
            (Usage { prompt: 7, completion: 9 }, Some("me"))
        );
        assert_eq!((whole.finish.as_str(), whole.usage), ("stop", streamed.usage));
    }
}
