//! Derives notifications from events.

use std::collections::HashMap;

use nerve_api::value::{ResultStatus, RunStatus};
use nerve_api::{EventKind, EventMessage};
use nerve_repl::event_line;
use nerve_tui::settings::Occasion;

/// Something to notify about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Occurrence {
    pub(super) occasion: Occasion,
    /// One sentence.
    pub(super) text: String,
}

/// The nodes seen so far. Each occurrence is reported once, also if its event is repeated.
#[derive(Debug)]
pub(super) struct Occurrences {
    /// Seconds that a turn must take for its end to be reported.
    min_turn: f64,
    /// By session and node.
    nodes: HashMap<(Option<String>, String), NodeTrack>,
}

#[derive(Debug, Default)]
struct NodeTrack {
    /// Time at which its work began, in seconds since 1970.
    busy_since: Option<f64>,
    /// What was reported about the current state.
    reported: Option<Occurrence>,
}

impl Occurrences {
    pub(super) fn new(min_turn: u64) -> Occurrences {
        Occurrences { min_turn: min_turn as f64, nodes: HashMap::new() }
    }

    /// Takes the next event. Returns what it shows for the first time.
    pub(super) fn observe(&mut self, event: &EventMessage) -> Option<Occurrence> {
        let details = event.details()?;
        let text = event_line::format_event(event).unwrap_or_default();
        let occurrence = |occasion| Some(Occurrence { occasion, text: text.clone() });
        match &details {
            EventKind::GateAsked { .. } => return occurrence(Occasion::Blocked),
            EventKind::ResultReady { status: ResultStatus::Cancelled, .. } => return None,
            EventKind::ResultReady { success: false, .. } => return occurrence(Occasion::Failed),
            EventKind::GraphCompleted { status, duration_ms, .. } => {
                return match status {
                    RunStatus::Completed if *duration_ms as f64 / 1000.0 >= self.min_turn => {
                        occurrence(Occasion::Done)
                    }
                    RunStatus::Failed => occurrence(Occasion::Failed),
                    _ => None,
                };
            }
            _ => {}
        }
        let key = (event.session_id.clone(), event.node_id.clone()?);
        let track = self.nodes.entry(key.clone()).or_default();
        let occurrence = match details {
            EventKind::NodeBusy { .. } => {
                track.busy_since.get_or_insert(event.timestamp);
                // The dialog was answered: the next one is new even if it looks the same.
                track.reported = None;
                return None;
            }
            EventKind::NodeBlocked { .. } => occurrence(Occasion::Blocked)?,
            EventKind::NodeSuspended { .. } => occurrence(Occasion::Suspended)?,
            EventKind::NodeReady { .. } => {
                let busy = track.busy_since.take().map(|since| event.timestamp - since);
                track.reported = None;
                let seconds = busy.filter(|seconds| *seconds >= self.min_turn)?;
                let text = format!("{} is done after {}", key.1, event_line::duration(seconds));
                return Some(Occurrence { occasion: Occasion::Done, text });
            }
            EventKind::NodeStopped { reason } => {
                self.nodes.remove(&key);
                // A node that somebody stopped has this reason or none.
                let is_failure = !matches!(reason.as_str(), "" | "stopped" | "exit code 0");
                return is_failure.then_some(Occurrence { occasion: Occasion::Failed, text });
            }
            _ => return None,
        };
        if track.reported.as_ref() == Some(&occurrence) {
            return None;
        }
        track.reported = Some(occurrence.clone());
        Some(occurrence)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn observe(occurrences: &mut Occurrences, at: f64, event_type: &str, data: Value) -> Option<Occasion> {
        let event = json!({
            "type": "event", "event_type": event_type, "node_id": "me", "session_id": "default",
            "data": data, "timestamp": at, "seq": 1,
        });
        occurrences.observe(&serde_json::from_value(event).unwrap()).map(|occurrence| occurrence.occasion)
    }

    #[test]
    fn only_long_turns_are_done() {
        let mut all = Occurrences::new(30);
        assert_eq!(observe(&mut all, 0.0, "NODE_READY", json!({})), None);
        assert_eq!(observe(&mut all, 10.0, "NODE_BUSY", json!({})), None);
        assert_eq!(observe(&mut all, 39.0, "NODE_READY", json!({})), None);
        assert_eq!(observe(&mut all, 40.0, "NODE_BUSY", json!({})), None);
        assert_eq!(observe(&mut all, 50.0, "NODE_BUSY", json!({})), None);
        assert_eq!(observe(&mut all, 70.0, "NODE_READY", json!({})), Some(Occasion::Done));
        assert_eq!(observe(&mut all, 99.0, "NODE_READY", json!({})), None);
    }

    #[test]
    fn dialog_is_reported_once_until_it_was_answered() {
        let mut all = Occurrences::new(30);
        let dialog = || json!({ "kind": "permission", "choices": ["Yes", "No"] });
        assert_eq!(observe(&mut all, 1.0, "NODE_BLOCKED", dialog()), Some(Occasion::Blocked));
        assert_eq!(observe(&mut all, 2.0, "NODE_BLOCKED", dialog()), None);
        let other = json!({ "kind": "permission", "choices": ["Allow"] });
        assert_eq!(observe(&mut all, 3.0, "NODE_BLOCKED", other), Some(Occasion::Blocked));
        observe(&mut all, 4.0, "NODE_BUSY", json!({}));
        assert_eq!(observe(&mut all, 5.0, "NODE_BLOCKED", dialog()), Some(Occasion::Blocked));
    }

    #[test]
    fn failures_are_reported_but_no_intended_stop() {
        let mut all = Occurrences::new(30);
        assert_eq!(observe(&mut all, 1.0, "NODE_STOPPED", json!({ "reason": "stopped" })), None);
        let reason = json!({ "reason": "exit code 1" });
        assert_eq!(observe(&mut all, 1.0, "NODE_STOPPED", reason), Some(Occasion::Failed));
        let result = json!({ "result_id": "1", "success": false, "status": "failed" });
        assert_eq!(observe(&mut all, 1.0, "RESULT_READY", result), Some(Occasion::Failed));
        let result = json!({ "result_id": "2", "success": false, "status": "cancelled" });
        assert_eq!(observe(&mut all, 1.0, "RESULT_READY", result), None);
        assert_eq!(observe(&mut all, 1.0, "NODE_SUSPENDED", json!({})), Some(Occasion::Suspended));
    }
}
