//! A run as lines, one an event: where standard error is no terminal. Pure.

use nerve_proto::data::GateInfo;
use nerve_proto::{EventMessage, EventType};

use super::rows::{grouped, span};
use crate::out;

/// Characters of a question or an error in a line.
const SHORT: usize = 200;

/// What an event says, if it says anything to people. `answer`: the command that answers a gate.
pub(super) fn line(event: &EventMessage, answer: &str) -> Option<String> {
    let text = |name: &str| event.data[name].as_str().unwrap_or_default();
    let number = |name: &str| event.data[name].as_u64().unwrap_or(0);
    let step = text("step_id");
    let said = match event.kind()? {
        EventType::GraphStarted => {
            let goes_on = if event.data["resumed"] == true { "goes on" } else { "began" };
            format!(
                "run {} of graph {} {goes_on}: {}",
                text("run_id"),
                text("graph_id"),
                counted(usize::try_from(number("steps")).unwrap_or(usize::MAX))
            )
        }
        EventType::StepStarted => {
            let node = if text("node_id").is_empty() {
                String::new()
            } else {
                format!(" (node {})", text("node_id"))
            };
            let queued =
                if event.data["queued"] == true { ", its node does something else first" } else { "" };
            format!("step {step} started{node}{queued}")
        }
        EventType::StepCompleted => match text("state") {
            "skipped" => format!("step {step} skipped"),
            "reused" => format!("step {step} reused: it was done before"),
            _ => format!(
                "step {step} done in {}{}",
                millis(number("duration_ms")),
                tokens(number("tokens_used"))
            ),
        },
        EventType::StepFailed if text("error_type") == "cancelled" => format!("step {step} cancelled"),
        EventType::StepFailed => {
            let again = event.data["retry_in"].as_f64().map(|delay| format!("; again in {}", span(delay)));
            format!("step {step} failed: {}{}", out::preview(text("error"), SHORT), again.unwrap_or_default())
        }
        EventType::GateAsked => {
            let gate: GateInfo = serde_json::from_value(event.data.clone()).ok()?;
            format!("gate {step} asks: {} (answer with '{answer}')", question(&gate))
        }
        EventType::GateAnswered => {
            format!("gate {step} answered by {}: {}", text("by"), out::preview(text("choice"), SHORT))
        }
        EventType::GraphCompleted => {
            let (spent, tokens) = (millis(number("duration_ms")), tokens(number("tokens_used")));
            format!("run {} {} after {spent}{tokens}", text("run_id"), text("status"))
        }
        EventType::EventsDropped => format!("{} events are missing here", number("dropped")),
        _ => return None,
    };
    Some(out::preview(&said, 4 * SHORT))
}

/// The question, and what may be answered.
pub(super) fn question(gate: &GateInfo) -> String {
    let choices: Vec<String> = gate.choices.iter().map(|choice| out::preview(choice, SHORT)).collect();
    let choices = if choices.is_empty() { String::new() } else { format!(" [{}]", choices.join(" / ")) };
    format!("{}{choices}", out::preview(&gate.question, SHORT))
}

/// `1 step`, `2 steps`.
pub(super) fn counted(steps: usize) -> String {
    if steps == 1 { "1 step".to_string() } else { format!("{steps} steps") }
}

fn millis(ms: u64) -> String {
    span(std::time::Duration::from_millis(ms).as_secs_f64())
}

fn tokens(count: u64) -> String {
    if count == 0 { String::new() } else { format!(", {} tokens", grouped(count)) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::progress::tests::event;
    use super::*;

    fn said(kind: EventType, data: Value) -> String {
        line(&event(kind, 0.0, data), "nerve server graph answer r CHOICE").unwrap_or_default()
    }

    #[test]
    fn each_event_is_a_line_of_plain_words() {
        use EventType::*;
        let cases = [
            (
                GraphStarted,
                json!({"run_id": "r", "graph_id": "g", "steps": 2}),
                "run r of graph g began: 2 steps",
            ),
            (StepStarted, json!({"step_id": "a", "node_id": "me"}), "step a started (node me)"),
            (
                StepCompleted,
                json!({"step_id": "a", "state": "completed", "duration_ms": 1250, "tokens_used": 1500}),
                "step a done in 1.2 s, 1,500 tokens",
            ),
            (StepCompleted, json!({"step_id": "a", "state": "reused"}), "step a reused: it was done before"),
            (
                StepFailed,
                json!({"step_id": "a", "error": "exit\ncode 3", "retry_in": 1.0}),
                "step a failed: exit code 3; again in 1.0 s",
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
        for (kind, data, words) in cases {
            assert_eq!(said(kind, data), words);
        }
        assert_eq!(said(NodeReady, json!({})), "");
    }
}
