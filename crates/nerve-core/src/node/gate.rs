//! A gate: a step that is done when a person has answered.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};

use super::{Node, NodeFuture};
use crate::command::GateInfo;
use crate::context::ExecutionContext;
use crate::error::{EngineError, ErrorKind};
use crate::graph::event::{StepEvent, StepEventKind};

/// A node that asks. What it is given as input is the question; without one, it asks its own.
///
/// Its result: `{"choice": "yes", "by": "person"}`, or by `default`.
#[derive(Debug)]
pub struct GateNode {
    id: String,
    question: String,
    choices: Vec<String>,
    default: Option<String>,
    timeout: Option<Duration>,
}

/// Gates of a run that wait for an answer. Cheap to clone: all clones are the same.
#[derive(Debug, Clone)]
pub struct Gates {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    open: Mutex<Vec<Open>>,
    changed: watch::Sender<u64>,
}

#[derive(Debug)]
struct Open {
    info: GateInfo,
    reply: oneshot::Sender<String>,
}

impl GateNode {
    /// A gate that takes any answer, and waits for ever.
    pub fn new(id: impl Into<String>, question: impl Into<String>) -> GateNode {
        GateNode {
            id: id.into(),
            question: question.into(),
            choices: Vec::new(),
            default: None,
            timeout: None,
        }
    }

    /// Takes only these answers.
    #[must_use]
    pub fn choices<I: IntoIterator<Item: Into<String>>>(mut self, choices: I) -> GateNode {
        self.choices = choices.into_iter().map(Into::into).collect();
        self
    }

    /// Takes this for the answer when none has come in time.
    #[must_use]
    pub fn default_choice(mut self, choice: impl Into<String>) -> GateNode {
        self.default = Some(choice.into());
        self
    }

    /// Waits so long.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> GateNode {
        self.timeout = Some(timeout);
        self
    }

    fn question(&self, input: &Value) -> String {
        match input {
            Value::Null => self.question.clone(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

impl Node for GateNode {
    fn id(&self) -> &str {
        &self.id
    }

    fn kind(&self) -> &'static str {
        "gate"
    }

    fn execute<'a>(&'a self, context: &'a ExecutionContext) -> NodeFuture<'a> {
        Box::pin(async move {
            let step = context.step.as_deref().unwrap_or(&self.id).to_string();
            let (key, clock) = (context.key, context.run().clock);
            let past = context.run().journal.as_ref().and_then(|(_, past)| past.as_deref());
            // Answered before the run was interrupted.
            if let Some(choice) = past.and_then(|past| past.answer(&step, key)) {
                let by = past.and_then(|past| past.answered_by(&step, key)).unwrap_or("person");
                return Ok(json!({ "choice": choice, "by": by }));
            }
            let asked = past.and_then(|past| past.question_deadline(&step, key));
            let deadline = asked.unwrap_or_else(|| self.timeout.map(|timeout| clock.now() + timeout));
            let info = GateInfo {
                step,
                question: self.question(&context.input),
                choices: self.choices.clone(),
                default: self.default.clone(),
                deadline,
            };
            let (choice, by) = ask(context, &self.id, info, key, asked.is_some()).await?;
            Ok(json!({ "choice": choice, "by": by }))
        })
    }
}

/// Asks, and waits for the answer or the deadline.
pub(crate) async fn ask(
    context: &ExecutionContext,
    node: &str,
    info: GateInfo,
    key: u64,
    asked_before: bool,
) -> Result<(String, &'static str), EngineError> {
    use crate::graph::journal::JournalRecord;

    let run = context.run();
    let (step, default, deadline) = (info.step.clone(), info.default.clone(), info.deadline);
    let Some(gates) = &run.gates else {
        return default.map(|choice| (choice, "default")).ok_or_else(|| {
            EngineError::new(ErrorKind::Blocked, format!("step '{step}' asks, and nobody can answer here"))
                .hint("give the gate a default, or the context gates")
        });
    };
    if let Some((journal, _)) = run.journal.as_ref().filter(|_| !asked_before) {
        let GateInfo { step, question, choices, default, deadline } = &info;
        let (at, default, deadline) = (run.clock.now(), default.as_deref(), *deadline);
        journal.record(&JournalRecord::Asked { at, step, key, question, choices, default, deadline });
    }
    let question = Value::from(info.question.as_str());
    let tell = |kind, data| {
        if let Some(observer) = &run.observer {
            let (step, node) = (Arc::from(step.as_str()), Arc::from(node));
            observer(StepEvent { kind, step, node, data, at: run.clock.now() });
        }
    };
    let answer = gates.open(info);
    tell(StepEventKind::Asked, question);
    let given = async {
        match deadline {
            Some(deadline) => tokio::time::timeout_at(run.clock.instant(deadline), answer.given).await.ok(),
            None => Some(answer.given.await),
        }
    };
    // Nobody else ends this wait where it is asked whether a step may run again.
    let waited = tokio::select! {
        biased;
        waited = given => waited,
        () = context.cancellation().wait() => return Err(crate::cancellation::cancelled()),
    };
    drop(answer.open);
    let (choice, by) = match (waited, default) {
        (Some(Ok(choice)), _) => (choice, "person"),
        (Some(Err(_)), _) => return Err(crate::cancellation::cancelled()),
        (None, Some(choice)) => (choice, "default"),
        (None, None) => {
            let message = format!("step '{step}': nobody answered in time");
            return Err(
                EngineError::new(ErrorKind::Timeout, message).hint("give the gate a default or more time")
            );
        }
    };
    tell(StepEventKind::Answered { by }, Value::from(choice.as_str()));
    if let Some((journal, _)) = &run.journal {
        journal.record(&JournalRecord::Answered {
            at: run.clock.now(),
            step: &step,
            key,
            choice: &choice,
            by,
        });
        // A person's word is not asked for twice.
        journal.flush().await.ok();
    }
    Ok((choice, by))
}

struct Asked {
    given: oneshot::Receiver<String>,
    open: Waiting,
}

/// Takes the gate back, however the wait ends.
struct Waiting {
    gates: Gates,
    step: String,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.gates.close(&self.step);
    }
}

impl Gates {
    /// No gates.
    pub fn new() -> Gates {
        Gates { shared: Arc::new(Shared { open: Mutex::default(), changed: watch::Sender::new(0) }) }
    }

    /// Those that wait, in the order in which they began to.
    pub fn waiting(&self) -> Vec<GateInfo> {
        self.lock().iter().map(|open| open.info.clone()).collect()
    }

    /// Counts up whenever a gate is opened or closed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changed.subscribe()
    }

    /// Answers the gate of a step; with no step named, the only one that waits. Gives the step.
    ///
    /// # Errors
    /// NotFound: none waits there. InvalidRequest: several wait and none is named, or that is none of the choices.
    pub fn answer(&self, step: Option<&str>, choice: &str) -> Result<String, EngineError> {
        let mut open = self.lock();
        let names = || open.iter().map(|open| open.info.step.as_str()).collect::<Vec<_>>().join(", ");
        let at = match step {
            Some(step) => open.iter().position(|open| open.info.step == step),
            None if open.len() > 1 => {
                let message = format!("{} gates wait: {}", open.len(), names());
                return Err(EngineError::new(ErrorKind::InvalidRequest, message).hint("say which"));
            }
            None => (!open.is_empty()).then_some(0),
        };
        let Some(at) = at else {
            let what =
                step.map_or("no gate waits".to_string(), |step| format!("no gate waits at step '{step}'"));
            let hint = if open.is_empty() {
                "nothing is asked now".into()
            } else {
                format!("these wait: {}", names())
            };
            return Err(EngineError::new(ErrorKind::NotFound, what).hint(hint));
        };
        let choices = &open[at].info.choices;
        let meant = choices.iter().find(|known| known.eq_ignore_ascii_case(choice));
        if meant.is_none() && !choices.is_empty() {
            let message = format!("'{choice}' is none of the choices of step '{}'", open[at].info.step);
            let mut error = EngineError::new(ErrorKind::InvalidRequest, message);
            error.choices = choices.clone().into();
            return Err(error);
        }
        let choice = meant.cloned().unwrap_or_else(|| choice.to_string());
        let Open { info, reply } = open.remove(at);
        drop(open);
        // Nobody waits any more: the run was cancelled just now.
        let _ = reply.send(choice);
        self.changed();
        Ok(info.step)
    }

    fn open(&self, info: GateInfo) -> Asked {
        let (reply, given) = oneshot::channel();
        let step = info.step.clone();
        self.lock().push(Open { info, reply });
        self.changed();
        Asked { given, open: Waiting { gates: self.clone(), step } }
    }

    fn close(&self, step: &str) {
        let mut open = self.lock();
        let before = open.len();
        open.retain(|open| open.info.step != step);
        let closed = open.len() < before;
        drop(open);
        if closed {
            self.changed();
        }
    }

    fn changed(&self) {
        self.shared.changed.send_modify(|count| *count += 1);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Open>> {
        self.shared.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Gates {
    fn default() -> Gates {
        Gates::new()
    }
}
