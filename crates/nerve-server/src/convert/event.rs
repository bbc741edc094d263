//! From the engine's events to event messages.

use nerve_core::command::{EngineEvent, EventKind};
use nerve_core::session::DEFAULT;
use nerve_proto::{EventMessage, EventType};
use serde_json::{Value, json};

use super::{now, seconds};

/// An event as it goes to subscribers.
pub(crate) fn event(event: EngineEvent) -> EventMessage {
    let EngineEvent { seq, at, node, session, kind } = event;
    let session = node.as_ref().map(|_| session.unwrap_or_else(|| DEFAULT.to_string()));
    let (event_type, data) = kind_and_data(kind);
    EventMessage {
        event_type: event_type.as_str().to_string(),
        node_id: node,
        channel_id: None,
        session_id: session,
        data,
        timestamp: seconds(at),
        seq,
    }
}

/// Tells a subscriber that `dropped` events are missing here. `before` is the number of the event that follows, if one does.
pub(crate) fn events_dropped(dropped: u64, before: Option<u64>) -> EventMessage {
    EventMessage {
        event_type: EventType::EventsDropped.as_str().to_string(),
        node_id: None,
        channel_id: None,
        session_id: None,
        data: json!({ "dropped": dropped }),
        timestamp: now(),
        // A client that remembers the last number it saw, to go on from there, must not fall back.
        seq: before.map_or(0, |seq| seq.saturating_sub(1)),
    }
}

fn kind_and_data(kind: EventKind) -> (EventType, Value) {
    match kind {
        EventKind::NodeCreated { kind } => (EventType::NodeCreated, json!({ "type": kind })),
        EventKind::NodeReady { evidence } => (EventType::NodeReady, json!({ "evidence": evidence })),
        EventKind::NodeBusy { evidence } => (EventType::NodeBusy, json!({ "evidence": evidence })),
        EventKind::NodeBlocked { kind, choices, evidence } => {
            (EventType::NodeBlocked, json!({ "kind": kind, "choices": choices, "evidence": evidence }))
        }
        EventKind::NodeSuspended { until, evidence } => {
            (EventType::NodeSuspended, json!({ "until": until.map(seconds), "evidence": evidence }))
        }
        EventKind::NodeStopped { reason } => (EventType::NodeStopped, json!({ "reason": reason })),
        EventKind::OutputChunk { turn, chunk } => {
            (EventType::OutputChunk, json!({ "turn": turn, "chunk": chunk }))
        }
        EventKind::OutputParsed { turn, sections, is_complete } => (
            EventType::OutputParsed,
            json!({ "turn": turn, "sections": sections, "is_complete": is_complete }),
        ),
        EventKind::Activity(activity) => (EventType::NodeActivity, activity.to_json()),
        EventKind::Error { message } => (EventType::Error, json!({ "error": message })),
        EventKind::ServerShutdown => (EventType::ServerShutdown, json!({})),
    }
}
