//! Formats events as readable lines.

use nerve_api::{EventMessage, EventType};
use serde_json::Value;

use crate::out;

/// Maximum length of a line, in characters.
const MAX_LENGTH: usize = 160;

/// Formats an event. Returns `None` for events that are not shown, such as output chunks and activity.
pub(super) fn format_event(event: &EventMessage) -> Option<String> {
    let node = event.node_id.as_deref().unwrap_or("?");
    let data = Fields(&event.data);
    let text = match event.kind()? {
        EventType::NodeCreated => format!("{node} created ({})", data.text("type")),
        EventType::NodeReady => format!("{node} is ready"),
        EventType::NodeBusy => format!("{node} is busy"),
        EventType::NodeBlocked => blocked(node, &data),
        EventType::NodeSuspended => format!("{node} is suspended: {}", data.text("evidence")),
        EventType::NodeStopped => match data.text("reason") {
            "" | "stopped" => format!("{node} stopped"),
            reason => format!("{node} stopped: {reason}"),
        },
        EventType::GraphStarted => {
            let verb = if data.is("resumed") { "resumed" } else { "started" };
            let (steps, run) = (data.number("steps"), data.text("run_id"));
            format!("{} {verb}: {}, run {run}", data.text("graph_id"), pluralize(steps, "step"))
        }
        EventType::StepStarted => step_started(&data),
        EventType::StepCompleted => match data.text("state") {
            "completed" => format!("{} completed{}", step(&data), effort(&data)),
            state => format!("{} {state}", step(&data)),
        },
        EventType::StepFailed => {
            let retry =
                data.seconds("retry_in").map(|delay| format!("; retry in {delay}")).unwrap_or_default();
            format!("{} failed: {}{retry}", step(&data), data.text("error"))
        }
        EventType::GateAsked => gate_asked(&data),
        EventType::GateAnswered => format!("{}: {} ({})", step(&data), data.text("choice"), data.text("by")),
        EventType::GraphCompleted => {
            let why = Some(data.text("error")).filter(|error| !error.is_empty());
            let why = why.map(|error| format!(": {error}")).unwrap_or_default();
            format!("{} {}{}{why}", data.text("graph_id"), data.text("status"), effort(&data))
        }
        EventType::ResultReady => {
            format!("{node}: result {} is {}", data.text("result_id"), data.text("status"))
        }
        EventType::SnapshotTaken => format!("{node}: snapshot {} taken", data.number("id")),
        EventType::Error => format!("error: {}", data.text("error")),
        EventType::ServerShutdown => "the server is shutting down".to_string(),
        EventType::EventsDropped => {
            format!("{} dropped", pluralize(data.number("dropped"), "event"))
        }
        EventType::OutputChunk | EventType::OutputParsed | EventType::NodeActivity => {
            return None;
        }
    };
    Some(out::preview(&text, MAX_LENGTH))
}

/// Returns the id of the event's run.
pub(super) fn run_id(event: &EventMessage) -> Option<&str> {
    event.data.get("run_id")?.as_str()
}

fn blocked(node: &str, data: &Fields<'_>) -> String {
    let choices: Vec<String> =
        data.list("choices").enumerate().map(|(at, text)| format!("{}. {text}", at + 1)).collect();
    match choices.is_empty() {
        true => format!("{node} is blocked ({}); 'why {node}' shows it", data.text("kind")),
        false => {
            format!("{node} is blocked ({}): {}; 'answer {node} N'", data.text("kind"), choices.join("  "))
        }
    }
}

fn step_started(data: &Fields<'_>) -> String {
    let step = step(data);
    let by = match data.text("node_id") {
        "" => String::new(),
        node if data.is("queued") => format!(", waiting for {node}"),
        node => format!(" on {node}"),
    };
    match data.number("attempt") {
        0 | 1 => format!("{step} started{by}"),
        attempt => format!("{step} started{by}, attempt {attempt}"),
    }
}

fn gate_asked(data: &Fields<'_>) -> String {
    let choices: Vec<&str> = data.list("choices").collect();
    let offered = if choices.is_empty() { String::new() } else { format!(" [{}]", choices.join(" | ")) };
    let default = match data.text("default") {
        "" => String::new(),
        default => format!(" [default: {default}]"),
    };
    format!("{} asks: {}{offered}; answer with 'gate CHOICE'{default}", step(data), data.text("question"))
}

/// Returns `graph/step`, the prefix of paths into nested graphs.
fn step(data: &Fields<'_>) -> String {
    format!("{}/{}", data.text("graph_id"), data.text("step_id"))
}

/// Formats time and tokens.
fn effort(data: &Fields<'_>) -> String {
    let time = duration(data.number("duration_ms") as f64 / 1000.0);
    match data.number("tokens_used") {
        0 => format!(" after {time}"),
        tokens => format!(" after {time}, {}", pluralize(tokens, "token")),
    }
}

/// Formats seconds.
pub(super) fn duration(seconds: f64) -> String {
    match seconds {
        short if short < 1.0 => format!("{:.0} ms", short * 1000.0),
        some if some < 60.0 => format!("{some:.1} s"),
        long => format!("{:.0} min {:02.0} s", (long / 60.0).floor(), (long % 60.0).floor()),
    }
}

/// Formats a count with its noun.
pub(super) fn pluralize(number: u64, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

struct Fields<'a>(&'a Value);

impl<'a> Fields<'a> {
    fn text(&self, name: &str) -> &'a str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn number(&self, name: &str) -> u64 {
        self.0.get(name).and_then(Value::as_u64).unwrap_or_default()
    }

    fn seconds(&self, name: &str) -> Option<String> {
        self.0.get(name)?.as_f64().map(duration)
    }

    fn is(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or_default()
    }

    fn list(&self, name: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        self.0.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn format(kind: EventType, node: Option<&str>, data: Value) -> Option<String> {
        format_event(&EventMessage {
            event_type: kind.to_string(),
            node_id: node.map(str::to_string),
            channel_id: None,
            session_id: None,
            data,
            timestamp: 0.0,
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
                json!({"error": "exit 1", "retry_in": 2.0}),
                "review/ask failed: exit 1; retry in 2.0 s",
            ),
            (
                EventType::GateAsked,
                json!({"question": "Ship?", "choices": ["yes", "no"], "default": "no"}),
                "review/ask asks: Ship? [yes | no]; answer with 'gate CHOICE' [default: no]",
            ),
            (EventType::GateAnswered, json!({"choice": "yes", "by": "person"}), "review/ask: yes (person)"),
            (
                EventType::GraphCompleted,
                json!({"status": "failed", "duration_ms": 61000, "error": "ask failed"}),
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
