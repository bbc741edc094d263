//! Checks numeric limits.

use std::ops::RangeInclusive;

use super::super::source_map::{Path, Report};
use super::super::types::{BudgetDefinition, PolicyDefinition};
use crate::policy::{OnError, OnLimit};

/// Maximum number of concurrent steps or items.
pub(super) const MAX_PARALLEL: u32 = 10_000;
/// Maximum number of rounds of a loop.
pub(super) const MAX_ROUNDS: u32 = 100_000;
/// Maximum number of retries of a step.
const MAX_RETRIES: u32 = 10_000;
/// Maximum duration in seconds, about 30 years.
const MAX_SECONDS: f64 = 1e9;

/// Checks that a count is within bounds.
pub(super) fn count(number: u32, bounds: RangeInclusive<u32>, at: Path<'_>, report: &mut Report<'_>) {
    if !bounds.contains(&number) {
        let message = format!("{number} is out of range ({} to {})", bounds.start(), bounds.end());
        report.error(at, message);
    }
}

/// Checks that a duration is positive and not absurdly long.
pub(super) fn seconds(number: Option<f64>, at: Path<'_>, report: &mut Report<'_>) {
    match number {
        Some(number) if number.is_nan() || number <= 0.0 => {
            report.error(at, format!("expected a positive number of seconds, found {number}"));
        }
        Some(number) if number > MAX_SECONDS => {
            report.error_with_hint(
                at,
                format!("{number} seconds exceed the maximum of {MAX_SECONDS}"),
                "remove it to wait without a limit",
            );
        }
        _ => {}
    }
}

pub(super) fn budget(budget: &BudgetDefinition, at: Path<'_>, report: &mut Report<'_>) {
    if let Some(limit) = budget.max_cost_usd.filter(|limit| !limit.is_finite() || *limit < 0.0) {
        report.error(at.key("max_cost_usd"), format!("expected a non-negative number, found {limit}"));
    }
    if budget.at_limit == Some(OnLimit::Ask) {
        for name in zero_limits(budget) {
            let message = "a limit of 0 cannot be raised: it must be positive, or at_limit must be 'stop'";
            report.error(at.key(name), message);
        }
    }
}

fn zero_limits(budget: &BudgetDefinition) -> impl Iterator<Item = &'static str> {
    let limits = [
        ("max_tokens", budget.max_tokens == Some(0)),
        ("max_time_ms", budget.max_time_ms == Some(0)),
        ("max_steps", budget.max_steps == Some(0)),
        ("max_api_calls", budget.max_api_calls == Some(0)),
        ("max_cost_usd", budget.max_cost_usd == Some(0.0)),
    ];
    limits.into_iter().filter_map(|(name, is_zero)| is_zero.then_some(name))
}

pub(super) fn policy(policy: &PolicyDefinition, at: Path<'_>, report: &mut Report<'_>) {
    if !policy.retry_backoff.is_finite() || policy.retry_backoff < 1.0 {
        report.error(at.key("retry_backoff"), "retry_backoff must be at least 1");
    }
    if policy.retry_count > MAX_RETRIES {
        report.error(at.key("retry_count"), format!("retry_count must be at most {MAX_RETRIES}"));
    }
    if policy.on_error == OnError::Retry && policy.retry_count == 0 {
        report.error(at.key("on_error"), "on_error is retry: set retry_count to at least 1");
    }
    if policy.on_error == OnError::Fallback && policy.fallback_node.is_none() {
        report.error(at.key("on_error"), "on_error is fallback: set a fallback_node");
    }
    if policy.timeout_ms == Some(0) {
        report.error(at.key("timeout_ms"), "timeout_ms must be more than 0");
    }
}
