//! What happens when a step fails (facts: agent capabilities).

use std::time::Duration;

use serde_json::Value;

use crate::graph::step::Target;

/// What to do when all attempts of a step have failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// The step fails, and the run with it.
    #[default]
    Fail,
    /// As `Fail`; says that `retry_count` is meant.
    Retry,
    /// The step is done, with `fallback_value`.
    Skip,
    /// `fallback_node` runs with the same context; what comes of it is the step's result.
    Fallback,
}

/// What happens when a step fails. A timeout is an error like another.
#[derive(Debug, Clone)]
pub struct ErrorPolicy {
    /// When all attempts have failed.
    pub on_error: OnError,
    /// Attempts after the first, whatever `on_error` says.
    pub retry_count: u32,
    /// Before the first of them.
    pub retry_delay: Duration,
    /// Times the delay for each further one; at least 1.
    pub retry_backoff: f64,
    /// Limit of each attempt.
    pub timeout: Option<Duration>,
    /// The result of a step that is skipped.
    pub fallback_value: Value,
    /// Who stands in.
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

/// Longer delays mean this one: an hour.
const LONGEST_DELAY: Duration = Duration::from_secs(3600);

impl ErrorPolicy {
    /// The delay before retry `n`, 0 for the first: `retry_delay · backoff^n`, an hour at most.
    ///
    /// ```
    /// use std::time::Duration;
    /// let policy = nerve_core::policy::ErrorPolicy::default();
    /// assert_eq!(policy.delay(0), Duration::from_secs(1));
    /// assert_eq!(policy.delay(3), Duration::from_secs(8));
    /// ```
    pub fn delay(&self, n: u32) -> Duration {
        // However large the factor.
        if self.retry_delay.is_zero() {
            return Duration::ZERO;
        }
        let factor = self.retry_backoff.powi(n.min(1 << 16) as i32);
        let seconds = self.retry_delay.as_secs_f64() * factor;
        Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST_DELAY).min(LONGEST_DELAY)
    }

    /// What is wrong with it, in words.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.retry_backoff.is_nan() || self.retry_backoff < 1.0 {
            problems.push("retry_backoff must be at least 1".to_string());
        }
        if self.on_error == OnError::Retry && self.retry_count == 0 {
            problems.push("on_error is retry: give a retry_count of at least 1".to_string());
        }
        if self.on_error == OnError::Fallback && self.fallback_node.is_none() {
            problems.push("on_error is fallback: name a fallback_node".to_string());
        }
        if self.timeout.is_some_and(|limit| limit.is_zero()) {
            problems.push("timeout_ms must be more than 0".to_string());
        }
        problems
    }
}
