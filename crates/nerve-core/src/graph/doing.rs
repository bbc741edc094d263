//! One step on its way: what it is given, what is known of it from before, its attempts, and who is told.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nerve_term::event::TsNs;
use serde_json::{Map, Value};

use super::attempt::{attempt, tokens_of, words_of};
use super::event::{How, StepEvent, StepEventKind};
use super::journal::{self, Fact, Journal, Past};
use super::step::{OnResume, Scope, Step, Target};
use super::upstream::Upstream;
use crate::budget::Budget;
use crate::cancellation::cancelled;
use crate::command::{GateInfo, StateName};
use crate::context::ExecutionContext;
use crate::error::{EngineError, ErrorKind};
use crate::node::{NodeHandle, gate};
use crate::policy::{ErrorPolicy, OnError};
use crate::proxy::TurnUsage;
use crate::telemetry::{ActiveSpan, end_step};
use crate::trace::StepTrace;

/// How a step ended.
pub(super) enum StepEnd {
    /// With a result. `at`: when, if anybody wanted to know.
    Done { value: Value, at: Option<TsNs> },
    /// For good.
    Failed(EngineError),
    /// The run stops.
    Cancelled(EngineError),
}

/// Runs one step.
pub(super) async fn run_step(
    graph: &ExecutionContext,
    step: &Step,
    upstream: Upstream,
    began: Option<TsNs>,
) -> StepEnd {
    let run = graph.run();
    let watched = run.observer.is_some() || run.tracer.is_some() || run.journal.is_some();
    let mut context = graph.of_step(upstream);
    context.parser = step.parser;
    if let Some(budget) = &step.sub_budget {
        let stop = graph.cancellation().child();
        context = context.with_sub_budget(Budget::clone(budget)).with_cancellation(stop);
    } else if watched {
        context = context.with_pool(graph.pool().part());
    }
    if watched || run.gates.is_some() || run.telemetry.is_on() {
        context.step = Some(path(graph.step.as_ref(), &step.id));
    }
    let times = run.tracer.is_some() || run.observer.is_some();
    // Its items and rounds are spans in this one; a step that is done once has only its own.
    let repeats = step.flow.as_ref().is_some_and(|flow| flow.foreach.is_some() || flow.until.is_some());
    let span = match repeats {
        true => run.telemetry.begin_step(graph.trace_context(), &step.id, context.step.as_ref(), &step.node),
        false => ActiveSpan::default(),
    };
    if let Some(inside) = span.context() {
        context.span = Some(Arc::clone(inside));
    }
    let doing = Doing { step, graph, context, began, times, ended: AtomicU64::new(0) };
    let came = match (&step.sub_budget, &step.flow) {
        (None, None) => doing.leaf(doing.scope(), &doing.context).await,
        // Seldom, and large: every step would have the room for it.
        (None, Some(flow)) => Box::pin(doing.flow(flow)).await,
        (Some(_), flow) => Box::pin(doing.within_budget(flow.as_deref())).await,
    };
    end_step(span, &came);
    doing.end(came)
}

/// The path of a step in the step that its graph is.
fn path(outer: Option<&Arc<str>>, id: &Arc<str>) -> Arc<str> {
    match outer {
        Some(outer) => format!("{outer}/{id}").into(),
        None => Arc::clone(id),
    }
}

/// A step on its way.
pub(super) struct Doing<'a> {
    pub(super) step: &'a Step,
    /// Of the graph.
    pub(super) graph: &'a ExecutionContext,
    /// Of the step, without its input.
    pub(super) context: ExecutionContext,
    pub(super) began: Option<TsNs>,
    /// Somebody wants to know when.
    pub(super) times: bool,
    /// When its last execution ended; 0 if nobody wants to know.
    pub(super) ended: AtomicU64,
}

impl Doing<'_> {
    pub(super) fn scope(&self) -> Scope<'_> {
        Scope {
            input: &self.graph.input,
            upstream: &self.context.upstream,
            direct: &self.step.depends_on,
            item: None,
            index: 0,
            round: 0,
            result: None,
        }
    }

    fn end(&self, came: Result<Value, EngineError>) -> StepEnd {
        let at = Some(TsNs(self.ended.load(Ordering::Relaxed))).filter(|at| at.0 > 0);
        let cancelled = || self.graph.cancellation().is_cancelled();
        match came {
            Ok(value) => StepEnd::Done { value, at },
            Err(error) if error.kind == ErrorKind::Cancelled && cancelled() => StepEnd::Cancelled(error),
            Err(error) => StepEnd::Failed(self.of_this(error)),
        }
    }

    /// Says of which step an error is, unless a step inside has said so.
    fn of_this(&self, mut error: EngineError) -> EngineError {
        if error.kind != ErrorKind::Budget {
            let step = self.context.step.as_ref().unwrap_or(&self.step.id);
            error.of_run.get_or_insert_default().step.get_or_insert_with(|| step.to_string());
        }
        error
    }

    /// One execution of the node, with its attempts.
    pub(super) async fn leaf(&self, scope: Scope<'_>, base: &ExecutionContext) -> Result<Value, EngineError> {
        let telemetry = &self.graph.run().telemetry;
        let parent = base.trace_context();
        let mut span = telemetry.begin_step(parent, &self.step.id, base.step.as_ref(), &self.step.node);
        let done = self.execution(scope, base, &mut span).await;
        end_step(span, &done);
        done
    }

    async fn execution(
        &self,
        scope: Scope<'_>,
        base: &ExecutionContext,
        span: &mut ActiveSpan,
    ) -> Result<Value, EngineError> {
        let mut context = base.clone();
        context.span = span.context().cloned();
        if self.step.flow.is_some() && context.step.is_some() {
            // What an item or a round uses is its own, for whoever watches.
            context = context.with_pool(base.pool().part());
        }
        let refused = |error| self.refused(base, error);
        context.input = match &self.step.input_fn {
            Some(make) => self.made("input", || make(&scope)).map_err(refused)?,
            None => self.step.input.clone().unwrap_or_default(),
        };
        let node = self.resolve(&self.step.target).map_err(refused)?;
        // The first of its runs counts too; a graph's are its steps.
        if self.step.sub_budget.is_some() && scope.index == 0 && scope.round < 2 && node.as_graph().is_none()
        {
            self.context.pool().add_own_step();
        }
        let begin = self.begin(&node, &mut context).await.map_err(refused)?;
        let began = match begin {
            Begin::Reused(value) => {
                // What was used for it counts, before the interruption or after.
                match TurnUsage::from_response(&value).filter(|_| node.has_live_metering()) {
                    Some(used) => context.pool().add_usage(&used),
                    None => context.add_tokens(tokens_of(&value).unwrap_or(0)),
                }
                self.tell(
                    context.step.as_ref(),
                    StepEventKind::Complete { how: How::Reused, ms: 0, tokens: 0 },
                    value.clone(),
                );
                self.trace(&node, &context, self.began, Ok((&value, How::Reused)), 0);
                span.describe(|span| span.attributes.set("nerve.step.how", How::Reused.as_str()));
                return Ok(value);
            }
            Begin::At(began) => began,
        };
        let mut attempts = 0;
        let done = self.attempts(&node, &context, &mut attempts, span).await;
        span.describe(|span| {
            span.attributes.set("nerve.node.kind", node.kind());
            span.attributes.set("nerve.attempts", attempts);
            span.attributes.set_some("nerve.step.how", done.as_ref().ok().map(|(_, how)| how.as_str()));
        });
        self.finish(&node, &context, began, attempts, done).await
    }

    /// Everything before the first attempt: what is known from before, what is written down, who is told.
    async fn begin(&self, node: &NodeHandle, context: &mut ExecutionContext) -> Result<Begin, EngineError> {
        let began = self.times.then(|| self.began.unwrap_or_else(|| self.graph.run().clock.now()));
        let leaf = node.as_graph().is_none();
        if let Some((journal, past)) = self.graph.run().journal.clone().filter(|_| leaf) {
            let path = context.step.clone().unwrap_or_else(|| Arc::clone(&self.step.id));
            let parser = context.parser.map(|parser| parser.to_string());
            context.key = journal::key(self.step.definition, parser.as_deref(), &context.input);
            let key = context.key;
            let known = self.write_begin(node, context, (&journal, past.as_deref()), (&path, key)).await?;
            if let Some(value) = known {
                return Ok(Begin::Reused(value));
            }
        }
        if self.graph.run().observer.is_some() {
            let queued = node.persistent() && crate::node::state_of(&**node) == StateName::Busy;
            self.tell(context.step.as_ref(), StepEventKind::Start { queued }, Value::Null);
            if let Some(observer) =
                self.graph.run().observer.as_ref().filter(|_| self.graph.run().tells_chunks)
            {
                let (observer, step, node) = (observer.clone(), context.step.clone(), self.step.node.clone());
                let clock = self.graph.run().clock;
                *context = context.clone().with_chunks(Arc::new(move |chunk: &str| {
                    let step = step.clone().unwrap_or_default();
                    let data = Value::from(chunk);
                    observer(StepEvent {
                        kind: StepEventKind::Chunk,
                        step,
                        node: node.clone(),
                        data,
                        at: clock.now(),
                    });
                }));
            }
        }
        Ok(Begin::At(began))
    }

    /// Writes down that `node` begins with what has this key; or gives what is known of it from before.
    async fn write_begin(
        &self,
        node: &NodeHandle,
        context: &ExecutionContext,
        (journal, past): (&Journal, Option<&Past>),
        (path, key): (&Arc<str>, u64),
    ) -> Result<Option<Value>, EngineError> {
        if let Some(value) = past.and_then(|past| past.result(path, key)) {
            return Ok(Some(value.clone()));
        }
        let now = || self.graph.run().clock.now();
        let persistent = node.persistent();
        if persistent
            && self.step.on_resume == OnResume::Ask
            && past.is_some_and(|past| past.was_running(path, key))
            && let Some(value) = self.ask_again(node, context, (path, key)).await?
        {
            // A person's word is not asked for twice.
            let reason = "it was running when the run was interrupted, and is not run again";
            journal.record(&Fact::Skipped { at: now(), step: path, key, value: Some(&value), reason });
            return Ok(Some(value));
        }
        let name = node.id();
        journal.record(&Fact::Started { at: now(), step: path, key, node: name, persistent });
        if persistent {
            if let Err(error) = journal.settle().await {
                tracing::warn!(%error, "a run goes on without its journal");
            }
            context.check_cancelled()?;
            if journal.is_sealed() {
                // Nobody would know that it had begun.
                return Err(cancelled());
            }
        }
        Ok(None)
    }

    /// Who stands in for a node that has failed. The journal knows it beside the step itself: it can keep state where the step's own
    /// node keeps none.
    async fn stand_in(&self, target: &Target, context: &ExecutionContext) -> Result<Value, EngineError> {
        let limit = self.step.error_policy.as_ref().and_then(|policy| policy.timeout);
        let node = self.resolve(target)?;
        let run = self.graph.run();
        let Some((journal, past)) = run.journal.clone().filter(|_| node.as_graph().is_none()) else {
            return attempt(&node, context, limit).await;
        };
        let path = context.step.clone().unwrap_or_else(|| Arc::clone(&self.step.id));
        let key = context.key.rotate_left(2);
        let known = self.write_begin(&node, context, (&journal, past.as_deref()), (&path, key)).await?;
        if let Some(value) = known {
            return Ok(value);
        }
        let done = attempt(&node, context, limit).await;
        let at = run.clock.now();
        match &done {
            Ok(value) => {
                journal.record(&Fact::Finished { at, step: &path, key, value, ms: 0, tokens: None });
            }
            // It has no end of its own, as a step that was cancelled has none.
            Err(error) if error.kind == ErrorKind::Cancelled => {}
            Err(error) => {
                let (error, error_type) = (error.to_string(), error.kind.as_str());
                journal.record(&Fact::Failed { at, step: &path, key, error: &error, error_type });
            }
        }
        done
    }

    /// A step on a node that keeps state ran when the run was interrupted: a person says what becomes of it.
    async fn ask_again(
        &self,
        node: &NodeHandle,
        context: &ExecutionContext,
        (path, key): (&Arc<str>, u64),
    ) -> Result<Option<Value>, EngineError> {
        let info = GateInfo {
            step: path.to_string(),
            question: format!(
                "Step '{path}' was running on node '{}' when the run was interrupted. Run it again?",
                node.id()
            ),
            choices: ["rerun", "skip", "fail"].map(str::to_string).to_vec(),
            default: None,
            deadline: None,
        };
        // Another key than the step's own: a gate's answer is its result.
        let key = key.rotate_left(1);
        let (choice, _) = gate::ask(context, &self.step.node, info, key, false).await?;
        match choice.as_str() {
            "rerun" => Ok(None),
            "skip" => Ok(Some(Value::Null)),
            _ => Err(EngineError::new(
                ErrorKind::Interrupted,
                format!("step '{path}' was running when the run was interrupted, and is not run again"),
            )),
        }
    }

    /// As often as the policy says.
    async fn attempts(
        &self,
        node: &NodeHandle,
        context: &ExecutionContext,
        attempts: &mut u32,
        span: &mut ActiveSpan,
    ) -> Result<(Value, How), EngineError> {
        let none = ErrorPolicy::default();
        let policy = self.step.error_policy.as_deref().unwrap_or(&none);
        let error = loop {
            *attempts += 1;
            let error = match attempt(node, context, policy.timeout).await {
                Ok(value) => return Ok((value, How::Completed)),
                Err(error) => error,
            };
            let ends = matches!(error.kind, ErrorKind::Cancelled | ErrorKind::Budget) || self.stops(context);
            if ends || *attempts > policy.retry_count {
                break error;
            }
            let delay = policy.delay(*attempts - 1);
            let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
            let retry =
                StepEventKind::Retry { attempt: *attempts + 1, delay_ms, error_type: error.kind.as_str() };
            self.tell(context.step.as_ref(), retry, Value::from(error.to_string()));
            span.happened("nerve.retry", |facts| {
                facts.set("nerve.attempt", *attempts + 1);
                facts.set("error.type", error.kind.as_str());
                facts.set("nerve.delay_ms", delay_ms);
            });
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                () = context.cancellation().wait() => return Err(cancelled()),
            }
            context.check_cancelled()?;
            // A retry is no further step.
            context.pool().check(false)?;
        };
        if matches!(error.kind, ErrorKind::Cancelled | ErrorKind::Budget) {
            return Err(error);
        }
        // What a node says to its interrupt is no failure of the step's own: no policy makes a result of it.
        if self.stops(context) {
            return Err(cancelled());
        }
        match (policy.on_error, &policy.fallback_node) {
            (OnError::Skip, _) => Ok((policy.fallback_value.clone(), How::Skipped)),
            (OnError::Fallback, Some(stand_in)) => {
                Ok((self.stand_in(stand_in, context).await?, How::Completed))
            }
            _ => Err(error),
        }
    }

    /// The step is cancelled, or its server goes down: nothing more is begun.
    fn stops(&self, context: &ExecutionContext) -> bool {
        let sealed = || self.graph.run().journal.as_ref().is_some_and(|(journal, _)| journal.is_sealed());
        context.cancellation().is_cancelled() || sealed()
    }

    /// Everything after the last attempt.
    async fn finish(
        &self,
        node: &NodeHandle,
        context: &ExecutionContext,
        began: Option<TsNs>,
        attempts: u32,
        done: Result<(Value, How), EngineError>,
    ) -> Result<Value, EngineError> {
        let run = self.graph.run();
        let tokens = if context.step.is_some() { context.pool().usage().tokens_used() } else { 0 };
        let at = if self.times || run.journal.is_some() { run.clock.now() } else { TsNs(0) };
        self.ended.store(at.0, Ordering::Relaxed);
        let ms = began.map_or(0, |began| at.0.saturating_sub(began.0) / 1_000_000);
        if let Some((journal, _)) = run.journal.as_ref().filter(|_| node.as_graph().is_none()) {
            let (step, key) = (context.step.as_deref().unwrap_or(&self.step.id), context.key);
            match &done {
                Ok((value, How::Skipped)) => {
                    let reason = "it failed, and its policy says to go on";
                    journal.record(&Fact::Skipped { at, step, key, value: Some(value), reason });
                }
                Ok((value, _)) => {
                    let tokens = (tokens > 0).then_some(tokens);
                    journal.record(&Fact::Finished { at, step, key, value, ms, tokens });
                }
                // It has no end of its own: resumed, it runs again.
                Err(error) if error.kind == ErrorKind::Cancelled => {}
                Err(error) => {
                    let (error, error_type) = (error.to_string(), error.kind.as_str());
                    journal.record(&Fact::Failed { at, step, key, error: &error, error_type });
                }
            }
            if node.persistent()
                && let Err(error) = journal.settle().await
            {
                tracing::warn!(%error, "a run goes on without its journal");
            }
        }
        if run.observer.is_some() {
            let (kind, data) = match &done {
                Ok((value, how)) => (StepEventKind::Complete { how: *how, ms, tokens }, value.clone()),
                Err(error) => {
                    (StepEventKind::Error { error_type: error.kind.as_str() }, Value::from(error.to_string()))
                }
            };
            self.tell(context.step.as_ref(), kind, data);
        }
        let outcome = done.as_ref().map(|(value, how)| (value, *how)).map_err(|error| error.to_string());
        self.trace_at(node, context, began, at, outcome, attempts);
        done.map(|(value, _)| value)
    }

    fn resolve(&self, target: &Target) -> Result<NodeHandle, EngineError> {
        match target {
            Target::Node(node) => Ok(Arc::clone(node)),
            Target::Name(name) => self.graph.session().find(name).map_err(|mut error| {
                error.message = format!("step '{}': {}", self.step.id, error.message);
                error
            }),
        }
    }

    /// What one of the step's own functions makes; says of which an error is. One that panics fails the step, not the run.
    pub(super) fn made<T>(
        &self,
        part: &str,
        make: impl FnOnce() -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let made = std::panic::catch_unwind(AssertUnwindSafe(make)).unwrap_or_else(|panic| {
            let message = format!("panicked: {}", words_of(&*panic));
            Err(EngineError::new(ErrorKind::Internal, message))
        });
        made.map_err(|mut error| {
            error.message = format!("step '{}': {part}: {}", self.step.id, error.message);
            error
        })
    }

    pub(super) fn tell(&self, step: Option<&Arc<str>>, kind: StepEventKind, data: Value) {
        let run = self.graph.run();
        let Some(observer) = &run.observer else { return };
        let step = step.cloned().unwrap_or_else(|| Arc::clone(&self.step.id));
        observer(StepEvent { kind, step, node: Arc::clone(&self.step.node), data, at: run.clock.now() });
    }

    /// Of what was not executed.
    pub(super) fn trace_only(
        &self,
        context: &ExecutionContext,
        error: Option<String>,
        metadata: Map<String, Value>,
    ) {
        let Some(tracer) = self.graph.trace() else { return };
        let now = self.graph.run().clock.now();
        tracer.record(StepTrace {
            step_id: context.step.clone().unwrap_or_default(),
            node_id: Arc::clone(&self.step.node),
            // Nobody has the name: that may be the error.
            node_type: self.resolve(&self.step.target).map_or("", |node| node.kind()),
            input: Value::Null,
            output: Value::Null,
            error,
            start_time: now,
            end_time: now,
            tokens_used: 0,
            metadata,
        });
    }

    fn trace(
        &self,
        node: &NodeHandle,
        context: &ExecutionContext,
        began: Option<TsNs>,
        outcome: Result<(&Value, How), String>,
        attempts: u32,
    ) {
        if self.graph.trace().is_some() {
            self.trace_at(node, context, began, self.graph.run().clock.now(), outcome, attempts);
        }
    }

    fn trace_at(
        &self,
        node: &NodeHandle,
        context: &ExecutionContext,
        began: Option<TsNs>,
        at: TsNs,
        outcome: Result<(&Value, How), String>,
        attempts: u32,
    ) {
        let Some(tracer) = self.graph.trace() else { return };
        let mut metadata = match &outcome {
            Ok((_, How::Skipped)) => facts("skipped", Value::Bool(true)),
            Ok((_, How::Reused)) => facts("reused", Value::Bool(true)),
            _ => Map::new(),
        };
        if attempts > 1 {
            metadata.insert("attempts".to_string(), Value::from(attempts));
        }
        // The turn on the node: finds its entry in the audit log (decision D13).
        if let Some(turn) = outcome.as_ref().ok().and_then(|(value, _)| value.get("turn")) {
            metadata.insert("turn".to_string(), turn.clone());
        }
        let cost = context.pool().usage().cost_dollars();
        if cost > 0.0 {
            metadata.insert("cost_dollars".to_string(), Value::from(cost));
        }
        let (output, error) = match outcome {
            // The results of its steps are in its steps' traces.
            Ok((value, _)) if node.as_graph().is_none() => (value.clone(), None),
            Ok(_) => (Value::Null, None),
            Err(error) => (Value::Null, Some(error)),
        };
        tracer.record(StepTrace {
            step_id: context.step.clone().unwrap_or_default(),
            node_id: Arc::clone(&self.step.node),
            node_type: node.kind(),
            input: context.input.clone(),
            output,
            error,
            start_time: began.unwrap_or(at),
            end_time: at,
            tokens_used: context.pool().usage().tokens_used(),
            metadata,
        });
    }
}

pub(super) fn facts(key: &str, value: Value) -> Map<String, Value> {
    Map::from_iter([(key.to_string(), value)])
}

enum Begin {
    /// It was done before.
    Reused(Value),
    /// It begins.
    At(Option<TsNs>),
}
