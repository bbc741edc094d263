//! Runs of graphs: active runs, and earlier runs that are read from their journals.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nerve_api::RunIds;
use nerve_api::reply::{RunEnded, RunInfo, RunStep};
use nerve_api::value::StepState;
use nerve_types::TsNs;
use nerve_types::activity::TsMs;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use nerve_graph::event::{Completion, StepEvent, StepEventKind};
use nerve_graph::gate_handler::GateHandler;
use nerve_graph::journal::{self, Journal, JournalRecord, Question, Summary, journal_path, journals};
use nerve_graph::session::DEFAULT;
use nerve_graph::trace::ExecutionTrace;
use nerve_host::clock::Clock;
use nerve_node::command::{EventKind, GateInfo, RunStatus};
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::events::Publisher;

/// Limit of steps in memory per run. Beyond it, the oldest completed steps are dropped. Journal and trace contain all steps.
const MAX_STEPS: usize = 2048;
/// Limit of ended runs in memory.
const MAX_ENDED: usize = 64;
/// Limit of listed runs.
const MAX_LISTED: usize = 1000;

/// The runs of a server.
#[derive(Debug)]
pub(super) struct Runs {
    folder: Option<PathBuf>,
    pub(super) clock: Clock,
    events: Publisher,
    known: Mutex<BTreeMap<String, Arc<Run>>>,
    /// Set when no more runs are admitted. Changed while `known` is locked.
    closed: AtomicBool,
}

/// A run of this server.
#[derive(Debug)]
pub(crate) struct Run {
    pub(super) id: String,
    pub(super) graph: String,
    pub(super) cancellation: CancellationToken,
    pub(super) gates: GateHandler,
    session: String,
    /// Present while the run is active.
    journal: Mutex<Option<Journal>>,
    events: Publisher,
    clock: Clock,
    state: Mutex<RunState>,
    ended: watch::Sender<bool>,
    /// Set if the server shut down before the run had ended. Such a run can be resumed.
    interrupted: AtomicBool,
}

/// The changing state of a run.
#[derive(Debug)]
struct RunState {
    /// Description without the gates and with an outdated `status`.
    info: RunInfo,
    status: RunStatus,
    started: TsNs,
    /// Indices into `info.steps` by path.
    step_indexes: HashMap<String, usize>,
    /// Number of steps in memory at which old ones are dropped.
    compact_at: usize,
}

impl Runs {
    pub(super) fn new(folder: Option<PathBuf>, server: &str, clock: Clock, events: Publisher) -> Runs {
        let folder = folder.map(|folder| folder.join(server));
        Runs { folder, clock, events, known: Mutex::default(), closed: AtomicBool::new(false) }
    }

    /// Returns the path of a run's journal.
    pub(super) fn journal(&self, run: &str) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| journal_path(folder, run))
    }

    /// Admits a run before its journal exists, so that every run with a journal is known.
    ///
    /// # Errors
    /// AlreadyExists: a run of that id is active. Process: the server shuts down.
    pub(super) fn admit(
        &self,
        id: &str,
        graph: &str,
        session: Option<&str>,
        total: usize,
    ) -> Result<RunAdmission<'_>, EngineError> {
        let started = self.clock.now();
        let info = RunInfo {
            run_id: id.to_string(),
            graph_id: graph.to_string(),
            session_id: session.unwrap_or(DEFAULT).to_string(),
            started_at: started.into(),
            total_steps: total,
            ..RunInfo::default()
        };
        let run = Arc::new(Run {
            id: id.to_string(),
            graph: graph.to_string(),
            cancellation: CancellationToken::new(),
            gates: GateHandler::new(),
            session: session.unwrap_or(DEFAULT).to_string(),
            journal: Mutex::default(),
            events: self.events.clone(),
            clock: self.clock,
            state: Mutex::new(RunState {
                info,
                status: RunStatus::Running,
                started,
                step_indexes: HashMap::new(),
                compact_at: 2 * MAX_STEPS,
            }),
            ended: watch::Sender::new(false),
            interrupted: false.into(),
        });
        let mut known = self.known.lock();
        if self.closed.load(Ordering::Relaxed) {
            return Err(EngineError::process("the server is shutting down"));
        }
        if known.get(id).is_some_and(|run| run.is_active()) {
            return Err(EngineError::already_exists(format!("run '{id}' is already active"))
                .hint("choose another id, or cancel it first"));
        }
        let replaced = known.insert(id.to_string(), Arc::clone(&run));
        let ended: Vec<String> =
            known.iter().filter(|(_, run)| !run.is_active()).map(|(id, _)| id.clone()).collect();
        for id in ended.iter().take(ended.len().saturating_sub(MAX_ENDED)) {
            known.remove(id);
        }
        Ok(RunAdmission { runs: self, run, has_begun: false, replaced })
    }

    /// Returns a run that this server has started.
    pub(super) fn get(&self, id: &str) -> Option<Arc<Run>> {
        self.known.lock().get(id).cloned()
    }

    /// Returns active runs with that id, or of the graph with that id.
    pub(super) fn active(&self, id: &str) -> Vec<Arc<Run>> {
        let known = self.known.lock();
        let runs = known.values().filter(|run| run.is_active() && (run.id == id || run.graph == id));
        runs.cloned().collect()
    }

    /// Lists all runs, the newest first; those of earlier servers by their journals. Blocks on the disk.
    pub(super) fn list(&self) -> Vec<RunInfo> {
        // In this order: a run with a journal is known by now, or has ended.
        let files: Vec<PathBuf> =
            self.folder.iter().flat_map(|folder| journals(folder)).take(MAX_LISTED).collect();
        let mut infos: Vec<RunInfo> = self.known.lock().values().map(|run| run.info()).collect();
        for path in files {
            let id = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            if infos.iter().any(|info| info.run_id == id) {
                continue;
            }
            match Summary::read(&path) {
                Ok(summary) => infos.push(from_journal(summary, path)),
                Err(error) => tracing::warn!(%error, "a journal cannot be read"),
            }
        }
        infos.sort_by(|one, other| other.started_at.cmp(&one.started_at).then(other.run_id.cmp(&one.run_id)));
        infos.truncate(MAX_LISTED);
        infos
    }

    /// Returns the state of a run. Blocks on the disk.
    ///
    /// # Errors
    /// NotFound.
    pub(super) fn info(&self, id: &str) -> Result<RunInfo, EngineError> {
        if let Some(run) = self.get(id) {
            return Ok(run.info());
        }
        let path = self.journal(id).filter(|path| path.exists()).ok_or_else(|| not_found(id))?;
        let summary = Summary::read(&path);
        // The run may have started meanwhile.
        if let Some(run) = self.get(id) {
            return Ok(run.info());
        }
        let summary = summary.map_err(|error| EngineError::invalid_request(error.to_string()))?;
        Ok(from_journal(summary, path))
    }

    /// Returns the journals of runs that have not ended: those of a server that is gone. Blocks on the disk.
    pub(super) fn interrupted(&self) -> Vec<PathBuf> {
        let files = self.folder.iter().flat_map(|folder| journals(folder));
        let is_unfinished = |path: &PathBuf| {
            // Most journals end with the end of the run. The few others are read as a whole.
            !journal::has_ended(path) && Summary::read(path).is_ok_and(|summary| summary.ending.is_none())
        };
        files.filter(is_unfinished).collect()
    }

    /// Interrupts all active runs because the server shuts down, and waits for them. They can be resumed. With `keep_nodes` nothing is
    /// interrupted in the terminals.
    pub(super) async fn interrupt_all(&self, keep_nodes: bool) {
        let runs: Vec<Arc<Run>> = {
            let known = self.known.lock();
            self.closed.store(true, Ordering::Relaxed);
            known.values().filter(|run| run.is_active()).cloned().collect()
        };
        for run in &runs {
            run.interrupted.store(true, Ordering::Release);
            // A step whose node stops with the server has not failed.
            if let Some(journal) = run.journal() {
                journal.record(&JournalRecord::Paused { at: self.clock.now() });
                journal.seal();
            }
            if !keep_nodes {
                run.cancellation.cancel();
            }
        }
        for run in runs.iter().filter(|_| !keep_nodes) {
            run.wait().await;
        }
    }
}

/// A run that is about to begin. It can be listed and cancelled. If it is dropped before it begins, it is removed.
#[derive(Debug)]
pub(super) struct RunAdmission<'a> {
    runs: &'a Runs,
    run: Arc<Run>,
    has_begun: bool,
    /// An ended run with the same id.
    replaced: Option<Arc<Run>>,
}

impl RunAdmission<'_> {
    /// Begins the run, which has `total` steps.
    pub(super) fn begin(mut self, total: usize, journal: Option<Journal>) -> Arc<Run> {
        self.has_begun = true;
        let run = Arc::clone(&self.run);
        {
            let mut state = run.state.lock();
            state.info.total_steps = total;
            state.info.journal = journal.as_ref().map(|journal| journal.path().display().to_string());
        }
        *run.journal.lock() = journal;
        // The server may have begun to shut down before there was a journal.
        if run.was_interrupted() {
            run.journal().iter().for_each(Journal::seal);
        }
        run
    }
}

impl Drop for RunAdmission<'_> {
    fn drop(&mut self) {
        if self.has_begun {
            return;
        }
        let run = &self.run;
        let mut known = self.runs.known.lock();
        if known.get(&run.id).is_some_and(|known| Arc::ptr_eq(known, run)) {
            match self.replaced.take() {
                Some(replaced) => known.insert(replaced.id.clone(), replaced),
                None => known.remove(&run.id),
            };
        }
        drop(known);
        run.ended.send_replace(true);
    }
}

pub(super) fn not_found(id: &str) -> EngineError {
    EngineError::not_found(format!("no run '{id}'")).hint("`nerve graph list --runs` lists them")
}

impl Run {
    /// Returns the state of the run.
    pub(super) fn info(&self) -> RunInfo {
        let (mut info, mut status) = {
            let state = self.state.lock();
            (state.info.clone(), state.status)
        };
        info.gates = self.gates.waiting();
        let is_running = |step: &RunStep| {
            matches!(step.state, StepState::Running | StepState::Queued)
                && !info.gates.iter().any(|gate| is_in(&gate.step_id, &step.step_id))
        };
        if status == RunStatus::Running && !info.gates.is_empty() && !info.steps.iter().any(is_running) {
            status = RunStatus::Waiting;
        }
        info.status = status;
        info.faults.extend(
            self.journal().as_ref().and_then(Journal::fault).map(|fault| format!("journal: {fault}")),
        );
        info
    }

    /// Returns the journal while the run is active.
    pub(super) fn journal(&self) -> Option<Journal> {
        self.journal.lock().clone()
    }

    /// Returns true until the run has ended.
    pub(super) fn is_active(&self) -> bool {
        !*self.ended.borrow()
    }

    pub(super) fn was_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Acquire)
    }

    /// Waits for the end of the run.
    pub(super) async fn wait(&self) {
        // The sender is a field of the run, so it cannot be dropped first.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// Records an event of a step and publishes it.
    pub(super) fn observe(&self, event: &StepEvent) {
        let (step_id, node_id) = (event.step.to_string(), event.node.to_string());
        let run = self.ids();
        let kind = {
            let mut state = self.state.lock();
            state.observe(event);
            match event.kind {
                StepEventKind::Chunk => return,
                StepEventKind::Asked => {
                    let Some(gate) = self.gates.waiting().into_iter().find(|gate| gate.step_id == step_id)
                    else {
                        return;
                    };
                    EventKind::GateAsked { run, gate }
                }
                StepEventKind::Answered { by } => {
                    EventKind::GateAnswered { run, step_id, choice: text(&event.data), by }
                }
                StepEventKind::Start { queued } => {
                    EventKind::StepStarted { run, step_id, node_id, attempt: 1, queued }
                }
                StepEventKind::Complete { how, ms, tokens } => EventKind::StepCompleted {
                    run,
                    step_id,
                    node_id,
                    state: how.into(),
                    duration_ms: ms,
                    tokens_used: tokens,
                },
                StepEventKind::Error { error_type } => EventKind::StepFailed {
                    run,
                    step_id,
                    node_id,
                    error: text(&event.data),
                    error_type,
                    hint: event.hint.clone(),
                    retry_in_ms: None,
                },
                StepEventKind::Retry { delay_ms, error_type, .. } => EventKind::StepFailed {
                    run,
                    step_id,
                    node_id,
                    error: text(&event.data),
                    error_type,
                    hint: event.hint.clone(),
                    retry_in_ms: Some(delay_ms),
                },
            }
        };
        self.events.publish_in(&self.session, kind);
    }

    /// Publishes an event of this run.
    pub(super) fn publish(&self, kind: impl FnOnce(RunIds) -> EventKind) {
        self.events.publish_in(&self.session, kind(self.ids()));
    }

    fn ids(&self) -> RunIds {
        RunIds { run_id: self.id.clone(), graph_id: self.graph.clone() }
    }

    /// Ends the run, notifies its waiters and returns the run with its results.
    pub(super) fn end(&self, end: RunEnd) -> (RunEnded, Option<EngineError>) {
        let RunEnd { status, tokens, results, error, trace } = end;
        let now = self.clock.now();
        let message = error.as_ref().map(|error| error.message.clone());
        let hint = error.as_ref().and_then(|error| error.hint.clone());
        let error_type = error.as_ref().map(|error| error.kind);
        let ms = {
            let mut state = self.state.lock();
            state.status = status;
            let started = state.started;
            let info = &mut state.info;
            info.ended_at = Some(now.into());
            info.tokens_used = tokens;
            (info.error, info.error_type, info.hint) = (message.clone(), error_type, hint.clone());
            for step in &mut info.steps {
                if matches!(step.state, StepState::Running | StepState::Queued | StepState::Waiting) {
                    step.state = StepState::Cancelled;
                    step.ended_at = Some(now.into());
                }
            }
            now.0.saturating_sub(started.0) / 1_000_000
        };
        let info = self.info();
        // Others can resume the run from here on.
        self.journal.lock().take();
        // The journal is gone, but its faults are still reported.
        self.state.lock().info.faults.clone_from(&info.faults);
        // Published before the end, so that waiters have received the event.
        self.publish(|run| EventKind::GraphCompleted {
            run,
            status,
            duration_ms: ms,
            tokens_used: tokens,
            error: message,
            error_type,
            hint,
        });
        self.ended.send_replace(true);
        let ended = RunEnded {
            graph_id: info.graph_id,
            run_id: info.run_id,
            status: info.status,
            results,
            started_at: info.started_at,
            ended_at: info.ended_at,
            tokens_used: info.tokens_used,
            journal: info.journal,
            faults: info.faults,
            trace: trace.map(|trace| trace.to_dict()),
        };
        (ended, error)
    }
}

/// The outcome of a run.
#[derive(Debug)]
pub(super) struct RunEnd {
    pub(super) status: RunStatus,
    pub(super) tokens: u64,
    /// Results of completed steps.
    pub(super) results: Map<String, Value>,
    /// Reason of a failed or cancelled run.
    pub(super) error: Option<EngineError>,
    pub(super) trace: Option<Box<ExecutionTrace>>,
}

impl RunState {
    fn observe(&mut self, event: &StepEvent) {
        let place = match self.step_indexes.get(&*event.step) {
            Some(place) => *place,
            None => self.add(event),
        };
        let info = &mut self.info;
        let step = &mut info.steps[place];
        match event.kind {
            StepEventKind::Chunk => {}
            StepEventKind::Asked => step.state = StepState::Waiting,
            StepEventKind::Answered { .. } => step.state = StepState::Running,
            StepEventKind::Start { queued } => {
                step.state = if queued { StepState::Queued } else { StepState::Running };
                step.started_at = event.at.into();
            }
            StepEventKind::Complete { how, tokens, .. } => {
                step.state = how.into();
                step.ended_at = Some(event.at.into());
                step.tokens_used = tokens;
                // Items and rounds of a step are not steps of the graph.
                if !step.step_id.contains(['/', '[', '#']) {
                    info.done_steps += 1;
                    info.tokens_used += if how == Completion::Reused { 0 } else { tokens };
                }
            }
            StepEventKind::Error { error_type } => {
                let cancelled = error_type == ErrorKind::Cancelled;
                step.state = if cancelled { StepState::Cancelled } else { StepState::Failed };
                step.ended_at = Some(event.at.into());
                step.error = Some(text(&event.data));
                (step.error_type, step.hint) = (Some(error_type), event.hint.clone());
            }
            StepEventKind::Retry { attempt, error_type, .. } => {
                step.attempt = attempt;
                step.error = Some(text(&event.data));
                (step.error_type, step.hint) = (Some(error_type), event.hint.clone());
            }
        }
    }

    /// Drops steps: completed ones first, then failed and cancelled ones.
    fn drop_old_steps(&mut self) {
        let steps = &mut self.info.steps;
        let mut spare = steps.len() - MAX_STEPS;
        for states in [
            &[StepState::Completed, StepState::Reused, StepState::Skipped][..],
            &[StepState::Failed, StepState::Cancelled],
        ] {
            steps.retain(|step| {
                let is_dropped = spare > 0 && states.contains(&step.state);
                spare -= usize::from(is_dropped);
                !is_dropped
            });
        }
        self.step_indexes = steps.iter().enumerate().map(|(at, step)| (step.step_id.clone(), at)).collect();
        // With thousands of concurrent steps, this must not run for each of them.
        self.compact_at = 2 * steps.len().max(MAX_STEPS);
    }

    fn add(&mut self, event: &StepEvent) -> usize {
        if self.info.steps.len() >= self.compact_at {
            self.drop_old_steps();
        }
        let place = self.info.steps.len();
        self.info.steps.push(RunStep {
            step_id: event.step.to_string(),
            node_id: event.node.to_string(),
            state: StepState::Running,
            started_at: event.at.into(),
            attempt: 1,
            ..RunStep::default()
        });
        self.step_indexes.insert(event.step.to_string(), place);
        place
    }
}

/// Returns true if `path` is the step or one of its items, rounds or inner steps.
fn is_in(path: &str, step: &str) -> bool {
    path.strip_prefix(step).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '[', '#']))
}

/// Returns the text of an event's data.
fn text(data: &Value) -> String {
    data.as_str().unwrap_or_default().to_string()
}

/// Returns the state of a run of a server that is gone.
fn from_journal(summary: Summary, journal: PathBuf) -> RunInfo {
    let (status, ended, error, error_type, hint) = match summary.ending {
        Some(ending) => {
            let status = ending.status.parse().ok().filter(|status: &RunStatus| status.is_end());
            let status = status.unwrap_or(RunStatus::Failed);
            (status, Some(ending.at), ending.error, ending.error_type, ending.hint)
        }
        None => (RunStatus::Interrupted, None, None, None, None),
    };
    let gate = |gate: Question| GateInfo {
        step_id: gate.step,
        question: gate.text,
        choices: gate.choices,
        default: gate.default,
        deadline_at: gate.deadline.map(TsMs::from),
    };
    RunInfo {
        run_id: summary.run,
        graph_id: summary.graph,
        session_id: summary.session.unwrap_or_else(|| DEFAULT.to_string()),
        status,
        started_at: summary.started.into(),
        ended_at: ended.or(Some(summary.last).filter(|_| status.is_end())).map(TsMs::from),
        steps: Vec::new(),
        total_steps: summary.total,
        done_steps: summary.done,
        gates: summary.open_gates.into_iter().map(gate).collect(),
        tokens_used: summary.tokens,
        error,
        error_type: error_type.map(|kind| kind.parse().unwrap_or_default()),
        hint,
        journal: Some(journal.display().to_string()),
        faults: summary
            .cut
            .map(|bytes| format!("the last {bytes} bytes of its journal are cut"))
            .into_iter()
            .collect(),
        plan: Vec::new(),
        result: None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{MAX_STEPS, Run, Runs};
    use nerve_api::value::StepState;
    use nerve_graph::event::{Completion, StepEvent, StepEventKind};
    use nerve_host::clock::Clock;
    use nerve_node::error::ErrorKind;
    use nerve_node::events::Publisher;
    use nerve_types::TsNs;
    use serde_json::Value;

    fn event(step: &str, kind: StepEventKind) -> StepEvent {
        StepEvent { kind, step: step.into(), node: "n".into(), data: Value::Null, hint: None, at: TsNs(1) }
    }

    fn runs() -> Runs {
        let clock = Clock::start();
        Runs::new(None, "test", clock, Publisher::new(clock))
    }

    fn begun(total: usize) -> Arc<Run> {
        runs().admit("r-1", "g", None, total).unwrap().begin(total, None)
    }

    #[test]
    fn admitted_runs_are_known_until_dropped() {
        let runs = runs();
        let admission = runs.admit("r-1", "g", None, 1).unwrap();
        assert_eq!(runs.list()[0].run_id, "r-1");
        assert_eq!(runs.active("g").len(), 1);
        assert!(runs.admit("r-1", "g", None, 1).is_err());
        let run = Arc::clone(&admission.run);
        drop(admission);
        assert!(!run.is_active() && runs.list().is_empty() && runs.active("r-1").is_empty());
        // An ended run is known again if another one with its id never begins.
        let first = runs.admit("r-1", "g", None, 1).unwrap().begin(1, None);
        first.ended.send_replace(true);
        drop(runs.admit("r-1", "h", None, 1).unwrap());
        assert_eq!(runs.get("r-1").unwrap().graph, "g");
    }

    #[test]
    fn nested_tokens_count_once() {
        let run = begun(2);
        let used = |tokens| StepEventKind::Complete { how: Completion::Completed, ms: 0, tokens };
        for (step, tokens) in
            [("each[0]", 5), ("each[1]", 7), ("each", 12), ("in/a#1", 1), ("in/a", 1), ("in", 1)]
        {
            run.observe(&event(step, used(tokens)));
        }
        let info = run.info();
        assert_eq!((info.tokens_used, info.done_steps), (13, 2));
    }

    #[test]
    fn ended_steps_are_dropped_first() {
        let run = begun(1);
        run.observe(&event("first", StepEventKind::Start { queued: false }));
        for step in 0..10 * MAX_STEPS {
            let step = format!("s{step}");
            run.observe(&event(&step, StepEventKind::Start { queued: false }));
            run.observe(&event(&step, StepEventKind::Error { error_type: ErrorKind::Process }));
        }
        let info = run.info();
        assert!(info.steps.len() <= 2 * MAX_STEPS, "{}", info.steps.len());
        assert_eq!((info.steps[0].step_id.as_str(), info.steps[0].state), ("first", StepState::Running));
    }

    #[tokio::test]
    async fn no_run_begins_during_shutdown() {
        let runs = runs();
        runs.interrupt_all(false).await;
        assert!(runs.admit("r-1", "g", None, 1).is_err());
    }
}
