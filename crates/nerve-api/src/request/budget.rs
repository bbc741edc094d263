//! Budgets: limits of the usage of a node or a session.

use nerve_types::millis;
use serde::{Deserialize, Deserializer, Serialize};

use super::Seconds;
use crate::value::LimitAction;

/// Limits of the usage of a node, or of all nodes of a session together. A limit is reached when the usage equals it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
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
    /// Maximum working time in milliseconds: the time in which an agent is busy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_time_ms: Option<u64>,
    /// Effect of a reached limit. Default: `ask`.
    #[serde(default)]
    pub at_limit: LimitAction,
}

impl UsageLimits {
    /// Returns true if nothing is limited.
    pub fn is_unlimited(&self) -> bool {
        self.max_tokens.is_none() && self.max_cost_usd.is_none() && self.max_time_ms.is_none()
    }

    /// Checks the values.
    ///
    /// # Errors
    /// The problem.
    pub fn check(&self) -> Result<(), String> {
        let is_positive = |limit: f64| limit.is_finite() && limit > 0.0;
        if self.is_unlimited() {
            return Err("it limits nothing: set max_tokens, max_cost_usd or max_time_ms".to_string());
        }
        let counts = [self.max_tokens, self.max_time_ms].map(|limit| limit.map(|limit| limit as f64));
        match counts.into_iter().chain([self.max_cost_usd]).flatten().all(is_positive) {
            true => Ok(()),
            false => Err("limits must be greater than 0".to_string()),
        }
    }
}

/// Limits in any form that was ever sent or stored.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnyLimits {
    #[serde(default)]
    max_tokens: Option<u64>,
    #[serde(default)]
    max_cost_usd: Option<f64>,
    #[serde(default)]
    max_time_ms: Option<u64>,
    /// The working time in seconds, as earlier versions named it.
    #[serde(default)]
    max_time: Option<Seconds>,
    #[serde(default)]
    at_limit: LimitAction,
}

impl<'de> Deserialize<'de> for UsageLimits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<UsageLimits, D::Error> {
        let AnyLimits { max_tokens, max_cost_usd, max_time_ms, max_time, at_limit } =
            AnyLimits::deserialize(deserializer)?;
        if max_time_ms.is_some() && max_time.is_some() {
            return Err(serde::de::Error::custom(
                "max_time is the earlier name of max_time_ms: set only one",
            ));
        }
        let max_time_ms = max_time_ms.or(max_time.map(|time| millis(time.duration())));
        Ok(UsageLimits { max_tokens, max_cost_usd, max_time_ms, at_limit })
    }
}

/// SET_BUDGET: replaces the budget of a node or a session, and returns it. Earlier usage still counts.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn working_time_is_read_under_its_old_name() {
        let read = |text: &str| serde_json::from_str::<UsageLimits>(text).map(|limits| limits.max_time_ms);
        assert_eq!(read(r#"{ "max_time": 1.5 }"#).unwrap(), Some(1500));
        assert_eq!(read(r#"{ "max_time_ms": 1500 }"#).unwrap(), Some(1500));
        assert!(read(r#"{ "max_times": 1 }"#).is_err());
        let written = UsageLimits { max_time_ms: Some(1500), ..UsageLimits::default() };
        assert_eq!(serde_json::to_value(written).unwrap()["max_time_ms"], 1500);
    }
}
