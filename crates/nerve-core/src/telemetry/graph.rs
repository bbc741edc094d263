//! Spans of graph runs, steps and detached commands.

use std::sync::Arc;

use super::context::TraceContext;
use super::span::SpanKind;
use super::tracer::{ActiveSpan, Telemetry};
use super::turn::{set_error, set_node};
use crate::command::NodeRef;
use crate::error::EngineError;
use crate::trace::TraceStatus;

/// The attributes of a run's span.
#[derive(Debug, Default)]
pub(crate) struct RunAttributes<'a> {
    /// The graph's id.
    pub(crate) graph: &'a str,
    /// Number of steps.
    pub(crate) steps: usize,
    /// Id of the run, if it has one.
    pub(crate) run: Option<&'a str>,
    /// Session of the nodes.
    pub(crate) session: Option<&'a str>,
}

impl Telemetry {
    /// Begins the span of a graph's run.
    pub(crate) fn begin_run(
        &self,
        parent: Option<&Arc<TraceContext>>,
        run: &RunAttributes<'_>,
    ) -> ActiveSpan {
        let name = || format!("graph.run {}", run.graph).into();
        let mut span = self.begin(SpanKind::Internal, parent, name);
        span.describe(|span| {
            let attributes = &mut span.attributes;
            attributes.set("gen_ai.operation.name", "invoke_workflow");
            attributes.set("gen_ai.workflow.name", run.graph.to_string());
            attributes.set("nerve.graph", run.graph.to_string());
            attributes.set("nerve.steps", run.steps as u64);
            attributes.set_some("nerve.run", run.run.map(str::to_string));
            attributes.set_some("nerve.session", run.session.map(str::to_string));
        });
        span
    }

    /// Begins the span of a step, an item or a round. `path`: full path of the step.
    pub(crate) fn begin_step(
        &self,
        parent: Option<&Arc<TraceContext>>,
        step: &str,
        path: Option<&Arc<str>>,
        node: &str,
    ) -> ActiveSpan {
        let mut span = self.begin(SpanKind::Internal, parent, || format!("graph.step {step}").into());
        span.describe(|span| {
            let attributes = &mut span.attributes;
            attributes.set("nerve.step", path.map_or(step, |path| path).to_string());
            attributes.set("nerve.node", node.to_string());
        });
        span
    }

    /// Begins the span of a detached execution: its wait in the queue, its turn, and the delivery of its result.
    pub(crate) fn begin_result(
        &self,
        parent: Option<&Arc<TraceContext>>,
        node: &NodeRef,
        result: &str,
    ) -> ActiveSpan {
        let mut span = self.begin(SpanKind::Internal, parent, || format!("result {}", node.node).into());
        span.describe(|span| {
            set_node(&mut span.attributes, node);
            span.attributes.set("nerve.result", result.to_string());
        });
        span
    }

    /// Begins the span of a command that is typed without waiting for its end.
    pub(crate) fn begin_run_command(&self, parent: Option<&Arc<TraceContext>>, node: &NodeRef) -> ActiveSpan {
        let mut span = self.begin(SpanKind::Internal, parent, || format!("run {}", node.node).into());
        span.describe(|span| set_node(&mut span.attributes, node));
        span
    }
}

/// Ends the span of a run.
pub(crate) fn end_run(span: ActiveSpan, status: TraceStatus, error: Option<&EngineError>, tokens: u64) {
    span.end(|span| {
        span.attributes.set("nerve.status", status.as_str());
        if tokens > 0 {
            span.attributes.set("nerve.tokens", tokens);
        }
        if let Some(error) = error {
            set_error(span, error);
        }
    });
}

/// Ends the span of a step.
pub(crate) fn end_step<T>(span: ActiveSpan, outcome: &Result<T, EngineError>) {
    end_with(span, outcome);
}

/// Ends a span with the outcome of its operation.
pub(crate) fn end_with<T>(span: ActiveSpan, outcome: &Result<T, EngineError>) {
    span.end(|span| {
        if let Err(error) = outcome {
            set_error(span, error);
        }
    });
}
