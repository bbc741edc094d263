//! Executes the turns of agents within the limits of a context.

use std::sync::Arc;
use std::time::Duration;

use nerve_types::TsNs;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::text::message_of;
use crate::attempt::attempt;
use crate::context::RunContext;
use crate::executable::Executable;
use nerve_host::clock::MAX_TIMEOUT;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::trace::{StepTrace, TraceStatus};

/// The turns of one conversation.
pub(super) struct Turns<'a> {
    context: &'a RunContext,
    /// Time limit of a turn.
    limit: Option<Duration>,
    /// Deadline of the whole conversation.
    deadline: Option<Instant>,
}

impl<'a> Turns<'a> {
    /// Creates the runner of a conversation. `limit`: time limit of a turn; the context's timeout limits the whole.
    pub(super) fn new(context: &'a RunContext, limit: Option<Duration>) -> Turns<'a> {
        let timeout = context.turn.timeout.map(|timeout| Instant::now() + timeout.min(MAX_TIMEOUT));
        let deadline = [timeout, context.turn.pool().deadline()].into_iter().flatten().min();
        Turns { context, limit, deadline }
    }

    /// Prompts a node and returns its message. Counts as a step in trace and budget.
    ///
    /// # Errors
    /// Cancelled, Budget, Timeout, and errors of the node.
    pub(super) async fn prompt(
        &self,
        node: &Executable,
        step: &str,
        text: String,
    ) -> Result<String, EngineError> {
        self.context.turn.check_cancelled()?;
        self.context.turn.check_budget()?;
        let remaining = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let limit = [self.limit, remaining].into_iter().flatten().min();
        let pool = self.context.turn.pool().subtotal();
        let mut context = self.context.clone().map_turn(|turn| turn.with_input(text).with_pool(pool));
        context.turn.timeout = None;
        context.step = Some(match &self.context.step {
            Some(outer) => format!("{outer}/{step}").into(),
            None => step.into(),
        });
        context.turn.pool().add_step();
        let began = context.shared().clock.now();
        let result = attempt(node, &context, limit).await.map_err(|error| match error.kind {
            // The exceeded time limit may be that of the budget.
            ErrorKind::Timeout => self.context.turn.pool().check(false).err().unwrap_or(error),
            _ => error,
        });
        self.record(node, &context, began, &result);
        result.map(|value| message_of(&value))
    }

    fn record(
        &self,
        node: &Executable,
        context: &RunContext,
        began: TsNs,
        result: &Result<Value, EngineError>,
    ) {
        if context.trace().is_none() {
            return;
        }
        // The node's turn number identifies the entry in its audit log.
        let turn = result.as_ref().ok().and_then(|value| value.get("turn"));
        let metadata: Map<String, Value> =
            turn.map(|turn| ("turn".to_string(), turn.clone())).into_iter().collect();
        context.record_step(StepTrace {
            step_id: context.step.clone().unwrap_or_default(),
            node_id: Arc::from(node.id()),
            node_type: node.kind(),
            input: context.turn.input.clone(),
            output: result.as_ref().cloned().unwrap_or_default(),
            error: result.as_ref().err().map(ToString::to_string),
            start_time: began,
            end_time: context.shared().clock.now(),
            tokens_used: context.turn.pool().usage().tokens_used(),
            metadata,
        });
    }

    /// Records the end of the conversation in the trace, unless it runs inside a graph, which does so itself.
    pub(super) fn end(&self, error: Option<&EngineError>) {
        let run = self.context.shared();
        let Some(tracer) = run.tracer.as_ref().filter(|_| run.stack.is_none()) else { return };
        let status = match error.map(|error| error.kind) {
            None => TraceStatus::Completed,
            Some(ErrorKind::Cancelled) => TraceStatus::Cancelled,
            Some(_) => TraceStatus::Failed,
        };
        let usage = self.context.turn.usage();
        let error = error.map(ToString::to_string);
        tracer.end(run.clock.now(), status, usage.tokens_used(), usage.cost_dollars(), error);
    }
}
