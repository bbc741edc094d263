//! The open gates of a run, until they are answered.

use std::sync::Arc;

use nerve_api::reply::GateInfo;
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use nerve_node::error::EngineError;

/// The open gates of a run, which takes their answers. Cheap to clone; clones share their state.
#[derive(Debug, Clone, Default)]
pub struct OpenGates {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    open: Mutex<Vec<OpenGate>>,
    changed: watch::Sender<u64>,
}

#[derive(Debug)]
struct OpenGate {
    info: GateInfo,
    reply: oneshot::Sender<String>,
}

/// The pending answer of an open gate. Dropping its guard closes the gate.
pub(super) struct PendingAnswer {
    pub(super) choice: oneshot::Receiver<String>,
    pub(super) guard: CloseOnDrop,
}

/// Closes the gate when the wait ends, however it ends.
pub(super) struct CloseOnDrop {
    gates: OpenGates,
    step: String,
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.gates.close(&self.step);
    }
}

impl OpenGates {
    /// Creates an empty set.
    pub fn new() -> OpenGates {
        OpenGates::default()
    }

    /// Returns the open gates, oldest first.
    pub fn waiting(&self) -> Vec<GateInfo> {
        self.shared.open.lock().iter().map(|open| open.info.clone()).collect()
    }

    /// Returns a counter that changes whenever a gate opens or closes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changed.subscribe()
    }

    /// Answers the gate of a step, or the only open gate if `step` is `None`. Returns the step.
    ///
    /// # Errors
    /// NotFound: no such gate is open. InvalidRequest: several are open and `step` is `None`, or `choice` is not one of the
    /// choices.
    pub fn answer(&self, step: Option<&str>, choice: &str) -> Result<String, EngineError> {
        let mut open = self.shared.open.lock();
        let names = || open.iter().map(|open| open.info.step_id.as_str()).collect::<Vec<_>>().join(", ");
        let at = match step {
            Some(step) => open.iter().position(|open| open.info.step_id == step),
            None if open.len() > 1 => {
                let message = format!("{} gates are open: {}", open.len(), names());
                return Err(EngineError::invalid_request(message).hint("name the step"));
            }
            None => (!open.is_empty()).then_some(0),
        };
        let Some(at) = at else {
            let what = step
                .map_or("no gate is open".to_string(), |step| format!("no gate is open at step '{step}'"));
            let hint = if open.is_empty() {
                "the run waits for no answer".into()
            } else {
                format!("open gates: {}", names())
            };
            return Err(EngineError::not_found(what).hint(hint));
        };
        let choices = &open[at].info.choices;
        let matching = choices.iter().find(|known| known.eq_ignore_ascii_case(choice));
        if matching.is_none() && !choices.is_empty() {
            let message = format!("'{choice}' is not one of the choices of step '{}'", open[at].info.step_id);
            let mut error = EngineError::invalid_request(message);
            error.choices = choices.clone().into();
            return Err(error);
        }
        let choice = matching.cloned().unwrap_or_else(|| choice.to_string());
        let OpenGate { info, reply } = open.remove(at);
        drop(open);
        // A send error means that the run was cancelled just now.
        let _ = reply.send(choice);
        self.notify_change();
        Ok(info.step_id)
    }

    /// Opens a gate.
    pub(super) fn open(&self, info: GateInfo) -> PendingAnswer {
        let (reply, choice) = oneshot::channel();
        let step = info.step_id.clone();
        self.shared.open.lock().push(OpenGate { info, reply });
        self.notify_change();
        PendingAnswer { choice, guard: CloseOnDrop { gates: self.clone(), step } }
    }

    fn close(&self, step: &str) {
        let mut open = self.shared.open.lock();
        let before = open.len();
        open.retain(|open| open.info.step_id != step);
        let closed = open.len() < before;
        drop(open);
        if closed {
            self.notify_change();
        }
    }

    fn notify_change(&self) {
        self.shared.changed.send_modify(|count| *count += 1);
    }
}
