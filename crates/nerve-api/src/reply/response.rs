//! The finished turn, as EXECUTE_INPUT answers it. One object serves readers of the seeds (`sections`, `is_ready` …) and of the
//! first nerve (`success`, `output`, `attributes.sections` …).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Of EXECUTE_INPUT.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Turn {
    /// The answer.
    pub response: TurnResponse,
    /// The node that gave it.
    #[serde(default)]
    pub node_id: String,
    /// Number of the turn on this node, from 1.
    #[serde(default)]
    pub turn: u64,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TurnResponse {
    /// All text of the turn as the terminal showed it.
    pub raw: String,
    /// What the agent said.
    pub text: String,
    /// The parts of the answer.
    pub sections: Vec<ResponseSection>,
    /// Where the agent showed them.
    pub tokens: Option<TokenCounts>,
    /// What the node's proxy counted in the turn, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<ModelUsage>,
    /// The end of the turn was seen.
    pub is_complete: bool,
    /// The node waits for the next prompt.
    pub is_ready: bool,
    /// Where text and sections come from: `transcript`, `screen`, `process`.
    pub source: String,
    /// How far the prompt is proved to have come: `typed`, `submitted`, `started`, `unknown`.
    pub delivery: String,
    /// The node did what it was asked (a one-shot command: exit code 0).
    pub success: bool,
    /// What went wrong, in words.
    pub error: Option<String>,
    /// Which kind of error.
    pub error_type: Option<String>,
    /// The same as `text`, under the first nerve's name.
    pub output: String,
    /// More facts: `sections`, `tokens`, `exit_code`, `stdout`, `stderr` …
    pub attributes: Map<String, Value>,
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResponseSection {
    /// `text`, `thinking`, `tool_call`, `error`, `interrupted`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its text.
    #[serde(default)]
    pub content: String,
    /// Facts about it: `tool`, `args`, `result` …
    #[serde(default)]
    pub metadata: Map<String, Value>,
}

/// What a turn used of its model, as the node's proxy counted it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ModelUsage {
    /// Tokens that went in, without those of a cache.
    pub input: u64,
    /// Tokens that came out.
    pub output: u64,
    /// Tokens that went in and were in the cache.
    pub cache_read: u64,
    /// Tokens that went in and were put into the cache.
    pub cache_write: u64,
    /// US dollars, where the proxy knows prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Requests that the model's API answered.
    pub requests: u64,
}

/// Tokens, as far as they are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TokenCounts {
    /// Of the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// Of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    /// All, where only a sum is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}
