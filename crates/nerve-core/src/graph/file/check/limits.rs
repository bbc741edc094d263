//! Bounds of numbers.

use std::ops::RangeInclusive;

use super::super::source_map::{Path, Report};
use super::super::types::{BudgetDefinition, OnErrorName, PolicyDefinition};

/// Steps, or items, at once.
pub(super) const MAX_PARALLEL: u32 = 10_000;
/// Rounds of a loop.
pub(super) const MAX_ROUNDS: u32 = 100_000;
/// Attempts of a step after the first.
const MAX_RETRIES: u32 = 10_000;
/// Seconds; some thirty years.
const MAX_SECONDS: f64 = 1e9;

/// A count within bounds.
pub(super) fn count(number: u32, bounds: RangeInclusive<u32>, at: Path<'_>, report: &mut Report<'_>) {
    if !bounds.contains(&number) {
        let message = format!("{number} is not from {} to {}", bounds.start(), bounds.end());
        report.say(at, message);
    }
}

/// A time that is over some day.
pub(super) fn seconds(number: Option<f64>, at: Path<'_>, report: &mut Report<'_>) {
    match number {
        Some(number) if number.is_nan() || number <= 0.0 => {
            report.say(at, format!("expected seconds, more than 0, found {number}"));
        }
        Some(number) if number > MAX_SECONDS => {
            report.advise(
                at,
                format!("{number} seconds are too many"),
                "leave it out to wait as long as it takes",
            );
        }
        _ => {}
    }
}

pub(super) fn budget(budget: &BudgetDefinition, at: Path<'_>, report: &mut Report<'_>) {
    for (name, limit) in
        [("max_time_seconds", budget.max_time_seconds), ("max_cost_dollars", budget.max_cost_dollars)]
    {
        if let Some(limit) = limit.filter(|limit| !limit.is_finite() || *limit < 0.0) {
            report.say(at.key(name), format!("expected a number, not negative, found {limit}"));
        }
    }
}

pub(super) fn policy(policy: &PolicyDefinition, at: Path<'_>, report: &mut Report<'_>) {
    if !policy.retry_backoff.is_finite() || policy.retry_backoff < 1.0 {
        report.say(at.key("retry_backoff"), "retry_backoff must be at least 1");
    }
    if policy.retry_count > MAX_RETRIES {
        report.say(at.key("retry_count"), format!("retry_count must be at most {MAX_RETRIES}"));
    }
    if policy.on_error == OnErrorName::Retry && policy.retry_count == 0 {
        report.say(at.key("on_error"), "on_error is retry: give a retry_count of at least 1");
    }
    if policy.on_error == OnErrorName::Fallback && policy.fallback_node.is_none() {
        report.say(at.key("on_error"), "on_error is fallback: name a fallback_node");
    }
    if policy.timeout_ms == Some(0) {
        report.say(at.key("timeout_ms"), "timeout_ms must be more than 0");
    }
}
