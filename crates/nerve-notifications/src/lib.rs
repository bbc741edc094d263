//! Derives notifications from the events of a server: a dialog, a long turn that is done, a failure. Each is reported once, also if events
//! were dropped or the server was restarted.
#![warn(missing_docs)]

mod missed_events;

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::time::Instant;

use nerve_agent::driver::NOT_OBSERVED;
use nerve_api::value::{BlockKind, Occasion, ResultStatus, RunStatus, StopCause};
use nerve_api::{EventKind, EventMessage, EventType};
use nerve_types::activity::TsMs;
use serde::{Deserialize, Serialize};

use self::missed_events::KnownEnd;
pub use self::missed_events::NotificationState;

/// A notification about an event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Notification {
    /// The reason to notify.
    pub occasion: Occasion,
    /// Time that the turn took, in seconds, if the event ends a turn.
    pub turn_seconds: Option<f64>,
}

/// Session and id of a node.
type SessionNode = (Option<String>, String);

/// The owner of a dialog: a node, or a gate of a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
enum DialogKey {
    Node(SessionNode),
    /// Run and path of the step.
    Gate(String, String),
}

/// The parts of a dialog, gate or usage limit that identify it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Dialog {
    /// Kind of a dialog, question of a gate, or end of a limit, see [`limit_title`].
    title: String,
    choices: Vec<String>,
}

/// A dialog that was reported and is open, for the tracker of the next server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OpenDialog(DialogKey, Dialog);

/// Returns the title of a usage limit. Its end is in seconds, as in the description of a node.
fn limit_title(until: Option<TsMs>) -> String {
    until.map_or_else(|| "limit".to_string(), |until| format!("limit until {}", until.0 / 1000))
}

/// Tracks busy nodes and open dialogs. After a restart it drops repeated reports: the next server reports each open dialog again.
#[derive(Debug)]
pub struct NotificationTracker {
    /// Seconds that a turn must take for its end to be notified.
    min_turn: f64,
    /// Times at which nodes began to work, by session and node. The clock of the system, which events carry, may be set meanwhile.
    busy_since: HashMap<SessionNode, Instant>,
    /// Open dialogs and usage limits.
    open: HashMap<DialogKey, Dialog>,
    /// Dialogs that were open when the previous server ended. The next server reports them again.
    before_restart: HashMap<DialogKey, Dialog>,
    /// Times of the earliest and of the last event.
    observed: Option<(TsMs, TsMs)>,
    /// The ends of nodes, runs and results that were observed or notified recently, by what ended.
    ends: HashMap<String, KnownEnd>,
    /// For each node, the time from the last event before the dropped ones until it entered the state that was read after them.
    superseded: HashMap<SessionNode, RangeInclusive<TsMs>>,
}

impl NotificationTracker {
    /// Types of the events that a tracker observes.
    pub const EVENT_TYPES: [EventType; 10] = [
        EventType::NodeBlocked,
        EventType::NodeSuspended,
        EventType::NodeBusy,
        EventType::NodeReady,
        EventType::NodeStopped,
        EventType::NodeRemoved,
        EventType::ResultReady,
        EventType::GateAsked,
        EventType::GateAnswered,
        EventType::GraphCompleted,
    ];

    /// Creates a tracker. `min_turn` is the time that a turn or graph must take for its end to be notified, in seconds.
    pub fn new(min_turn: u64) -> NotificationTracker {
        NotificationTracker {
            min_turn: min_turn as f64,
            busy_since: HashMap::new(),
            open: HashMap::new(),
            before_restart: HashMap::new(),
            observed: None,
            ends: HashMap::new(),
            superseded: HashMap::new(),
        }
    }

    /// Takes the next event, which was received at this time, and returns its notification. After dropped events, call
    /// [`NotificationTracker::catch_up`] instead.
    pub fn observe(&mut self, event: &EventMessage, received: Instant) -> Option<Notification> {
        if event.kind() != Some(EventType::EventsDropped) {
            let first = self.observed.map_or(event.emitted_at, |(first, _)| first.min(event.emitted_at));
            self.observed = Some((first, event.emitted_at));
        }
        let was_notified = self.record_end(event);
        let notification = if self.is_superseded(event) {
            // A node that was started again does not show that it had failed.
            let has_failed =
                matches!(event.details(), Some(EventKind::NodeStopped { cause: StopCause::Failed, .. }));
            has_failed.then_some(Notification { occasion: Occasion::Failed, turn_seconds: None })
        } else {
            self.take_event(event, received)
        };
        notification.filter(|_| !was_notified)
    }

    fn take_event(&mut self, event: &EventMessage, received: Instant) -> Option<Notification> {
        let notification = |occasion| Some(Notification { occasion, turn_seconds: None });
        let key = event.node_id.clone().map(|node| (event.session_id.clone(), node));
        match event.details()? {
            EventKind::NodeBlocked { kind, choices, .. } => {
                // Without choices, a person has just refused the question at a limit.
                let is_refused =
                    kind == BlockKind::Budget && choices.is_empty() && self.is_open(key.as_ref()?);
                let is_new = self.record_dialog(DialogKey::Node(key?), kind.as_str(), choices);
                if is_new && !is_refused { notification(Occasion::Blocked) } else { None }
            }
            EventKind::GateAsked { run, gate } => {
                let key = DialogKey::Gate(run.run_id, gate.step_id);
                let is_new = self.record_dialog(key, &gate.question, gate.choices);
                is_new.then(|| notification(Occasion::Blocked)).flatten()
            }
            EventKind::GateAnswered { run, step_id, .. } => {
                self.close(&DialogKey::Gate(run.run_id, step_id));
                None
            }
            EventKind::NodeSuspended { until_at, .. } => {
                let is_new = self.record_dialog(DialogKey::Node(key?), &limit_title(until_at), Vec::new());
                is_new.then(|| notification(Occasion::Suspended)).flatten()
            }
            EventKind::ResultReady { status: ResultStatus::Failed, .. } => notification(Occasion::Failed),
            EventKind::GraphCompleted { run, status, duration_ms, .. } => {
                let is_other = |key: &DialogKey| !matches!(key, DialogKey::Gate(id, _) if *id == run.run_id);
                self.open.retain(|key, _| is_other(key));
                self.before_restart.retain(|key, _| is_other(key));
                match status {
                    RunStatus::Failed => notification(Occasion::Failed),
                    RunStatus::Completed if duration_ms as f64 / 1000.0 >= self.min_turn => {
                        notification(Occasion::Done)
                    }
                    _ => None,
                }
            }
            EventKind::NodeBusy { evidence } => {
                let node = DialogKey::Node(key.clone()?);
                self.open.remove(&node);
                // A node whose state the next server does not know yet is busy for a moment.
                if !evidence.contains(NOT_OBSERVED) {
                    self.before_restart.remove(&node);
                }
                self.busy_since.entry(key?).or_insert(received);
                None
            }
            EventKind::NodeReady { .. } => {
                let key = key?;
                self.close_dialog(&key);
                let seconds = received.saturating_duration_since(self.busy_since.remove(&key)?).as_secs_f64();
                let is_long = seconds >= self.min_turn;
                is_long.then_some(Notification { occasion: Occasion::Done, turn_seconds: Some(seconds) })
            }
            EventKind::NodeStopped { cause, .. } => {
                self.close_dialog(key.as_ref()?);
                self.busy_since.remove(&key?);
                if cause == StopCause::Failed { notification(Occasion::Failed) } else { None }
            }
            EventKind::NodeRemoved { .. } => {
                self.close_dialog(key.as_ref()?);
                self.busy_since.remove(&key?);
                None
            }
            // The dropped events may include ends of turns.
            EventKind::EventsDropped { .. } => {
                self.busy_since.clear();
                // A null count: the client has connected to another server.
                if event.data["dropped"].is_null() {
                    self.superseded.clear();
                    self.before_restart.extend(self.open.drain());
                }
                None
            }
            _ => None,
        }
    }

    /// Returns the dialogs that were reported and are open, sorted.
    pub fn open_dialogs(&self) -> Vec<OpenDialog> {
        // The next server may not have reported all dialogs again when it ends, too.
        let known = self.open.iter().chain(&self.before_restart);
        let mut dialogs: Vec<OpenDialog> =
            known.map(|(key, dialog)| OpenDialog(key.clone(), dialog.clone())).collect();
        dialogs.sort();
        dialogs
    }

    /// Records the dialogs that the previous server has reported. This one reports them again.
    pub fn restore(&mut self, dialogs: Vec<OpenDialog>) {
        self.before_restart.extend(dialogs.into_iter().map(|OpenDialog(key, dialog)| (key, dialog)));
    }

    /// Records a dialog that was open before the events began.
    pub fn add_open_dialog(
        &mut self,
        session: Option<String>,
        node: String,
        kind: &str,
        choices: Vec<String>,
    ) {
        self.record_dialog(DialogKey::Node((session, node)), kind, choices);
    }

    /// Returns true if this dialog of a node is open, as far as the observed events show.
    pub fn has_open_dialog(&self, session: &str, node: &str, kind: &str, choices: &[String]) -> bool {
        let key = DialogKey::Node((Some(session.to_string()), node.to_string()));
        self.open.get(&key).is_some_and(|dialog| dialog.title == kind && dialog.choices == choices)
    }

    /// Records an open dialog. Returns false if the previous server has reported it.
    fn record_dialog(&mut self, key: DialogKey, title: &str, choices: Vec<String>) -> bool {
        let dialog = Dialog { title: title.to_string(), choices };
        let is_new = self.before_restart.remove(&key).as_ref() != Some(&dialog);
        self.open.insert(key, dialog);
        is_new
    }

    fn is_open(&self, node: &SessionNode) -> bool {
        self.open.contains_key(&DialogKey::Node(node.clone()))
    }

    fn close_dialog(&mut self, node: &SessionNode) {
        self.close(&DialogKey::Node(node.clone()));
    }

    fn close(&mut self, key: &DialogKey) {
        self.open.remove(key);
        self.before_restart.remove(key);
    }
}
