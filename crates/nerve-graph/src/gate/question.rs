//! Asks a person the question of a gate, or takes the journaled answer.

use std::sync::Arc;

use nerve_api::reply::GateInfo;
use nerve_api::value::AnswerSource;
use nerve_node::cancellation::cancelled_error;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_types::TsNs;
use nerve_types::activity::TsMs;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::Gate;
use crate::context::RunContext;
use crate::event::StepEventKind;
use crate::journal::JournalRecord;

impl Gate {
    /// Asks and returns the answer, or the journaled answer of a resumed run.
    ///
    /// # Errors
    /// Cancelled; Timeout; Blocked: the context has no gates.
    pub(crate) async fn ask(&self, context: &RunContext) -> Result<Value, EngineError> {
        let step = context.step.as_deref().unwrap_or(self.id()).to_string();
        let (key, run) = (context.journal_key, context.shared());
        let replay = run.replay(&step, key);
        // The gate was answered before the run was interrupted.
        if let Some(answer) = replay.and_then(|replay| replay.answer.as_ref()) {
            return Ok(json!({ "choice": answer.choice, "by": answer.by }));
        }
        let recorded = replay.and_then(|replay| replay.question.as_ref());
        let deadline = match recorded {
            Some(question) => question.deadline,
            None => self.timeout.map(|timeout| run.clock.now() + timeout),
        };
        let info = GateInfo {
            step_id: step,
            question: self.question(&context.turn.input),
            choices: self.choices.clone(),
            default: self.default.clone(),
            deadline_at: deadline.map(TsMs::from),
        };
        let is_recorded = recorded.is_some();
        let request = GateRequest { node: "".into(), info, deadline, key, is_recorded };
        let (choice, by) = request.ask(context).await?;
        Ok(json!({ "choice": choice, "by": by }))
    }
}

/// A question to a person.
pub(crate) struct GateRequest {
    /// Node in the events of the question, or empty.
    pub(crate) node: Arc<str>,
    /// The question. Its `step_id` is the path in events and in the journal.
    pub(crate) info: GateInfo,
    /// Time at which the default becomes the answer; `None`: never.
    pub(crate) deadline: Option<TsNs>,
    /// Key in the journal.
    pub(crate) key: u64,
    /// True if the journal of the resumed run has the question.
    pub(crate) is_recorded: bool,
}

impl GateRequest {
    /// Opens a gate and waits for the answer or the deadline. Without gates, the default is the answer.
    ///
    /// # Errors
    /// Cancelled; Timeout; Blocked: the context has no gates, and there is no default.
    pub(crate) async fn ask(self, context: &RunContext) -> Result<(String, AnswerSource), EngineError> {
        let run = context.shared();
        let Some(gates) = &run.gates else { return self.default_answer() };
        if let Some(journal) = run.journal.as_ref().filter(|_| !self.is_recorded) {
            journal.record(&self.record(run.clock.now()));
        }
        let GateRequest { node, info, deadline, key, .. } = self;
        let (step, default) = (Arc::from(info.step_id.as_str()), info.default.clone());
        let question = Value::from(info.question.as_str());
        let answer = gates.open(info);
        run.notify(&step, &node, StepEventKind::Asked, question, None);
        let answered = wait_for_choice(answer.choice, deadline, context).await;
        drop(answer.guard);
        let (choice, by) = match (answered?, default) {
            (Some(choice), _) => (choice, AnswerSource::Person),
            (None, Some(choice)) => (choice, AnswerSource::Default),
            (None, None) => {
                let message = format!("step '{step}': no answer in time");
                return Err(EngineError::timeout(message).hint("give the gate a default or more time"));
            }
        };
        run.notify(&step, &node, StepEventKind::Answered { by }, Value::from(choice.as_str()), None);
        if let Some(journal) = &run.journal {
            let (at, by) = (run.clock.now(), by.as_str());
            journal.record(&JournalRecord::Answered { at, step: &step, key, choice: &choice, by });
            // The answer must be durable: a person is not asked twice.
            journal.flush().await;
        }
        Ok((choice, by))
    }

    fn default_answer(self) -> Result<(String, AnswerSource), EngineError> {
        let GateInfo { step_id, default, .. } = self.info;
        default.map(|choice| (choice, AnswerSource::Default)).ok_or_else(|| {
            let message = format!("step '{step_id}' needs an answer, and gates are not available here");
            EngineError::new(ErrorKind::Blocked, message)
                .hint("give the gate a default, or run the graph with gates")
        })
    }

    fn record(&self, at: TsNs) -> JournalRecord<'_> {
        let GateInfo { step_id: step, question, choices, default, .. } = &self.info;
        let (key, default, deadline) = (self.key, default.as_deref(), self.deadline);
        JournalRecord::Asked { at, step, key, question, choices, default, deadline }
    }
}

/// Waits for a person's choice. Returns `None` at the deadline.
async fn wait_for_choice(
    choice: oneshot::Receiver<String>,
    deadline: Option<TsNs>,
    context: &RunContext,
) -> Result<Option<String>, EngineError> {
    let clock = context.shared().clock;
    let wait = async {
        match deadline {
            Some(deadline) => tokio::time::timeout_at(clock.instant(deadline), choice).await.ok(),
            None => Some(choice.await),
        }
    };
    // An answer wins over a cancellation that happens at the same time.
    let choice = tokio::select! {
        biased;
        choice = wait => choice,
        () = context.turn.cancellation().cancelled() => return Err(cancelled_error()),
    };
    choice.transpose().map_err(|_| cancelled_error())
}
