//! Formats events as readable lines.

use nerve_api::reply::GateInfo;
use nerve_api::value::{BlockKind, StepState};
use nerve_api::{ErrorKind, EventKind, EventMessage, EventType};

use crate::out;

/// Maximum length of a line, in characters.
const MAX_LENGTH: usize = 160;
/// Maximum length of a question or a choice, in characters.
const MAX_PART: usize = 200;
/// Maximum length of a line about a run, whose questions contain commands, in characters.
const MAX_RUN_LENGTH: usize = 800;

/// Formats an event. Returns `None` for events that are not shown, such as output chunks and activity.
pub fn format_event(event: &EventMessage) -> Option<String> {
    describe(event, "gate CHOICE").map(|text| out::preview(&text, MAX_LENGTH))
}

/// Formats an event of a run, or the loss of events; `None` for others. `answer` is the command that answers a gate.
pub(crate) fn format_run_event(event: &EventMessage, answer: &str) -> Option<String> {
    let is_shown = run_id(event).is_some() || event.kind() == Some(EventType::EventsDropped);
    describe(event, answer).filter(|_| is_shown).map(|text| out::preview(&text, MAX_RUN_LENGTH))
}

fn describe(event: &EventMessage, answer: &str) -> Option<String> {
    let node = event.node_id.as_deref().unwrap_or("?");
    let details = event.details()?;
    // `graph/step`, the prefix of paths into nested graphs.
    let step = match (details.run(), details.step()) {
        (Some(run), Some(step)) => format!("{}/{step}", run.graph_id),
        _ => String::new(),
    };
    Some(match details {
        EventKind::NodeCreated { kind, .. } => format!("{node} created ({kind})"),
        EventKind::NodeReady { .. } => format!("{node} is ready"),
        EventKind::NodeBusy { .. } => format!("{node} is busy"),
        EventKind::NodeBlocked { kind, choices, .. } => format_block(node, kind, &choices),
        EventKind::NodeQueueChanged {} => format!("the queue of {node} has changed"),
        EventKind::NodeSuspended { evidence, .. } => format!("{node} is suspended: {evidence}"),
        EventKind::NodeStopped { reason, .. } => match reason.as_str() {
            "" | "stopped" => format!("{node} stopped"),
            reason => format!("{node} stopped: {reason}"),
        },
        EventKind::NodeRemoved {} => format!("{node} was removed"),
        EventKind::GraphStarted { run, steps, resumed } => {
            let verb = if resumed { "resumed" } else { "started" };
            format!("{} {verb}: {}, run {}", run.graph_id, step_count(steps), run.run_id)
        }
        EventKind::StepStarted { node_id, attempt, queued, .. } => {
            format_step_start(&step, &node_id, attempt, queued)
        }
        EventKind::StepCompleted { state: StepState::Completed, duration_ms, tokens_used, .. } => {
            format!("{step} completed{}", effort(duration_ms, tokens_used))
        }
        EventKind::StepCompleted { state, .. } => format!("{step} {state}"),
        EventKind::StepFailed { error_type: ErrorKind::Cancelled, .. } => format!("{step} cancelled"),
        EventKind::StepFailed { error, retry_in_ms, .. } => {
            let retry = retry_in_ms.map(|delay| format!("; retry in {}", duration(delay as f64 / 1000.0)));
            format!("{step} failed: {error}{}", retry.unwrap_or_default())
        }
        EventKind::GateAsked { gate, .. } => format_gate(&step, &gate, answer),
        EventKind::GateAnswered { choice, by, .. } => format!("{step}: {choice} ({by})"),
        EventKind::GraphCompleted { run, status, duration_ms, tokens_used, error, .. } => {
            let reason = error.map(|error| format!(": {error}")).unwrap_or_default();
            format!("{} {status}{}{reason}", run.graph_id, effort(duration_ms, tokens_used))
        }
        EventKind::ResultReady { result_id, status, .. } => format!("{node}: result {result_id} is {status}"),
        EventKind::SnapshotTaken { snapshot_id, .. } => format!("{node}: snapshot {snapshot_id} taken"),
        EventKind::BranchProgress { step, .. } => format!("branch: {step}"),
        EventKind::Error { message, .. } => format!("error: {message}"),
        EventKind::ServerShutdown { .. } => "the server is shutting down".to_string(),
        EventKind::EventsDropped { dropped } => format_loss(dropped),
        EventKind::OutputChunk { .. } | EventKind::OutputParsed { .. } | EventKind::NodeActivity(_) => {
            return None;
        }
    })
}

/// Formats the end of a turn that took some seconds.
pub fn format_turn_end(node: &str, seconds: f64) -> String {
    format!("{node} is done after {}", duration(seconds))
}

/// Returns the id of the event's run.
pub fn run_id(event: &EventMessage) -> Option<&str> {
    event.data.get("run_id")?.as_str()
}

fn format_block(node: &str, kind: BlockKind, choices: &[String]) -> String {
    let choices: Vec<String> =
        choices.iter().enumerate().map(|(at, text)| format!("{}. {text}", at + 1)).collect();
    match choices.is_empty() {
        true => format!("{node} is blocked ({kind}); 'why {node}' shows it"),
        false => format!("{node} is blocked ({kind}): {}; 'answer {node} N'", choices.join("  ")),
    }
}

/// Formats the start of a step. `node` is empty if the step has none.
fn format_step_start(step: &str, node: &str, attempt: u32, queued: bool) -> String {
    let by = match node {
        "" => String::new(),
        node if queued => format!(", waiting for {node}"),
        node => format!(" on {node}"),
    };
    match attempt {
        0 | 1 => format!("{step} started{by}"),
        attempt => format!("{step} started{by}, attempt {attempt}"),
    }
}

fn format_gate(step: &str, gate: &GateInfo, answer: &str) -> String {
    let default = gate.default.as_ref().map(|default| format!(" [default: {default}]")).unwrap_or_default();
    format!("{step} asks: {}; answer with '{answer}'{default}", format_question(gate))
}

/// Formats the question of a gate with its choices.
pub fn format_question(gate: &GateInfo) -> String {
    let choices: Vec<String> = gate.choices.iter().map(|choice| out::preview(choice, MAX_PART)).collect();
    let choices = if choices.is_empty() { String::new() } else { format!(" [{}]", choices.join(" | ")) };
    format!("{}{choices}", out::preview(&gate.question, MAX_PART))
}

/// Describes lost events. `None`: the client has connected again, usually to a server that was restarted.
fn format_loss(dropped: Option<u64>) -> String {
    match dropped {
        Some(dropped) => format!("{} dropped", pluralize(dropped, "event")),
        None => "connected again: events may have been lost".to_string(),
    }
}

/// Formats a number of steps: `1 step`, `2 steps`.
pub fn step_count(steps: usize) -> String {
    pluralize(steps as u64, "step")
}

/// Formats time and tokens.
fn effort(duration_ms: u64, tokens: u64) -> String {
    let time = duration(duration_ms as f64 / 1000.0);
    match tokens {
        0 => format!(" after {time}"),
        tokens => format!(" after {time}, {}", pluralize(tokens, "token")),
    }
}

/// Formats seconds.
fn duration(seconds: f64) -> String {
    match seconds {
        short if short < 1.0 => format!("{:.0} ms", short * 1000.0),
        some if some < 60.0 => format!("{some:.1} s"),
        long => format!("{:.0} min {:02.0} s", (long / 60.0).floor(), (long % 60.0).floor()),
    }
}

/// Formats a count with its noun.
pub fn pluralize(number: u64, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn format(kind: EventType, node: Option<&str>, data: Value) -> Option<String> {
        format_event(&EventMessage {
            event_type: kind.to_string(),
            node_id: node.map(str::to_string),
            channel_id: None,
            session_id: None,
            data,
            emitted_at: Default::default(),
            timestamp: None,
            seq: 1,
        })
    }

    #[test]
    fn formats_node_events() {
        let me = Some("me");
        let cases = [
            (EventType::NodeCreated, json!({"type": "pty"}), "me created (pty)"),
            (EventType::NodeReady, json!({}), "me is ready"),
            (
                EventType::NodeBlocked,
                json!({"kind": "trust", "choices": ["Yes", "No"]}),
                "me is blocked (trust): 1. Yes 2. No; 'answer me N'",
            ),
            (EventType::NodeBlocked, json!({"kind": "login"}), "me is blocked (login); 'why me' shows it"),
            (EventType::NodeStopped, json!({"reason": "exit code 3"}), "me stopped: exit code 3"),
            (EventType::NodeStopped, json!({"reason": "stopped"}), "me stopped"),
            (EventType::NodeRemoved, json!({}), "me was removed"),
        ];
        for (kind, data, expected) in cases {
            assert_eq!(format(kind, me, data).as_deref(), Some(expected));
        }
        assert_eq!(format(EventType::OutputChunk, me, json!({"chunk": "x"})), None);
        assert_eq!(format(EventType::NodeActivity, me, json!({})), None);
    }

    #[test]
    fn formats_run_and_step_events() {
        let of = |more: Value| {
            let mut data = json!({"run_id": "r-1", "graph_id": "review", "step_id": "ask", "node_id": "me"});
            data.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            data
        };
        let cases = [
            (EventType::GraphStarted, json!({"steps": 1}), "review started: 1 step, run r-1"),
            (
                EventType::GraphStarted,
                json!({"steps": 3, "resumed": true}),
                "review resumed: 3 steps, run r-1",
            ),
            (EventType::StepStarted, json!({"attempt": 1}), "review/ask started on me"),
            (
                EventType::StepStarted,
                json!({"attempt": 2, "queued": true}),
                "review/ask started, waiting for me, attempt 2",
            ),
            (
                EventType::StepCompleted,
                json!({"state": "completed", "duration_ms": 1234, "tokens_used": 7}),
                "review/ask completed after 1.2 s, 7 tokens",
            ),
            (EventType::StepCompleted, json!({"state": "skipped"}), "review/ask skipped"),
            (
                EventType::StepFailed,
                json!({"error": "exit 1", "retry_in_ms": 2000}),
                "review/ask failed: exit 1; retry in 2.0 s",
            ),
            (
                EventType::GateAsked,
                json!({"question": "Ship?", "choices": ["yes", "no"], "default": "no"}),
                "review/ask asks: Ship? [yes | no]; answer with 'gate CHOICE' [default: no]",
            ),
            (EventType::GateAnswered, json!({"choice": "yes", "by": "person"}), "review/ask: yes (person)"),
            (
                EventType::StepFailed,
                json!({"error": "cancelled", "error_type": "cancelled"}),
                "review/ask cancelled",
            ),
            (
                EventType::GraphCompleted,
                json!({"state": "failed", "duration_ms": 61000, "error": "ask failed"}),
                "review failed after 1 min 01 s: ask failed",
            ),
        ];
        for (kind, data, expected) in cases {
            assert_eq!(format(kind, None, of(data)).as_deref(), Some(expected));
        }
    }

    #[test]
    fn strips_line_breaks_and_escapes() {
        let line =
            format(EventType::Error, None, json!({"error": "a\n\x1b[2Jb".to_string() + &"x".repeat(500)}))
                .unwrap();
        assert!(line.starts_with("error: a [2Jb"), "{line}");
        assert!(line.chars().count() <= MAX_LENGTH + 1 && line.ends_with('…'));
    }
}
