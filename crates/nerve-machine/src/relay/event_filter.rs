//! The events of a machine that are relayed, and those that a filter selects.

use nerve_api::request::Subscribe;
use nerve_api::{ErrorKind, EventMessage, EventType};

use crate::error::MachineError;

/// Events that are relayed in addition to changes of states.
const MORE_EVENTS: [EventType; 2] = [EventType::NodeActivity, EventType::OutputParsed];

/// Checks that all types of a filter are relayed.
///
/// # Errors
/// `invalid_request_error`; the hint lists the types that are relayed.
pub fn check_filter(filter: &Subscribe) -> Result<(), MachineError> {
    let relayed = relayed_types();
    let is_relayed = |name: &String| name == EventType::EventsDropped.as_str() || relayed.contains(name);
    match filter.types.iter().flatten().find(|name| !is_relayed(name)) {
        None => Ok(()),
        Some(name) => {
            let message = format!("events of type {name:?} are not relayed from other machines");
            let hint = format!("types: {}", relayed.join(", "));
            Err(MachineError::new(ErrorKind::InvalidRequest, message).hint(hint))
        }
    }
}

/// Returns the types of events that are relayed, in addition to notices about lost events.
pub(super) fn relayed_types() -> Vec<String> {
    EventType::STATE_CHANGES.iter().chain(&MORE_EVENTS).map(ToString::to_string).collect()
}

/// Returns true if a filter selects an event. A notice about lost events concerns everyone.
pub(super) fn is_selected(filter: &Subscribe, event: &EventMessage) -> bool {
    let is = |wanted: &Option<String>, actual: &Option<String>| wanted.is_none() || wanted == actual;
    let has_type = filter.types.as_ref().is_none_or(|types| types.contains(&event.event_type));
    let matches =
        has_type && is(&filter.node_id, &event.node_id) && is(&filter.session_id, &event.session_id);
    matches || event.kind() == Some(EventType::EventsDropped)
}

#[cfg(test)]
mod tests {
    use nerve_types::activity::TsMs;
    use serde_json::json;

    use super::*;

    #[test]
    fn only_relayed_types_are_accepted() {
        let filter = |types: &[&str]| Subscribe {
            types: Some(types.iter().map(ToString::to_string).collect()),
            ..Subscribe::default()
        };
        assert_eq!(check_filter(&Subscribe::default()), Ok(()));
        assert_eq!(check_filter(&filter(&["NODE_READY", "NODE_ACTIVITY"])), Ok(()));
        for refused in ["STEP_STARTED", "NODE_REDAY"] {
            let error = check_filter(&filter(&["NODE_READY", refused])).unwrap_err();
            assert_eq!(error.kind, ErrorKind::InvalidRequest);
            assert!(error.hint.unwrap().contains("NODE_READY"));
        }
    }

    #[test]
    fn filter_selects_by_node_session_and_type() {
        let event = |event_type: &str, node: Option<&str>| EventMessage {
            event_type: event_type.to_string(),
            node_id: node.map(str::to_string),
            channel_id: None,
            session_id: Some("night".to_string()),
            data: json!({}),
            emitted_at: TsMs::default(),
            timestamp: None,
            seq: 1,
        };
        let filter = Subscribe {
            node_id: Some("me".to_string()),
            session_id: Some("night".to_string()),
            types: Some(vec!["NODE_READY".to_string()]),
            ..Subscribe::default()
        };
        assert!(is_selected(&filter, &event("NODE_READY", Some("me"))));
        assert!(is_selected(&Subscribe::default(), &event("NODE_READY", Some("me"))));
        assert!(!is_selected(&filter, &event("NODE_READY", Some("other"))));
        assert!(!is_selected(&filter, &event("NODE_BUSY", Some("me"))));
        let day = Subscribe { session_id: Some("day".to_string()), ..Subscribe::default() };
        assert!(!is_selected(&day, &event("NODE_READY", Some("me"))));
        assert!(is_selected(&filter, &event("EVENTS_DROPPED", None)));
    }
}
