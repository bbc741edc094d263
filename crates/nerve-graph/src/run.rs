//! Runs a graph: one dispatcher starts the steps that are ready and collects their results. Only the results are shared.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::trace::TraceStatus;
use futures_util::poll;
use futures_util::stream::{FuturesUnordered, StreamExt};
use nerve_host::clock::MAX_TIMEOUT;
use nerve_node::budget::Checkpoint;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::pool::RunPool;
use nerve_node::telemetry::{ActiveSpan, RunAttributes, begin_run, end_run};
use nerve_node::upstream::{ResultSlots, UpstreamResults};
use nerve_types::TsNs;
use serde_json::{Map, Value};
use tokio::task::coop::{consume_budget, unconstrained};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::budget_question::await_grants;
use super::call_stack::GraphStack;
use super::context::RunContext;
use super::plan::Plan;
use super::step::{Round, Scope};
use super::step_run::{StepOutcome, catch_panic, run_step};
use super::{Graph, GraphRun, OnFailure};

/// Nested graphs that share one task's stack; each further group gets its own task.
const GRAPHS_PER_TASK: usize = 8;

type PendingQuestion<'a> = Pin<Box<dyn Future<Output = Result<(), EngineError>> + Send + 'a>>;

/// Runs a graph to its end.
pub(super) async fn run(graph: &Graph, context: &RunContext) -> GraphRun {
    let stack = Arc::new(GraphStack::new(&graph.id, graph.steps.clone(), context.shared().stack.clone()));
    let depth = stack.depth();
    let mut context = inner_context(graph, context, stack);
    let span = match depth == 0 && context.shared().has_span {
        true => ActiveSpan::default(),
        false => {
            let run = RunAttributes { graph: &graph.id, steps: graph.len(), ..RunAttributes::default() };
            let span = begin_run(context.turn.trace_context(), &run);
            context.turn.span = span.context().cloned();
            span
        }
    };
    let usage = context.turn.usage().clone();
    let run = run_at_depth(graph, context, depth).await;
    end_run(span, run.status.as_str(), run.error.as_ref(), usage.tokens_used());
    run
}

async fn run_at_depth(graph: &Graph, context: RunContext, depth: usize) -> GraphRun {
    if depth % GRAPHS_PER_TASK == GRAPHS_PER_TASK - 1 {
        let (graph, usage) = (graph.clone(), context.turn.usage().clone());
        let task = tokio::spawn(async move { run_inline(&graph, context).await });
        return AbortOnDropHandle::new(task).await.unwrap_or_else(|error| {
            GraphRun::failed(EngineError::internal(format!("a graph's task ended: {error}")), usage)
        });
    }
    run_inline(graph, context).await
}

/// Creates the context for the steps of a graph.
fn inner_context(graph: &Graph, context: &RunContext, stack: Arc<GraphStack>) -> RunContext {
    let pool = RunPool::new(graph.budget.clone(), context.step.clone(), Some(context.turn.pool().clone()));
    // A failure cancels the steps of this graph, not those of outer graphs.
    let stop = context.turn.cancellation().child_token();
    let mut inner = context.clone().map_turn(|turn| turn.with_pool(pool).with_cancellation(stop));
    inner.shared_mut().stack = Some(stack);
    inner
}

async fn run_inline(graph: &Graph, mut context: RunContext) -> GraphRun {
    let usage = context.turn.usage().clone();
    if let Some(tracer) = context.trace() {
        tracer.reserve(graph.len());
    }
    let completed = match &graph.input {
        Some(input) => input.complete(std::mem::take(&mut context.turn.input)),
        None => Ok(std::mem::take(&mut context.turn.input)),
    };
    let outcome = match completed {
        Ok(input) => {
            context.turn.input = input;
            run_rounds(graph, &context).await
        }
        Err(error) => Err(error),
    };
    let run = outcome.unwrap_or_else(|error| GraphRun::failed(error, usage.clone()));
    if context.shared().stack.as_ref().is_some_and(|stack| stack.depth() == 0)
        && let Some(tracer) = context.trace()
    {
        let at = context.shared().clock.now();
        tracer.end(at, run.status, usage.tokens_used(), usage.cost_usd(), run.error.as_ref());
    }
    run
}

/// Runs the steps once, or until the condition of the graph holds.
///
/// # Errors
/// The graph cannot run.
async fn run_rounds(graph: &Graph, context: &RunContext) -> Result<GraphRun, EngineError> {
    let began = Instant::now();
    let (mut number, mut result) = (1, None);
    loop {
        let round = graph.until.as_ref().map(|_| Round { number, result: result.as_ref() });
        let mut run = Dispatcher::new(graph, context, round, began)?.run().await;
        let Some(until) = graph.until.as_ref().filter(|_| run.error.is_none()) else { return Ok(run) };
        let results = Value::Object(run.results.clone());
        let scope = Scope {
            input: &context.turn.input,
            upstream: &UpstreamResults::default(),
            direct: &[],
            item: None,
            index: 0,
            round: number,
            result: Some(&results),
        };
        run.error = match catch_panic(|| (until.condition)(&scope)) {
            Ok(true) => return Ok(run),
            Ok(false) if number < until.max_rounds => {
                (number, result) = (number + 1, Some(results));
                continue;
            }
            Ok(false) => {
                let message = format!("graph '{}': condition still false after {number} rounds", graph.id);
                Some(EngineError::process(message))
            }
            Err(error) => Some(error.in_context(format_args!("graph '{}': until", graph.id))),
        };
        run.status = TraceStatus::Failed;
        return Ok(run);
    }
}

struct Dispatcher<'a> {
    graph: &'a Graph,
    context: &'a RunContext,
    /// Round of a graph that repeats its steps.
    round: Option<Round<'a>>,
    plan: Arc<Plan>,
    /// Number of unfinished dependencies of each step.
    pending: Vec<u32>,
    ready: VecDeque<u32>,
    results: Arc<ResultSlots>,
    /// The first failure.
    failure: Option<EngineError>,
    /// No more steps start.
    stopping: bool,
    /// A budget asks at its limit: no step starts until that is answered.
    needs_grant: bool,
    /// Start of the first round.
    began: Instant,
    /// End time of the last step, while the dispatcher has not waited since.
    last_end: Option<TsNs>,
}

#[derive(Clone, Copy)]
enum Limit {
    Timeout,
    Budget,
}

impl<'a> Dispatcher<'a> {
    fn new(
        graph: &'a Graph,
        context: &'a RunContext,
        round: Option<Round<'a>>,
        began: Instant,
    ) -> Result<Dispatcher<'a>, EngineError> {
        if let Some(path) = context.shared().stack.as_ref().and_then(|stack| stack.recursion_path()) {
            return Err(EngineError::invalid_request(format!("a graph runs inside itself: {path}"))
                .hint("use another graph in that step, or a loop with `until`"));
        }
        let plan =
            graph.check(&|name| context.find(name).ok()).map_err(|problems| graph.invalid(&problems))?;
        let pending = plan.in_degrees.clone();
        let ready = (0..pending.len() as u32).filter(|step| pending[*step as usize] == 0).collect();
        Ok(Dispatcher {
            graph,
            context,
            round,
            plan,
            pending,
            ready,
            results: ResultSlots::new(&graph.names, graph.steps.len()),
            failure: None,
            stopping: false,
            needs_grant: false,
            began,
            last_end: None,
        })
    }

    async fn run(mut self) -> GraphRun {
        let (graph, context, round) = (self.graph, self.context, self.round);
        let upstream = UpstreamResults::new(&self.results);
        let begin = |index: u32, at: Option<TsNs>| {
            let (step, upstream) = (&graph.steps[index as usize], &upstream);
            async move { (index, run_step(context, step, upstream, round, at).await) }
        };
        let (mut running, mut spare) = (FuturesUnordered::new(), None);
        let mut question: Option<PendingQuestion<'a>> = None;
        loop {
            if question.is_none() {
                self.start_steps(&begin, &mut running, &mut spare).await;
            }
            if std::mem::take(&mut self.needs_grant) {
                question = Some(Box::pin(await_grants(context, Checkpoint::BeforeStep)));
            }
            if self.stopping {
                question = None;
            }
            // After the last step nothing is left to grant.
            if running.is_empty() && (question.is_none() || self.ready.is_empty()) {
                break;
            }
            self.last_end = None;
            tokio::select! {
                biased;
                Some((index, end)) = running.next() => self.on_step_end(index, end),
                () = context.turn.cancellation().cancelled(), if !self.stopping => self.stopping = true,
                granted = poll_question(&mut question), if question.is_some() => {
                    question = None;
                    if let Err(error) = granted {
                        self.stop_over_budget(error);
                    }
                }
                () = context.turn.pool().wait_for_limit(), if question.is_none() && !self.stopping => {
                    question = Some(Box::pin(await_grants(context, Checkpoint::WithinStep)));
                }
                limit = wait_for_time_limit(context, self.began), if !context.turn.cancellation().is_cancelled() => self.stop_at_limit(limit),
            }
        }
        drop((running, spare));
        drop(upstream);
        self.finish()
    }

    /// Starts the ready steps while there is room. `spare`: the allocation of a step that ended without waiting, for the next step.
    async fn start_steps<F: Future<Output = (u32, StepOutcome)>>(
        &mut self,
        begin: impl Fn(u32, Option<TsNs>) -> F,
        running: &mut FuturesUnordered<Pin<Box<F>>>,
        spare: &mut Option<Pin<Box<F>>>,
    ) {
        while running.len() < self.graph.max_parallel
            && let Some(index) = self.next_step()
        {
            // A million steps that never wait must not starve the other tasks of this thread.
            consume_budget().await;
            let work = begin(index, self.last_end);
            let mut step = match spare.take() {
                None => Box::pin(work),
                Some(mut step) => {
                    Pin::set(&mut step, work);
                    step
                }
            };
            match poll!(step.as_mut()) {
                Poll::Pending => running.push(step),
                Poll::Ready((index, end)) => {
                    self.on_step_end(index, end);
                    *spare = Some(step);
                }
            }
        }
    }

    /// Returns the next step to start.
    fn next_step(&mut self) -> Option<u32> {
        if self.stopping || self.ready.is_empty() {
            return None;
        }
        if self.context.turn.cancellation().is_cancelled() {
            self.stopping = true;
            return None;
        }
        // Checked here because steps that never wait do not yield to the timer.
        let at = |limit: Duration| self.context.turn.pool().timeout_at(self.began, limit.min(MAX_TIMEOUT));
        if self.context.turn.timeout.is_some_and(|limit| at(limit) <= Instant::now()) {
            self.stop_at_limit(Limit::Timeout);
            return None;
        }
        let pool = self.context.turn.pool();
        if let Err(error) = pool.check_stops(Checkpoint::BeforeStep) {
            self.stop_over_budget(error);
            return None;
        }
        if pool.check(Checkpoint::BeforeStep).is_err() {
            self.needs_grant = true;
            return None;
        }
        self.context.turn.pool().add_step();
        self.ready.pop_front()
    }

    fn on_step_end(&mut self, index: u32, end: StepOutcome) {
        match end {
            StepOutcome::Done { value, at } => {
                self.last_end = at;
                self.results.set(index, value);
                for dependant in self.plan.dependants(index) {
                    let remaining = &mut self.pending[*dependant as usize];
                    *remaining -= 1;
                    if *remaining == 0 {
                        self.ready.push_back(*dependant);
                    }
                }
                if let Err(error) = self.context.turn.pool().check_stops(Checkpoint::WithinStep) {
                    self.stop(error);
                }
            }
            // The run was cancelled: the node's reply to its interrupt does not matter.
            StepOutcome::Failed(error)
                if self.failure.is_none() && self.context.turn.cancellation().is_cancelled() =>
            {
                self.keep_partial(index, error.partial());
                self.stopping = true;
            }
            StepOutcome::Failed(error) => {
                self.keep_partial(index, error.partial());
                // A step's own budget concerns only that step.
                let ends_all = self.graph.on_failure == OnFailure::Stop
                    || self.context.turn.pool().check_stops(Checkpoint::WithinStep).is_err();
                if ends_all {
                    self.stop(error);
                } else {
                    self.failure.get_or_insert(error);
                }
            }
            // The step saw the cancellation before the dispatcher did: the run is cancelled, not completed.
            StepOutcome::Cancelled(error) => {
                self.keep_partial(index, error.partial());
                self.stopping = true;
            }
        }
    }

    /// Keeps the partial results of a nested graph that failed or was cancelled.
    fn keep_partial(&self, index: u32, partial: Option<&Map<String, Value>>) {
        if let Some(partial) = partial.filter(|partial| !partial.is_empty()) {
            self.results.set(index, Value::Object(partial.clone()));
        }
    }

    fn stop_at_limit(&mut self, limit: Limit) {
        let error = match limit {
            Limit::Budget => self.context.turn.pool().check_stops(Checkpoint::WithinStep).err(),
            Limit::Timeout => None,
        };
        self.stop(error.unwrap_or_else(|| {
            let limit = self.context.turn.timeout.unwrap_or_default();
            EngineError::timeout(format!("graph '{}' did not end within {limit:?}", self.graph.id))
                .hint("give it a longer timeout")
        }));
    }

    /// Starts nothing more. Running steps may finish if only the step limit is used up.
    fn stop_over_budget(&mut self, error: EngineError) {
        if self.context.turn.pool().check_stops(Checkpoint::WithinStep).is_err() {
            self.stop(error);
        } else {
            self.failure.get_or_insert(error);
            self.stopping = true;
        }
    }

    /// Starts nothing more and cancels the running steps.
    fn stop(&mut self, error: EngineError) {
        self.failure.get_or_insert(error);
        self.stopping = true;
        self.context.turn.cancellation().cancel();
    }

    fn finish(self) -> GraphRun {
        let cancelled = self.stopping && self.failure.is_none();
        let status = match (&self.failure, cancelled) {
            (Some(_), _) => TraceStatus::Failed,
            (None, true) => TraceStatus::Cancelled,
            (None, false) => TraceStatus::Completed,
        };
        let error = self.failure.or_else(|| {
            let message = format!("graph '{}' was cancelled", self.graph.id);
            cancelled.then(|| EngineError::new(ErrorKind::Cancelled, message))
        });
        let results = self.results.into_map(self.graph.steps.iter().map(|step| &*step.id));
        GraphRun { results, status, error, usage: self.context.turn.usage().clone() }
    }
}

/// Waits until a run that started at `began` reaches its timeout or the time limit of a budget. Open questions stop both clocks.
async fn wait_for_time_limit(context: &RunContext, began: Instant) -> Limit {
    let pool = context.turn.pool();
    let timeout = async {
        match context.turn.timeout {
            Some(limit) => pool.wait_for_timeout(began, limit.min(MAX_TIMEOUT)).await,
            None => std::future::pending().await,
        }
    };
    let first = async {
        tokio::select! {
            biased;
            () = timeout => Limit::Timeout,
            () = pool.wait_for_time_limit() => Limit::Budget,
        }
    };
    // Must end even if the steps have used up the task's cooperative budget.
    unconstrained(first).await
}

async fn poll_question(question: &mut Option<PendingQuestion<'_>>) -> Result<(), EngineError> {
    match question {
        Some(question) => question.await,
        None => std::future::pending().await,
    }
}
