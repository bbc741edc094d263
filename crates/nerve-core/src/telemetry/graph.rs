//! Graphs, their steps, and commands that nobody waits for, as spans.

use std::sync::Arc;

use super::context::TraceContext;
use super::span::SpanKind;
use super::tracer::{ActiveSpan, Telemetry};
use super::turn::{failed, set_node};
use crate::command::NodeRef;
use crate::error::EngineError;
use crate::trace::TraceStatus;

/// Which run of a graph.
#[derive(Debug, Default)]
pub(crate) struct RunOf<'a> {
    /// The graph.
    pub(crate) graph: &'a str,
    /// How many steps it has.
    pub(crate) steps: usize,
    /// Id of the run, where it has one.
    pub(crate) run: Option<&'a str>,
    /// Where its nodes are found.
    pub(crate) session: Option<&'a str>,
}

impl Telemetry {
    /// Begins the span of a graph that runs.
    pub(crate) fn begin_run(&self, parent: Option<&Arc<TraceContext>>, run: &RunOf<'_>) -> ActiveSpan {
        let name = || format!("graph.run {}", run.graph).into();
        let mut span = self.begin(SpanKind::Internal, parent, name);
        span.describe(|span| {
            let facts = &mut span.attributes;
            facts.set("gen_ai.operation.name", "invoke_workflow");
            facts.set("gen_ai.workflow.name", run.graph.to_string());
            facts.set("nerve.graph", run.graph.to_string());
            facts.set("nerve.steps", run.steps as u64);
            facts.set_some("nerve.run", run.run.map(str::to_string));
            facts.set_some("nerve.session", run.session.map(str::to_string));
        });
        span
    }

    /// Begins the span of a step, or of one of its items or rounds. `path` says which.
    pub(crate) fn begin_step(
        &self,
        parent: Option<&Arc<TraceContext>>,
        step: &str,
        path: Option<&Arc<str>>,
        node: &str,
    ) -> ActiveSpan {
        let mut span = self.begin(SpanKind::Internal, parent, || format!("graph.step {step}").into());
        span.describe(|span| {
            let facts = &mut span.attributes;
            facts.set("nerve.step", path.map_or(step, |path| path).to_string());
            facts.set("nerve.node", node.to_string());
        });
        span
    }

    /// Begins the span of an execution that nobody waits for: its place in the queue, its turn, who is told of its end.
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

    /// Begins the span of a command that is typed and not waited for.
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
            failed(span, error);
        }
    });
}

/// Ends the span of a step.
pub(crate) fn end_step<T>(span: ActiveSpan, outcome: &Result<T, EngineError>) {
    end_with(span, outcome);
}

/// Ends a span as what it is of has ended.
pub(crate) fn end_with<T>(span: ActiveSpan, outcome: &Result<T, EngineError>) {
    span.end(|span| {
        if let Err(error) = outcome {
            failed(span, error);
        }
    });
}
