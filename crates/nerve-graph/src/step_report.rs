//! Reports the events and the end of a step to the journal, the observer and the trace.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::trace::StepTrace;
use nerve_node::context::ChunkSink;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_types::TsNs;
use serde_json::{Map, Value};

use super::context::RunContext;
use super::event::{Completion, StepEvent, StepEventKind};
use super::executable::Executable;
use super::journal::JournalRecord;
use super::step_run::StepRun;

impl StepRun<'_> {
    /// Reports the end of the step to journal, observer and trace. Returns its result.
    pub(super) async fn record_end(
        &self,
        node: &Executable,
        context: &RunContext,
        started_at: Option<TsNs>,
        attempts: u32,
        result: Result<(Value, Completion), EngineError>,
    ) -> Result<Value, EngineError> {
        let run = self.graph.shared();
        let tokens = if context.step.is_some() { context.turn.pool().usage().tokens_used() } else { 0 };
        let at = if self.is_timed { run.clock.now() } else { TsNs(0) };
        self.ended_at.store(at.0, Ordering::Relaxed);
        let ms = started_at.map_or(0, |started_at| at.0.saturating_sub(started_at.0) / 1_000_000);
        self.record_result(node, context, at, ms, tokens, &result).await;
        let outcome = result.as_ref().map(|(value, how)| (value, *how));
        self.notify_end(context, outcome, ms, tokens);
        self.trace(node, context, started_at, at, outcome, attempts);
        result.map(|(value, _)| value)
    }

    /// Records the result of the step in the journal. The steps of a graph have records of their own, unless the graph was skipped.
    async fn record_result(
        &self,
        node: &Executable,
        context: &RunContext,
        at: TsNs,
        ms: u64,
        tokens: u64,
        result: &Result<(Value, Completion), EngineError>,
    ) {
        let Some(journal) = &self.graph.shared().journal else { return };
        let (step, key) = (self.path_of(context), context.journal_key);
        match result {
            Ok((value, Completion::Skipped)) => {
                // A graph has no key: it runs again after a resume. With this one, nothing looks up its result.
                let key = if node.is_graph() { !key } else { key };
                let reason = "it failed, and its error policy is skip";
                journal.record(&JournalRecord::Skipped { at, step, key, value: Some(value), reason });
            }
            _ if node.is_graph() => {}
            Ok((value, _)) => {
                let usage = context.turn.pool().usage();
                let (calls, cost_usd) = (usage.api_calls(), usage.cost_usd());
                if calls > 0 && !node.has_live_metering() {
                    journal.record(&JournalRecord::Called { at, step, key, calls, cost_usd });
                }
                let tokens = (tokens > 0).then_some(tokens);
                journal.record(&JournalRecord::Finished { at, step, key, value, ms, tokens });
            }
            // A cancelled step leaves no end record: after a resume it runs again.
            Err(error) if error.kind == ErrorKind::Cancelled => {}
            Err(error) => {
                journal.record(&JournalRecord::failed(at, step, key, error));
            }
        }
        if node.is_persistent() {
            // Boxed because it is rare and large: otherwise every step would reserve space for it.
            Box::pin(journal.flush()).await;
        }
    }

    /// Returns a sink that reports the chunks of the node's answer to the observer, if it wants them.
    pub(super) fn chunk_sink(&self, context: &RunContext) -> Option<ChunkSink> {
        let run = self.graph.shared();
        let observer = run.observer.clone().filter(|_| run.observes_chunks)?;
        let (step, node) = (context.step.clone().unwrap_or_default(), Arc::clone(&self.step.node));
        let clock = run.clock;
        Some(Arc::new(move |chunk: &str| {
            let (step, node, data) = (step.clone(), node.clone(), Value::from(chunk));
            observer(StepEvent { kind: StepEventKind::Chunk, step, node, data, hint: None, at: clock.now() });
        }))
    }

    /// Reports the end of the step, an item or a round to the observer.
    pub(super) fn notify_end(
        &self,
        context: &RunContext,
        outcome: Result<(&Value, Completion), &EngineError>,
        ms: u64,
        tokens: u64,
    ) {
        let step = context.step.as_ref();
        match outcome {
            _ if self.graph.shared().observer.is_none() => {}
            Ok((value, how)) => {
                self.notify(step, StepEventKind::Complete { how, ms, tokens }, value.clone());
            }
            Err(error) => self.notify_error(step, StepEventKind::Error { error_type: error.kind }, error),
        }
    }

    /// Reports an event of the step to the observer.
    pub(super) fn notify(&self, step: Option<&Arc<str>>, kind: StepEventKind, data: Value) {
        let step = step.unwrap_or(&self.step.id);
        self.graph.shared().notify(step, &self.step.node, kind, data, None);
    }

    /// Reports an event of the kind `Error` or `Retry` to the observer.
    pub(super) fn notify_error(&self, step: Option<&Arc<str>>, kind: StepEventKind, error: &EngineError) {
        let (step, data) = (step.unwrap_or(&self.step.id), Value::from(error.message.as_str()));
        self.graph.shared().notify(step, &self.step.node, kind, data, error.hint.clone());
    }

    /// Adds a trace entry for a step that was not executed.
    pub(super) fn trace_unexecuted(
        &self,
        path: Option<&Arc<str>>,
        error: Option<&EngineError>,
        metadata: Map<String, Value>,
    ) {
        let Some(tracer) = self.graph.trace() else { return };
        let now = self.graph.shared().clock.now();
        tracer.record(StepTrace {
            step_id: path.cloned().unwrap_or_default(),
            node_id: Arc::clone(&self.step.node),
            // The name may be unknown; that may be the error.
            node_type: self.resolve(&self.step.target).map_or("", |node| node.kind()),
            input: Value::Null,
            output: Value::Null,
            error: error.map(|error| error.message.clone()),
            error_type: error.map(|error| error.kind),
            hint: error.and_then(|error| error.hint.clone()),
            start_time: now,
            end_time: now,
            tokens_used: 0,
            metadata,
        });
    }

    /// Adds a trace entry for a step that ended at `at`.
    pub(super) fn trace(
        &self,
        node: &Executable,
        context: &RunContext,
        started_at: Option<TsNs>,
        at: TsNs,
        outcome: Result<(&Value, Completion), &EngineError>,
        attempts: u32,
    ) {
        let Some(tracer) = self.graph.trace() else { return };
        let mut metadata = match &outcome {
            Ok((_, Completion::Skipped)) => metadata_entry("skipped", Value::Bool(true)),
            Ok((_, Completion::Reused)) => metadata_entry("reused", Value::Bool(true)),
            _ => Map::new(),
        };
        if attempts > 1 {
            metadata.insert("attempts".to_string(), Value::from(attempts));
        }
        // The node's turn number identifies the entry in its audit log.
        if let Some(turn) = outcome.as_ref().ok().and_then(|(value, _)| value.get("turn")) {
            metadata.insert("turn".to_string(), turn.clone());
        }
        let cost = context.turn.pool().usage().cost_usd();
        if cost > 0.0 {
            metadata.insert("cost_usd".to_string(), Value::from(cost));
        }
        let (output, error) = match outcome {
            // A graph's results appear in the traces of its steps.
            Ok((value, _)) if !node.is_graph() => (value.clone(), None),
            Ok(_) => (Value::Null, None),
            Err(error) => (Value::Null, Some(error)),
        };
        tracer.record(StepTrace {
            step_id: context.step.clone().unwrap_or_default(),
            node_id: Arc::clone(&self.step.node),
            node_type: node.kind(),
            input: context.turn.input.clone(),
            output,
            error: error.map(|error| error.message.clone()),
            error_type: error.map(|error| error.kind),
            hint: error.and_then(|error| error.hint.clone()),
            start_time: started_at.unwrap_or(at),
            end_time: at,
            tokens_used: context.turn.pool().usage().tokens_used(),
            metadata,
        });
    }
}

/// Returns metadata with one entry.
pub(super) fn metadata_entry(key: &str, value: Value) -> Map<String, Value> {
    Map::from_iter([(key.to_string(), value)])
}
