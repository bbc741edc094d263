//! Policies for failures and restarts, in graphs and in graph files. Doc comments of the keywords are descriptions in the JSON
//! Schema.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use strum::{EnumString, VariantNames};

use crate::executable::Target;

/// Policy for the other branches when a step fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema, EnumString, VariantNames)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum OnFailure {
    /// Stop them.
    #[default]
    Stop,
    /// Let them finish.
    Finish,
}

/// Policy for a graph or a step whose budget has reached a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema, EnumString, VariantNames)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum OnLimit {
    /// Stop the run, or fail the step.
    #[default]
    Stop,
    /// Start no step until a person has answered whether to continue.
    Ask,
}

/// Policy for a step that was running when its server died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema, EnumString, VariantNames)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum OnResume {
    /// Rerun it if its node is stateless, otherwise ask a person.
    #[default]
    Ask,
    /// Rerun it.
    Rerun,
}

/// Policy for a step whose machine is lost while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema, EnumString, VariantNames)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum OnHostLost {
    /// Wait for the machine, or for the decision of a person.
    #[default]
    Wait,
    /// Run it again on a machine that is present.
    Retry,
    /// Fail it.
    Fail,
}

/// Policy for a step whose agent shows a dialog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema, EnumString, VariantNames)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum OnDialog {
    /// The step fails.
    #[default]
    Fail,
    /// Wait until a person has answered it. The time counts toward the step's time limit.
    Wait,
}

/// Action when all attempts of a step have failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema, EnumString, VariantNames)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum OnError {
    /// Fail the run.
    #[default]
    Fail,
    /// Like `fail`; documents that `retry_count` is set.
    Retry,
    /// Complete the step with `fallback_value`.
    Skip,
    /// Run `fallback_node` instead.
    Fallback,
}

/// Policy for failures of a step. A timeout counts as a failure.
#[derive(Debug, Clone)]
pub struct ErrorPolicy {
    /// Action when all attempts have failed.
    pub on_error: OnError,
    /// Attempts after the first, whatever `on_error` is.
    pub retry_count: u32,
    /// Delay before the first retry.
    pub retry_delay: Duration,
    /// Factor for each further delay; at least 1.
    pub retry_backoff: f64,
    /// Time limit of each attempt.
    pub timeout: Option<Duration>,
    /// Result of a skipped step.
    pub fallback_value: Value,
    /// Node that takes over.
    pub fallback_node: Option<Target>,
}

impl Default for ErrorPolicy {
    fn default() -> ErrorPolicy {
        ErrorPolicy {
            on_error: OnError::Fail,
            retry_count: 0,
            retry_delay: Duration::from_millis(1000),
            retry_backoff: 2.0,
            timeout: None,
            fallback_value: Value::Null,
            fallback_node: None,
        }
    }
}

/// Maximum delay between attempts.
const MAX_DELAY: Duration = Duration::from_secs(3600);

impl ErrorPolicy {
    /// Returns the delay before retry `n` (0 for the first): `retry_delay · backoff^n`, at most an hour.
    ///
    /// ```
    /// use std::time::Duration;
    /// let policy = nerve_graph::policy::ErrorPolicy::default();
    /// assert_eq!(policy.delay(0), Duration::from_secs(1));
    /// assert_eq!(policy.delay(3), Duration::from_secs(8));
    /// ```
    pub fn delay(&self, n: u32) -> Duration {
        // Avoids 0 · ∞.
        if self.retry_delay.is_zero() {
            return Duration::ZERO;
        }
        let factor = self.retry_backoff.powi(n.min(1 << 16) as i32);
        let seconds = self.retry_delay.as_secs_f64() * factor;
        Duration::try_from_secs_f64(seconds).unwrap_or(MAX_DELAY).min(MAX_DELAY)
    }

    /// Returns the problems of the policy.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.retry_backoff.is_nan() || self.retry_backoff < 1.0 {
            problems.push("retry_backoff must be at least 1".to_string());
        }
        if self.on_error == OnError::Retry && self.retry_count == 0 {
            problems.push("on_error is retry: set retry_count to at least 1".to_string());
        }
        if self.on_error == OnError::Fallback && self.fallback_node.is_none() {
            problems.push("on_error is fallback: set a fallback_node".to_string());
        }
        if self.timeout.is_some_and(|limit| limit.is_zero()) {
            problems.push("timeout_ms must be more than 0".to_string());
        }
        problems
    }
}
