//! The finished turn in the reply to EXECUTE_INPUT. Requests under older names also get the fields that repeated its text.

pub use nerve_types::{Section, Tokens};
use std::ops::AddAssign;

use nerve_types::token_usage::TokenUsage;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ErrorKind;
use crate::value::{Delivery, ResponseSource};

/// A finished turn. Reply to EXECUTE_INPUT.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Turn {
    /// Response of the node.
    pub response: TurnResponse,
    /// Id of the node.
    #[serde(default)]
    pub node_id: String,
    /// Number of the turn on this node, from 1.
    #[serde(default)]
    pub turn: u64,
}

impl Turn {
    /// Converts the turn into the result of a graph step: the response's fields, `node_id` and `turn` in one object.
    pub fn into_value(self) -> Value {
        // Strings, numbers, lists and maps with string keys cannot fail.
        let mut value = serde_json::to_value(self.response).unwrap_or_default();
        value["node_id"] = self.node_id.into();
        value["turn"] = self.turn.into();
        value
    }
}

/// Response of a node to a prompt.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TurnResponse {
    /// All text of the turn as shown on the terminal. Empty or absent if it is the same as `text`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub raw: String,
    /// Text of the agent's answer.
    pub text: String,
    /// Sections of the answer.
    pub sections: Vec<Section>,
    /// Number of tokens, if the agent showed it.
    pub tokens: Option<Tokens>,
    /// Usage in this turn as counted by the node's proxy, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<ModelUsage>,
    /// True if the end of the turn was detected.
    pub is_complete: bool,
    /// True if the node is ready for the next prompt.
    pub is_ready: bool,
    /// Source of text and sections.
    pub source: ResponseSource,
    /// Confirmed delivery of the prompt.
    pub delivery: Delivery,
    /// True if the turn was interrupted: `text` is what the agent answered before.
    pub interrupted: bool,
    /// True if the node did the task. For a one-shot command: exit code 0.
    pub success: bool,
    /// Error message.
    pub error: Option<String>,
    /// Kind of error.
    pub error_type: Option<ErrorKind>,
    /// Hint on how to solve the problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Additional attributes: `exit_code`, `stdout`, `stderr`, `started_at` …
    pub attributes: Map<String, Value>,
}

/// Model usage of a turn, as counted by the node's proxy.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ModelUsage {
    /// Tokens.
    #[serde(flatten)]
    pub tokens: TokenUsage,
    /// Cost in US dollars, if the proxy knows the prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Number of requests answered by the model's API.
    pub requests: u64,
}

impl AddAssign<&ModelUsage> for ModelUsage {
    fn add_assign(&mut self, other: &ModelUsage) {
        self.tokens += other.tokens;
        self.requests = self.requests.saturating_add(other.requests);
        if let Some(cost) = other.cost_usd {
            *self.cost_usd.get_or_insert(0.0) += cost;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::ModelTokens;

    const TOKENS: TokenUsage = TokenUsage { input: 1, output: 2, cache_read: 3, cache_write: 4 };

    #[test]
    fn token_counts_are_fields_of_the_usage() {
        let usage = ModelUsage { tokens: TOKENS, cost_usd: Some(0.5), requests: 6 };
        let json = r#"{"input":1,"output":2,"cache_read":3,"cache_write":4,"cost_usd":0.5,"requests":6}"#;
        assert_eq!(serde_json::to_string(&usage).unwrap(), json);
        assert_eq!(serde_json::from_str::<ModelUsage>(json).unwrap(), usage);
        assert_eq!(serde_json::from_str::<ModelUsage>("{}").unwrap(), ModelUsage::default());

        let tokens = ModelTokens { model: None, tokens: TOKENS };
        let json = r#"{"model":null,"input":1,"output":2,"cache_read":3,"cache_write":4}"#;
        assert_eq!(serde_json::to_string(&tokens).unwrap(), json);
        assert_eq!(serde_json::from_str::<ModelTokens>(json).unwrap(), tokens);
    }
}
