//! The output of a removal.

use nerve_fan_out::removal::RemovalReport;
use serde_json::{Value, json};

use crate::exit::{FAILED, Failure};
use crate::out;

/// Prints a report as notes and warnings.
///
/// # Errors
/// Exit code 1 if a worktree stays.
pub(super) fn print(report: &RemovalReport) -> Result<(), Failure> {
    if !report.removed.is_empty() {
        out::note(format_args!("removed {}", report.removed.join(", ")));
    }
    if !report.kept_branches.is_empty() {
        let names = report.kept_branches.join(" ");
        out::note(format_args!(
            "kept the branches; delete what you do not need with 'git branch -D {names}'"
        ));
    }
    for (label, reason) in &report.failed {
        out::warning(format_args!("kept {label}: {}", out::sanitize(reason)));
    }
    match report.failed.len() {
        0 => Ok(()),
        1 => Err(Failure::new(FAILED, "1 attempt was not removed")),
        several => Err(Failure::new(FAILED, format!("{several} attempts were not removed"))),
    }
}

/// Returns the attempts that could not be removed, for programs.
pub(super) fn failed_to_json(report: &RemovalReport) -> Vec<Value> {
    report.failed.iter().map(|(label, reason)| json!({ "label": label, "reason": reason })).collect()
}
