//! The comparison of the attempts, as a table and as JSON.

use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use nerve_commands::run_display::{format_duration, group_digits};
use nerve_fan_out::changes::count_all_changes;
use nerve_fan_out::fan_out::{Attempt, FanOut, TestOutcome};
use nerve_fan_out::git::DiffStat;
use serde_json::{Value, json};

use crate::exit::{FAILED, Failure};
use crate::out;

/// Prints the comparison. `elapsed`: duration of the whole command, if it started the fan-out.
pub(super) fn print(fan_out: &FanOut, elapsed: Option<Duration>, as_json: bool) -> Result<()> {
    let changes = count_all_changes(fan_out);
    if as_json {
        return out::json(&to_json(fan_out, &changes, elapsed));
    }
    let rows: Vec<Vec<String>> =
        fan_out.attempts.iter().zip(&changes).map(|(attempt, changes)| row(attempt, *changes)).collect();
    let header = ["attempt", "state", "exit", "turns", "tokens", "time", "changes", "test"];
    let (header, rows) = out::select_columns(&header, &rows, None, &[]);
    out::table(&header, &rows)?;
    let failed = |attempt: &&Attempt| test_of(attempt).is_some_and(|test| test.exit_code != Some(0));
    for attempt in fan_out.attempts.iter().filter(failed) {
        let log = test_of(attempt).map(|test| test.log.display().to_string()).unwrap_or_default();
        out::note(format_args!("test of {}: {log}", attempt.label));
    }
    if fan_out.attempts.iter().any(|attempt| !attempt.is_removed) {
        let name = &fan_out.name;
        out::note(format_args!("show one with 'nerve fan-out diff {name}/N'"));
        out::note(format_args!("merge it with 'nerve fan-out pick {name}/N'"));
    }
    Ok(())
}

/// Checks that at least one attempt completed, and passed the test.
///
/// # Errors
/// The exit code that all attempts have in common, otherwise 1.
pub(super) fn check(fan_out: &FanOut) -> Result<(), Failure> {
    let outcomes: Vec<_> = fan_out.attempts.iter().filter_map(|attempt| attempt.outcome.as_ref()).collect();
    if outcomes.iter().any(|outcome| outcome.is_success()) {
        return Ok(());
    }
    let mut codes = outcomes.iter().map(|outcome| outcome.exit_code.max(FAILED));
    let first = codes.next().unwrap_or(FAILED);
    let code = if codes.all(|code| code == first) { first } else { FAILED };
    let message = match outcomes.iter().any(|outcome| outcome.exit_code == 0) {
        true => format!("fan-out '{}': no attempt passed the test", fan_out.name),
        false => format!("fan-out '{}': no attempt completed the task", fan_out.name),
    };
    let node = fan_out.attempts.iter().find(|attempt| !attempt.is_removed).map(|attempt| &attempt.node);
    let failure = Failure::new(code, message);
    Err(match node {
        Some(node) => failure.hint(format!("look at an agent with 'nerve attach {node}'")),
        None => failure,
    })
}

fn row(attempt: &Attempt, changes: Option<DiffStat>) -> Vec<String> {
    let outcome = attempt.outcome.as_ref();
    let number = |number: Option<u64>| number.map(group_digits).unwrap_or_default();
    vec![
        attempt.label.clone(),
        state_of(attempt).to_string(),
        outcome.map(|outcome| outcome.exit_code.to_string()).unwrap_or_default(),
        number(outcome.and_then(|outcome| outcome.turns)),
        number(outcome.and_then(|outcome| outcome.tokens)),
        outcome.and_then(|outcome| outcome.duration_ms).map(format_ms).unwrap_or_default(),
        changes.map(|changes| changes.to_string()).unwrap_or_default(),
        test_of(attempt).map(format_test).unwrap_or_default(),
    ]
}

fn format_test(test: &TestOutcome) -> String {
    match test.exit_code {
        Some(0) => "passed".to_string(),
        Some(code) => format!("failed ({code})"),
        None => "failed".to_string(),
    }
}

fn format_ms(ms: u64) -> String {
    format_duration(Duration::from_millis(ms).as_secs_f64())
}

/// Returns the state of the attempt: `completed`, `failed` or `cancelled`; `removed` before its end, otherwise its current state.
pub(super) fn state_of(attempt: &Attempt) -> &str {
    match &attempt.outcome {
        Some(outcome) => &outcome.state,
        None if attempt.is_removed => "removed",
        None => attempt.current.unwrap_or("running"),
    }
}

fn test_of(attempt: &Attempt) -> Option<&TestOutcome> {
    attempt.outcome.as_ref().and_then(|outcome| outcome.test.as_ref())
}

/// Returns the fan-out with its attempts as JSON.
pub(super) fn to_json(fan_out: &FanOut, changes: &[Option<DiffStat>], elapsed: Option<Duration>) -> Value {
    let attempt = |(attempt, changes): (&Attempt, &Option<DiffStat>)| {
        let outcome = attempt.outcome.as_ref();
        json!({
            "number": attempt.number, "label": attempt.label, "command": attempt.command,
            "node_id": attempt.node, "branch": attempt.branch, "worktree": attempt.worktree,
            "removed": attempt.is_removed,
            "state": state_of(attempt),
            "exit_code": outcome.map(|outcome| outcome.exit_code),
            "error": outcome.and_then(|outcome| outcome.error.as_ref()),
            "error_type": outcome.and_then(|outcome| outcome.error_type),
            "hint": outcome.and_then(|outcome| outcome.hint.as_ref()),
            "turns": outcome.and_then(|outcome| outcome.turns),
            "tokens": outcome.and_then(|outcome| outcome.tokens),
            "duration_ms": outcome.and_then(|outcome| outcome.duration_ms),
            "changes": changes, "test": test_of(attempt),
        })
    };
    // Earlier versions stored nanoseconds.
    let created_at = fan_out.created_at.parse::<Timestamp>().map(|time| format!("{time:.3}")).ok();
    let attempts: Vec<Value> = fan_out.attempts.iter().zip(changes).map(attempt).collect();
    json!({
        "name": fan_out.name, "task": fan_out.task, "repository": fan_out.repository,
        "base": fan_out.base, "server_name": fan_out.server, "session_id": fan_out.session,
        "created_at": created_at, "test_command": fan_out.test, "run_id": fan_out.run_id,
        "duration_ms": elapsed.map(|elapsed| u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)),
        "attempts": attempts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_short() {
        let test = |exit_code| TestOutcome {
            exit_code,
            error: None,
            error_type: None,
            duration_ms: None,
            log: "/l".into(),
        };
        assert_eq!(
            [Some(0), Some(101), None].map(|code| format_test(&test(code))),
            ["passed", "failed (101)", "failed"]
        );
    }
}
