//! Settings of a chat node's model.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::value::Provider;

/// Settings of a chat node's model. Absent fields have their defaults. Instead of an API key, they name the environment variable that
/// contains it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ChatSettings {
    /// Name of the model in its API.
    pub model: String,
    /// Protocol of the API: `anthropic` (default) or `openai`, which most other vendors also support.
    #[serde(default)]
    pub provider: Provider,
    /// Base URL of the API, `http` or `https`, without user, query or fragment. Default: the vendor's. Without a path, `/v1` is added for
    /// `openai`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Environment variable with the API key, looked up in the node's environment and then the server's. Default: `ANTHROPIC_API_KEY` or
    /// `OPENAI_API_KEY`. Empty: no key is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// System prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Maximum number of tokens of an answer, from 1. Default: 4096.
    #[serde(default = "default_max_tokens")]
    pub max_tokens: u32,
    /// Sampling temperature from 0 to 2. Default: the API's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Ids of nodes of the session that the model may use as tools, at most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Tool choice: `auto` (default), `none`, `required`, or the id of a node in `tools`.
    #[serde(default, skip_serializing_if = "ToolChoice::is_auto")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub tool_choice: ToolChoice,
    /// Allows several tool calls in one answer; they run at the same time. Default: true.
    #[serde(default = "enabled")]
    pub parallel_tool_calls: bool,
    /// Maximum number of rounds of tool calls in one turn. Default: 10.
    #[serde(default = "default_max_tool_rounds")]
    pub max_tool_rounds: u32,
    /// Maximum number of retries of a failed request. Default: 3.
    #[serde(default = "default_retries")]
    pub retries: u32,
    /// File that stores the conversation; relative to the node's `cwd`. It is read at the start if it exists, and written after each turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<String>,
}

impl ChatSettings {
    /// Creates settings with all defaults.
    pub fn new(provider: Provider, model: impl Into<String>) -> ChatSettings {
        ChatSettings {
            model: model.into(),
            provider,
            base_url: None,
            api_key_env: None,
            system: None,
            max_tokens: default_max_tokens(),
            temperature: None,
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            parallel_tool_calls: true,
            max_tool_rounds: default_max_tool_rounds(),
            retries: default_retries(),
            keep: None,
        }
    }
}

/// Tool choice of a chat node's model. A forced tool is forced only in the first answer of a turn: otherwise the model would call it
/// forever.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// No tools.
    None,
    /// At least one tool.
    Required,
    /// The tool of this node.
    Node(String),
}

impl ToolChoice {
    fn is_auto(&self) -> bool {
        *self == ToolChoice::Auto
    }
}

impl From<String> for ToolChoice {
    fn from(text: String) -> ToolChoice {
        match text.as_str() {
            "auto" => ToolChoice::Auto,
            "none" => ToolChoice::None,
            "required" => ToolChoice::Required,
            _ => ToolChoice::Node(text),
        }
    }
}

impl From<ToolChoice> for String {
    fn from(choice: ToolChoice) -> String {
        choice.to_string()
    }
}

impl fmt::Display for ToolChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ToolChoice::Auto => "auto",
            ToolChoice::None => "none",
            ToolChoice::Required => "required",
            ToolChoice::Node(name) => name,
        })
    }
}

fn default_max_tokens() -> u32 {
    4096
}

fn enabled() -> bool {
    true
}

fn default_max_tool_rounds() -> u32 {
    10
}

fn default_retries() -> u32 {
    3
}

#[cfg(test)]
mod tests {
    use serde_json::{from_str, to_string};

    use super::*;

    #[test]
    fn json_has_defaults_and_rejects_unknown_fields() {
        let settings: ChatSettings = from_str(r#"{"model": "m"}"#).unwrap();
        assert_eq!(settings, ChatSettings::new(Provider::Anthropic, "m"));
        let all =
            r#"{"provider": "openai", "model": "m", "tools": ["b"], "tool_choice": "b", "keep": "x.json"}"#;
        let settings: ChatSettings = from_str(all).unwrap();
        assert_eq!(settings.tool_choice, ToolChoice::Node("b".into()));
        assert_eq!(from_str::<ChatSettings>(&to_string(&settings).unwrap()).unwrap(), settings);
        for bad in [r#"{}"#, r#"{"model": "m", "api_key": "k"}"#, r#"{"model": "m", "provider": "x"}"#] {
            assert!(from_str::<ChatSettings>(bad).is_err(), "{bad}");
        }
    }
}
