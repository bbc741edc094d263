//! Budgets: limits of the usage of a node or a session.

use serde::{Deserialize, Serialize};

use super::Seconds;
use crate::value::LimitAction;

/// Limits of the usage of a node, or of all nodes of a session together. A limit is reached when the usage is as high.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct UsageLimits {
    /// Maximum number of tokens: input, including cached tokens, and output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Maximum cost in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub max_cost_usd: Option<f64>,
    /// Maximum working time in seconds: the time in which an agent is busy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_time: Option<Seconds>,
    /// Effect of a reached limit. Default: `ask`.
    #[serde(default)]
    pub at_limit: LimitAction,
}

impl UsageLimits {
    /// Returns true if nothing is limited.
    pub fn is_unlimited(&self) -> bool {
        self.max_tokens.is_none() && self.max_cost_usd.is_none() && self.max_time.is_none()
    }

    /// Checks the values.
    ///
    /// # Errors
    /// The problem.
    pub fn check(&self) -> Result<(), String> {
        let is_positive = |limit: f64| limit.is_finite() && limit > 0.0;
        if self.is_unlimited() {
            return Err("it limits nothing: set max_tokens, max_cost_usd or max_time".to_string());
        }
        let time = self.max_time.map(|time| time.duration().as_secs_f64());
        let limits = [self.max_cost_usd, time, self.max_tokens.map(|tokens| tokens as f64)];
        match limits.into_iter().flatten().all(is_positive) {
            true => Ok(()),
            false => Err("limits must be greater than 0".to_string()),
        }
    }
}

/// SET_BUDGET: replaces the budget of a node or a session, and returns it. Usage before counts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SetBudget {
    /// Id of the node. Default: the session itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// Session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The limits. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<UsageLimits>,
}
