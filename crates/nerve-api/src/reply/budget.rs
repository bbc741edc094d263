//! The budget of a node or a session.

use serde::{Deserialize, Serialize};

use crate::value::LimitAction;

/// Limits of a node or a session, and the usage that counts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BudgetStatus {
    /// Maximum number of tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Maximum cost in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// Maximum working time in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_time_ms: Option<u64>,
    /// Effect of a reached limit; absent without limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_limit: Option<LimitAction>,
    /// Tokens: input, including cached tokens, and output.
    #[serde(default)]
    pub tokens: u64,
    /// Cost of the tokens that have a price, in US dollars.
    #[serde(default)]
    pub cost_usd: f64,
    /// Working time in milliseconds.
    #[serde(default)]
    pub time_ms: u64,
    /// The reached limit with the usage, for people; absent if none is reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached_limit: Option<String>,
}

impl BudgetStatus {
    /// Returns true if there are limits.
    pub fn has_limits(&self) -> bool {
        self.at_limit.is_some()
    }
}
