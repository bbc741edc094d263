//! Runs one step: resolves its input, reuses journaled results and makes the attempts.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nerve_api::reply::ModelUsage;
use nerve_node::budget::{Budget, Checkpoint};
use nerve_node::cancellation::cancelled;
use nerve_node::command::{GateInfo, StateName};
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::execution::{panic_message, reported_tokens};
use nerve_node::telemetry::{ActiveSpan, begin_step, count, end_with};
use nerve_node::terminal::DialogPolicy;
use nerve_node::upstream::Upstream;
use nerve_types::TsNs;
use opentelemetry::KeyValue;
use serde::Deserialize;
use serde_json::Value;

use super::attempt::attempt;
use super::budget_question::await_grants;
use super::context::RunContext;
use super::event::{Completion, StepEventKind};
use super::executable::{Executable, Target};
use super::gate_question;
use super::journal::{self, Journal, JournalRecord, ReplayState};
use super::step::{OnDialog, OnResume, Round, Scope, Step};
use crate::policy::{ErrorPolicy, OnError};

/// The outcome of a step.
pub(super) enum StepOutcome {
    /// The step has a result. `at`: end time, if it was measured.
    Done { value: Value, at: Option<TsNs> },
    /// The step failed; no attempt is left.
    Failed(EngineError),
    /// The run was cancelled.
    Cancelled(EngineError),
}

/// Runs one step.
pub(super) async fn run_step(
    graph: &RunContext,
    step: &Step,
    upstream: Upstream,
    round: Option<Round<'_>>,
    started_at: Option<TsNs>,
) -> StepOutcome {
    let run = graph.shared();
    let watched = run.observer.is_some() || run.tracer.is_some() || run.journal.is_some();
    let mut context = graph.for_step(upstream);
    context.turn.parser = step.parser;
    if step.on_dialog == OnDialog::Wait {
        context.turn.at_dialog = DialogPolicy::Wait;
    }
    let has_span = graph.turn.trace_context().is_some_and(|span| span.is_recorded());
    if watched || run.gates.is_some() || has_span {
        context.step = Some(path(graph.step.as_ref(), &step.id, round));
    }
    if let Some(budget) = &step.sub_budget {
        let (stop, step) = (graph.turn.cancellation().child_token(), context.step.clone());
        let budget = Budget::clone(budget);
        context = context.map_turn(|turn| turn.with_step_budget(budget, step).with_cancellation(stop));
    } else if watched {
        context = context.map_turn(|turn| turn.with_pool(graph.turn.pool().subtotal()));
    }
    let is_timed = run.tracer.is_some() || run.observer.is_some();
    // Items and rounds get spans inside this one. A step that runs once has only its own span.
    let repeats = step.flow.as_ref().is_some_and(|flow| flow.foreach.is_some() || flow.until.is_some());
    let span = match repeats {
        true => begin_step(graph.turn.trace_context(), &step.id, context.step.as_ref(), &step.node),
        false => ActiveSpan::default(),
    };
    if let Some(span_context) = span.context() {
        context.turn.span = Some(Arc::clone(span_context));
    }
    let execution =
        StepRun { step, graph, context, round, started_at, is_timed, ended_at: AtomicU64::new(0) };
    let outcome = match (&step.sub_budget, &step.flow) {
        (None, None) => execution.run_once(execution.scope(), &execution.context).await,
        // Boxed because it is rare and large: otherwise every step would reserve space for it.
        (None, Some(flow)) => Box::pin(execution.run_flow(flow)).await,
        (Some(_), flow) => Box::pin(execution.run_within_budget(flow.as_deref())).await,
    };
    end_with(span, &outcome);
    execution.end(outcome)
}

/// Returns the path of a step inside its outer step and its round, if any.
fn path(outer: Option<&Arc<str>>, id: &Arc<str>, round: Option<Round<'_>>) -> Arc<str> {
    match (outer, round) {
        (None, None) => Arc::clone(id),
        (Some(outer), None) => format!("{outer}/{id}").into(),
        (None, Some(round)) => format!("{id}#{}", round.number).into(),
        (Some(outer), Some(round)) => format!("{outer}/{id}#{}", round.number).into(),
    }
}

/// One execution of a step.
pub(super) struct StepRun<'a> {
    pub(super) step: &'a Step,
    /// Context of the graph.
    pub(super) graph: &'a RunContext,
    /// Context of the step, without its input.
    pub(super) context: RunContext,
    /// Round of the graph, if it repeats its steps.
    pub(super) round: Option<Round<'a>>,
    pub(super) started_at: Option<TsNs>,
    /// True if start and end times are needed.
    pub(super) is_timed: bool,
    /// End time of the last execution in nanoseconds; 0 if not measured.
    pub(super) ended_at: AtomicU64,
}

impl StepRun<'_> {
    pub(super) fn scope(&self) -> Scope<'_> {
        Scope {
            input: &self.graph.turn.input,
            upstream: &self.context.turn.upstream,
            direct: &self.step.depends_on,
            item: None,
            index: 0,
            round: self.round.map_or(0, |round| round.number),
            result: self.round.and_then(|round| round.result),
        }
    }

    fn end(&self, outcome: Result<Value, EngineError>) -> StepOutcome {
        let at = Some(TsNs(self.ended_at.load(Ordering::Relaxed))).filter(|at| at.0 > 0);
        let cancelled = || self.graph.turn.cancellation().is_cancelled();
        match outcome {
            Ok(value) => StepOutcome::Done { value, at },
            Err(error) if error.kind == ErrorKind::Cancelled && cancelled() => StepOutcome::Cancelled(error),
            Err(error) => StepOutcome::Failed(self.attribute_error(error)),
        }
    }

    /// Attributes an error to this step, unless an inner step has done so.
    fn attribute_error(&self, mut error: EngineError) -> EngineError {
        if error.kind != ErrorKind::Budget {
            let step = self.context.step.as_ref().unwrap_or(&self.step.id);
            error.details.get_or_insert_default().step.get_or_insert_with(|| step.to_string());
        }
        error
    }

    /// Runs the node once, with its retries.
    pub(super) async fn run_once(&self, scope: Scope<'_>, base: &RunContext) -> Result<Value, EngineError> {
        let parent = base.turn.trace_context();
        let span = begin_step(parent, &self.step.id, base.step.as_ref(), &self.step.node);
        let result = self.execute(scope, base, &span).await;
        end_with(span, &result);
        result
    }

    async fn execute(
        &self,
        scope: Scope<'_>,
        base: &RunContext,
        span: &ActiveSpan,
    ) -> Result<Value, EngineError> {
        let mut context = base.clone();
        context.turn.span = span.context().cloned();
        if self.step.flow.is_some() && context.step.is_some() {
            // Usage of an item or a round is counted separately, for observers.
            context = context.map_turn(|turn| turn.with_pool(base.turn.pool().subtotal()));
        }
        let report = |error| self.report_error(base, error);
        context.turn.input = match &self.step.input_fn {
            Some(make) => self.evaluate("input", || make(&scope)).map_err(report)?,
            None => self.step.input.clone().unwrap_or_default(),
        };
        let node = self.resolve(&self.step.target).map_err(report)?;
        // The first run counts as a step, too. A nested graph counts its own steps.
        let repeats = self.step.flow.as_ref().is_some_and(|flow| flow.until.is_some());
        let is_first = scope.index == 0 && !(repeats && scope.round > 1);
        if self.step.sub_budget.is_some() && is_first && !node.is_graph() {
            self.context.turn.pool().add_own_step();
        }
        let preparation = self.prepare(&node, &mut context).await.map_err(report)?;
        let started_at = match preparation {
            Preparation::Reused(value) => {
                // Usage before the interruption counts, too.
                let used = value.get("usage").and_then(|usage| ModelUsage::deserialize(usage).ok());
                match used.filter(|_| node.has_live_metering()) {
                    Some(used) => context.turn.pool().add_usage(&used),
                    None => {
                        context.turn.add_tokens(reported_tokens(&value).unwrap_or(0));
                        let (calls, cost) = self.journaled_calls(&context);
                        context.turn.pool().add_api_calls(calls, cost);
                    }
                }
                self.notify(
                    context.step.as_ref(),
                    StepEventKind::Complete { how: Completion::Reused, ms: 0, tokens: 0 },
                    value.clone(),
                );
                self.trace(&node, &context, self.started_at, Ok((&value, Completion::Reused)), 0);
                span.describe(|span| span.set("nerve.step.how", Completion::Reused.as_str()));
                return Ok(value);
            }
            Preparation::Started(started_at) => started_at,
        };
        let mut attempts = 0;
        let result = self.make_attempts(&node, &context, &mut attempts, span).await;
        span.describe(|span| {
            span.set("nerve.node.kind", node.kind());
            span.set("nerve.attempts", count(attempts));
            span.set_some("nerve.step.how", result.as_ref().ok().map(|(_, how)| how.as_str()));
        });
        self.record_end(&node, &context, started_at, attempts, result).await
    }

    fn journaled_calls(&self, context: &RunContext) -> (u64, f64) {
        let replay = self.graph.shared().journal.as_ref().and_then(|(_, replay)| replay.as_deref());
        let step = context.step.as_deref().unwrap_or(&self.step.id);
        replay.map_or((0, 0.0), |replay| replay.calls(step, context.journal_key))
    }

    /// Prepares the first attempt: looks for a journaled result, records the start and notifies the observer.
    async fn prepare(&self, node: &Executable, context: &mut RunContext) -> Result<Preparation, EngineError> {
        let started_at =
            self.is_timed.then(|| self.started_at.unwrap_or_else(|| self.graph.shared().clock.now()));
        let is_leaf = !node.is_graph();
        if let Some((journal, replay)) = self.graph.shared().journal.clone().filter(|_| is_leaf) {
            let path = context.step.clone().unwrap_or_else(|| Arc::clone(&self.step.id));
            let parser = context.turn.parser.map(|parser| parser.to_string());
            context.journal_key = journal::key(self.step.definition, parser.as_deref(), &context.turn.input);
            let key = context.journal_key;
            let known = self.record_start(node, context, (&journal, replay.as_deref()), (&path, key)).await?;
            if let Some(value) = known {
                return Ok(Preparation::Reused(value));
            }
        }
        if self.graph.shared().observer.is_some() {
            let queued = node.is_persistent() && node.state() == StateName::Busy;
            self.notify(context.step.as_ref(), StepEventKind::Start { queued }, Value::Null);
            if let Some(sink) = self.chunk_sink(context) {
                *context = context.clone().with_chunks(sink);
            }
        }
        Ok(Preparation::Started(started_at))
    }

    /// Records that `node` starts with this key, or returns the journaled result for it.
    async fn record_start(
        &self,
        node: &Executable,
        context: &RunContext,
        (journal, replay): (&Journal, Option<&ReplayState>),
        (path, key): (&Arc<str>, u64),
    ) -> Result<Option<Value>, EngineError> {
        if let Some(value) = replay.and_then(|replay| replay.result(path, key)) {
            return Ok(Some(value.clone()));
        }
        let now = || self.graph.shared().clock.now();
        let persistent = node.is_persistent();
        if persistent
            && self.step.on_resume == OnResume::Ask
            && replay.is_some_and(|replay| replay.was_running(path, key))
            && let Some(value) = self.ask_rerun(node, context, (path, key)).await?
        {
            // The person's decision is durable: it is not requested again.
            let reason = "it was running when the run was interrupted, and is not run again";
            journal.record(&JournalRecord::Skipped {
                at: now(),
                step: path,
                key,
                value: Some(&value),
                reason,
            });
            return Ok(Some(value));
        }
        let name = node.id();
        journal.record(&JournalRecord::Started { at: now(), step: path, key, node: name, persistent });
        if persistent {
            if let Err(error) = journal.flush().await {
                tracing::warn!(%error, "the run continues without its journal");
            }
            context.turn.check_cancelled()?;
            if journal.is_sealed() {
                // The start could not be recorded.
                return Err(cancelled());
            }
        }
        Ok(None)
    }

    /// Runs the fallback node of a failed step. It has its own journal entry because it may keep state where the step's node keeps
    /// none.
    async fn run_fallback(&self, target: &Target, context: &RunContext) -> Result<Value, EngineError> {
        let limit = self.step.error_policy.as_ref().and_then(|policy| policy.timeout);
        let node = self.resolve(target)?;
        let run = self.graph.shared();
        let Some((journal, replay)) = run.journal.clone().filter(|_| !node.is_graph()) else {
            return self.attempt_until_answered(&node, context, limit).await;
        };
        let path = context.step.clone().unwrap_or_else(|| Arc::clone(&self.step.id));
        let key = context.journal_key.rotate_left(2);
        let known = self.record_start(&node, context, (&journal, replay.as_deref()), (&path, key)).await?;
        if let Some(value) = known {
            return Ok(value);
        }
        let result = self.attempt_until_answered(&node, context, limit).await;
        let at = run.clock.now();
        match &result {
            Ok(value) => {
                journal.record(&JournalRecord::Finished { at, step: &path, key, value, ms: 0, tokens: None });
            }
            // A cancelled fallback leaves no end record, as a cancelled step does.
            Err(error) if error.kind == ErrorKind::Cancelled => {}
            Err(error) => {
                journal.record(&JournalRecord::failed(at, &path, key, error));
            }
        }
        result
    }

    /// Asks a person whether to rerun a step that was running on a stateful node when the run was interrupted.
    async fn ask_rerun(
        &self,
        node: &Executable,
        context: &RunContext,
        (path, key): (&Arc<str>, u64),
    ) -> Result<Option<Value>, EngineError> {
        let info = GateInfo {
            step_id: path.to_string(),
            question: format!(
                "Step '{path}' was running on node '{}' when the run was interrupted. Run it again?",
                node.id()
            ),
            choices: ["rerun", "skip", "fail"].map(str::to_string).to_vec(),
            default: None,
            deadline_at: None,
        };
        // Not the step's own key: the answer of a gate is recorded as its result.
        let key = key.rotate_left(1);
        let (choice, _) = gate_question::ask(context, &self.step.node, info, None, key, false).await?;
        match choice.as_str() {
            "rerun" => Ok(None),
            "skip" => Ok(Some(Value::Null)),
            _ => Err(EngineError::new(
                ErrorKind::Interrupted,
                format!("step '{path}' was running when the run was interrupted, and is not run again"),
            )),
        }
    }

    /// Makes as many attempts as the error policy allows.
    async fn make_attempts(
        &self,
        node: &Executable,
        context: &RunContext,
        attempts: &mut u32,
        span: &ActiveSpan,
    ) -> Result<(Value, Completion), EngineError> {
        let none = ErrorPolicy::default();
        let policy = self.step.error_policy.as_deref().unwrap_or(&none);
        let error = loop {
            *attempts += 1;
            let error = match self.attempt_until_answered(node, context, policy.timeout).await {
                Ok(value) => return Ok((value, Completion::Completed)),
                Err(error) => error,
            };
            if error.is_final() || self.is_stopping(context) || *attempts > policy.retry_count {
                break error;
            }
            let delay = policy.delay(*attempts - 1);
            let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
            let retry = StepEventKind::Retry { attempt: *attempts + 1, delay_ms, error_type: error.kind };
            self.notify_error(context.step.as_ref(), retry, &error);
            span.add_event("nerve.retry", || {
                vec![
                    KeyValue::new("nerve.attempt", count(*attempts + 1)),
                    KeyValue::new("error.type", error.kind.as_str()),
                    KeyValue::new("nerve.delay_ms", count(delay_ms)),
                ]
            });
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                () = context.turn.cancellation().cancelled() => return Err(cancelled()),
            }
            context.turn.check_cancelled()?;
            // A retry is not another step.
            await_grants(context, Checkpoint::WithinStep).await?;
        };
        if error.is_final() {
            return Err(error);
        }
        // A node's reply to its interrupt is no failure of the step: error policies do not apply.
        if self.is_stopping(context) {
            return Err(cancelled());
        }
        match (policy.on_error, &policy.fallback_node) {
            (OnError::Skip, _) => Ok((policy.fallback_value.clone(), Completion::Skipped)),
            (OnError::Fallback, Some(fallback)) => {
                Ok((self.run_fallback(fallback, context).await?, Completion::Completed))
            }
            _ => Err(error),
        }
    }

    /// Makes an attempt. If the budget of the node or its session asks, waits for the answer and makes the attempt again, which
    /// sends the prompt again. Without a handler of gates no one can answer, so the question is the error.
    async fn attempt_until_answered(
        &self,
        node: &Executable,
        context: &RunContext,
        limit: Option<Duration>,
    ) -> Result<Value, EngineError> {
        loop {
            let error = match attempt(node, context, limit).await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let can_wait = error.is_budget_question() && self.graph.shared().gates.is_some();
            let Some(node) = node.node().filter(|_| can_wait) else { return Err(error) };
            let Some(ledger) = node.ledger() else { return Err(error) };
            tokio::select! {
                () = ledger.question_answered() => {}
                // The next attempt returns the error.
                _ = node.wait(&[StateName::Stopped], None) => {}
                () = context.turn.cancellation().cancelled() => return Err(cancelled()),
            }
        }
    }

    /// Returns true if the step is cancelled or its server shuts down: nothing more may start.
    fn is_stopping(&self, context: &RunContext) -> bool {
        let sealed = || self.graph.shared().journal.as_ref().is_some_and(|(journal, _)| journal.is_sealed());
        context.turn.cancellation().is_cancelled() || sealed()
    }

    pub(super) fn resolve(&self, target: &Target) -> Result<Executable, EngineError> {
        match target {
            Target::Executable(executable) => Ok(executable.clone()),
            Target::Name(name) => self.graph.find(name).map_err(|mut error| {
                error.message = format!("step '{}': {}", self.step.id, error.message);
                error
            }),
        }
    }

    /// Evaluates one of the step's functions; errors name the step and the part. A panic fails the step, not the run.
    pub(super) fn evaluate<T>(
        &self,
        part: &str,
        make: impl FnOnce() -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        catch_panic(make).map_err(|mut error| {
            error.message = format!("step '{}': {part}: {}", self.step.id, error.message);
            error
        })
    }
}

/// Calls a function of a graph. A panic becomes an error.
pub(super) fn catch_panic<T>(make: impl FnOnce() -> Result<T, EngineError>) -> Result<T, EngineError> {
    std::panic::catch_unwind(AssertUnwindSafe(make))
        .unwrap_or_else(|panic| Err(EngineError::internal(format!("panicked: {}", panic_message(&*panic)))))
}

/// The decision whether a step has to run.
enum Preparation {
    /// A journaled result exists.
    Reused(Value),
    /// The step starts, at this time if times are measured.
    Started(Option<TsNs>),
}
