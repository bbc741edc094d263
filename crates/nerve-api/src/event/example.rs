//! Examples of events, for the OpenAPI document.

use serde_json::{Value, json};

use super::EventType;

impl EventType {
    /// Returns an example of the event.
    pub fn example(self) -> Value {
        let data = match self {
            EventType::NodeCreated => json!({ "type": "claude", "forked_from": "main" }),
            EventType::NodeReady => json!({ "evidence": "screen: the prompt is empty" }),
            EventType::NodeBusy => json!({ "evidence": "title: working" }),
            EventType::NodeBlocked => {
                json!({ "kind": "trust", "choices": ["Yes", "No"], "evidence": "screen: Do you trust the files?" })
            }
            EventType::NodeSuspended => {
                json!({ "until_at": "2025-11-30T13:00:00.000Z", "evidence": "screen: limit reached, resets at 1pm" })
            }
            EventType::NodeStopped => json!({ "reason": "exit code 0", "cause": "exited" }),
            EventType::OutputChunk => json!({ "turn": 1, "chunk": "main.rs parses ", "request_id": "7" }),
            EventType::OutputParsed => json!({ "turn": 1, "sections": 2, "is_complete": true }),
            EventType::NodeActivity => json!({
                "type": "tool_start", "name": "Bash", "args": { "command": "ls" }, "tool_execution_id": "toolu_1",
                "status": "running", "ts": "2025-11-30T10:53:20.100Z",
            }),
            EventType::GraphStarted => json!({ "steps": 2, "resumed": false }),
            EventType::StepStarted => {
                json!({ "step_id": "read", "node_id": "me", "attempt": 1, "queued": false })
            }
            EventType::StepCompleted => json!({
                "step_id": "read", "node_id": "me", "state": "completed", "duration_ms": 4200, "tokens_used": 1209,
            }),
            EventType::StepFailed => json!({
                "step_id": "read", "node_id": "me", "error": "no answer within 60s", "error_type": "timeout", "retry_in_ms": 1500,
            }),
            EventType::GateAsked => json!({
                "step_id": "ok", "question": "Ship it?", "choices": ["yes", "no"], "default": "no", "deadline_at": "2025-11-30T11:53:20.000Z",
            }),
            EventType::GateAnswered => json!({ "step_id": "ok", "choice": "yes", "by": "person" }),
            EventType::GraphCompleted => {
                json!({ "state": "completed", "duration_ms": 42000, "tokens_used": 1209, "error": null })
            }
            EventType::SnapshotTaken => json!({
                "snapshot_id": 3, "recording_id": "0197a1b2-0000-7000-8000-000000000001", "anchor_byte": 48213,
                "label": "before the refactoring", "has_files": true,
            }),
            EventType::BranchProgress => json!({ "step": "restoring the files", "request_id": "7" }),
            EventType::ResultReady => json!({ "result_id": "r-17", "success": true, "state": "done" }),
            EventType::Error => json!({
                "error": "the history of node 'me' cannot be written: disk full", "error_type": "internal_error",
            }),
            EventType::NodeQueueChanged | EventType::NodeRemoved => json!({}),
            EventType::ServerShutdown => json!({ "keep_nodes": true }),
            EventType::EventsDropped => json!({ "dropped": 12 }),
        };
        self.event(data)
    }

    /// Returns examples with their names: that of the type, and for activity one of usage.
    pub fn examples(self) -> Vec<(&'static str, Value)> {
        let mut examples = vec![(self.as_str(), self.example())];
        if self == EventType::NodeActivity {
            let usage = json!({
                "type": "usage", "input": 1000, "output": 42, "cache_read": 300, "cache_write": 20,
                "model": "claude-opus-5-5", "ts": "2025-11-30T10:53:21.400Z",
            });
            examples.push(("NODE_ACTIVITY_USAGE", self.event(usage)));
        }
        examples
    }

    /// Returns an event with this data.
    fn event(self, mut data: Value) -> Value {
        let name = self.as_str();
        if name.starts_with("GRAPH_") || name.starts_with("STEP_") || name.starts_with("GATE_") {
            data["run_id"] = Value::from("r-1");
            data["graph_id"] = Value::from("review");
        }
        let node = name.starts_with("NODE_") || name.starts_with("OUTPUT_") || name.starts_with("STEP_");
        let mut event = json!({
            "type": "event", "event_type": name, "node_id": node.then_some("me"), "data": data, "emitted_at": "2025-11-30T10:53:20.100Z", "seq": 42,
        });
        if self != EventType::ServerShutdown && self != EventType::EventsDropped {
            event["session_id"] = Value::from("default");
        }
        event
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, EventMessage};

    #[test]
    fn every_example_decodes_without_loss() {
        for &event_type in EventType::ALL {
            for (name, example) in event_type.examples() {
                let event: Event = serde_json::from_value(example.clone()).unwrap();
                assert_eq!(serde_json::to_value(&event).unwrap(), example, "{name}");
                let message: EventMessage = serde_json::from_value(example).unwrap();
                assert_eq!(message.details(), Some(event.kind), "{name}");
            }
        }
    }

    #[test]
    fn unknown_activity_has_no_details() {
        let mut example = EventType::NodeActivity.example();
        example["data"]["type"] = "novelty".into();
        let message: EventMessage = serde_json::from_value(example).unwrap();
        assert_eq!((message.kind(), message.details()), (Some(EventType::NodeActivity), None));
    }
}
