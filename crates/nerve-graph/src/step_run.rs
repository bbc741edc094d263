//! Runs one step: resolves its node and its input, and reports how it ends.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nerve_api::reply::ModelUsage;
use nerve_node::budget::RunBudget;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::execution::{panic_message, reported_tokens};
use nerve_node::telemetry::{ActiveSpan, begin_step, count, end_with};
use nerve_node::terminal::DialogPolicy;
use nerve_node::upstream::UpstreamResults;
use nerve_types::TsNs;
use serde::Deserialize;
use serde_json::Value;

use super::context::RunContext;
use super::event::Completion;
use super::executable::{Executable, Target};
use super::run_journal::RunJournal;
use super::step::{OnDialog, Round, Scope, Step};

/// The decision whether a step has to run.
pub(super) enum Preparation {
    /// A journaled result exists.
    Reused(Value),
    /// The step starts, at this time if times are measured.
    Started(Option<TsNs>),
}

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
    upstream: &UpstreamResults,
    round: Option<Round<'_>>,
    started_at: Option<TsNs>,
) -> StepOutcome {
    let mut context = step_context(graph, step, upstream, round);
    let (path, is_timed) = (context.step.clone(), graph.shared().is_watched());
    let ended_at = AtomicU64::new(0);
    // Items and rounds start at times of their own.
    let started_at = started_at.filter(|_| !step.repeats());
    let execution = StepRun { step, graph, upstream, path, round, started_at, is_timed, ended_at };
    let outcome = match (&step.sub_budget, &step.flow) {
        (None, None) => execution.run_once(execution.scope(), &mut context).await,
        // Boxed because it is rare and large: otherwise every step would reserve space for it.
        _ => Box::pin(execution.run_controlled(&mut context)).await,
    };
    execution.end(outcome)
}

/// Creates the context of a step, without its input.
fn step_context(
    graph: &RunContext,
    step: &Step,
    upstream: &UpstreamResults,
    round: Option<Round<'_>>,
) -> RunContext {
    let run = graph.shared();
    let mut context = graph.for_step(upstream.clone());
    context.turn.parser = step.parser;
    if step.on_dialog == OnDialog::Wait {
        context.turn.at_dialog = DialogPolicy::Wait;
    }
    let has_span = graph.turn.trace_context().is_some_and(|span| span.is_recorded());
    if run.is_watched() || run.gates.is_some() || has_span {
        context.step = Some(path(graph.step.as_ref(), &step.id, round));
    }
    if let Some(budget) = &step.sub_budget {
        let (stop, step) = (graph.turn.cancellation().child_token(), context.step.clone());
        let budget = RunBudget::clone(budget);
        context.map_turn(|turn| turn.with_step_budget(budget, step).with_cancellation(stop))
    } else if run.is_watched() {
        context.with_subtotal()
    } else {
        context
    }
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
    /// Results of the graph's steps so far.
    pub(super) upstream: &'a UpstreamResults,
    /// Path of the step, if something records it.
    pub(super) path: Option<Arc<str>>,
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
            upstream: self.upstream,
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
            let step = self.path.as_ref().unwrap_or(&self.step.id);
            error.details.get_or_insert_default().step.get_or_insert_with(|| step.to_string());
        }
        error
    }

    /// Runs the node once, with its retries. `context` is used for this run only.
    pub(super) async fn run_once(
        &self,
        scope: Scope<'_>,
        context: &mut RunContext,
    ) -> Result<Value, EngineError> {
        let parent = context.turn.trace_context();
        let span = begin_step(parent, &self.step.id, context.step.as_ref(), &self.step.node);
        context.turn.span = span.context().cloned();
        let result = self.execute(scope, context, &span).await;
        end_with(span, &result);
        result
    }

    async fn execute(
        &self,
        scope: Scope<'_>,
        context: &mut RunContext,
        span: &ActiveSpan,
    ) -> Result<Value, EngineError> {
        let path = context.step.clone();
        let report = |error| self.report_error(path.as_ref(), error);
        context.turn.input = match &self.step.input_fn {
            Some(make) => self.evaluate("input", || make(&scope)).map_err(report)?,
            None => self.step.input.clone().unwrap_or_default(),
        };
        let node = self.resolve(&self.step.target).map_err(report)?;
        let preparation = self.prepare(&node, context).await.map_err(report)?;
        let started_at = match preparation {
            Preparation::Reused(value) => {
                // Usage before the interruption counts, too.
                let used = value.get("usage").and_then(|usage| ModelUsage::deserialize(usage).ok());
                match used.filter(|_| node.has_live_metering()) {
                    Some(used) => context.turn.pool().add_usage(&used),
                    None => {
                        context.turn.add_tokens(reported_tokens(&value).unwrap_or(0));
                        let replay = self.graph.shared().replay(self.path_of(context), context.journal_key);
                        let calls = replay.map(|replay| replay.calls).unwrap_or_default();
                        context.turn.pool().add_api_calls(calls.count, calls.cost_usd);
                    }
                }
                let outcome = Ok((&value, Completion::Reused));
                self.notify_end(context, outcome, 0, 0);
                let now = self.graph.shared().clock.now();
                self.trace(&node, context, self.started_at, now, outcome, 0);
                span.describe(|span| span.set("nerve.step.how", Completion::Reused.as_str()));
                return Ok(value);
            }
            Preparation::Started(started_at) => started_at,
        };
        let mut attempts = self.attempts(&node, context, span);
        let result = attempts.make().await;
        let attempts = attempts.count;
        span.describe(|span| {
            span.set("nerve.node.kind", node.kind());
            span.set("nerve.attempts", count(attempts));
            span.set_some("nerve.step.how", result.as_ref().ok().map(|(_, how)| how.as_str()));
        });
        self.record_end(&node, context, started_at, attempts, result).await
    }

    /// Returns the path that `context` has for the step or one of its parts.
    pub(super) fn path_of<'c>(&'c self, context: &'c RunContext) -> &'c Arc<str> {
        context.step.as_ref().unwrap_or(&self.step.id)
    }

    /// Returns true if the step is cancelled or its server shuts down: nothing more may start.
    pub(super) fn is_stopping(&self, context: &RunContext) -> bool {
        let journal = self.graph.shared().journal.as_ref();
        context.turn.cancellation().is_cancelled() || journal.is_some_and(RunJournal::is_sealed)
    }

    pub(super) fn resolve<'t>(&self, target: &'t Target) -> Result<Cow<'t, Executable>, EngineError> {
        match target {
            Target::Executable(executable) => Ok(Cow::Borrowed(executable)),
            Target::Name(name) => {
                let found = self.graph.find(name).map(Cow::Owned);
                found.map_err(|error| error.in_context(format_args!("step '{}'", self.step.id)))
            }
        }
    }

    /// Evaluates one of the step's functions; errors name the step and the part. A panic fails the step, not the run.
    pub(super) fn evaluate<T>(
        &self,
        part: &str,
        make: impl FnOnce() -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        catch_panic(make).map_err(|error| error.in_context(format_args!("step '{}': {part}", self.step.id)))
    }
}

/// Calls a function of a graph. A panic becomes an error.
pub(super) fn catch_panic<T>(make: impl FnOnce() -> Result<T, EngineError>) -> Result<T, EngineError> {
    std::panic::catch_unwind(AssertUnwindSafe(make))
        .unwrap_or_else(|panic| Err(EngineError::internal(format!("panicked: {}", panic_message(&*panic)))))
}
