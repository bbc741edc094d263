//! A gate: a step that ends when a person has answered.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nerve_types::TsNs;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};

use super::context::RunContext;
use super::event::{StepEvent, StepEventKind};
use super::journal::JournalRecord;
use nerve_node::command::GateInfo;
use nerve_node::error::{EngineError, ErrorKind};

/// A step that asks a person a question: the input, or its own if the input is null.
///
/// Its result is `{"choice": "yes", "by": "person"}`, or by `default`.
#[derive(Debug)]
pub struct Gate {
    id: String,
    question: String,
    choices: Vec<String>,
    default: Option<String>,
    timeout: Option<Duration>,
}

/// The open gates of a run. Cheap to clone; clones share their state.
#[derive(Debug, Clone)]
pub struct Gates {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    open: Mutex<Vec<OpenGate>>,
    changed: watch::Sender<u64>,
}

#[derive(Debug)]
struct OpenGate {
    info: GateInfo,
    reply: oneshot::Sender<String>,
}

impl Gate {
    /// Creates a gate that accepts any answer and waits without a deadline.
    pub fn new(id: impl Into<String>, question: impl Into<String>) -> Gate {
        Gate { id: id.into(), question: question.into(), choices: Vec::new(), default: None, timeout: None }
    }

    /// Accepts only these answers.
    #[must_use]
    pub fn choices<I: IntoIterator<Item: Into<String>>>(mut self, choices: I) -> Gate {
        self.choices = choices.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the answer that is used if none arrives in time.
    #[must_use]
    pub fn default_choice(mut self, choice: impl Into<String>) -> Gate {
        self.default = Some(choice.into());
        self
    }

    /// Sets how long to wait for an answer.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Gate {
        self.timeout = Some(timeout);
        self
    }

    /// Returns the gate's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    fn question(&self, input: &Value) -> String {
        match input {
            Value::Null => self.question.clone(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

impl Gate {
    /// Asks and returns the answer, or the journaled answer of a resumed run.
    ///
    /// # Errors
    /// Cancelled; Timeout; Blocked: the context has no gates.
    pub(super) async fn ask(&self, context: &RunContext) -> Result<Value, EngineError> {
        let step = context.step.as_deref().unwrap_or(&self.id).to_string();
        let (key, clock) = (context.journal_key, context.shared().clock);
        let past = context.shared().journal.as_ref().and_then(|(_, past)| past.as_deref());
        // The gate was answered before the run was interrupted.
        if let Some(choice) = past.and_then(|past| past.answer(&step, key)) {
            let by = past.and_then(|past| past.answered_by(&step, key)).unwrap_or("person");
            return Ok(json!({ "choice": choice, "by": by }));
        }
        let recorded_deadline = past.and_then(|past| past.question_deadline(&step, key));
        let deadline = recorded_deadline.unwrap_or_else(|| self.timeout.map(|timeout| clock.now() + timeout));
        let info = GateInfo {
            step_id: step,
            question: self.question(&context.turn.input),
            choices: self.choices.clone(),
            default: self.default.clone(),
            deadline: deadline.map(TsNs::seconds),
        };
        let is_recorded = recorded_deadline.is_some();
        let (choice, by) = ask(context, &self.id, info, deadline, key, is_recorded).await?;
        Ok(json!({ "choice": choice, "by": by }))
    }
}

/// Opens a gate and waits for the answer or the deadline.
pub(crate) async fn ask(
    context: &RunContext,
    node: &str,
    info: GateInfo,
    deadline: Option<TsNs>,
    key: u64,
    asked_before: bool,
) -> Result<(String, &'static str), EngineError> {
    let run = context.shared();
    let (step, default) = (info.step_id.clone(), info.default.clone());
    let Some(gates) = &run.gates else {
        return default.map(|choice| (choice, "default")).ok_or_else(|| {
            EngineError::new(
                ErrorKind::Blocked,
                format!("step '{step}' needs an answer, and gates are not available here"),
            )
            .hint("give the gate a default, or the context gates")
        });
    };
    if let Some((journal, _)) = run.journal.as_ref().filter(|_| !asked_before) {
        let GateInfo { question, choices, .. } = &info;
        let (at, step, default) = (run.clock.now(), &step, default.as_deref());
        journal.record(&JournalRecord::Asked { at, step, key, question, choices, default, deadline });
    }
    let question = Value::from(info.question.as_str());
    let notify = |kind, data| {
        if let Some(observer) = &run.observer {
            let (step, node) = (Arc::from(step.as_str()), Arc::from(node));
            observer(StepEvent { kind, step, node, data, at: run.clock.now() });
        }
    };
    let answer = gates.open(info);
    notify(StepEventKind::Asked, question);
    let wait = async {
        match deadline {
            Some(deadline) => tokio::time::timeout_at(run.clock.instant(deadline), answer.choice).await.ok(),
            None => Some(answer.choice.await),
        }
    };
    // An answer wins over a cancellation that happens at the same time.
    let waited = tokio::select! {
        biased;
        waited = wait => waited,
        () = context.turn.cancellation().wait() => return Err(nerve_node::cancellation::cancelled()),
    };
    drop(answer.guard);
    let (choice, by) = match (waited, default) {
        (Some(Ok(choice)), _) => (choice, "person"),
        (Some(Err(_)), _) => return Err(nerve_node::cancellation::cancelled()),
        (None, Some(choice)) => (choice, "default"),
        (None, None) => {
            let message = format!("step '{step}': no answer in time");
            return Err(
                EngineError::new(ErrorKind::Timeout, message).hint("give the gate a default or more time")
            );
        }
    };
    notify(StepEventKind::Answered { by }, Value::from(choice.as_str()));
    if let Some((journal, _)) = &run.journal {
        journal.record(&JournalRecord::Answered {
            at: run.clock.now(),
            step: &step,
            key,
            choice: &choice,
            by,
        });
        // The answer must be durable: a person is not asked twice.
        journal.flush().await.ok();
    }
    Ok((choice, by))
}

struct PendingAnswer {
    choice: oneshot::Receiver<String>,
    guard: CloseOnDrop,
}

/// Closes the gate when the wait ends, however it ends.
struct CloseOnDrop {
    gates: Gates,
    step: String,
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.gates.close(&self.step);
    }
}

impl Gates {
    /// Creates a set without open gates.
    pub fn new() -> Gates {
        Gates { shared: Arc::new(Shared { open: Mutex::default(), changed: watch::Sender::new(0) }) }
    }

    /// Returns the open gates, oldest first.
    pub fn waiting(&self) -> Vec<GateInfo> {
        self.lock().iter().map(|open| open.info.clone()).collect()
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
        let mut open = self.lock();
        let names = || open.iter().map(|open| open.info.step_id.as_str()).collect::<Vec<_>>().join(", ");
        let at = match step {
            Some(step) => open.iter().position(|open| open.info.step_id == step),
            None if open.len() > 1 => {
                let message = format!("{} gates are open: {}", open.len(), names());
                return Err(EngineError::new(ErrorKind::InvalidRequest, message).hint("name the step"));
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
            return Err(EngineError::new(ErrorKind::NotFound, what).hint(hint));
        };
        let choices = &open[at].info.choices;
        let meant = choices.iter().find(|known| known.eq_ignore_ascii_case(choice));
        if meant.is_none() && !choices.is_empty() {
            let message = format!("'{choice}' is not one of the choices of step '{}'", open[at].info.step_id);
            let mut error = EngineError::new(ErrorKind::InvalidRequest, message);
            error.choices = choices.clone().into();
            return Err(error);
        }
        let choice = meant.cloned().unwrap_or_else(|| choice.to_string());
        let OpenGate { info, reply } = open.remove(at);
        drop(open);
        // A send error means that the run was cancelled just now.
        let _ = reply.send(choice);
        self.notify_change();
        Ok(info.step_id)
    }

    fn open(&self, info: GateInfo) -> PendingAnswer {
        let (reply, choice) = oneshot::channel();
        let step = info.step_id.clone();
        self.lock().push(OpenGate { info, reply });
        self.notify_change();
        PendingAnswer { choice, guard: CloseOnDrop { gates: self.clone(), step } }
    }

    fn close(&self, step: &str) {
        let mut open = self.lock();
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

    fn lock(&self) -> MutexGuard<'_, Vec<OpenGate>> {
        self.shared.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Gates {
    fn default() -> Gates {
        Gates::new()
    }
}
