//! Finds what dropped events have reported, from the state of the server.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use nerve_api::reply::{GateInfo, NodeInfo, NodeMetadata, ResultInfo, RunInfo};
use nerve_api::value::{NodeState, ResultStatus, RunStatus, StopCause};
use nerve_api::{EventMessage, EventType};
use nerve_types::ExitStatus;
use nerve_types::activity::TsMs;
use serde_json::{Value, json};

use super::{DialogKey, Notification, NotificationTracker, SessionNode, limit_title};

/// Maximum time from the end of a node, run or result to its event, in milliseconds. A result is saved in between.
const PUBLISH_DELAY: u64 = 10_000;

/// The recent end of a node, run or result.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownEnd {
    /// Time of the end. If its event was observed, the time of the event.
    at: TsMs,
    is_observed: bool,
}

/// The state of a server after events were dropped.
#[derive(Debug, Clone, Default)]
pub struct NotificationState {
    /// All nodes, also stopped ones.
    pub nodes: Vec<NodeInfo>,
    /// The choices of blocked nodes, by session and node.
    pub choices: HashMap<(String, String), Vec<String>>,
    /// Runs, without their steps.
    pub runs: Vec<RunInfo>,
    /// Results of asynchronous executions.
    pub results: Vec<ResultInfo>,
}

impl NotificationState {
    /// Returns the nodes that show a dialog, as session and node.
    pub fn blocked_nodes(&self) -> Vec<(String, String)> {
        let blocked = self.nodes.iter().filter(|node| node.state == NodeState::Blocked);
        blocked.map(|node| (node.metadata.session_id.clone(), node.node_id.clone())).collect()
    }
}

impl NotificationTracker {
    /// Takes the state of the server instead of an event about dropped events. Returns the notifications of what has happened since the
    /// last event, each with an event that reports it. Observed later, the server's own event about it causes no second notification.
    pub fn catch_up(
        &mut self,
        state: &NotificationState,
        received: Instant,
    ) -> Vec<(EventMessage, Notification)> {
        let missing = self.missing_events(state);
        self.track_busy_nodes(state, received);
        let known = self.open.clone();
        let mut notifications = Vec::new();
        for event in missing {
            if let Some(identity) = identity(&event) {
                self.ends.insert(identity, KnownEnd { at: event.emitted_at, is_observed: false });
            }
            if let Some(notification) = self.take_event(&event, received) {
                notifications.push((event, notification));
            }
        }
        // The server's own events about the new dialogs may follow.
        let new = self.open.iter().filter(|(key, dialog)| known.get(*key) != Some(*dialog));
        self.before_restart.extend(new.map(|(key, dialog)| (key.clone(), dialog.clone())));
        let last = self.observed.map(|(_, last)| last).unwrap_or_default();
        let entered = |node: &NodeInfo| Some((key_of(node), last..=node.progress.state_changed_at?));
        self.superseded = state.nodes.iter().filter_map(entered).collect();
        notifications
    }

    /// Returns true for an event about a state of a node that precedes the one read after dropped events. The event was queued
    /// behind the dropped ones.
    pub(super) fn is_superseded(&self, event: &EventMessage) -> bool {
        let is_state = matches!(
            event.kind(),
            Some(
                EventType::NodeBlocked
                    | EventType::NodeSuspended
                    | EventType::NodeBusy
                    | EventType::NodeReady
                    | EventType::NodeStopped
                    | EventType::NodeRemoved
            )
        );
        let key = event.node_id.clone().filter(|_| is_state).map(|node| (event.session_id.clone(), node));
        let times = key.and_then(|key| self.superseded.get(&key));
        times.is_some_and(|times| times.contains(&event.emitted_at))
    }

    /// Returns events that report what the observed ones do not.
    fn missing_events(&self, state: &NotificationState) -> Vec<EventMessage> {
        let nodes = state.nodes.iter().filter_map(|node| self.missing_node_event(node, state));
        let gates = state.runs.iter().flat_map(|run| run.gates.iter().map(move |gate| (run, gate)));
        let is_new = |(run, gate): &(&RunInfo, &GateInfo)| {
            !self.open.contains_key(&DialogKey::Gate(run.run_id.clone(), gate.step_id.clone()))
        };
        let gates = gates.filter(is_new).filter_map(|(run, gate)| gate_event(run, gate));
        let runs = state.runs.iter().filter_map(run_event);
        let results = state.results.iter().filter_map(result_event);
        nodes.chain(gates).chain(runs).chain(results).filter(|event| self.is_missing(event)).collect()
    }

    /// Returns false for an end that is known, or that precedes the dropped events. Without an observed event, no end is known to
    /// be new.
    fn is_missing(&self, event: &EventMessage) -> bool {
        let Some(identity) = identity(event) else { return true };
        let at = event.emitted_at;
        let is_recent = self
            .observed
            .is_some_and(|(first, last)| at >= first && at.0.saturating_add(PUBLISH_DELAY) >= last.0);
        is_recent && self.ends.get(&identity).is_none_or(|end| at > end.at)
    }

    /// Records the end that an event reports, if any. Returns true if the state of the server has shown it, so that it was notified.
    pub(super) fn record_end(&mut self, event: &EventMessage) -> bool {
        let Some(identity) = identity(event) else { return false };
        let at = event.emitted_at;
        // The events of older ends have arrived or were dropped, and their time excludes them from later states.
        self.ends.retain(|_, end| end.at.0.saturating_add(PUBLISH_DELAY) >= at.0);
        let known = self.ends.get(&identity).copied();
        if known.is_none_or(|end| at >= end.at) {
            self.ends.insert(identity, KnownEnd { at, is_observed: true });
        }
        known.is_some_and(|end| !end.is_observed && at >= end.at)
    }

    fn missing_node_event(&self, node: &NodeInfo, state: &NotificationState) -> Option<EventMessage> {
        let NodeInfo { node_id, metadata, progress, .. } = node;
        let (event_type, data) = match node.state {
            NodeState::Blocked => {
                let (kind, id) = (metadata.text("blocked"), (metadata.session_id.clone(), node_id.clone()));
                // Without an entry, the dialog has closed meanwhile.
                let choices = state.choices.get(&id)?;
                let is_known = self.has_open_dialog(&metadata.session_id, node_id, kind, choices);
                (!is_known).then(|| (EventType::NodeBlocked, json!({ "kind": kind, "choices": choices })))?
            }
            NodeState::Suspended => {
                let until = TsMs::try_from(metadata.text("until_at").to_string()).ok();
                let is_known = self.has_open_dialog(&metadata.session_id, node_id, &limit_title(until), &[]);
                (!is_known).then(|| (EventType::NodeSuspended, json!({ "until_at": until })))?
            }
            NodeState::Ready => (EventType::NodeReady, json!({})),
            NodeState::Stopped => (
                EventType::NodeStopped,
                json!({ "reason": metadata.text("reason"), "cause": stop_cause(metadata) }),
            ),
            _ => return None,
        };
        let at = progress.state_changed_at.unwrap_or_default();
        event(event_type, Some(node_id), &metadata.session_id, at, data)
    }

    /// Tracks the nodes that work now. Of the others, only the turns that the tracker knows have ended.
    fn track_busy_nodes(&mut self, state: &NotificationState, received: Instant) {
        let listed: HashSet<SessionNode> = state.nodes.iter().map(key_of).collect();
        self.busy_since.retain(|node, _| listed.contains(node));
        self.open.retain(|owner, _| !matches!(owner, DialogKey::Node(node) if !listed.contains(node)));
        let newest = state.nodes.iter().filter_map(|node| node.progress.state_changed_at).max();
        for node in state.nodes.iter().filter(|node| node.state == NodeState::Busy) {
            let key = key_of(node);
            let owner = DialogKey::Node(key.clone());
            self.open.remove(&owner);
            // The events about a dialog of an earlier state were dropped, too.
            if self.superseded.contains_key(&key) {
                self.before_restart.remove(&owner);
            }
            // By the server's clock; its newest time is about now.
            let age = newest.zip(node.progress.state_changed_at);
            let age = age.map_or(0, |(newest, changed)| newest.0.saturating_sub(changed.0));
            let since = received.checked_sub(Duration::from_millis(age)).unwrap_or(received);
            // A new turn has replaced the known one. A new state alone may follow a dialog of the same turn.
            let last = self.observed.map(|(_, last)| last);
            if node.progress.turn_started_at > last && node.progress.state_changed_at > last {
                self.busy_since.remove(&key);
            }
            self.busy_since.entry(key).or_insert(since);
        }
    }
}

fn key_of(node: &NodeInfo) -> SessionNode {
    (Some(node.metadata.session_id.clone()), node.node_id.clone())
}

/// Returns the cause of a stopped node's end.
fn stop_cause(metadata: &NodeMetadata) -> StopCause {
    match (metadata.text("end"), metadata.exit()) {
        ("requested", _) => StopCause::Requested,
        (_, Some(ExitStatus::Code(0))) => StopCause::Exited,
        _ => StopCause::Failed,
    }
}

/// Returns the parts of an event that identify what it reports; `None` if it may be reported again.
fn identity(event: &EventMessage) -> Option<String> {
    let kind = event.kind()?;
    let name = |field: &str| event.data[field].as_str().unwrap_or_default().to_string();
    match kind {
        EventType::ResultReady => Some(name("result_id")),
        EventType::GraphCompleted => Some(name("run_id")),
        EventType::NodeStopped => Some(format!("{:?}", (&event.session_id, &event.node_id))),
        _ => None,
    }
}

fn gate_event(run: &RunInfo, gate: &GateInfo) -> Option<EventMessage> {
    let mut data = serde_json::to_value(gate).ok()?;
    data["run_id"] = run.run_id.as_str().into();
    data["graph_id"] = run.graph_id.as_str().into();
    event(EventType::GateAsked, None, &run.session_id, run.started_at, data)
}

fn run_event(run: &RunInfo) -> Option<EventMessage> {
    let ended_at = run.ended_at?;
    if !matches!(run.status, RunStatus::Completed | RunStatus::Failed) {
        return None;
    }
    let data = json!({
        "run_id": run.run_id, "graph_id": run.graph_id, "state": run.status, "error": run.error,
        "duration_ms": ended_at.0.saturating_sub(run.started_at.0), "tokens_used": run.tokens_used,
    });
    event(EventType::GraphCompleted, None, &run.session_id, ended_at, data)
}

fn result_event(result: &ResultInfo) -> Option<EventMessage> {
    let ended_at = result.ended_at.filter(|_| result.status == ResultStatus::Failed)?;
    let data = json!({ "result_id": result.result_id, "success": false, "state": result.status });
    event(EventType::ResultReady, Some(&result.node_id), &result.session_id, ended_at, data)
}

/// Creates an event. It is the same for all clients, so that one of several sends the notification.
fn event(kind: EventType, node: Option<&str>, session: &str, at: TsMs, data: Value) -> Option<EventMessage> {
    let event = json!({
        "type": "event", "event_type": kind.as_str(), "node_id": node, "session_id": session, "data": data,
        "emitted_at": at, "seq": 0,
    });
    serde_json::from_value(event).ok()
}
