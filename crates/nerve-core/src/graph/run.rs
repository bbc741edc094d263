//! Runs a graph: one dispatcher starts what is ready and takes in what has ended. No state is shared but the results.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use futures_util::poll;
use futures_util::stream::{FuturesUnordered, StreamExt};
use nerve_term::event::TsNs;
use serde_json::{Map, Value};
use tokio::task::coop::{consume_budget, unconstrained};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::step_run::{StepEnd, run_step};
use super::call_stack::Nest;
use super::plan::Plan;
use super::upstream::{Results, Upstream};
use super::{Graph, GraphRun, OnFailure};
use crate::budget::Pool;
use crate::clock::FAR;
use crate::context::ExecutionContext;
use crate::error::{EngineError, ErrorKind};
use crate::telemetry::{ActiveSpan, RunOf, end_run};
use crate::trace::TraceStatus;

/// So many graphs in each other share a stack; the next one gets a task of its own.
const ON_ONE_STACK: usize = 8;

type Running<'a> = Pin<Box<dyn Future<Output = (u32, StepEnd)> + Send + 'a>>;

/// Runs a graph to its end.
pub(super) async fn run(graph: &Graph, context: &ExecutionContext) -> GraphRun {
    let nest = Arc::new(Nest::new(&graph.id, &graph.steps, context.run().nest.clone()));
    let depth = nest.depth();
    let mut context = inside(graph, context, nest);
    let span = match depth == 0 && context.run().has_span {
        true => ActiveSpan::default(),
        false => {
            let run = RunOf { graph: &graph.id, steps: graph.len(), ..RunOf::default() };
            let span = context.telemetry().begin_run(context.trace_context(), &run);
            context.span = span.context().cloned();
            span
        }
    };
    let usage = context.usage().clone();
    let run = run_at(graph, context, depth).await;
    end_run(span, run.status, run.error.as_ref(), usage.tokens_used());
    run
}

async fn run_at(graph: &Graph, context: ExecutionContext, depth: usize) -> GraphRun {
    if depth % ON_ONE_STACK == ON_ONE_STACK - 1 {
        let (graph, usage) = (graph.clone(), context.usage().clone());
        let task = tokio::spawn(async move { run_here(&graph, context).await });
        return AbortOnDropHandle::new(task).await.unwrap_or_else(|error| GraphRun {
            results: Map::new(),
            status: TraceStatus::Failed,
            error: Some(EngineError::new(ErrorKind::Internal, format!("a graph's task ended: {error}"))),
            usage,
        });
    }
    run_here(graph, context).await
}

/// The context of the graph's steps.
fn inside(graph: &Graph, context: &ExecutionContext, nest: Arc<Nest>) -> ExecutionContext {
    let pool = Pool::new(graph.budget.clone(), Some(context.pool().clone()));
    let mut inside = context.clone().with_pool(pool);
    let run = inside.run_mut();
    run.nest = Some(nest);
    // A failure stops this graph's steps and not those around it.
    run.cancellation = run.cancellation.child();
    inside
}

async fn run_here(graph: &Graph, mut context: ExecutionContext) -> GraphRun {
    let usage = context.usage().clone();
    let invalid = |error| GraphRun {
        results: Map::new(),
        status: TraceStatus::Failed,
        error: Some(error),
        usage: usage.clone(),
    };
    if let Some(tracer) = context.trace() {
        tracer.expect(graph.len());
    }
    let given = match &graph.input {
        Some(input) => input.complete(std::mem::take(&mut context.input)),
        None => Ok(std::mem::take(&mut context.input)),
    };
    let run = match given.and_then(|input| {
        context.input = input;
        Dispatcher::new(graph, &context)
    }) {
        Ok(dispatcher) => dispatcher.run().await,
        Err(error) => invalid(error),
    };
    if context.run().nest.as_ref().is_some_and(|nest| nest.depth() == 0)
        && let Some(tracer) = context.trace()
    {
        let (at, error) = (context.run().clock.now(), run.error.as_ref().map(ToString::to_string));
        tracer.end(at, run.status, usage.tokens_used(), usage.cost_dollars(), error);
    }
    run
}

struct Dispatcher<'a> {
    graph: &'a Graph,
    context: &'a ExecutionContext,
    plan: Plan,
    /// How many dependencies each step still waits for.
    waiting: Vec<u32>,
    ready: VecDeque<u32>,
    results: Arc<Results>,
    /// The first failure.
    failure: Option<EngineError>,
    /// Nothing is begun any more.
    stopping: bool,
    deadline: Option<(Instant, Limit)>,
    /// The time of the last end, as long as nothing was waited for since.
    now: Option<TsNs>,
}

#[derive(Clone, Copy, PartialEq)]
enum Limit {
    Timeout,
    Budget,
}

impl<'a> Dispatcher<'a> {
    fn new(graph: &'a Graph, context: &'a ExecutionContext) -> Result<Dispatcher<'a>, EngineError> {
        if let Some(way) = context.run().nest.as_ref().and_then(|nest| nest.way_to_itself()) {
            return Err(EngineError::new(
                ErrorKind::InvalidRequest,
                format!("a graph runs in itself: {way}"),
            )
            .hint("let a step name another graph, or give the loop an end with `until`"));
        }
        let plan = graph.check(Some(context.session())).map_err(|problems| graph.invalid(&problems))?;
        let waiting = plan.waiting.clone();
        let ready = (0..waiting.len() as u32).filter(|step| waiting[*step as usize] == 0).collect();
        let timeout = context.timeout.map(|limit| (Instant::now() + limit.min(FAR), Limit::Timeout));
        let budget = context.pool().deadline().map(|at| (at, Limit::Budget));
        let deadline = [timeout, budget].into_iter().flatten().min_by_key(|(at, _)| *at);
        Ok(Dispatcher {
            graph,
            context,
            plan,
            waiting,
            ready,
            results: Results::new(&graph.names, graph.steps.len()),
            failure: None,
            stopping: false,
            deadline,
            now: None,
        })
    }

    async fn run(mut self) -> GraphRun {
        let (graph, context) = (self.graph, self.context);
        let upstream = Upstream::of(&self.results);
        let mut running: FuturesUnordered<Running<'a>> = FuturesUnordered::new();
        loop {
            while running.len() < graph.max_parallel
                && let Some(place) = self.next()
            {
                // A million steps that never wait must not keep everything else of this thread waiting.
                consume_budget().await;
                let (upstream, began) = (upstream.clone(), self.now);
                let mut step: Running<'a> = Box::pin(async move {
                    let step = &graph.steps[place as usize];
                    (place, run_step(context, step, upstream, began).await)
                });
                match poll!(step.as_mut()) {
                    Poll::Ready((place, end)) => self.ended(place, end),
                    Poll::Pending => running.push(step),
                }
            }
            if running.is_empty() {
                break;
            }
            self.now = None;
            tokio::select! {
                biased;
                Some((place, end)) = running.next() => self.ended(place, end),
                () = context.cancellation().wait(), if !self.stopping => self.stopping = true,
                limit = expired(self.deadline), if !context.cancellation().is_cancelled() => self.out_of_time(limit),
            }
        }
        drop(running);
        drop(upstream);
        self.end()
    }

    /// The step to begin now.
    fn next(&mut self) -> Option<u32> {
        if self.stopping || self.ready.is_empty() {
            return None;
        }
        if self.context.cancellation().is_cancelled() {
            self.stopping = true;
            return None;
        }
        // Steps that never wait do not come to the timer.
        if self.deadline.is_some_and(|(at, limit)| limit == Limit::Timeout && at <= Instant::now()) {
            self.out_of_time(Limit::Timeout);
            return None;
        }
        if let Err(error) = self.context.check_budget() {
            if self.context.pool().check(false).is_err() {
                self.stop(error);
            } else {
                // No step more may begin, and those that have begun may end.
                self.failure.get_or_insert(error);
                self.stopping = true;
            }
            return None;
        }
        self.context.pool().add_step();
        self.ready.pop_front()
    }

    fn ended(&mut self, place: u32, end: StepEnd) {
        match end {
            StepEnd::Done { value, at } => {
                self.now = at;
                self.results.set(place, value);
                for dependant in self.plan.dependants(place) {
                    let left = &mut self.waiting[*dependant as usize];
                    *left -= 1;
                    if *left == 0 {
                        self.ready.push_back(*dependant);
                    }
                }
                if let Err(error) = self.context.pool().check(false) {
                    self.stop(error);
                }
            }
            // Whatever a node says to its interrupt: the run was cancelled.
            StepEnd::Failed(error)
                if self.failure.is_none() && self.context.cancellation().is_cancelled() =>
            {
                self.keep(place, error.partial());
                self.stopping = true;
            }
            StepEnd::Failed(error) => {
                self.keep(place, error.partial());
                // A step's own budget is the step's own affair.
                let ends_all =
                    self.graph.on_failure == OnFailure::Stop || self.context.pool().check(false).is_err();
                if ends_all {
                    self.stop(error);
                } else {
                    self.failure.get_or_insert(error);
                }
            }
            // Seen here before the token was: nothing more begins, and the run is no completed one.
            StepEnd::Cancelled(error) => {
                self.keep(place, error.partial());
                self.stopping = true;
            }
        }
    }

    /// What a graph that did not come to its end has done counts all the same.
    fn keep(&self, place: u32, partial: Option<&Map<String, Value>>) {
        if let Some(partial) = partial.filter(|partial| !partial.is_empty()) {
            self.results.set(place, Value::Object(partial.clone()));
        }
    }

    fn out_of_time(&mut self, limit: Limit) {
        let error = match limit {
            Limit::Budget => self.context.pool().check(false).err(),
            Limit::Timeout => None,
        };
        self.stop(error.unwrap_or_else(|| {
            let limit = self.context.timeout.unwrap_or_default();
            let message = format!("graph '{}' did not end within {limit:?}", self.graph.id);
            EngineError::new(ErrorKind::Timeout, message)
        }));
    }

    /// Begins nothing more, and cancels what runs.
    fn stop(&mut self, error: EngineError) {
        self.failure.get_or_insert(error);
        self.stopping = true;
        self.context.cancellation().cancel();
    }

    fn end(self) -> GraphRun {
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
        GraphRun { results, status, error, usage: self.context.usage().clone() }
    }
}

/// Ends when a limit of time is reached.
async fn expired(deadline: Option<(Instant, Limit)>) -> Limit {
    match deadline {
        Some((at, limit)) => {
            // Also beside steps that leave nothing of a task's turn.
            unconstrained(tokio::time::sleep_until(at)).await;
            limit
        }
        None => std::future::pending().await,
    }
}
