//! Asks a person the question of a gate, or takes the journaled answer.

use std::sync::Arc;

use nerve_api::value::AnswerSource;
use nerve_node::cancellation::cancelled;
use nerve_node::command::GateInfo;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_types::TsNs;
use nerve_types::activity::TsMs;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::context::RunContext;
use super::event::{StepEvent, StepEventKind};
use super::gate::Gate;
use super::journal::JournalRecord;

impl Gate {
    /// Asks and returns the answer, or the journaled answer of a resumed run.
    ///
    /// # Errors
    /// Cancelled; Timeout; Blocked: the context has no gates.
    pub(super) async fn ask(&self, context: &RunContext) -> Result<Value, EngineError> {
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
        let (choice, by) = ask(context, "", info, deadline, key, recorded.is_some()).await?;
        Ok(json!({ "choice": choice, "by": by }))
    }
}

/// Opens a gate and waits for the answer or the deadline. `is_recorded`: the journal of the resumed run has the question.
pub(crate) async fn ask(
    context: &RunContext,
    node: &str,
    info: GateInfo,
    deadline: Option<TsNs>,
    key: u64,
    is_recorded: bool,
) -> Result<(String, AnswerSource), EngineError> {
    let run = context.shared();
    let (step, default) = (info.step_id.clone(), info.default.clone());
    let Some(gates) = &run.gates else {
        return default.map(|choice| (choice, AnswerSource::Default)).ok_or_else(|| {
            EngineError::new(
                ErrorKind::Blocked,
                format!("step '{step}' needs an answer, and gates are not available here"),
            )
            .hint("give the gate a default, or run the graph with gates")
        });
    };
    if let Some(journal) = run.journal.as_ref().filter(|_| !is_recorded) {
        let GateInfo { question, choices, .. } = &info;
        let (at, step, default) = (run.clock.now(), &step, default.as_deref());
        journal.record(&JournalRecord::Asked { at, step, key, question, choices, default, deadline });
    }
    let question = Value::from(info.question.as_str());
    let notify = |kind, data| {
        if let Some(observer) = &run.observer {
            let (step, node) = (Arc::from(step.as_str()), Arc::from(node));
            observer(StepEvent { kind, step, node, data, hint: None, at: run.clock.now() });
        }
    };
    let answer = gates.open(info);
    notify(StepEventKind::Asked, question);
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
    notify(StepEventKind::Answered { by }, Value::from(choice.as_str()));
    if let Some(journal) = &run.journal {
        journal.record(&JournalRecord::Answered {
            at: run.clock.now(),
            step: &step,
            key,
            choice: &choice,
            by: by.as_str(),
        });
        // The answer must be durable: a person is not asked twice.
        journal.flush().await;
    }
    Ok((choice, by))
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
        () = context.turn.cancellation().cancelled() => return Err(cancelled()),
    };
    choice.transpose().map_err(|_| cancelled())
}
