//! A request to a model, independent of any API.

use serde_json::Value;

use super::message::Message;

/// A request with the conversation so far.
#[derive(Debug, Clone)]
pub struct ModelRequest<'a> {
    /// The model, as the API names it.
    pub model: &'a str,
    /// The system prompt.
    pub system: Option<&'a str>,
    /// The messages. The conversation ends with a prompt or with the results of tools.
    pub messages: &'a [Message],
    /// The tools that the model may call.
    pub tools: Vec<&'a ToolDefinition>,
    /// The subset of the tools that the model may use now.
    pub selection: &'a ToolSelection,
    /// Maximum number of tokens of the answer.
    pub max_tokens: u32,
    /// The sampling temperature [default: the API's own].
    pub temperature: Option<f64>,
    /// Allows several tool calls in one answer.
    pub parallel_tool_calls: bool,
    /// The limit of tokens is named as OpenAI's newer models require. Most compatible APIs know only the older name.
    pub is_openai: bool,
}

/// A tool, as it is described to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDefinition {
    /// The name. APIs allow letters, digits, `_` and `-`.
    pub name: String,
    /// The description for the model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub schema: Value,
}

/// The tools that a model may use in one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolSelection {
    /// Any of them, or none.
    Auto,
    /// None of them.
    None,
    /// At least one of them.
    Required,
    /// The tool of this name.
    Tool(String),
}

#[cfg(test)]
impl ToolDefinition {
    pub(super) fn sample() -> ToolDefinition {
        ToolDefinition {
            name: "b_run".into(),
            description: "Runs a command".into(),
            schema: serde_json::json!({ "type": "object" }),
        }
    }
}

#[cfg(test)]
impl<'a> ModelRequest<'a> {
    /// Returns a request to `m` with a limit of 4096 tokens.
    pub(super) fn sample(messages: &'a [Message], selection: &'a ToolSelection) -> ModelRequest<'a> {
        ModelRequest {
            model: "m",
            system: None,
            messages,
            tools: Vec::new(),
            selection,
            max_tokens: 4096,
            temperature: None,
            parallel_tool_calls: true,
            is_openai: false,
        }
    }
}
