//! Spans of graph runs, steps and detached commands.

use std::sync::Arc;

use super::context::TraceContext;
use super::span::{ActiveSpan, count, new_span, set_error};
use super::turn::set_node;
use nerve_api::request::NodeRef;

use crate::error::EngineError;

/// The attributes of a run's span.
#[derive(Debug, Default)]
pub struct RunAttributes<'a> {
    /// The graph's id.
    pub graph: &'a str,
    /// Number of steps.
    pub steps: usize,
    /// Id of the run, if it has one.
    pub run: Option<&'a str>,
    /// Session of the nodes.
    pub session: Option<&'a str>,
}

/// Begins the span of a graph's run.
pub fn begin_run(parent: Option<&Arc<TraceContext>>, run: &RunAttributes<'_>) -> ActiveSpan {
    let span = new_span!(
        "graph.run",
        gen_ai.operation.name = "invoke_workflow",
        gen_ai.workflow.name = run.graph,
        nerve.graph = run.graph,
        nerve.steps = count(run.steps as u64),
        nerve.run = run.run,
        nerve.session = run.session
    );
    ActiveSpan::begin(span, parent, || format!("graph.run {}", run.graph))
}

/// Begins the span of a step, an item or a round. `path`: full path of the step.
pub fn begin_step(
    parent: Option<&Arc<TraceContext>>,
    step: &str,
    path: Option<&Arc<str>>,
    node: &str,
) -> ActiveSpan {
    let span = new_span!("graph.step", nerve.step = path.map_or(step, |path| path), nerve.node = node);
    ActiveSpan::begin(span, parent, || format!("graph.step {step}"))
}

/// Begins the span of a detached execution: its wait in the queue, its turn, and the delivery of its result.
pub fn begin_result(parent: Option<&Arc<TraceContext>>, node: &NodeRef, result: &str) -> ActiveSpan {
    let span = new_span!("result", nerve.result = result);
    let span = ActiveSpan::begin(span, parent, || format!("result {}", node.node));
    span.describe(|span| set_node(span, node));
    span
}

/// Begins the span of a command that is typed without waiting for its end.
pub fn begin_run_command(parent: Option<&Arc<TraceContext>>, node: &NodeRef) -> ActiveSpan {
    let span = ActiveSpan::begin(new_span!("run"), parent, || format!("run {}", node.node));
    span.describe(|span| set_node(span, node));
    span
}

/// Ends the span of a run with its final status.
pub fn end_run(span: ActiveSpan, status: &'static str, error: Option<&EngineError>, tokens: u64) {
    span.end(|span| {
        span.set("nerve.status", status);
        span.set_some("nerve.tokens", (tokens > 0).then(|| count(tokens)));
        if let Some(error) = error {
            set_error(span, error);
        }
    });
}

/// Ends a span with the outcome of its operation.
pub fn end_with<T>(span: ActiveSpan, outcome: &Result<T, EngineError>) {
    span.end(|span| {
        if let Err(error) = outcome {
            set_error(span, error);
        }
    });
}
