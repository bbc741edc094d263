//! Formats a run's events as lines, for a standard error that is not a terminal.

use nerve_api::reply::GateInfo;
use nerve_api::value::StepState;
use nerve_api::{ErrorKind, EventKind, EventMessage};

use super::rows::{format_duration, group_digits};
use crate::event_line::format_loss;
use crate::out;

/// Maximum length of a question or an error in a line, in characters.
const MAX_PREVIEW: usize = 200;

/// Formats an event as a line. Returns `None` for events that are not shown. `answer` is the command that answers a gate.
pub(super) fn format_line(event: &EventMessage, answer: &str) -> Option<String> {
    let details = event.details()?;
    let step = details.step().unwrap_or_default();
    let text = match &details {
        EventKind::GraphStarted { run, steps, resumed } => {
            let verb = if *resumed { "resumed" } else { "started" };
            format!("run {} of graph {} {verb}: {}", run.run_id, run.graph_id, step_count(*steps))
        }
        EventKind::StepStarted { node_id, queued, .. } => {
            let node = if node_id.is_empty() { String::new() } else { format!(" (node {node_id})") };
            let queued = if *queued { ", waiting for its node" } else { "" };
            format!("step {step} started{node}{queued}")
        }
        EventKind::StepCompleted { state, duration_ms, tokens_used, .. } => match state {
            StepState::Skipped => format!("step {step} skipped"),
            StepState::Reused => format!("step {step} reused: completed before"),
            _ => format!("step {step} done in {}{}", millis(*duration_ms), tokens(*tokens_used)),
        },
        EventKind::StepFailed { error_type: ErrorKind::Cancelled, .. } => format!("step {step} cancelled"),
        EventKind::StepFailed { error, retry_in_ms, .. } => {
            let retry =
                retry_in_ms.map(|delay| format!("; retry in {}", format_duration(delay as f64 / 1000.0)));
            format!("step {step} failed: {}{}", out::preview(error, MAX_PREVIEW), retry.unwrap_or_default())
        }
        EventKind::GateAsked { gate, .. } => {
            format!("gate {step} asks: {} (answer with '{answer}')", format_question(gate))
        }
        EventKind::GateAnswered { choice, by, .. } => {
            format!("gate {step} answered by {by}: {}", out::preview(choice, MAX_PREVIEW))
        }
        EventKind::GraphCompleted { run, status, duration_ms, tokens_used, .. } => {
            format!("run {} {status} after {}{}", run.run_id, millis(*duration_ms), tokens(*tokens_used))
        }
        EventKind::EventsDropped { dropped } => format_loss(*dropped),
        _ => return None,
    };
    Some(out::preview(&text, 4 * MAX_PREVIEW))
}

/// Formats the question of a gate with its choices.
pub fn format_question(gate: &GateInfo) -> String {
    let choices: Vec<String> = gate.choices.iter().map(|choice| out::preview(choice, MAX_PREVIEW)).collect();
    let choices = if choices.is_empty() { String::new() } else { format!(" [{}]", choices.join(" / ")) };
    format!("{}{choices}", out::preview(&gate.question, MAX_PREVIEW))
}

/// Formats a number of steps: `1 step`, `2 steps`.
pub fn step_count(steps: usize) -> String {
    if steps == 1 { "1 step".to_string() } else { format!("{steps} steps") }
}

fn millis(ms: u64) -> String {
    format_duration(std::time::Duration::from_millis(ms).as_secs_f64())
}

fn tokens(count: u64) -> String {
    if count == 0 { String::new() } else { format!(", {} tokens", group_digits(count)) }
}

#[cfg(test)]
mod tests {
    use nerve_api::EventType;
    use serde_json::{Value, json};

    use super::super::progress::tests::event;
    use super::*;

    fn format(kind: EventType, data: Value) -> String {
        format_line(&event(kind, 0.0, data), "nerve graph answer r CHOICE").unwrap_or_default()
    }

    #[test]
    fn formats_events_as_lines() {
        use EventType::*;
        let cases = [
            (
                GraphStarted,
                json!({"run_id": "r", "graph_id": "g", "steps": 2}),
                "run r of graph g started: 2 steps",
            ),
            (StepStarted, json!({"step_id": "a", "node_id": "me"}), "step a started (node me)"),
            (
                StepCompleted,
                json!({"step_id": "a", "state": "completed", "duration_ms": 1250, "tokens_used": 1500}),
                "step a done in 1.2 s, 1,500 tokens",
            ),
            (StepCompleted, json!({"step_id": "a", "state": "reused"}), "step a reused: completed before"),
            (
                StepFailed,
                json!({"step_id": "a", "error": "exit\ncode 3", "retry_in_ms": 1000}),
                "step a failed: exit code 3; retry in 1.0 s",
            ),
            (
                StepFailed,
                json!({"step_id": "a", "error": "cancelled", "error_type": "cancelled"}),
                "step a cancelled",
            ),
            (
                GateAsked,
                json!({"step_id": "ok", "question": "Go?", "choices": ["yes", "no"]}),
                "gate ok asks: Go? [yes / no] (answer with 'nerve graph answer r CHOICE')",
            ),
            (
                GateAnswered,
                json!({"step_id": "ok", "choice": "yes", "by": "person"}),
                "gate ok answered by person: yes",
            ),
            (
                GraphCompleted,
                json!({"run_id": "r", "state": "failed", "duration_ms": 100}),
                "run r failed after 0.1 s",
            ),
        ];
        for (kind, data, expected) in cases {
            assert_eq!(format(kind, data), expected);
        }
        assert_eq!(format(NodeReady, json!({})), "");
    }
}
