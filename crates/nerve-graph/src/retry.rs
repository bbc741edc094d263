//! The attempts of a step: the first one, and the retries, questions and fallback after a failure.

use std::time::Duration;

use nerve_api::value::NodeState;
use nerve_node::budget::Checkpoint;
use nerve_node::cancellation::cancelled_error;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::telemetry::{ActiveSpan, count};
use nerve_types::millis;
use opentelemetry::KeyValue;
use serde_json::Value;

use super::attempt::attempt;
use super::budget_question::await_grants;
use super::context::RunContext;
use super::event::{Completion, StepEventKind};
use super::executable::{Executable, Target};
use super::journal::JournalRecord;
use super::step_run::StepRun;
use crate::policy::{ErrorPolicy, OnError};

/// The attempts of a step.
pub(super) struct Attempts<'a> {
    run: &'a StepRun<'a>,
    node: &'a Executable,
    context: &'a RunContext,
    span: &'a ActiveSpan,
    /// Number of attempts so far.
    pub(super) count: u32,
}

impl Attempts<'_> {
    /// Makes as many attempts as the error policy allows.
    pub(super) async fn make(&mut self) -> Result<(Value, Completion), EngineError> {
        self.count = 1;
        match attempt(self.node, self.context, self.run.attempt_timeout()).await {
            Ok(value) => Ok((value, Completion::Completed)),
            // Boxed because it is rare and large: otherwise every step would reserve space for it.
            Err(error) => Box::pin(self.recover(error)).await,
        }
    }

    /// Makes further attempts after the first has failed, and then does what the error policy demands.
    async fn recover(&mut self, mut error: EngineError) -> Result<(Value, Completion), EngineError> {
        let (run, node, context) = (self.run, self.node, self.context);
        let none = ErrorPolicy::default();
        let policy = run.step.error_policy.as_deref().unwrap_or(&none);
        loop {
            if !run.await_budget_answer(node, context, &error).await? {
                if error.is_final() || run.is_stopping(context) || self.count > policy.retry_count {
                    break;
                }
                self.delay_next(policy.delay(self.count - 1), &error).await?;
                self.count += 1;
            }
            match attempt(node, context, policy.timeout).await {
                Ok(value) => return Ok((value, Completion::Completed)),
                Err(next) => error = next,
            }
        }
        if error.is_final() {
            return Err(error);
        }
        // A node's reply to its interrupt is no failure of the step: error policies do not apply.
        if run.is_stopping(context) {
            return Err(cancelled_error());
        }
        match (policy.on_error, &policy.fallback_node) {
            (OnError::Skip, _) => Ok((policy.fallback_value.clone(), Completion::Skipped)),
            (OnError::Fallback, Some(fallback)) => {
                Ok((run.run_fallback(fallback, context).await?, Completion::Completed))
            }
            _ => Err(error),
        }
    }

    /// Reports a failed attempt, and waits until the next one may begin.
    async fn delay_next(&self, delay: Duration, error: &EngineError) -> Result<(), EngineError> {
        let (context, attempt, delay_ms) = (self.context, self.count + 1, millis(delay));
        let retry = StepEventKind::Retry { attempt, delay_ms, error_type: error.kind };
        self.run.notify_error(context.step.as_ref(), retry, error);
        self.span.add_event("nerve.retry", || {
            vec![
                KeyValue::new("nerve.attempt", count(attempt)),
                KeyValue::new("error.type", error.kind.as_str()),
                KeyValue::new("nerve.delay_ms", count(delay_ms)),
            ]
        });
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = context.turn.cancellation().cancelled() => return Err(cancelled_error()),
        }
        context.turn.check_cancelled()?;
        // A retry is not another step.
        await_grants(context, Checkpoint::WithinStep).await
    }
}

impl StepRun<'_> {
    /// Returns the attempts of the step on a node, of which none has been made.
    pub(super) fn attempts<'a>(
        &'a self,
        node: &'a Executable,
        context: &'a RunContext,
        span: &'a ActiveSpan,
    ) -> Attempts<'a> {
        Attempts { run: self, node, context, span, count: 0 }
    }

    fn attempt_timeout(&self) -> Option<Duration> {
        self.step.error_policy.as_ref().and_then(|policy| policy.timeout)
    }

    /// Waits for the answer if `error` is a question of a budget. Returns true then: the attempt has to send its prompt again.
    /// Returns false for other errors, and without gates, because no one could answer.
    async fn await_budget_answer(
        &self,
        node: &Executable,
        context: &RunContext,
        error: &EngineError,
    ) -> Result<bool, EngineError> {
        if !error.is_budget_question() || self.graph.shared().gates.is_none() {
            return Ok(false);
        }
        let Some(node) = node.node() else { return Ok(false) };
        let Some(ledger) = node.ledger() else { return Ok(false) };
        tokio::select! {
            () = ledger.question_answered() => Ok(true),
            // The next attempt returns the error.
            _ = node.wait(&[NodeState::Stopped], None) => Ok(true),
            () = context.turn.cancellation().cancelled() => Err(cancelled_error()),
        }
    }

    /// Runs the fallback node of a failed step. It has its own journal entry because it may keep state where the step's node keeps
    /// none.
    async fn run_fallback(&self, target: &Target, context: &RunContext) -> Result<Value, EngineError> {
        let (run, node) = (self.graph.shared(), self.resolve(target)?);
        // The steps of a graph have records of their own.
        let journal = run.journal.as_ref().filter(|_| !node.is_graph());
        let key = context.journal_key.rotate_left(2);
        if journal.is_some()
            && let Some(value) = self.record_start(&node, context, key, None).await?
        {
            return Ok(value);
        }
        let result = loop {
            match attempt(&node, context, self.attempt_timeout()).await {
                Err(error) if self.await_budget_answer(&node, context, &error).await? => {}
                result => break result,
            }
        };
        if let Some(journal) = journal {
            let (at, step) = (run.clock.now(), self.path_of(context));
            match &result {
                Ok(value) => {
                    journal.record(&JournalRecord::Finished { at, step, key, value, ms: 0, tokens: None });
                }
                // A cancelled fallback leaves no end record, as a cancelled step does.
                Err(error) if error.kind == ErrorKind::Cancelled => {}
                Err(error) => journal.record(&JournalRecord::failed(at, step, key, error)),
            }
        }
        result
    }
}
