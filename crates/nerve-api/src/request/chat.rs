//! Settings of a chat node's model.

use serde::{Deserialize, Serialize};

/// Settings of a chat node's model. Absent fields have their defaults. Instead of an API key, they name the environment variable that
/// contains it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChatSettings {
    /// Name of the model in its API.
    pub model: String,
    /// Protocol of the API: `anthropic` (default) or `openai`, which most other vendors also support.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Base URL of the API. Default: the vendor's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Environment variable with the API key, looked up in the node's environment and then the server's. Default: `ANTHROPIC_API_KEY` or
    /// `OPENAI_API_KEY`. Empty: no key is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// System prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Maximum number of tokens of an answer. Default: 4096.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Sampling temperature from 0 to 2. Default: the API's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Ids of nodes of the session that the model may use as tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Tool choice: `auto` (default), `none`, `required`, or the id of a node in `tools`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<String>,
    /// Allows several tool calls in one answer. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
    /// Maximum number of rounds of tool calls in one turn. Default: 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tool_rounds: Option<u32>,
    /// Maximum number of retries of a failed request. Default: 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// File that stores the conversation; relative to the node's `cwd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<String>,
}
