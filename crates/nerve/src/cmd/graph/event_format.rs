//! Formats a run's events as lines, for a standard error that is not a terminal.

use nerve_api::reply::GateInfo;
use nerve_api::{ErrorKind, EventMessage, EventType};

use super::rows::{format_duration, group_digits};
use crate::out;

/// Maximum length of a question or an error in a line, in characters.
const MAX_PREVIEW: usize = 200;

/// Formats an event. Returns `None` for events that are not shown. `answer` is the command that answers a gate.
pub(super) fn format_event(event: &EventMessage, answer: &str) -> Option<String> {
    let field = |name: &str| event.data[name].as_str().unwrap_or_default();
    let number = |name: &str| event.data[name].as_u64().unwrap_or(0);
    let step = field("step_id");
    let text = match event.kind()? {
        EventType::GraphStarted => {
            let verb = if event.data["resumed"] == true { "resumed" } else { "started" };
            format!(
                "run {} of graph {} {verb}: {}",
                field("run_id"),
                field("graph_id"),
                step_count(usize::try_from(number("steps")).unwrap_or(usize::MAX))
            )
        }
        EventType::StepStarted => {
            let node = if field("node_id").is_empty() {
                String::new()
            } else {
                format!(" (node {})", field("node_id"))
            };
            let queued = if event.data["queued"] == true { ", waiting for its node" } else { "" };
            format!("step {step} started{node}{queued}")
        }
        EventType::StepCompleted => match field("state") {
            "skipped" => format!("step {step} skipped"),
            "reused" => format!("step {step} reused: completed before"),
            _ => format!(
                "step {step} done in {}{}",
                millis(number("duration_ms")),
                tokens(number("tokens_used"))
            ),
        },
        EventType::StepFailed if field("error_type") == ErrorKind::Cancelled.as_str() => {
            format!("step {step} cancelled")
        }
        EventType::StepFailed => {
            let retry =
                event.data["retry_in"].as_f64().map(|delay| format!("; retry in {}", format_duration(delay)));
            format!(
                "step {step} failed: {}{}",
                out::preview(field("error"), MAX_PREVIEW),
                retry.unwrap_or_default()
            )
        }
        EventType::GateAsked => {
            let gate: GateInfo = serde_json::from_value(event.data.clone()).ok()?;
            format!("gate {step} asks: {} (answer with '{answer}')", format_question(&gate))
        }
        EventType::GateAnswered => {
            format!("gate {step} answered by {}: {}", field("by"), out::preview(field("choice"), MAX_PREVIEW))
        }
        EventType::GraphCompleted => {
            let (spent, tokens) = (millis(number("duration_ms")), tokens(number("tokens_used")));
            format!("run {} {} after {spent}{tokens}", field("run_id"), field("status"))
        }
        EventType::EventsDropped => format!("{} events dropped", number("dropped")),
        _ => return None,
    };
    Some(out::preview(&text, 4 * MAX_PREVIEW))
}

/// Formats the question of a gate with its choices.
pub(super) fn format_question(gate: &GateInfo) -> String {
    let choices: Vec<String> = gate.choices.iter().map(|choice| out::preview(choice, MAX_PREVIEW)).collect();
    let choices = if choices.is_empty() { String::new() } else { format!(" [{}]", choices.join(" / ")) };
    format!("{}{choices}", out::preview(&gate.question, MAX_PREVIEW))
}

/// Formats a number of steps: `1 step`, `2 steps`.
pub(super) fn step_count(steps: usize) -> String {
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
    use serde_json::{Value, json};

    use super::super::progress::tests::event;
    use super::*;

    fn format(kind: EventType, data: Value) -> String {
        format_event(&event(kind, 0.0, data), "nerve server graph answer r CHOICE").unwrap_or_default()
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
                json!({"step_id": "a", "error": "exit\ncode 3", "retry_in": 1.0}),
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
                "gate ok asks: Go? [yes / no] (answer with 'nerve server graph answer r CHOICE')",
            ),
            (
                GateAnswered,
                json!({"step_id": "ok", "choice": "yes", "by": "person"}),
                "gate ok answered by person: yes",
            ),
            (
                GraphCompleted,
                json!({"run_id": "r", "status": "failed", "duration_ms": 100}),
                "run r failed after 0.1 s",
            ),
        ];
        for (kind, data, expected) in cases {
            assert_eq!(format(kind, data), expected);
        }
        assert_eq!(format(NodeReady, json!({})), "");
    }
}
