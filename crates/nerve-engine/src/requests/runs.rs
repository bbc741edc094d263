//! Runs of graphs: EXECUTE_GRAPH, RUN_GRAPH, RESUME_RUN, CANCEL_GRAPH, LIST_RUNS, GET_RUN and ANSWER_GATE.

use std::path::Path;
use std::sync::Arc;

use nerve_api::event::EventKind;
use nerve_api::reply::{RunInfo, RunList, RunReply, RunsCancelled};
use nerve_api::request::{
    AnswerGate, CancelGraph, ExecuteGraph, GetRun, ListRuns, ResumeRun, RunGraph, RunOptions,
};
use nerve_graph::file::{CompiledGraph, GraphFile, OnRestart, without_secrets};
use nerve_graph::journal::{
    Header, Journal, JournalError, JournalRecord, ReplayState, new_run_id, read_plan, read_result, read_steps,
};
use nerve_graph::session::Session;
use nerve_node::error::EngineError;
use nerve_node::names::check_name;
use nerve_node::telemetry::{ActiveSpan, RunAttributes, TraceContext, begin_run};
use serde::Deserialize;
use serde_json::Value;
use tokio::task::spawn_blocking;

use super::context::RequestContext;
use super::graphs::{find_graph, no_graph_error};
use super::params::check_shell_env;
use crate::engine::Engine;
use crate::page::paginate;
use crate::runs::driver::PendingRun;
use crate::runs::{run_not_found_error, subgraphs};

impl Engine {
    /// Creates an id for a graph without one: a valid name that is not used twice.
    fn new_graph_id(&self) -> String {
        new_run_id(self.inner.clock.now()).replacen("r-", "graph-", 1)
    }

    /// Runs a graph that is part of the request; one without an id gets a generated id. The run continues even if the future is dropped.
    ///
    /// # Errors
    /// InvalidRequest (the definition), AlreadyExists (the id), NotFound (session). The error of a run that failed or was cancelled
    /// contains the run.
    pub async fn execute_graph(
        &self,
        request: ExecuteGraph,
        context: RequestContext,
    ) -> Result<RunReply, EngineError> {
        let ExecuteGraph { mut definition, options, detach } = request;
        if !["graph", "graph_id", "id"].iter().any(|name| definition.contains_key(*name)) {
            definition.insert("graph".to_string(), self.new_graph_id().into());
        }
        check_shell_env(options.shell_env.as_ref())?;
        let parent = context.trace(options.traceparent.as_deref(), options.tracestate.as_deref());
        let outer = self.inner.sessions.get(options.session_id.as_deref())?;
        let (file, compiled) = compile_with_subgraphs(Value::Object(definition), &outer)?;
        let input = file.input(options.input)?;
        let id = self.choose_run_id(options.run_id)?;
        let span = begin_span(parent.map(Arc::new), &file, compiled.graph.len(), &id, &outer);
        let (session, shell_env) = (options.session_id, options.shell_env);
        // A resumed run continues the trace of the run's own span.
        let options = RunOptions {
            trace: options.trace,
            keep_nodes: options.keep_nodes,
            traceparent: span.context().map(|context| context.traceparent()),
            tracestate: span.context().and_then(|context| context.tracestate()),
            ..RunOptions::default()
        };
        let head = Header {
            at: self.inner.clock.now(),
            run: id.clone(),
            graph: file.graph.clone(),
            session,
            definition: without_secrets(file.to_value()),
            input: input.clone(),
            // Texts and flags: this cannot fail.
            options: serde_json::to_value(&options).unwrap_or_default(),
        };
        let CompiledGraph { graph, nodes } = compiled;
        let admission = self.inner.runs.admit(&id, &file.graph, Some(outer.name()), graph.len())?;
        let journal = match self.inner.runs.journal(&id) {
            Some(path) => Some(spawn_blocking(move || Journal::create(&path, &head)).await??),
            None => None,
        };
        let run = admission.begin(graph.len(), journal);
        run.publish(|run| EventKind::GraphStarted { run, steps: graph.len(), resumed: false });
        let pending = PendingRun { graph, nodes, run, outer, input, replay: None, options, shell_env, span };
        self.start_run(pending, detach).await
    }

    /// Runs a registered graph. The run continues even if the future is dropped.
    ///
    /// # Errors
    /// See [`Engine::execute_graph`].
    pub async fn run_graph(
        &self,
        request: RunGraph,
        context: RequestContext,
    ) -> Result<RunReply, EngineError> {
        let RunGraph { graph_id, options, detach } = request;
        let outer = self.inner.sessions.get(options.session_id.as_deref())?;
        let definition = find_graph(&outer, &graph_id)?.definition().and_then(Value::as_object).cloned();
        let definition = definition.ok_or_else(|| no_graph_error(&graph_id, &outer))?;
        self.execute_graph(ExecuteGraph { definition, options, detach }, context).await
    }

    /// Returns the requested id of a new run, or a generated one.
    fn choose_run_id(&self, requested: Option<String>) -> Result<String, EngineError> {
        let Some(id) = requested else { return Ok(new_run_id(self.inner.runs.clock.now())) };
        check_name(&id, "run")?;
        self.check_run_id(&id, |_| true)?;
        Ok(id)
    }

    /// Checks that a run id is not the name of a foreign session. The run's own session has its id as name and ends with it.
    fn check_run_id(&self, run: &str, is_foreign: impl FnOnce(&Session) -> bool) -> Result<(), EngineError> {
        match self.inner.sessions.find_by_name(run).filter(is_foreign) {
            Some(_) => Err(EngineError::already_exists(format!("session '{run}' exists already"))
                .hint("choose another run id")),
            None => Ok(()),
        }
    }

    /// Resumes a run whose server is gone, or that failed or was cancelled. Completed steps are not run again.
    ///
    /// # Errors
    /// NotFound, InvalidRequest (active or completed run, invalid definition), AlreadyExists. As [`Engine::execute_graph`] when the run ends.
    pub async fn resume_run(&self, request: ResumeRun, _: RequestContext) -> Result<RunReply, EngineError> {
        let ResumeRun { run_id: id, definition, trace, detach, shell_env } = request;
        check_shell_env(shell_env.as_ref())?;
        let graph = definition.map(Value::Object);
        check_name(&id, "run")?;
        if self.inner.runs.get(&id).is_some_and(|run| run.is_active()) {
            let message = format!("run '{id}' is active: there is nothing to resume");
            return Err(EngineError::invalid_request(message).hint("`nerve graph status` shows its progress"));
        }
        // The session of the run itself may exist: its nodes outlived their server.
        self.check_run_id(&id, Session::is_persistent)?;
        let path = self
            .inner
            .runs
            .journal(&id)
            .filter(|path| path.exists())
            .ok_or_else(|| run_not_found_error(&id))?;
        let (engine, run) = (self.clone(), id.clone());
        let info = spawn_blocking(move || engine.inner.runs.info(&run)).await??;
        let name = graph.as_ref().and_then(|graph| GraphFile::from_value(graph.clone()).ok());
        let name = name.map_or(info.graph_id, |file| file.graph);
        let admission = self.inner.runs.admit(&id, &name, Some(&info.session_id), info.total_steps)?;
        let (journal, replay) = spawn_blocking(move || Journal::resume(&path)).await??;
        if replay.status() == "completed" && graph.is_none() {
            return Err(EngineError::invalid_request(format!("run '{id}' is completed"))
                .hint("run the graph again, or resume it with an edited one"));
        }
        let edited = graph.is_some();
        let outer = self.inner.sessions.ensure(replay.head().session.as_deref())?;
        let (file, compiled) =
            compile_with_subgraphs(graph.unwrap_or_else(|| replay.definition().clone()), &outer)?;
        if let Some(cut) = replay.cut() {
            let message =
                format!("run '{id}': the last {cut} bytes of its journal are incomplete and were dropped");
            tracing::warn!("{message}");
            self.inner.events.publish(None, EventKind::machine_failure(message));
        }
        let input = file.input(replay.head().input.clone())?;
        let definition = edited.then(|| without_secrets(file.to_value()));
        journal
            .record(&JournalRecord::Resumed { at: self.inner.clock.now(), definition: definition.as_ref() });
        let mut options = RunOptions::deserialize(&replay.head().options).unwrap_or_default();
        options.trace |= trace;
        let CompiledGraph { graph, nodes } = compiled;
        let run = admission.begin(graph.len(), Some(journal));
        let span = begin_span(parent_span(&options), &file, graph.len(), &id, &outer);
        span.describe(|span| span.set("nerve.resumed", true));
        run.publish(|run| EventKind::GraphStarted { run, steps: graph.len(), resumed: true });
        let replay = Some(replay);
        let pending = PendingRun { graph, nodes, run, outer, input, replay, options, shell_env, span };
        self.start_run(pending, detach).await
    }

    /// Resumes interrupted runs of an earlier server whose graphs have `on_restart: resume`. Must be called on a runtime, after [`Engine::adopt`].
    pub fn resume_interrupted(&self) {
        let engine = self.clone();
        tokio::spawn(async move {
            let runs = engine.clone();
            let Ok(paths) = spawn_blocking(move || runs.inner.runs.interrupted()).await else { return };
            for path in paths {
                let read = spawn_blocking(move || ReplayState::read(&path)).await;
                let Ok(Ok(replay)) = read else { continue };
                let id = replay.head().run.clone();
                let resumes = GraphFile::from_value(replay.definition().clone())
                    .is_ok_and(|file| file.on_restart == OnRestart::Resume);
                if !resumes {
                    tracing::info!(run = %id, "interrupted: `nerve graph resume` resumes it");
                    continue;
                }
                if replay.crashed_again() {
                    let message = format!(
                        "run '{id}' was not resumed: its server ended twice without a shutdown while the same steps ran; \
                         `nerve graph resume {id}` resumes it, with --file a corrected graph"
                    );
                    tracing::warn!("{message}");
                    engine.inner.events.publish(None, EventKind::machine_failure(message));
                    continue;
                }
                let request = ResumeRun { run_id: id.clone(), detach: true, ..ResumeRun::default() };
                if let Err(error) = engine.resume_run(request, RequestContext::default()).await {
                    let message = format!("run '{id}' was not resumed: {error}");
                    tracing::warn!("{message}");
                    engine.inner.events.publish(None, EventKind::machine_failure(message));
                }
            }
        });
    }

    /// Cancels a run, or all runs of a graph.
    ///
    /// # Errors
    /// NotFound, InvalidRequest (no id).
    pub async fn cancel_graph(
        &self,
        request: CancelGraph,
        _: RequestContext,
    ) -> Result<RunsCancelled, EngineError> {
        let Some(id) = request.run_id.or(request.graph_id) else {
            return Err(EngineError::invalid_request("give either params.run_id or params.graph_id"));
        };
        let id = id.as_str();
        let mut runs = self.inner.runs.active(id);
        if runs.is_empty() {
            match self.cancel_interrupted(id).await {
                Ok(true) => return Ok(RunsCancelled { cancelled: true, runs: vec![id.to_string()] }),
                Ok(false) => {}
                // The journal is locked: the run may have begun meanwhile.
                Err(error) => {
                    runs = self.inner.runs.active(id);
                    if runs.is_empty() {
                        return Err(error);
                    }
                }
            }
        }
        if runs.is_empty() {
            let message = format!("no active run '{id}', and no active run of a graph with that name");
            return Err(EngineError::not_found(message).hint("`nerve graph list --runs` lists runs"));
        }
        for run in &runs {
            run.cancellation.cancel();
        }
        Ok(RunsCancelled { cancelled: true, runs: runs.iter().map(|run| run.id.clone()).collect() })
    }

    /// Ends a run that a server left behind, and its nodes. Returns false if there is no such run, or it has ended.
    async fn cancel_interrupted(&self, id: &str) -> Result<bool, EngineError> {
        check_name(id, "run")?;
        let Some(path) = self.inner.runs.journal(id).filter(|path| path.exists()) else { return Ok(false) };
        let (journal, replay) = spawn_blocking(move || Journal::resume(&path)).await??;
        if replay.outcome().is_some() {
            return Ok(false);
        }
        journal.record(&JournalRecord::ended(self.inner.clock.now(), "cancelled", None));
        journal.flush().await?;
        if let Some(session) = self.inner.sessions.find_by_name(id) {
            self.stop_nodes(&session, &[], false).await;
        }
        Ok(true)
    }

    /// Lists runs without their steps, the newest first. Runs that have ended are included.
    ///
    /// # Errors
    /// InvalidRequest (page).
    pub async fn list_runs(&self, request: ListRuns, _: RequestContext) -> Result<RunList, EngineError> {
        let engine = self.clone();
        let mut runs = spawn_blocking(move || engine.inner.runs.list()).await?;
        runs.iter_mut().for_each(|run| run.steps.clear());
        paginate(&request.page, RunList { runs, next: None })
    }

    /// Returns the state of a run with all of its steps or the last ones. On request, adds its plan and the result of a step.
    ///
    /// # Errors
    /// NotFound, InvalidRequest (unreadable journal).
    pub async fn get_run(&self, request: GetRun, _: RequestContext) -> Result<RunInfo, EngineError> {
        let GetRun { run_id, last, plan, result_of } = request;
        check_name(&run_id, "run")?;
        let engine = self.clone();
        let active = self.inner.runs.get(&run_id).and_then(|run| run.journal());
        if let Some(journal) = active.filter(|_| plan || result_of.is_some()) {
            // Records of reported events may still be in memory. The reply contains the error as a fault.
            let _ = journal.flush().await;
        }
        let read = move || {
            let mut info = engine.inner.runs.info(&run_id)?;
            read_details(&mut info, plan, result_of.as_deref())?;
            Ok::<_, EngineError>(info)
        };
        let mut info = spawn_blocking(read).await??;
        if let Some(last) = last {
            info.steps.drain(..info.steps.len().saturating_sub(last));
        }
        Ok(info)
    }

    /// Answers a gate at which a run waits. Returns the state of the run.
    ///
    /// # Errors
    /// NotFound (no run, no waiting gate), InvalidRequest (not one of its choices).
    pub async fn answer_gate(&self, request: AnswerGate, _: RequestContext) -> Result<RunInfo, EngineError> {
        let AnswerGate { run_id, step_id, choice } = request;
        check_name(&run_id, "run")?;
        let Some(run) = self.inner.runs.get(&run_id).filter(|run| run.is_active()) else {
            let engine = self.clone();
            let info = spawn_blocking(move || engine.inner.runs.info(&run_id)).await??;
            return Err(no_open_gate_error(&info));
        };
        run.gates.answer(step_id.as_deref(), &choice)?;
        Ok(run.info())
    }
}

/// Adds the plan of a run, and the result of a step, from its journal. Runs without a journal have neither.
fn read_details(info: &mut RunInfo, plan: bool, result_of: Option<&str>) -> Result<(), EngineError> {
    let Some(path) = info.journal.as_deref().map(Path::new) else { return Ok(()) };
    let unreadable = |error: JournalError| EngineError::invalid_request(error.to_string());
    if plan {
        let plan = read_plan(path).map_err(unreadable)?;
        if info.steps.is_empty() {
            info.steps = read_steps(path).map_err(unreadable)?;
        }
        info.plan = plan;
    }
    if let Some(step) = result_of {
        info.result = read_result(path, step).map_err(unreadable)?;
    }
    Ok(())
}

/// Returns the error of an answer to a run that has ended.
fn no_open_gate_error(info: &RunInfo) -> EngineError {
    let message = format!("run '{}' has no open gate: it is {}", info.run_id, info.status);
    let error = EngineError::not_found(message);
    match info.status.as_str() {
        "completed" => error,
        _ => error.hint(format!("`nerve graph resume {}` resumes it", info.run_id)),
    }
}

/// Begins the span of a run.
fn begin_span(
    parent: Option<Arc<TraceContext>>,
    file: &GraphFile,
    steps: usize,
    run: &str,
    session: &Session,
) -> ActiveSpan {
    let (graph, session) = (file.graph.as_str(), session.name());
    begin_run(parent.as_ref(), &RunAttributes { graph, steps, run: Some(run), session: Some(session) })
}

/// Returns the span that is stored with the options of a run.
fn parent_span(options: &RunOptions) -> Option<Arc<TraceContext>> {
    let parent = options.traceparent.as_deref()?;
    TraceContext::parse(parent, options.tracestate.as_deref()).ok().map(Arc::new)
}

/// Reads a definition for a run, together with the registered graphs that it names.
fn compile_with_subgraphs(
    definition: Value,
    session: &Session,
) -> Result<(GraphFile, CompiledGraph), EngineError> {
    let mut file = GraphFile::from_value(definition)?;
    subgraphs::embed(&mut file, session)?;
    if let Some(step) = file.placed_step() {
        let message = format!("step '{step}' is placed on machines of a cluster");
        return Err(EngineError::invalid_request(message)
            .hint("run the graph there: nerve graph run FILE --cluster; or remove `on` from the step"));
    }
    let compiled = file.compile()?;
    Ok((file, compiled))
}
