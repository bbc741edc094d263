//! Events as JSON.

use nerve_api::reply::GateInfo;
use nerve_api::value::{AnswerSource, BlockKind, ResultStatus, RunStatus, StepState, StopCause};
use nerve_api::{ErrorKind, Event, EventKind, RunIds};
use nerve_types::activity::{Activity, Status, TsMs};
use serde_json::{Map, Value, json};

/// Encodes an event and checks that it decodes again.
fn encode(kind: EventKind) -> Value {
    let event = Event {
        kind,
        node_id: Some("n".into()),
        session_id: Some("work".into()),
        emitted_at: TsMs(1500),
        seq: 4,
    };
    let json = serde_json::to_value(&event).unwrap();
    assert_eq!(serde_json::from_value::<Event>(json.clone()).unwrap(), event);
    json
}

fn gate() -> GateInfo {
    GateInfo {
        step_id: "ok".to_string(),
        question: "Ship?".to_string(),
        choices: vec!["yes".to_string(), "no".to_string()],
        default: Some("no".to_string()),
        deadline_at: Some(TsMs(5500)),
    }
}

#[test]
fn event_has_type_data_node_session_time_and_number() {
    let line = json!({
        "type": "event", "event_type": "NODE_READY", "node_id": "n", "session_id": "work", "data": { "evidence": "e" },
        "emitted_at": "1970-01-01T00:00:01.500Z", "seq": 4,
    });
    assert_eq!(encode(EventKind::NodeReady { evidence: "e".to_string() }), line);
    let kind = EventKind::ServerShutdown { keep_nodes: true };
    let event = Event { kind, node_id: None, session_id: None, emitted_at: TsMs(1500), seq: 4 };
    let line = json!({
        "type": "event", "event_type": "SERVER_SHUTDOWN", "node_id": null, "data": { "keep_nodes": true },
        "emitted_at": "1970-01-01T00:00:01.500Z", "seq": 4,
    });
    assert_eq!(serde_json::to_value(&event).unwrap(), line);
}

#[test]
fn node_events_have_wire_format() {
    let evidence = || "e".to_string();
    let cases = [
        (
            EventKind::NodeCreated { kind: "pty".to_string(), forked_from: None },
            "NODE_CREATED",
            json!({ "type": "pty" }),
        ),
        (
            EventKind::NodeCreated { kind: "pty".to_string(), forked_from: Some("a".to_string()) },
            "NODE_CREATED",
            json!({ "type": "pty", "forked_from": "a" }),
        ),
        (EventKind::NodeBusy { evidence: evidence() }, "NODE_BUSY", json!({ "evidence": "e" })),
        (
            EventKind::NodeBlocked {
                kind: BlockKind::Trust,
                choices: vec!["Yes".to_string()],
                evidence: evidence(),
            },
            "NODE_BLOCKED",
            json!({ "kind": "trust", "choices": ["Yes"], "evidence": "e" }),
        ),
        (
            EventKind::NodeSuspended { until_at: None, evidence: evidence() },
            "NODE_SUSPENDED",
            json!({ "until_at": null, "evidence": "e" }),
        ),
        (
            EventKind::NodeStopped { reason: "exit code 3".to_string(), cause: StopCause::Failed },
            "NODE_STOPPED",
            json!({ "reason": "exit code 3", "cause": "failed" }),
        ),
        (EventKind::NodeRemoved {}, "NODE_REMOVED", json!({})),
        (
            EventKind::OutputChunk { turn: 2, chunk: "x".to_string(), request_id: None, tag: None },
            "OUTPUT_CHUNK",
            json!({ "turn": 2, "chunk": "x" }),
        ),
        (
            EventKind::OutputParsed { turn: 2, sections: 3, is_complete: true },
            "OUTPUT_PARSED",
            json!({ "turn": 2, "sections": 3, "is_complete": true }),
        ),
        (
            EventKind::NodeActivity(Box::new(Activity::Status { status: Status::Running, at: TsMs(0) })),
            "NODE_ACTIVITY",
            json!({ "type": "status", "status": "running", "ts": "1970-01-01T00:00:00.000Z" }),
        ),
        (
            EventKind::SnapshotTaken {
                snapshot_id: 1,
                recording_id: "s".to_string(),
                anchor_byte: 9,
                label: None,
                has_files: false,
            },
            "SNAPSHOT_TAKEN",
            json!({ "snapshot_id": 1, "recording_id": "s", "anchor_byte": 9, "label": null, "has_files": false }),
        ),
        (
            EventKind::BranchProgress { step: "x".to_string(), request_id: None, tag: None },
            "BRANCH_PROGRESS",
            json!({ "step": "x" }),
        ),
        (
            EventKind::ResultReady {
                result_id: "r".to_string(),
                success: false,
                status: ResultStatus::Failed,
            },
            "RESULT_READY",
            json!({ "result_id": "r", "success": false, "state": "failed" }),
        ),
        (
            EventKind::machine_failure("no".to_string()),
            "ERROR",
            json!({ "error": "no", "error_type": "internal_error" }),
        ),
        (EventKind::EventsDropped { dropped: Some(3) }, "EVENTS_DROPPED", json!({ "dropped": 3 })),
    ];
    for (kind, name, data) in cases {
        let event = encode(kind);
        assert_eq!((&event["event_type"], &event["data"]), (&json!(name), &data));
    }
}

#[test]
fn tag_stays_in_the_server() {
    let chunk = |tag| EventKind::OutputChunk {
        turn: 1,
        chunk: "x".to_string(),
        request_id: Some("7".to_string()),
        tag,
    };
    let json = serde_json::to_value(chunk(Some(5))).unwrap();
    assert_eq!(json["data"], json!({ "turn": 1, "chunk": "x", "request_id": "7" }));
    assert_eq!(serde_json::from_value::<EventKind>(json).unwrap(), chunk(None));
}

#[test]
fn run_events_name_their_run_and_graph() {
    let run = || RunIds { run_id: "r1".to_string(), graph_id: "g".to_string() };
    let (step_id, node_id) = (|| "out/a".to_string(), || "me".to_string());
    let cases = [
        (
            EventKind::GraphStarted { run: run(), steps: 3, resumed: true },
            "GRAPH_STARTED",
            json!({ "steps": 3, "resumed": true }),
        ),
        (
            EventKind::StepStarted {
                run: run(),
                step_id: step_id(),
                node_id: node_id(),
                attempt: 2,
                queued: true,
            },
            "STEP_STARTED",
            json!({ "step_id": "out/a", "node_id": "me", "attempt": 2, "queued": true }),
        ),
        (
            EventKind::StepCompleted {
                run: run(),
                step_id: step_id(),
                node_id: node_id(),
                state: StepState::Reused,
                duration_ms: 12,
                tokens_used: 5,
            },
            "STEP_COMPLETED",
            json!({ "step_id": "out/a", "node_id": "me", "state": "reused", "duration_ms": 12, "tokens_used": 5 }),
        ),
        (
            EventKind::StepFailed {
                run: run(),
                step_id: step_id(),
                node_id: node_id(),
                error: "no".to_string(),
                error_type: ErrorKind::Timeout,
                hint: Some("more time".to_string()),
                retry_in_ms: Some(1500),
            },
            "STEP_FAILED",
            json!({ "step_id": "out/a", "node_id": "me", "error": "no", "error_type": "timeout", "hint": "more time", "retry_in_ms": 1500 }),
        ),
        (
            EventKind::GateAsked { run: run(), gate: gate() },
            "GATE_ASKED",
            json!({ "step_id": "ok", "question": "Ship?", "choices": ["yes", "no"], "default": "no", "deadline_at": "1970-01-01T00:00:05.500Z" }),
        ),
        (
            EventKind::GateAnswered {
                run: run(),
                step_id: step_id(),
                choice: "yes".to_string(),
                by: AnswerSource::Person,
            },
            "GATE_ANSWERED",
            json!({ "step_id": "out/a", "choice": "yes", "by": "person" }),
        ),
        (
            EventKind::GraphCompleted {
                run: run(),
                status: RunStatus::Failed,
                duration_ms: 3,
                tokens_used: 9,
                error: Some("no".to_string()),
                error_type: Some(ErrorKind::Timeout),
                hint: None,
            },
            "GRAPH_COMPLETED",
            json!({ "state": "failed", "duration_ms": 3, "tokens_used": 9, "error": "no", "error_type": "timeout" }),
        ),
    ];
    for (kind, name, more) in cases {
        assert_eq!(kind.step_node(), name.starts_with("STEP").then_some("me"), "{name}");
        assert_eq!(kind.run(), Some(&run()));
        let event = encode(kind);
        let mut data: Map<String, Value> =
            json!({ "run_id": "r1", "graph_id": "g" }).as_object().unwrap().clone();
        data.extend(more.as_object().unwrap().clone());
        assert_eq!((&event["event_type"], &event["data"]), (&json!(name), &Value::Object(data)));
    }
}
