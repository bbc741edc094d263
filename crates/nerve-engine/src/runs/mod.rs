//! Runs of graphs: active runs, and earlier runs that are read from their journals.

pub(crate) mod driver;
mod nodes;
mod run;
mod state;
pub(crate) mod subgraphs;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nerve_api::DEFAULT_SESSION;
use nerve_api::reply::RunInfo;
use nerve_api::value::RunStatus;
use nerve_graph::journal::{self, Journal, Summary, journal_path, journals};
use nerve_host::clock::Clock;
use nerve_node::error::EngineError;
use nerve_node::events::Publisher;
use nerve_types::TsNs;
use nerve_types::activity::TsMs;
use parking_lot::Mutex;

use self::run::Run;

/// Limit of ended runs in memory. The oldest is dropped first.
const MAX_ENDED: usize = 64;
/// Limit of listed runs.
const MAX_LISTED: usize = 1000;

/// The runs of a server.
#[derive(Debug)]
pub(crate) struct Runs {
    folder: Option<PathBuf>,
    pub(crate) clock: Clock,
    events: Publisher,
    known: Mutex<BTreeMap<String, Arc<Run>>>,
    /// Set when no more runs are admitted. Changed while `known` is locked.
    closed: AtomicBool,
}

impl Runs {
    pub(crate) fn new(folder: Option<PathBuf>, server: &str, clock: Clock, events: Publisher) -> Runs {
        let folder = folder.map(|folder| folder.join(server));
        Runs { folder, clock, events, known: Mutex::default(), closed: AtomicBool::new(false) }
    }

    /// Returns the path of a run's journal.
    pub(crate) fn journal(&self, run: &str) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| journal_path(folder, run))
    }

    /// Admits a run before its journal exists, so that every run with a journal is known.
    ///
    /// # Errors
    /// AlreadyExists: a run of that id is active. Process: the server shuts down.
    pub(crate) fn admit(
        &self,
        id: &str,
        graph: &str,
        session: Option<&str>,
        total: usize,
    ) -> Result<RunAdmission<'_>, EngineError> {
        let info = RunInfo {
            run_id: id.to_string(),
            graph_id: graph.to_string(),
            session_id: session.unwrap_or(DEFAULT_SESSION).to_string(),
            status: RunStatus::Running,
            started_at: self.clock.now().into(),
            total_steps: total,
            ..RunInfo::default()
        };
        let run = Arc::new(Run::new(info, self.clock, self.events.clone()));
        let mut known = self.known.lock();
        if self.closed.load(Ordering::Relaxed) {
            return Err(EngineError::process("the server is shutting down"));
        }
        if known.get(id).is_some_and(|run| run.is_active()) {
            return Err(EngineError::already_exists(format!("run '{id}' is already active"))
                .hint("choose another id, or cancel it first"));
        }
        let replaced = known.insert(id.to_string(), Arc::clone(&run));
        let mut ended: Vec<(TsNs, String)> =
            known.iter().filter_map(|(id, run)| Some((run.end_time()?, id.clone()))).collect();
        ended.sort();
        for (_, id) in ended.iter().take(ended.len().saturating_sub(MAX_ENDED)) {
            known.remove(id);
        }
        Ok(RunAdmission { runs: self, run, has_begun: false, replaced })
    }

    /// Returns true if no more runs are admitted, because the server shuts down.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Returns a run that this server has started.
    pub(crate) fn get(&self, id: &str) -> Option<Arc<Run>> {
        self.known.lock().get(id).cloned()
    }

    /// Returns active runs with that id, or of the graph with that id.
    pub(crate) fn active(&self, id: &str) -> Vec<Arc<Run>> {
        let known = self.known.lock();
        let runs = known.values().filter(|run| run.is_active() && (run.id == id || run.graph == id));
        runs.cloned().collect()
    }

    /// Lists all runs, the newest first; those of earlier servers by their journals. Blocks on the disk.
    pub(crate) fn list(&self) -> Vec<RunInfo> {
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
    pub(crate) fn info(&self, id: &str) -> Result<RunInfo, EngineError> {
        if let Some(run) = self.get(id) {
            return Ok(run.info());
        }
        let path = self.journal(id).filter(|path| path.exists()).ok_or_else(|| run_not_found_error(id))?;
        let summary = Summary::read(&path);
        // The run may have started meanwhile.
        if let Some(run) = self.get(id) {
            return Ok(run.info());
        }
        let summary = summary.map_err(|error| EngineError::invalid_request(error.to_string()))?;
        Ok(from_journal(summary, path))
    }

    /// Returns the journals of unfinished runs, whose server is gone. Blocks on the disk.
    pub(crate) fn interrupted(&self) -> Vec<PathBuf> {
        let files = self.folder.iter().flat_map(|folder| journals(folder));
        let is_unfinished = |path: &PathBuf| {
            // Most journals end with the end of the run. The few others are read as a whole.
            !journal::has_ended(path) && Summary::read(path).is_ok_and(|summary| summary.outcome.is_none())
        };
        files.filter(is_unfinished).collect()
    }

    /// Interrupts all active runs because the server shuts down, and waits for them. They can be resumed. With `keep_nodes` nothing is
    /// interrupted in the terminals.
    pub(crate) async fn interrupt_all(&self, keep_nodes: bool) {
        let runs: Vec<Arc<Run>> = {
            let known = self.known.lock();
            self.closed.store(true, Ordering::Relaxed);
            known.values().filter(|run| run.is_active()).cloned().collect()
        };
        for run in &runs {
            run.interrupt(!keep_nodes);
        }
        for run in runs.iter().filter(|_| !keep_nodes) {
            run.wait().await;
        }
    }
}

/// A run that is about to begin. It can be listed and cancelled. If it is dropped before it begins, it is removed.
#[derive(Debug)]
pub(crate) struct RunAdmission<'a> {
    runs: &'a Runs,
    run: Arc<Run>,
    has_begun: bool,
    /// An ended run with the same id.
    replaced: Option<Arc<Run>>,
}

impl RunAdmission<'_> {
    /// Begins the run, which has `total` steps.
    pub(crate) fn begin(mut self, total: usize, journal: Option<Journal>) -> Arc<Run> {
        self.has_begun = true;
        self.run.begin(total, journal);
        Arc::clone(&self.run)
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
        run.abandon();
    }
}

pub(crate) fn run_not_found_error(id: &str) -> EngineError {
    EngineError::not_found(format!("no run '{id}'")).hint("`nerve graph list --runs` lists them")
}

/// Returns the state of a run of a server that is gone.
fn from_journal(summary: Summary, journal: PathBuf) -> RunInfo {
    let (status, ended, error, error_type, hint) = match summary.outcome {
        Some(outcome) => {
            let status = outcome.status.parse().ok().filter(|status: &RunStatus| status.is_end());
            let status = status.unwrap_or(RunStatus::Failed);
            (status, Some(outcome.at), outcome.error, outcome.error_type, outcome.hint)
        }
        None => (RunStatus::Interrupted, None, None, None, None),
    };
    RunInfo {
        run_id: summary.run,
        graph_id: summary.graph,
        session_id: summary.session.unwrap_or_else(|| DEFAULT_SESSION.to_string()),
        status,
        started_at: summary.started.into(),
        ended_at: ended.or(Some(summary.last).filter(|_| status.is_end())).map(TsMs::from),
        steps: Vec::new(),
        total_steps: summary.total,
        done_steps: summary.done,
        gates: summary.open_gates.into_iter().map(|open| open.gate).collect(),
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

    use super::state::MAX_STEPS;
    use super::{MAX_ENDED, Run, Runs};
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
        first.abandon();
        drop(runs.admit("r-1", "h", None, 1).unwrap());
        assert_eq!(runs.get("r-1").unwrap().graph, "g");
    }

    #[test]
    fn oldest_ended_run_is_dropped_first() {
        let runs = runs();
        let end = |id: &str| runs.admit(id, "g", None, 1).unwrap().begin(1, None).abandon();
        (0..MAX_ENDED).for_each(|run| end(&format!("z-{run}")));
        end("a");
        drop(runs.admit("b", "g", None, 1).unwrap());
        assert_eq!(["z-0", "z-1", "a"].map(|id| runs.get(id).is_some()), [false, true, true]);
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
        assert!(!runs.is_closed());
        runs.interrupt_all(false).await;
        assert!(runs.is_closed());
        assert!(runs.admit("r-1", "g", None, 1).is_err());
    }
}
