//! Control flow of a step: its condition, the items of a list, the rounds of a loop, and its own budget.

use std::sync::Arc;

use futures_util::future::OptionFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use nerve_node::budget::Checkpoint;
use nerve_node::cancellation::cancelled_error;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::telemetry::{ActiveSpan, begin_step, end_with};
use serde_json::{Map, Value};
use tokio::task::coop::consume_budget;
use tokio_util::sync::CancellationToken;

use super::budget_question::await_grants;
use super::context::RunContext;
use super::event::{Completion, StepEventKind};
use super::journal::JournalRecord;
use super::step::{Flow, ForEach, Scope, Until};
use super::step_report::metadata_entry;
use super::step_run::StepRun;

impl StepRun<'_> {
    /// Runs a step that has control flow or its own budget.
    pub(super) async fn run_controlled(&self, context: &mut RunContext) -> Result<Value, EngineError> {
        let flow = self.step.flow.as_deref();
        // Items and rounds get spans inside this one. A step that runs once has only its own span.
        let span = match self.step.repeats() {
            true => {
                let parent = self.graph.turn.trace_context();
                begin_step(parent, &self.step.id, context.step.as_ref(), &self.step.node)
            }
            false => ActiveSpan::default(),
        };
        if let Some(span_context) = span.context() {
            context.turn.span = Some(Arc::clone(span_context));
        }
        let outcome = match &self.step.sub_budget {
            Some(_) => self.run_within_budget(flow, context).await,
            None => self.run_flow(flow, context).await,
        };
        end_with(span, &outcome);
        outcome
    }

    /// Runs a step with its own budget. An exhausted budget prevents the start, or stops the step.
    async fn run_within_budget(
        &self,
        flow: Option<&Flow>,
        context: &RunContext,
    ) -> Result<Value, EngineError> {
        let pool = context.turn.pool();
        let report = |error| self.report_error(context.step.as_ref(), error);
        pool.check_own(Checkpoint::BeforeStep).map_err(report)?;
        // The first run counts as a step, too. A nested graph counts its own steps.
        if self.resolve(&self.step.target).is_ok_and(|node| !node.is_graph()) {
            pool.add_own_step();
        }
        let work = self.run_flow(flow, context);
        tokio::pin!(work);
        let value = tokio::select! {
            biased;
            value = &mut work => value?,
            error = wait_for_own_limit(context) => {
                context.turn.cancellation().cancel();
                // The step may still wind down, but its result comes too late.
                let late = work.await.err().unwrap_or_else(cancelled_error);
                return Err(error.map_or(late, report));
            }
        };
        // A step that ended above its limit fails. A budget that asks does not ask about it any more.
        if !pool.can_ask() {
            pool.check_own(Checkpoint::WithinStep).map_err(report)?;
        }
        Ok(value)
    }

    /// Reports why a step, an item or a round was not executed, or why its result does not count.
    pub(super) fn report_error(&self, path: Option<&Arc<str>>, error: EngineError) -> EngineError {
        let kind = StepEventKind::Error { error_type: error.kind };
        self.notify_error(path, kind, &error);
        self.trace_unexecuted(path, Some(&error), Map::new());
        error
    }

    /// Runs a step once, or as its condition, items and rounds demand.
    async fn run_flow(&self, flow: Option<&Flow>, context: &RunContext) -> Result<Value, EngineError> {
        let (scope, step) = (self.scope(), context.step.as_ref());
        let Some(flow) = flow else { return self.run_once(scope, &mut context.clone()).await };
        if let Some(when) = &flow.when
            && !self.evaluate("when", || when(&scope)).map_err(|error| self.report_error(step, error))?
        {
            let skipped = StepEventKind::Complete { how: Completion::Skipped, ms: 0, tokens: 0 };
            self.notify(step, skipped, Value::Null);
            self.trace_unexecuted(step, None, metadata_entry("skipped", Value::Bool(true)));
            return Ok(Value::Null);
        }
        if flow.repeats() {
            // Items and rounds report their own events; these are of the step as a whole.
            self.notify(step, StepEventKind::Start { queued: false }, Value::Null);
        }
        let started_at = self.graph.shared().clock.now();
        let outcome = match (&flow.foreach, &flow.until) {
            (Some(foreach), until) => self.run_items(foreach, until.as_ref(), scope, context).await,
            (None, Some(until)) => self.run_rounds(until, scope, context).await,
            (None, None) => return self.run_once(scope, &mut context.clone()).await,
        };
        let ms = self.graph.shared().clock.now().0.saturating_sub(started_at.0) / 1_000_000;
        let tokens = context.turn.pool().usage().tokens_used();
        let end = outcome.as_ref().map(|value| (value, Completion::Completed));
        self.notify_end(context, end, ms, tokens);
        outcome
    }

    /// Runs the step once for each item. Results are in the order of the items.
    pub(super) async fn run_items(
        &self,
        foreach: &ForEach,
        until: Option<&Until>,
        scope: Scope<'_>,
        context: &RunContext,
    ) -> Result<Value, EngineError> {
        let items = self.evaluate("foreach", || (foreach.items)(&scope))?;
        self.record_items(items.len(), context);
        // A failed item cancels the others.
        let stop = context.turn.cancellation().child_token();
        let all = context.clone().with_cancellation(stop.clone());
        let mut results: Vec<Value> = vec![Value::Null; items.len()];
        let mut failure: Option<EngineError> = None;
        let mut running = FuturesUnordered::new();
        let mut question = OptionFuture::default();
        let (mut next, mut needs_grant) = (0, false);
        loop {
            while failure.is_none() && !needs_grant && next < items.len() && running.len() < foreach.parallel
            {
                let index = next;
                match if index > 0 { admit_item(&all, &stop) } else { Admission::Granted } {
                    Admission::Granted => {}
                    Admission::NeedsGrant => {
                        question = Some(Box::pin(await_grants(&all, Checkpoint::BeforeStep))).into();
                        needs_grant = true;
                        break;
                    }
                    Admission::Refused(error) => {
                        failure = Some(error);
                        break;
                    }
                }
                next += 1;
                let scope = Scope { item: Some(&items[index]), index, ..scope };
                let mut context = all.clone();
                context.step = context.step.map(|path| format!("{path}[{index}]").into());
                running.push(async move {
                    let outcome = match until {
                        Some(until) => self.run_rounds(until, scope, &context).await,
                        None => self.run_once(scope, &mut with_own_usage(context)).await,
                    };
                    (index, outcome)
                });
            }
            // A million items that never wait must not starve the other tasks of this thread.
            consume_budget().await;
            let (index, outcome) = tokio::select! {
                biased;
                Some(ended) = running.next() => ended,
                Some(granted) = &mut question, if needs_grant => {
                    needs_grant = false;
                    if let Err(error) = granted {
                        cancel_items_over_limits(&all, &stop);
                        failure.get_or_insert(error);
                    }
                    continue;
                }
                else => break,
            };
            match outcome {
                Ok(outcome) => results[index] = outcome,
                Err(error) => {
                    stop.cancel();
                    failure.get_or_insert(error);
                }
            }
        }
        drop(running);
        match failure {
            Some(error) => Err(error),
            None => Ok(Value::Array(results)),
        }
    }

    fn record_items(&self, count: usize, context: &RunContext) {
        let run = self.graph.shared();
        if let Some(journal) = &run.journal {
            journal.record(&JournalRecord::Items { at: run.clock.now(), step: self.path_of(context), count });
        }
    }

    /// Runs the step until the condition holds.
    pub(super) async fn run_rounds(
        &self,
        until: &Until,
        scope: Scope<'_>,
        context: &RunContext,
    ) -> Result<Value, EngineError> {
        let mut result = None;
        for round in 1..=until.max_rounds {
            let mut context = context.clone();
            context.step = context.step.map(|path| format!("{path}#{round}").into());
            if round > 1 {
                // Rounds that never wait must not starve the other tasks of this thread.
                consume_budget().await;
                context.turn.check_cancelled()?;
                await_grants(&context, Checkpoint::BeforeStep).await?;
                context.turn.pool().add_step();
            }
            let scope = Scope { round, result: result.as_ref(), ..scope };
            let outcome = self.run_once(scope, &mut with_own_usage(context)).await?;
            let now = Scope { round, result: Some(&outcome), ..scope };
            if self.evaluate("until", || (until.condition)(&now))? {
                return Ok(outcome);
            }
            result = Some(outcome);
        }
        let message =
            format!("step '{}': condition still false after {} rounds", self.step.id, until.max_rounds);
        Err(EngineError::process(message).hint("increase max_rounds of `until`, or change the condition"))
    }
}

/// The decision whether another item may begin.
enum Admission {
    Granted,
    /// A budget's question has to be answered first.
    NeedsGrant,
    Refused(EngineError),
}

/// Checks the limits before an item after the first one, which is counted if it may begin.
fn admit_item(all: &RunContext, stop: &CancellationToken) -> Admission {
    let pool = all.turn.pool();
    let checked = all.turn.check_cancelled().and_then(|()| pool.check_stops(Checkpoint::BeforeStep));
    if let Err(error) = checked {
        cancel_items_over_limits(all, stop);
        return Admission::Refused(error);
    }
    if pool.check(Checkpoint::BeforeStep).is_err() {
        return Admission::NeedsGrant;
    }
    pool.add_step();
    Admission::Granted
}

/// Cancels the running items, unless only the step limit is used up: then they may finish.
fn cancel_items_over_limits(all: &RunContext, stop: &CancellationToken) {
    if all.turn.pool().check_stops(Checkpoint::WithinStep).is_err() {
        stop.cancel();
    }
}

/// Waits until the step's own budget stops it: at its time limit, or if a grant is refused. Returns the error.
async fn wait_for_own_limit(context: &RunContext) -> Option<EngineError> {
    let pool = context.turn.pool();
    while pool.can_ask() {
        pool.wait_for_limit().await;
        match await_grants(context, Checkpoint::WithinStep).await {
            Ok(()) => {}
            // The step ends by itself.
            Err(error) if error.kind == ErrorKind::Cancelled => std::future::pending().await,
            Err(error) => return Some(error),
        }
    }
    pool.wait_for_own_time_limit().await;
    pool.check_own(Checkpoint::WithinStep).err()
}

/// Counts the usage of an item or a round separately, for observers.
fn with_own_usage(context: RunContext) -> RunContext {
    if context.step.is_some() { context.with_subtotal() } else { context }
}
