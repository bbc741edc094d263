//! The model of a chat node.

use serde::{Deserialize, Serialize};

/// The model of a chat node, and how it is talked to. What is absent has its default. There is no key in it: it names the variable
/// that has one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChatSettings {
    /// The model's name, as its API knows it.
    pub model: String,
    /// Whose API it speaks: `anthropic` (the default) or `openai`, which most others speak too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Where the API is; the vendor's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Name of the variable with the key, in the node's environment or the server's; `ANTHROPIC_API_KEY` or `OPENAI_API_KEY` if absent.
    /// Empty: no key is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// What the model is told before everything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Tokens of one answer of the model; 4096 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// From 0 to 2; the API's own if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Ids of nodes of the session that the model may use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// `auto` (the default), `none`, `required`, or the id of a node in `tools`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<String>,
    /// It may ask for several tools at once; true if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
    /// How often in one turn tools are run and the model asked again; 10 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tool_rounds: Option<u32>,
    /// How often a request that failed is sent again; 3 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// The file that keeps the conversation; relative to the node's `cwd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<String>,
}
