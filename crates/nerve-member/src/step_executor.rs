//! Executes steps with the engine of this machine's server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use nerve_api::ErrorKind;
use nerve_api::event::{Event, EventKind};
use nerve_api::reply::{RunInfo, RunStep};
use nerve_api::request::{CancelGraph, ExecuteGraph, GetRun, RunOptions};
use nerve_api::value::{RunStatus, StepState};
use nerve_cluster::journal::StepResult;
use nerve_cluster::{AttemptId, Input, TurnReport};
use nerve_engine::{Engine, RequestContext};
use nerve_node::error::EngineError;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::step_graph::StepGraph;

/// Maximum size of a result in the journal, in bytes.
const MAX_RESULT: usize = 256 * 1024;
/// Maximum length of an error in the journal, in characters.
const MAX_ERROR: usize = 4_096;
/// Interval at which the state of a run is read in addition to its events.
const READ_INTERVAL: Duration = Duration::from_secs(15);
/// Result of a step that was cancelled before it began.
const CANCELLED: &str = "the run was cancelled before the step began";
/// Maximum number of inspections of a run whose journal cannot be read. Afterwards the step is in doubt.
const MAX_INSPECTIONS: u32 = 20;

/// Executes the attempts that are offered to this machine. Each one becomes a run of its own in the engine, with its own journal.
/// Clones share the slots.
#[derive(Debug, Clone)]
pub(crate) struct StepExecutor {
    engine: Engine,
    slots: Arc<Semaphore>,
    prepared: Arc<Mutex<BTreeMap<AttemptId, PreparedStep>>>,
    /// The steps that run, with their cancellation tokens.
    running: RunningSteps,
}

type RunningSteps = Arc<Mutex<BTreeMap<AttemptId, CancellationToken>>>;

/// A step that runs. On drop, it is removed from the steps that run.
#[derive(Debug)]
struct RunningStep {
    attempt: AttemptId,
    cancel: CancellationToken,
    all: RunningSteps,
}

impl RunningStep {
    fn new(attempt: AttemptId, all: &RunningSteps) -> RunningStep {
        let cancel = CancellationToken::new();
        all.lock().insert(attempt.clone(), cancel.clone());
        RunningStep { attempt, cancel, all: all.clone() }
    }
}

impl Drop for RunningStep {
    fn drop(&mut self) {
        self.all.lock().remove(&self.attempt);
    }
}

/// An attempt that waits for the journal.
#[derive(Debug)]
struct PreparedStep {
    graph: StepGraph,
    slot: OwnedSemaphorePermit,
}

impl StepExecutor {
    /// Creates the executor. `slots`: maximum number of steps at a time; with 0, the core prepares none.
    pub(crate) fn new(engine: Engine, slots: u32) -> StepExecutor {
        let slots = Arc::new(Semaphore::new(slots as usize));
        StepExecutor { engine, slots, prepared: Arc::default(), running: Arc::default() }
    }

    /// Cancels a running step. The result of a cancelled step is reported like any other result.
    pub(crate) fn cancel(&self, attempt: &AttemptId) {
        if let Some(cancel) = self.running.lock().get(attempt) {
            cancel.cancel();
        }
    }

    /// Waits for a slot. Begins nothing. Returns `None` if the server shuts down: its next process prepares the attempt.
    pub(crate) async fn prepare(self, attempt: AttemptId, graph: Result<StepGraph, String>) -> Option<Input> {
        let graph = match graph {
            Ok(graph) => graph,
            Err(error) => return Some(Input::PreparationFailed { attempt, error }),
        };
        // Fails only if the executor closes its slots, which it never does.
        let slot = self.slots.clone().acquire_owned().await.ok()?;
        if self.engine.is_closing() {
            return None;
        }
        let node = format!("{}/{}", StepGraph::run_id(&attempt), graph.node);
        self.prepared.lock().insert(attempt.clone(), PreparedStep { graph, slot });
        Some(Input::Prepared { attempt, node, offset: 0 })
    }

    /// Frees the slots of prepared attempts that another machine has now, or that a drained machine does not begin.
    pub(crate) fn release(&self, is_ours: impl Fn(&AttemptId) -> bool) {
        self.prepared.lock().retain(|attempt, _| is_ours(attempt));
    }

    /// Executes an attempt that was prepared. If its slot was released since, because another machine had the attempt for a while, waits
    /// for a slot again. Returns `None` if the server shut down: the attempt did not begin, or its effects are unknown. It can be cancelled
    /// from now on, before the future is polled.
    pub(crate) fn execute(
        self,
        attempt: AttemptId,
        graph: Result<StepGraph, String>,
    ) -> impl Future<Output = Option<Input>> {
        let running = RunningStep::new(attempt, &self.running);
        async move {
            let prepared = self.prepared.lock().remove(&running.attempt);
            let result = match (prepared, graph) {
                (Some(PreparedStep { graph, slot }), _) => self.run(&running, graph, slot).await,
                (None, Ok(graph)) => match self.wait_for_slot(&running).await {
                    Some(slot) => self.run(&running, graph, slot).await,
                    None => Some(failure(CANCELLED)),
                },
                (None, Err(error)) => Some(failure(&error)),
            };
            self.end(&running, result)
        }
    }

    /// Waits for a slot; `None` if the step is cancelled.
    async fn wait_for_slot(&self, running: &RunningStep) -> Option<OwnedSemaphorePermit> {
        let slot = self.slots.clone().acquire_owned();
        running.cancel.run_until_cancelled(slot).await?.ok()
    }

    /// Returns the end of a step. A run that this living server does not know any more is lost.
    fn end(&self, running: &RunningStep, result: Option<StepResult>) -> Option<Input> {
        let attempt = running.attempt.clone();
        match result {
            Some(result) => Some(Input::TurnFinished { attempt, result }),
            None if self.engine.is_closing() => None,
            None => Some(Input::TurnInspected { attempt, report: TurnReport::Lost }),
        }
    }

    /// Looks for the run of an attempt that an earlier process began. A journal that cannot be read now is no proof of a loss: the
    /// disk may be at fault.
    pub(crate) async fn inspect(self, attempt: AttemptId) -> Option<Input> {
        let mut inspections = 1;
        let report = loop {
            let error = match self.read(&attempt).await {
                Ok(info) if info.status.is_active() => break TurnReport::Running,
                Ok(info) => break result(&attempt, info).map_or(TurnReport::Lost, TurnReport::Finished),
                Err(error) => error,
            };
            if self.is_active(&attempt).await {
                break TurnReport::Running;
            }
            if error.kind == ErrorKind::NotFound {
                break TurnReport::Lost;
            }
            tracing::warn!(%attempt, %error, "the run of a step cannot be inspected");
            if inspections == MAX_INSPECTIONS {
                break TurnReport::Lost;
            }
            inspections += 1;
            sleep(READ_INTERVAL).await;
        };
        Some(Input::TurnInspected { attempt, report })
    }

    /// Waits for the end of a run that an earlier process began.
    pub(crate) fn resume(self, attempt: AttemptId) -> impl Future<Output = Option<Input>> {
        let running = RunningStep::new(attempt, &self.running);
        async move {
            // It runs, whether a slot is free or not.
            let _slot = self.slots.clone().try_acquire_owned().ok();
            let result = self.wait(&running, self.engine.subscribe()).await;
            self.end(&running, result)
        }
    }

    /// Runs a step, which occupies the slot until its end.
    async fn run(
        &self,
        running: &RunningStep,
        graph: StepGraph,
        _slot: OwnedSemaphorePermit,
    ) -> Option<StepResult> {
        let attempt = &running.attempt;
        if running.cancel.is_cancelled() {
            return Some(failure(CANCELLED));
        }
        let StepGraph { definition, input, .. } = graph;
        let run_id = Some(StepGraph::run_id(attempt));
        let options = RunOptions { input, run_id, ..RunOptions::default() };
        let events = self.engine.subscribe();
        let request = ExecuteGraph { definition, options, detach: true };
        match self.engine.execute_graph(request, RequestContext::default()).await {
            Ok(_) => self.wait(running, events).await,
            // Nothing ran, so the step has not failed. The next process of this machine finds no run.
            Err(_) if self.engine.is_closing() => None,
            Err(error) => Some(failure(&with_hint(&error))),
        }
    }

    /// Waits until the run of an attempt has ended, and cancels it on request; `None` if it was interrupted.
    async fn wait(&self, running: &RunningStep, mut events: Receiver<Event>) -> Option<StepResult> {
        let attempt = &running.attempt;
        let run = StepGraph::run_id(attempt);
        let mut is_cancelled = false;
        loop {
            match self.read(attempt).await {
                Ok(info) if !info.status.is_active() => return result(attempt, info),
                Ok(_) => {}
                Err(error) if error.kind == ErrorKind::NotFound => return None,
                Err(error) => tracing::warn!(%attempt, %error, "the run of a step cannot be read"),
            }
            let end = async {
                loop {
                    match events.recv().await {
                        Ok(event) if is_end(&event.kind, &run) => return true,
                        Ok(_) => {}
                        Err(RecvError::Lagged(_)) => return true,
                        Err(RecvError::Closed) => return false,
                    }
                }
            };
            tokio::select! {
                ended = timeout(READ_INTERVAL, end) => if ended == Ok(false) {
                    return None;
                },
                () = running.cancel.cancelled(), if !is_cancelled => {
                    is_cancelled = true;
                    self.cancel_run(&run).await;
                }
            }
        }
    }

    /// Cancels a run of the engine, which may have ended already.
    async fn cancel_run(&self, run: &str) {
        let request = CancelGraph { run_id: Some(run.to_string()), ..CancelGraph::default() };
        if let Err(error) = self.engine.cancel_graph(request, RequestContext::default()).await {
            tracing::debug!(run, %error, "the run of a step cannot be cancelled");
        }
    }

    /// Returns true if this process runs the attempt, whether its journal can be read or not.
    async fn is_active(&self, attempt: &AttemptId) -> bool {
        let request = GetRun { run_id: StepGraph::run_id(attempt), last: Some(0), ..GetRun::default() };
        let info = self.engine.get_run(request, RequestContext::default()).await;
        info.is_ok_and(|info| info.status.is_active())
    }

    async fn read(&self, attempt: &AttemptId) -> Result<RunInfo, EngineError> {
        let request = |plan, last| GetRun {
            run_id: StepGraph::run_id(attempt),
            last,
            plan,
            result_of: Some(attempt.step.to_string()),
        };
        let info = self.engine.get_run(request(false, Some(0)), RequestContext::default()).await?;
        if info.status != RunStatus::Completed || info.result.is_some() {
            return Ok(info);
        }
        // The states of the steps tell whether the step was skipped. With the plan, a run of an earlier server has them, too.
        self.engine.get_run(request(true, None), RequestContext::default()).await
    }
}

fn is_end(event: &EventKind, run: &str) -> bool {
    matches!(event, EventKind::GraphCompleted { run: ids, .. } if ids.run_id == run)
}

/// Returns the result of a run that has ended; `None` if it was interrupted.
fn result(attempt: &AttemptId, info: RunInfo) -> Option<StepResult> {
    let run = &info.run_id;
    match info.status {
        RunStatus::Completed if !info.faults.is_empty() => {
            let faults = info.faults.join("; ");
            Some(failure(&format!(
                "the result is lost, although run '{run}' completed on its machine: {faults}"
            )))
        }
        RunStatus::Completed if info.result.is_none() && !is_skipped(&info.steps, attempt) => {
            Some(failure(&format!("the result is lost, although run '{run}' completed on its machine")))
        }
        RunStatus::Completed => {
            let value = info.result.unwrap_or(Value::Null).to_string();
            let size = value.len();
            Some(if size > MAX_RESULT {
                let step = &attempt.step;
                failure(&format!(
                    "the result of step '{step}' has {size} bytes, more than {MAX_RESULT}; its machine has it in run '{run}'"
                ))
            } else {
                StepResult { is_success: true, value }
            })
        }
        RunStatus::Failed | RunStatus::Cancelled => {
            let error = info.error.unwrap_or_else(|| format!("run '{run}' was cancelled on its machine"));
            let hint = info.hint.map_or(String::new(), |hint| format!("; {hint}"));
            Some(failure(&format!("{error}{hint}")))
        }
        _ => None,
    }
}

/// Returns true if the step, or each step of its nested graph, was skipped. Then it has no result.
fn is_skipped(steps: &[RunStep], attempt: &AttemptId) -> bool {
    let step = attempt.step.to_string();
    let state = steps.iter().find(|other| other.step_id == step).map(|step| step.state);
    let inner = format!("{step}/");
    let mut parts = steps.iter().filter(|other| other.step_id.starts_with(&inner)).peekable();
    let are_parts_skipped = parts.peek().is_some() && parts.all(|part| part.state == StepState::Skipped);
    state == Some(StepState::Skipped) || are_parts_skipped
}

fn with_hint(error: &EngineError) -> String {
    let hint = error.hint.as_ref().map_or(String::new(), |hint| format!("; {hint}"));
    format!("{error}{hint}")
}

fn failure(error: &str) -> StepResult {
    StepResult { is_success: false, value: error.chars().take(MAX_ERROR).collect() }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use nerve_cluster::{RunId, StepId};
    use nerve_engine::EngineConfig;
    use nerve_testkit::harness::EngineHarness;
    use nerve_testkit::{eventually, within_deadline};
    use serde_json::json;

    use super::*;

    fn attempt() -> AttemptId {
        AttemptId { run: RunId::new("r").unwrap(), step: StepId::new("s").unwrap(), attempt: 1 }
    }

    /// Returns a graph whose step prints a word.
    fn graph() -> StepGraph {
        let graph = json!({
            "graph": "g",
            "nodes": { "sh": { "type": "bash" } },
            "steps": [{ "id": "s", "node": "sh", "input": "echo done" }],
        });
        let Value::Object(definition) = graph else { panic!("a graph is an object") };
        StepGraph { definition, input: Value::Null, node: "sh".into() }
    }

    /// Creates an executor with one slot.
    fn executor(folder: &Path) -> StepExecutor {
        let runs_dir = Some(folder.join("runs"));
        StepExecutor::new(Engine::new(EngineConfig { runs_dir, ..EngineHarness::config(folder) }), 1)
    }

    fn ended(status: RunStatus, result: Option<Value>) -> RunInfo {
        RunInfo { run_id: "step-1".into(), status, result, ..RunInfo::default() }
    }

    #[tokio::test]
    async fn closing_engine_begins_no_step() {
        let folder = tempfile::tempdir().unwrap();
        let executor = executor(folder.path());
        let prepared = executor.clone().prepare(attempt(), Ok(graph())).await;
        assert!(matches!(prepared, Some(Input::Prepared { .. })), "{prepared:?}");
        executor.engine.shut_down(false).await;
        assert_eq!(executor.clone().execute(attempt(), Ok(graph())).await, None);
        assert_eq!(executor.prepare(attempt(), Ok(graph())).await, None);
    }

    #[tokio::test]
    async fn step_whose_slot_was_released_waits_for_a_slot() {
        let folder = tempfile::tempdir().unwrap();
        let executor = executor(folder.path());
        let prepared = executor.clone().prepare(attempt(), Ok(graph())).await;
        assert!(matches!(prepared, Some(Input::Prepared { .. })), "{prepared:?}");
        executor.release(|_| false);
        let execution = executor.clone().execute(attempt(), Ok(graph()));
        let ended = within_deadline("the step ends", execution).await;
        assert!(matches!(&ended, Some(Input::TurnFinished { result, .. }) if result.is_success), "{ended:?}");
        assert_eq!(executor.slots.available_permits(), 1);
    }

    #[tokio::test]
    async fn running_step_is_not_lost_with_its_journal() {
        let folder = tempfile::tempdir().unwrap();
        let executor = executor(folder.path());
        let mut waiting = graph();
        let go = folder.path().join("go");
        let input = format!("until test -e {}; do sleep 0.05; done", go.display());
        waiting.definition["steps"][0]["input"] = input.into();
        let inspect = async || executor.clone().inspect(attempt()).await;
        let is_lost = |input: Option<Input>| {
            matches!(input, Some(Input::TurnInspected { report: TurnReport::Lost, .. }))
        };
        assert!(is_lost(inspect().await), "it has not begun");
        executor.clone().prepare(attempt(), Ok(waiting.clone())).await;
        let execution = tokio::spawn(executor.clone().execute(attempt(), Ok(waiting)));
        let journal = async || executor.read(&attempt()).await.ok().and_then(|info| info.journal);
        eventually("the step runs", async || journal().await.is_some()).await;
        std::fs::remove_file(journal().await.unwrap()).unwrap();
        assert!(!is_lost(inspect().await));
        std::fs::write(go, "").unwrap();
        execution.abort();
    }

    #[tokio::test]
    async fn cancelled_step_fails_whether_it_has_begun_or_not() {
        let folder = tempfile::tempdir().unwrap();
        let executor = executor(folder.path());
        let failed = |input: &Option<Input>| matches!(input, Some(Input::TurnFinished { result, .. }) if !result.is_success);
        let early = executor.clone().execute(attempt(), Ok(graph()));
        let running_steps = || executor.running.lock().len();
        assert_eq!(running_steps(), 1);
        executor.cancel(&attempt());
        let early = early.await;
        assert!(failed(&early) && executor.read(&attempt()).await.is_err(), "{early:?}");
        assert_eq!(running_steps(), 0);
        let mut endless = graph();
        endless.definition["steps"][0]["input"] = "until false; do sleep 0.05; done".into();
        let execution = tokio::spawn(executor.clone().execute(attempt(), Ok(endless)));
        eventually("the step runs", async || executor.is_active(&attempt()).await).await;
        executor.cancel(&attempt());
        let ended = within_deadline("the step ends", execution).await.unwrap();
        assert!(failed(&ended), "{ended:?}");
    }

    #[tokio::test]
    async fn run_that_the_server_no_longer_knows_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let executor = executor(folder.path());
        let resumed = within_deadline("the step ends", executor.clone().resume(attempt())).await;
        assert_eq!(resumed, Some(Input::TurnInspected { attempt: attempt(), report: TurnReport::Lost }));
        executor.engine.shut_down(false).await;
        assert_eq!(executor.resume(attempt()).await, None);
    }

    #[test]
    fn interrupted_run_has_no_result() {
        for status in [RunStatus::Interrupted, RunStatus::Unknown, RunStatus::Running] {
            assert_eq!(result(&attempt(), ended(status, None)), None, "{status}");
        }
        assert!(!result(&attempt(), ended(RunStatus::Cancelled, None)).unwrap().is_success);
        assert!(!result(&attempt(), ended(RunStatus::Failed, None)).unwrap().is_success);
    }

    #[test]
    fn result_beyond_the_limit_is_a_failure() {
        let of_size = |size| Some(Value::from("x".repeat(size)));
        let kept = result(&attempt(), ended(RunStatus::Completed, of_size(MAX_RESULT - 2))).unwrap();
        assert!(kept.is_success && kept.value.len() == MAX_RESULT);
        let refused = result(&attempt(), ended(RunStatus::Completed, of_size(MAX_RESULT))).unwrap();
        assert!(!refused.is_success && refused.value.len() < MAX_ERROR);
    }

    #[test]
    fn completed_run_without_a_result_is_a_failure() {
        let completed = |result, steps: &[(&str, StepState)], faults: &[&str]| {
            let step = |(id, state): &(&str, StepState)| RunStep {
                step_id: id.to_string(),
                state: *state,
                ..RunStep::default()
            };
            let steps = steps.iter().map(step).collect();
            let faults = faults.iter().map(ToString::to_string).collect();
            let info = RunInfo { steps, faults, ..ended(RunStatus::Completed, result) };
            super::result(&attempt(), info).unwrap()
        };
        assert!(!completed(None, &[], &[]).is_success);
        assert!(!completed(None, &[("s", StepState::Completed)], &[]).is_success);
        assert!(!completed(None, &[("before", StepState::Skipped)], &[]).is_success);
        let inner = [("s", StepState::Completed), ("s/a", StepState::Skipped), ("s/b", StepState::Completed)];
        assert!(!completed(None, &inner, &[]).is_success);
        assert!(!completed(Some(Value::from(1)), &[], &["journal: the disk is full"]).is_success);
        for steps in [&[("s", StepState::Skipped)][..], &inner[..2]] {
            let skipped = completed(None, steps, &[]);
            assert_eq!((skipped.is_success, skipped.value.as_str()), (true, "null"));
        }
    }
}
