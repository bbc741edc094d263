//! The start of a step: reuses a journaled result, or records and reports that the step starts.

use std::sync::Arc;

use nerve_api::reply::GateInfo;
use nerve_api::value::NodeState;
use nerve_node::cancellation::cancelled_error;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_types::TsNs;
use serde_json::Value;

use super::context::RunContext;
use super::event::StepEventKind;
use super::executable::Executable;
use super::gate::question::GateRequest;
use super::journal::{self, JournalRecord};
use super::run_journal::RunJournal;
use super::step::OnResume;
use super::step_run::{Preparation, StepRun};

impl StepRun<'_> {
    /// Prepares the first attempt: looks for a journaled result, records the start and notifies the observer.
    pub(super) async fn prepare(
        &self,
        node: &Executable,
        context: &mut RunContext,
    ) -> Result<Preparation, EngineError> {
        let run = self.graph.shared();
        let started_at = self.is_timed.then(|| self.started_at.unwrap_or_else(|| run.clock.now()));
        if run.journal.is_some() && !node.is_graph() {
            let parser = context.turn.parser.map(|parser| parser.to_string());
            context.journal_key = journal::key(self.step.definition, parser.as_deref(), &context.turn.input);
            let recorded = self.record_start(node, context, context.journal_key, started_at).await?;
            if let Some(value) = recorded {
                return Ok(Preparation::Reused(value));
            }
        }
        if run.observer.is_some() {
            let queued = node.is_persistent() && node.state() == NodeState::Busy;
            self.notify(context.step.as_ref(), StepEventKind::Start { queued }, Value::Null);
            if let Some(sink) = self.chunk_sink(context) {
                *context = context.clone().with_chunks(sink);
            }
        }
        Ok(Preparation::Started(started_at))
    }

    /// Records that `node` starts with this key, or returns the journaled result for it. `at`: now, if it was measured.
    pub(super) async fn record_start(
        &self,
        node: &Executable,
        context: &RunContext,
        key: u64,
        at: Option<TsNs>,
    ) -> Result<Option<Value>, EngineError> {
        let run = self.graph.shared();
        let Some(journal) = &run.journal else { return Ok(None) };
        let step = self.path_of(context);
        if let Some(value) = journal.replay(step, key).and_then(|replay| replay.result.as_ref()) {
            return Ok(Some(value.clone()));
        }
        if node.is_persistent() {
            // Boxed because it is rare and large: otherwise every step would reserve space for it.
            let start = self.record_persistent_start(node, context, journal, key);
            return Box::pin(start).await;
        }
        let (at, node) = (at.unwrap_or_else(|| run.clock.now()), node.id());
        journal.record(&JournalRecord::Started { at, step, key, node, persistent: false });
        Ok(None)
    }

    /// Records that a stateful node starts, and waits until the record is on disk. If it was running when the run was interrupted,
    /// asks first whether to run it again; otherwise returns the step's result.
    async fn record_persistent_start(
        &self,
        node: &Executable,
        context: &RunContext,
        journal: &RunJournal,
        key: u64,
    ) -> Result<Option<Value>, EngineError> {
        let (clock, step) = (self.graph.shared().clock, self.path_of(context));
        if self.step.on_resume == OnResume::Ask
            && journal.replay(step, key).is_some_and(|replay| replay.is_running)
            && let Some(value) = self.ask_rerun(node, context, step, key).await?
        {
            // The person's decision is durable: it is not requested again.
            let reason = "it was running when the run was interrupted, and is not run again";
            let (at, value_ref) = (clock.now(), Some(&value));
            journal.record(&JournalRecord::Skipped { at, step, key, value: value_ref, reason });
            return Ok(Some(value));
        }
        let (at, node) = (clock.now(), node.id());
        journal.record(&JournalRecord::Started { at, step, key, node, persistent: true });
        journal.flush().await;
        context.turn.check_cancelled()?;
        if journal.is_sealed() {
            // The start could not be recorded.
            return Err(cancelled_error());
        }
        Ok(None)
    }

    /// Asks a person whether to rerun a step that was running on a stateful node when the run was interrupted.
    async fn ask_rerun(
        &self,
        node: &Executable,
        context: &RunContext,
        path: &str,
        key: u64,
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
        let (key, node) = (key.rotate_left(1), Arc::clone(&self.step.node));
        let request = GateRequest { node, info, deadline: None, key, is_recorded: false };
        let (choice, _) = request.ask(context).await?;
        match choice.as_str() {
            "rerun" => Ok(None),
            "skip" => Ok(Some(Value::Null)),
            _ => Err(EngineError::new(
                ErrorKind::Interrupted,
                format!("step '{path}' was running when the run was interrupted, and is not run again"),
            )),
        }
    }
}
