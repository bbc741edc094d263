//! Events of runs as event messages.

use std::time::Duration;

use nerve_api::ErrorKind;
use nerve_api::value::StepState;
use nerve_node::command::{EngineEvent, EventKind, GateInfo, GraphEvent, GraphEventKind, RunStatus};
use nerve_types::TsNs;
use serde_json::{Map, Value, json};

use super::event;

fn gate() -> GateInfo {
    GateInfo {
        step_id: "ok".to_string(),
        question: "Ship?".to_string(),
        choices: vec!["yes".to_string(), "no".to_string()],
        default: Some("no".to_string()),
        deadline: Some(5.5),
    }
}

#[test]
fn run_events_name_their_run_and_graph() {
    let (step, node) = (|| "out/a".to_string(), || "me".to_string());
    let cases = [
        (
            GraphEventKind::Started { steps: 3, resumed: true },
            "GRAPH_STARTED",
            json!({ "steps": 3, "resumed": true }),
        ),
        (
            GraphEventKind::StepStarted { step: step(), node: node(), attempt: 2, queued: true },
            "STEP_STARTED",
            json!({ "step_id": "out/a", "node_id": "me", "attempt": 2, "queued": true }),
        ),
        (
            GraphEventKind::StepCompleted {
                step: step(),
                node: node(),
                how: StepState::Reused,
                ms: 12,
                tokens: 5,
            },
            "STEP_COMPLETED",
            json!({ "step_id": "out/a", "node_id": "me", "state": "reused", "duration_ms": 12, "tokens_used": 5 }),
        ),
        (
            GraphEventKind::StepFailed {
                step: step(),
                node: node(),
                error: "no".to_string(),
                error_type: ErrorKind::Timeout,
                retry_in: Some(Duration::from_millis(1500)),
            },
            "STEP_FAILED",
            json!({ "step_id": "out/a", "node_id": "me", "error": "no", "error_type": "timeout", "retry_in": 1.5 }),
        ),
        (
            GraphEventKind::GateAsked(gate()),
            "GATE_ASKED",
            json!({ "step_id": "ok", "question": "Ship?", "choices": ["yes", "no"], "default": "no", "deadline": 5.5 }),
        ),
        (
            GraphEventKind::GateAnswered { step: step(), choice: "yes".to_string(), by: "person" },
            "GATE_ANSWERED",
            json!({ "step_id": "out/a", "choice": "yes", "by": "person" }),
        ),
        (
            GraphEventKind::Ended {
                status: RunStatus::Failed,
                ms: 3,
                tokens: 9,
                error: Some("no".to_string()),
            },
            "GRAPH_COMPLETED",
            json!({ "status": "failed", "duration_ms": 3, "tokens_used": 9, "error": "no" }),
        ),
    ];
    for (kind, name, more) in cases {
        let kind = GraphEvent { run: "r1".to_string(), graph: "g".to_string(), kind };
        let kind = EventKind::Graph(Box::new(kind));
        let session = Some("work".to_string());
        let message = event(EngineEvent { seq: 4, at: TsNs(1_000_000_000), node: None, session, kind });
        assert_eq!((message.event_type.as_str(), message.session_id.as_deref()), (name, Some("work")));
        let node = name.starts_with("STEP").then_some("me");
        assert_eq!(message.node_id.as_deref(), node, "{name}");
        let mut data: Map<String, Value> =
            json!({ "run_id": "r1", "graph_id": "g" }).as_object().unwrap().clone();
        data.extend(more.as_object().unwrap().clone());
        assert_eq!(message.data, Value::Object(data));
    }
}
