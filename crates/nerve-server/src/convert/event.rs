//! Converts the engine's events to event messages.

use nerve_api::{EventMessage, EventType, RequestId};
use nerve_graph::session::DEFAULT;
use nerve_node::command::{EngineEvent, EventKind, GraphEvent, GraphEventKind};
use nerve_types::TsNs;
use serde_json::{Value, json};

use super::now;

/// Converts an event for subscribers.
pub(crate) fn event(event: EngineEvent) -> EventMessage {
    let EngineEvent { seq, at, node, session, kind } = event;
    // Events of a node without a session belong to the default session.
    let session = session.or_else(|| node.as_ref().map(|_| DEFAULT.to_string()));
    let (event_type, data) = kind_and_data(kind);
    // An event of a step also belongs to the step's node.
    let node =
        node.or_else(|| Some(data.get("node_id")?.as_str()?.to_string()).filter(|node| !node.is_empty()));
    EventMessage {
        event_type: event_type.as_str().to_string(),
        node_id: node,
        channel_id: None,
        session_id: session,
        data,
        timestamp: at.seconds(),
        seq,
    }
}

/// Adds the id of the request to a chunk of its answer. The id is sent as text, and may equal an id of another connection.
pub(crate) fn of_request(mut event: EventMessage, request: &RequestId) -> EventMessage {
    if let Some(data) = event.data.as_object_mut() {
        data.insert("request_id".to_string(), Value::from(request.to_string()));
    }
    event
}

/// Creates the event for `dropped` lost events. `before`: sequence number of the following event, if there is one.
pub(crate) fn events_dropped(dropped: u64, before: Option<u64>) -> EventMessage {
    EventMessage {
        event_type: EventType::EventsDropped.as_str().to_string(),
        node_id: None,
        channel_id: None,
        session_id: None,
        data: json!({ "dropped": dropped }),
        timestamp: now(),
        // A client that resumes after the last number it saw must not go back.
        seq: before.map_or(0, |seq| seq.saturating_sub(1)),
    }
}

fn kind_and_data(kind: EventKind) -> (EventType, Value) {
    match kind {
        EventKind::NodeCreated { kind, forked_from: None } => {
            (EventType::NodeCreated, json!({ "type": kind }))
        }
        EventKind::NodeCreated { kind, forked_from: Some(from) } => {
            (EventType::NodeCreated, json!({ "type": kind, "forked_from": from }))
        }
        EventKind::NodeReady { evidence } => (EventType::NodeReady, json!({ "evidence": evidence })),
        EventKind::NodeBusy { evidence } => (EventType::NodeBusy, json!({ "evidence": evidence })),
        EventKind::NodeBlocked { kind, choices, evidence } => {
            (EventType::NodeBlocked, json!({ "kind": kind, "choices": choices, "evidence": evidence }))
        }
        EventKind::NodeSuspended { until, evidence } => {
            (EventType::NodeSuspended, json!({ "until": until.map(TsNs::seconds), "evidence": evidence }))
        }
        EventKind::NodeStopped { reason } => (EventType::NodeStopped, json!({ "reason": reason })),
        EventKind::OutputChunk { turn, chunk, .. } => {
            (EventType::OutputChunk, json!({ "turn": turn, "chunk": chunk }))
        }
        EventKind::OutputParsed { turn, sections, is_complete } => (
            EventType::OutputParsed,
            json!({ "turn": turn, "sections": sections, "is_complete": is_complete }),
        ),
        EventKind::Activity(activity) => (EventType::NodeActivity, activity.to_json()),
        EventKind::Graph(event) => graph_event(*event),
        EventKind::SnapshotTaken { id, session, anchor, label, has_files } => (
            EventType::SnapshotTaken,
            json!({
                "id": id, "session": session, "anchor_byte": anchor, "label": label, "has_files": has_files,
            }),
        ),
        EventKind::ResultReady { result, success, status } => {
            (EventType::ResultReady, json!({ "result_id": result, "success": success, "status": status }))
        }
        EventKind::Error { message } => (EventType::Error, json!({ "error": message })),
        EventKind::ServerShutdown => (EventType::ServerShutdown, json!({})),
    }
}

fn graph_event(event: GraphEvent) -> (EventType, Value) {
    let GraphEvent { run, graph, kind } = event;
    let (event_type, more) = match kind {
        GraphEventKind::Started { steps, resumed } => {
            (EventType::GraphStarted, json!({ "steps": steps, "resumed": resumed }))
        }
        GraphEventKind::StepStarted { step, node, attempt, queued } => (
            EventType::StepStarted,
            json!({ "step_id": step, "node_id": node, "attempt": attempt, "queued": queued }),
        ),
        GraphEventKind::StepCompleted { step, node, how, ms, tokens } => (
            EventType::StepCompleted,
            json!({ "step_id": step, "node_id": node, "state": how, "duration_ms": ms, "tokens_used": tokens }),
        ),
        GraphEventKind::StepFailed { step, node, error, error_type, retry_in } => (
            EventType::StepFailed,
            json!({
                "step_id": step, "node_id": node, "error": error, "error_type": error_type,
                "retry_in": retry_in.map(|delay| delay.as_secs_f64()),
            }),
        ),
        GraphEventKind::GateAsked(gate) => {
            (EventType::GateAsked, serde_json::to_value(gate).unwrap_or_default())
        }
        GraphEventKind::GateAnswered { step, choice, by } => {
            (EventType::GateAnswered, json!({ "step_id": step, "choice": choice, "by": by }))
        }
        GraphEventKind::Ended { status, ms, tokens, error } => (
            EventType::GraphCompleted,
            json!({ "status": status.as_str(), "duration_ms": ms, "tokens_used": tokens, "error": error }),
        ),
    };
    let mut data = json!({ "run_id": run, "graph_id": graph });
    if let (Value::Object(data), Value::Object(more)) = (&mut data, more) {
        data.extend(more);
    }
    (event_type, data)
}
