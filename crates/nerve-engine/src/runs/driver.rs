//! Drives a run of a graph from its admission to its end.

use std::collections::BTreeMap;
use std::sync::Arc;

use nerve_api::event::EventKind;
use nerve_api::reply::{RunEnded, RunReply};
use nerve_api::request::RunOptions;
use nerve_api::value::RunStatus;
use nerve_graph::context::RunContext;
use nerve_graph::file::NodeDefinition;
use nerve_graph::journal::{JournalRecord, ReplayState};
use nerve_graph::session::Session;
use nerve_graph::trace::{TraceStatus, Tracer};
use nerve_graph::{Graph, GraphRun};
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::telemetry::{ActiveSpan, end_run};
use serde_json::{Map, Value};

use super::run::{Run, RunEnd};
use crate::engine::Engine;

/// An admitted run that has not started.
pub(crate) struct PendingRun {
    pub(crate) graph: Graph,
    pub(crate) nodes: Vec<(String, NodeDefinition)>,
    pub(crate) run: Arc<Run>,
    pub(crate) outer: Session,
    pub(crate) input: Value,
    /// State of the resumed run.
    pub(crate) replay: Option<ReplayState>,
    /// Options that are stored in the journal; the session, the input and the id are stored apart from them.
    pub(crate) options: RunOptions,
    /// Environment of the shell that starts or resumes the run. It is not stored.
    pub(crate) shell_env: Option<BTreeMap<String, String>>,
    pub(crate) span: ActiveSpan,
}

impl Engine {
    /// Drives a run in a task of its own and waits for its end, unless `detach` is set.
    pub(crate) async fn start_run(&self, pending: PendingRun, detach: bool) -> Result<RunReply, EngineError> {
        let run = Arc::clone(&pending.run);
        let engine = self.clone();
        let task = tokio::spawn(async move { engine.drive(pending).await });
        let watched = Arc::clone(&run);
        // The results can be large: they are returned to the caller and not kept.
        let end = tokio::spawn(async move {
            task.await.unwrap_or_else(|error| {
                let error = EngineError::internal(format!("the run's task ended: {error}"));
                watched.end(RunEnd {
                    status: RunStatus::Failed,
                    tokens: 0,
                    results: Map::new(),
                    error: Some(error),
                    trace: None,
                })
            })
        });
        if detach {
            return Ok(RunReply::Started(Box::new(run.info())));
        }
        let (ended, error) = end.await?;
        let ended = Box::new(ended);
        match error {
            None => Ok(RunReply::Ended(ended)),
            Some(mut error) => {
                error.details.get_or_insert_default().ended = Some(ended);
                Err(error)
            }
        }
    }

    /// Creates the graph's nodes, runs the graph, stops its nodes and ends the run.
    async fn drive(&self, pending: PendingRun) -> (RunEnded, Option<EngineError>) {
        let PendingRun { graph, nodes, run, outer, input, replay, options, shell_env, span } = pending;
        let tracer = options.trace.then(|| Tracer::new(graph.id()));
        let session = self.run_session(&run.id, &outer, &nodes);
        let created = match &session {
            Ok(session) => self.create_nodes(&run, session, &nodes, shell_env.as_ref(), span.context()).await,
            Err(error) => Err(error.clone()),
        };
        let session = session.unwrap_or_else(|_| outer.clone());
        let outcome = match created {
            Ok(()) => {
                let context = run_context(&run, &session, input, replay, tracer.clone())
                    .with_telemetry(self.inner.telemetry, span.context().cloned())
                    .with_own_span();
                graph.run(&context).await
            }
            Err(error) => {
                let status = match error.kind {
                    ErrorKind::Cancelled => TraceStatus::Cancelled,
                    _ => TraceStatus::Failed,
                };
                GraphRun { results: Map::new(), status, error: Some(error), usage: Default::default() }
            }
        };
        // The nodes of an interrupted run are kept or stopped together with those of the server.
        if !run.was_interrupted() && session.name() == run.id {
            self.stop_nodes(&session, &nodes, options.keep_nodes).await;
        }
        let GraphRun { results, status, error, usage } = outcome;
        let error = error.map(with_step);
        end_run(span, status.as_str(), error.as_ref(), usage.tokens_used());
        let status = end_status(status, run.was_interrupted());
        if let Some(journal) = run.journal() {
            if status.is_end() {
                let at = self.inner.clock.now();
                journal.record(&JournalRecord::ended(at, status.as_str(), error.as_ref()));
            }
            if let Err(fault) = journal.flush().await {
                let message = format!("run '{}': {fault}", run.id);
                self.inner.events.publish(None, EventKind::machine_failure(message));
            }
        }
        let trace = tracer.map(|tracer| Box::new(tracer.snapshot()));
        run.end(RunEnd { status, tokens: usage.tokens_used(), results, error, trace })
    }
}

/// Returns the status of a run whose graph has ended. The journal of an interrupted run was sealed, so it may lack results and the end
/// even if every step has completed.
fn end_status(status: TraceStatus, was_interrupted: bool) -> RunStatus {
    match status {
        _ if was_interrupted => RunStatus::Interrupted,
        TraceStatus::Completed => RunStatus::Completed,
        TraceStatus::Cancelled => RunStatus::Cancelled,
        TraceStatus::Failed | TraceStatus::Running => RunStatus::Failed,
    }
}

fn run_context(
    run: &Arc<Run>,
    session: &Session,
    input: Value,
    replay: Option<ReplayState>,
    tracer: Option<Tracer>,
) -> RunContext {
    let observed = Arc::clone(run);
    let mut context = RunContext::new(session)
        .with_input(input)
        .with_cancellation(run.cancellation.clone())
        .with_gates(run.gates.clone())
        .with_observer(Arc::new(move |event| observed.observe(&event)));
    if let Some(journal) = run.journal() {
        context = context.with_journal(journal, replay);
    }
    match tracer {
        Some(tracer) => context.with_trace(tracer),
        None => context,
    }
}

/// Adds the step to the message of an error.
fn with_step(error: EngineError) -> EngineError {
    match error.step().map(|step| format!("'{step}'")) {
        Some(step) if !error.message.contains(&step) => error.in_context(format_args!("step {step}")),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupted_run_has_no_other_end() {
        for status in [TraceStatus::Completed, TraceStatus::Cancelled, TraceStatus::Failed] {
            assert_eq!(end_status(status, true), RunStatus::Interrupted, "{}", status.as_str());
        }
        assert_eq!(end_status(TraceStatus::Completed, false), RunStatus::Completed);
        assert_eq!(end_status(TraceStatus::Cancelled, false), RunStatus::Cancelled);
        assert_eq!(end_status(TraceStatus::Failed, false), RunStatus::Failed);
    }
}
