//! Graphs and runs: register, run, cancel, resume.

use std::sync::Arc;
use std::time::Duration;

use nerve_api::reply::{Done, GraphInfo, GraphList, RunEnded, RunInfo, RunList, RunReply, RunsCancelled};
use nerve_api::request::{
    AnswerGate, CancelGraph, CreateGraph, DeleteGraph, ExecuteGraph, GetGraph, GetRun, ListGraphs, ListRuns,
    ResumeRun, RunGraph,
};
use nerve_types::Size;
use serde_json::{Map, Value, json};

use super::context::RequestContext;
use super::runs::{Run, RunEnd, not_found};
use super::{Engine, subgraphs};
use nerve_graph::context::RunContext;
use nerve_graph::executable::Executable;
use nerve_graph::file::{
    BashDefinition, CommandDefinition, Compiled, GraphFile, NodeDefinition, OnRestart, TerminalDefinition,
    without_secrets,
};
use nerve_graph::journal::{Header, Journal, JournalRecord, ReplayState, new_run_id};
use nerve_graph::session::{DEFAULT, Session, stop_all};
use nerve_graph::{Graph, GraphRun};
use nerve_node::NodeHandle;
use nerve_node::command::{
    BackendKind, CommandLine, EventKind, GraphEventKind, NodeRef, NodeSpec, PanePlace, RunStatus, terminal_of,
};
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::factory::with_session;
use nerve_node::names::check_name;
use nerve_node::telemetry::{ActiveSpan, RunAttributes, TraceContext, begin_run, end_run};
use nerve_node::trace::{TraceStatus, Tracer};

/// An admitted run that has not started.
struct PendingRun {
    graph: Graph,
    nodes: Vec<(String, NodeDefinition)>,
    run: Arc<Run>,
    outer: Session,
    input: Value,
    past: Option<ReplayState>,
    options: Options,
    span: ActiveSpan,
}

/// Options of a request that runs a graph.
struct RunOptions {
    session_id: Option<String>,
    input: Value,
    run_id: Option<String>,
    trace: bool,
    detach: bool,
    keep_nodes: bool,
    /// The caller's span.
    parent: Option<TraceContext>,
}

/// Options of a run that are stored in its journal.
#[derive(Debug, Clone, Default)]
struct Options {
    trace: bool,
    keep_nodes: bool,
    /// Span of the run. A resumed run continues the same trace.
    span: Option<(String, Option<String>)>,
}

impl Options {
    fn to_value(&self) -> Value {
        let mut value = json!({ "trace": self.trace, "keep_nodes": self.keep_nodes });
        if let Some((parent, state)) = &self.span {
            value["traceparent"] = Value::from(parent.as_str());
            value["tracestate"] = Value::from(state.as_deref());
        }
        value
    }

    fn of(value: &Value) -> Options {
        let is = |name: &str| value.get(name).and_then(Value::as_bool).unwrap_or(false);
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_string);
        let span = text("traceparent").map(|parent| (parent, text("tracestate")));
        Options { trace: is("trace"), keep_nodes: is("keep_nodes"), span }
    }

    /// Returns the span of the run that is resumed.
    fn parent(&self) -> Option<Arc<TraceContext>> {
        let (parent, state) = self.span.as_ref()?;
        TraceContext::parse(parent, state.as_deref()).ok().map(Arc::new)
    }
}

impl Engine {
    /// Registers a graph in a session, under its own id.
    ///
    /// # Errors
    /// InvalidRequest (the definition), AlreadyExists, NotFound (session).
    pub async fn create_graph(
        &self,
        request: CreateGraph,
        _: RequestContext,
    ) -> Result<GraphInfo, EngineError> {
        let session = self.inner.sessions.get(request.session_id.as_deref())?;
        let (file, compiled) = read(Value::Object(request.definition))?;
        let definition = file.to_value();
        let graph = compiled.graph.with_definition(definition);
        let info = graph_info(&graph, &session);
        if session.definition(graph.id()).is_some() {
            let message = format!("node '{}' exists already in session '{}'", graph.id(), session.name());
            return Err(EngineError::new(ErrorKind::AlreadyExists, message)
                .hint("delete it first, or choose another name"));
        }
        session.register(Arc::new(graph), None)?;
        self.inner.persister.save(&self.inner.sessions);
        Ok(info)
    }

    /// Returns a registered graph with its definition.
    ///
    /// # Errors
    /// NotFound.
    pub async fn get_graph(&self, request: GetGraph, _: RequestContext) -> Result<GraphInfo, EngineError> {
        let GetGraph { graph_id, session_id } = request;
        let session = self.inner.sessions.get(session_id.as_deref())?;
        let graph = find_graph(&session, &graph_id)?;
        Ok(graph_info(&graph, &session))
    }

    /// Lists the graphs of a session without their definitions, sorted by id.
    ///
    /// # Errors
    /// NotFound (session).
    pub async fn list_graphs(
        &self,
        request: ListGraphs,
        _: RequestContext,
    ) -> Result<GraphList, EngineError> {
        let session = self.inner.sessions.get(request.session_id.as_deref())?;
        let nodes = session.nodes();
        let graphs: Vec<GraphInfo> = nodes
            .iter()
            .filter_map(|(_, node)| {
                Some(GraphInfo { definition: Value::Null, ..graph_info(node.graph()?, &session) })
            })
            .collect();
        let ids = graphs.iter().map(|graph| graph.graph_id.clone()).collect();
        Ok(GraphList { graphs: ids, graphs_info: graphs })
    }

    /// Deletes a graph. Its runs continue.
    ///
    /// # Errors
    /// NotFound.
    pub async fn delete_graph(&self, request: DeleteGraph, _: RequestContext) -> Result<Done, EngineError> {
        let DeleteGraph { graph_id, session_id } = request;
        let session = self.inner.sessions.get(session_id.as_deref())?;
        find_graph(&session, &graph_id)?;
        session.unregister(&graph_id);
        self.inner.persister.save(&self.inner.sessions);
        Ok(Done {})
    }

    /// Runs a graph that is part of the request. The run continues even if the future is dropped.
    ///
    /// # Errors
    /// InvalidRequest (the definition), AlreadyExists (the id), NotFound (session). The error of a run that failed or was cancelled
    /// contains the run.
    pub async fn execute_graph(
        &self,
        request: ExecuteGraph,
        context: RequestContext,
    ) -> Result<RunReply, EngineError> {
        let ExecuteGraph {
            definition,
            session_id,
            input,
            run_id,
            trace,
            detach,
            keep_nodes,
            traceparent,
            tracestate,
        } = request;
        let parent = context.trace(traceparent.as_deref(), tracestate.as_deref());
        let outer = self.inner.sessions.get(session_id.as_deref())?;
        let options = RunOptions { session_id, input, run_id, trace, detach, keep_nodes, parent };
        self.run(Value::Object(definition), outer, options).await
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
        let RunGraph {
            graph_id,
            session_id,
            input,
            run_id,
            trace,
            detach,
            keep_nodes,
            traceparent,
            tracestate,
        } = request;
        let parent = context.trace(traceparent.as_deref(), tracestate.as_deref());
        let outer = self.inner.sessions.get(session_id.as_deref())?;
        let definition = find_graph(&outer, &graph_id)?.definition().cloned();
        let definition = definition.ok_or_else(|| no_graph(&graph_id, &outer))?;
        let options = RunOptions { session_id, input, run_id, trace, detach, keep_nodes, parent };
        self.run(definition, outer, options).await
    }

    async fn run(
        &self,
        definition: Value,
        outer: Session,
        options: RunOptions,
    ) -> Result<RunReply, EngineError> {
        let RunOptions { session_id: session, input, run_id: run, trace, detach, keep_nodes, parent } =
            options;
        let (file, compiled) = read_in(definition, &outer)?;
        let input = file.input(input)?;
        let id = match run {
            Some(id) => {
                check_name(&id, "run")?;
                self.check_run_id(&id, |_| true)?;
                id
            }
            None => new_run_id(self.inner.runs.clock.now()),
        };
        let of = RunAttributes {
            graph: &file.graph,
            steps: compiled.graph.len(),
            run: Some(&id),
            session: Some(outer.name()),
        };
        let span = begin_run(parent.map(Arc::new).as_ref(), &of);
        let parent_span = span.context().map(|context| (context.traceparent(), context.tracestate()));
        let options = Options { trace, keep_nodes, span: parent_span };
        let head = Header {
            at: self.inner.clock.now(),
            run: id.clone(),
            graph: file.graph.clone(),
            session,
            definition: without_secrets(file.to_value()),
            input: input.clone(),
            options: options.to_value(),
        };
        let Compiled { graph, nodes } = compiled;
        let admitted = self.inner.runs.admit(&id, &file.graph, Some(outer.name()), graph.len())?;
        let journal = match self.inner.runs.journal(&id) {
            Some(path) => Some(blocking(move || Journal::create(&path, &head)).await??),
            None => None,
        };
        let run = admitted.begin(graph.len(), journal);
        run.publish(GraphEventKind::Started { steps: graph.len(), resumed: false });
        self.go(PendingRun { graph, nodes, run, outer, input, past: None, options, span }, detach).await
    }

    /// Rejects a run id that is the name of a session. A run's own session has the run's id as its name and ends with the run.
    fn check_run_id(&self, run: &str, is_foreign: impl FnOnce(&Session) -> bool) -> Result<(), EngineError> {
        match self.inner.sessions.find_by_name(run).filter(is_foreign) {
            Some(_) => {
                Err(EngineError::new(ErrorKind::AlreadyExists, format!("session '{run}' exists already"))
                    .hint("choose another run id"))
            }
            None => Ok(()),
        }
    }

    /// Resumes a run whose server is gone, or that failed or was cancelled. Completed steps are not run again.
    ///
    /// # Errors
    /// NotFound, InvalidRequest (active or completed run, invalid definition), AlreadyExists. As [`Engine::execute_graph`] when the run ends.
    pub async fn resume_run(&self, request: ResumeRun, _: RequestContext) -> Result<RunReply, EngineError> {
        let ResumeRun { run_id: id, definition, trace, detach } = request;
        let graph = definition.map(Value::Object);
        check_name(&id, "run")?;
        if self.inner.runs.get(&id).is_some_and(|run| run.is_active()) {
            let message = format!("run '{id}' is active: there is nothing to resume");
            return Err(EngineError::new(ErrorKind::InvalidRequest, message)
                .hint("`nerve server graph status` shows its progress"));
        }
        // The session of the run itself may exist: its nodes outlived their server.
        self.check_run_id(&id, Session::is_kept)?;
        let path = self.inner.runs.journal(&id).filter(|path| path.exists()).ok_or_else(|| not_found(&id))?;
        let (engine, run) = (self.clone(), id.clone());
        let info = blocking(move || engine.inner.runs.info(&run)).await??;
        let name = graph.as_ref().and_then(|graph| GraphFile::from_value(graph.clone()).ok());
        let name = name.map_or(info.graph_id, |file| file.graph);
        let admitted = self.inner.runs.admit(&id, &name, Some(&info.session_id), info.total_steps)?;
        let (journal, past) = blocking(move || Journal::resume(&path)).await??;
        if past.status() == "completed" && graph.is_none() {
            return Err(EngineError::new(ErrorKind::InvalidRequest, format!("run '{id}' is completed"))
                .hint("run the graph again, or resume it with an edited one"));
        }
        let edited = graph.is_some();
        let outer = self.inner.sessions.ensure(past.head().session.as_deref())?;
        let (file, compiled) = read_in(graph.unwrap_or_else(|| past.definition().clone()), &outer)?;
        if let Some(cut) = past.cut() {
            let message =
                format!("run '{id}': the last {cut} bytes of its journal are incomplete and were dropped");
            tracing::warn!("{message}");
            self.inner.events.publish(None, EventKind::Error { message });
        }
        let input = file.input(past.head().input.clone())?;
        let definition = edited.then(|| without_secrets(file.to_value()));
        journal
            .record(&JournalRecord::Resumed { at: self.inner.clock.now(), definition: definition.as_ref() });
        let mut options = Options::of(past.options());
        options.trace |= trace;
        let Compiled { graph, nodes } = compiled;
        let run = admitted.begin(graph.len(), Some(journal));
        let of = RunAttributes {
            graph: &file.graph,
            steps: graph.len(),
            run: Some(&id),
            session: Some(outer.name()),
        };
        let span = begin_run(options.parent().as_ref(), &of);
        span.describe(|span| span.set("nerve.resumed", true));
        run.publish(GraphEventKind::Started { steps: graph.len(), resumed: true });
        self.go(PendingRun { graph, nodes, run, outer, input, past: Some(past), options, span }, detach).await
    }

    /// Resumes interrupted runs of an earlier server whose graphs have `on_restart: resume`. Must be called on a runtime, after [`Engine::adopt`].
    pub fn resume_interrupted(&self) {
        let engine = self.clone();
        tokio::spawn(async move {
            let runs = engine.clone();
            let Ok(paths) = blocking(move || runs.inner.runs.interrupted()).await else { return };
            for path in paths {
                let read = blocking(move || ReplayState::read(&path)).await;
                let Ok(Ok(past)) = read else { continue };
                let id = past.head().run.clone();
                let resumes = GraphFile::from_value(past.definition().clone())
                    .is_ok_and(|file| file.on_restart == OnRestart::Resume);
                if !resumes {
                    tracing::info!(run = %id, "interrupted: `nerve server graph resume` resumes it");
                    continue;
                }
                let request = ResumeRun { run_id: id.clone(), detach: true, ..ResumeRun::default() };
                if let Err(error) = engine.resume_run(request, RequestContext::default()).await {
                    let message = format!("run '{id}' was not resumed: {error}");
                    tracing::warn!("{message}");
                    engine.inner.events.publish(None, EventKind::Error { message });
                }
            }
        });
    }

    /// Drives a run in a task of its own and waits for its end, unless `detach` is set.
    async fn go(&self, pending: PendingRun, detach: bool) -> Result<RunReply, EngineError> {
        let run = Arc::clone(&pending.run);
        let engine = self.clone();
        let task = tokio::spawn(async move { engine.drive(pending).await });
        let watched = Arc::clone(&run);
        // The results can be large: they are returned to the caller and not kept.
        let end = tokio::spawn(async move {
            task.await.unwrap_or_else(|error| {
                let error = EngineError::new(ErrorKind::Internal, format!("the run's task ended: {error}"));
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
        let (ended, error) =
            end.await.map_err(|error| EngineError::new(ErrorKind::Internal, error.to_string()))?;
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
        let PendingRun { graph, nodes, run, outer, input, past, options, span } = pending;
        let tracer = options.trace.then(|| Tracer::new(graph.id()));
        let session = self.run_session(&run.id, &outer, nodes.is_empty());
        let created = match &session {
            Ok(session) => self.create_nodes(&run, session, &nodes, span.context()).await,
            Err(error) => Err(error.clone()),
        };
        let session = session.unwrap_or_else(|_| outer.clone());
        let outcome = match created {
            Ok(()) => {
                let context = context(&run, &session, input, past, tracer.clone())
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
            self.end_nodes(&session, &nodes, options.keep_nodes).await;
        }
        let GraphRun { results, status, error, usage } = outcome;
        let error = error.map(with_step);
        end_run(span, status, error.as_ref(), usage.tokens_used());
        let status = match status {
            TraceStatus::Completed => RunStatus::Completed,
            _ if run.was_interrupted() => RunStatus::Interrupted,
            TraceStatus::Cancelled => RunStatus::Cancelled,
            TraceStatus::Failed | TraceStatus::Running => RunStatus::Failed,
        };
        if let Some(journal) = run.journal() {
            if status.is_end() {
                let message = error.as_ref().map(ToString::to_string);
                let at = self.inner.clock.now();
                journal.record(&JournalRecord::Ended {
                    at,
                    status: status.as_str(),
                    error: message.as_deref(),
                });
            }
            if let Err(fault) = journal.flush().await {
                let message = format!("run '{}': {fault}", run.id);
                self.inner.events.publish(None, EventKind::Error { message });
            }
        }
        let trace = tracer.map(|tracer| Box::new(tracer.snapshot()));
        run.end(RunEnd { status, tokens: usage.tokens_used(), results, error, trace })
    }

    /// Returns the session of a run. It contains the graph's own nodes; other nodes are found in `outer`.
    fn run_session(&self, run: &str, outer: &Session, no_nodes: bool) -> Result<Session, EngineError> {
        if no_nodes {
            return Ok(outer.clone());
        }
        let session = self.inner.sessions.ensure(Some(run))?;
        session.set_outer(outer.clone());
        session.describe(format!("the nodes of run {run}"), Vec::new());
        Ok(session)
    }

    /// Starts the graph's nodes concurrently. Nodes that outlived their server are kept.
    async fn create_nodes(
        &self,
        run: &Arc<Run>,
        session: &Session,
        nodes: &[(String, NodeDefinition)],
        trace: Option<&Arc<TraceContext>>,
    ) -> Result<(), EngineError> {
        let mut starts = Vec::new();
        for (name, definition) in nodes {
            let Some(mut spec) = spec(session.name(), name, definition) else { continue };
            if let Some(trace) = trace.filter(|_| terminal_of(spec.backend).is_some()) {
                for (name, value) in trace.variables() {
                    spec.env.entry(name.to_string()).or_insert(value);
                }
            }
            if session.contains(name) && session.list_ready_nodes().contains(name) {
                continue;
            }
            let engine = self.clone();
            let (session, limit) = (session.clone(), bash_limit(definition));
            let name = name.clone();
            starts.push(tokio::spawn(async move {
                engine.create_node_of_run(&session, &name, spec, limit).await
            }));
        }
        let mut failure = None;
        for start in starts {
            let created = start.await.unwrap_or_else(|error| {
                Err(EngineError::new(ErrorKind::Internal, format!("a start ended: {error}")))
            });
            failure = failure.or(created.err());
        }
        match failure {
            Some(error) => Err(error),
            None => run.cancellation.check(),
        }
    }

    async fn create_node_of_run(
        &self,
        session: &Session,
        name: &str,
        spec: NodeSpec,
        limit: Option<Duration>,
    ) -> Result<(), EngineError> {
        let reservation = session.reserve(name)?;
        let at = spec.node.clone();
        let created: Result<NodeHandle, EngineError> = match (spec.backend, limit) {
            (BackendKind::Bash, Some(limit)) => self
                .inner
                .factory
                .create_bash(spec)
                .map(|node| Arc::new(node.with_timeout(limit)) as NodeHandle),
            _ => self.inner.factory.create(spec).await,
        };
        let node = created.inspect_err(|_| session.release(name, reservation))?;
        let kind = node.kind().to_string();
        if !session.fill(name, reservation, Arc::clone(&node)) {
            node.stop("the server was shut down").await;
            return Err(EngineError::new(ErrorKind::Cancelled, "the server is shutting down"));
        }
        self.inner
            .events
            .publish(Some(&with_session(&at)), EventKind::NodeCreated { kind, forked_from: None });
        Ok(())
    }

    /// Stops the nodes of a run, except those to keep, and removes its session if it is empty.
    async fn end_nodes(&self, session: &Session, nodes: &[(String, NodeDefinition)], keep_all: bool) {
        let is_kept = |name: &str| {
            let definition = nodes.iter().find(|(known, _)| known == name).map(|(_, definition)| definition);
            keep_all || definition.is_some_and(NodeDefinition::is_kept)
        };
        let ending: Vec<_> = session.nodes().into_iter().filter(|(name, _)| !is_kept(name)).collect();
        let nodes = ending.iter().filter_map(|(_, node)| node.node().cloned()).collect();
        stop_all(nodes, "its run ended").await;
        for (name, node) in &ending {
            session.forget(name, node);
        }
        if session.is_empty() {
            self.inner.sessions.forget(session.name());
        }
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
            let message = "give either params.run_id or params.graph_id";
            return Err(EngineError::new(ErrorKind::InvalidRequest, message));
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
            return Err(EngineError::new(ErrorKind::NotFound, message)
                .hint("`nerve server graph list --runs` lists runs"));
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
        let (journal, past) = blocking(move || Journal::resume(&path)).await??;
        if past.ending().is_some() {
            return Ok(false);
        }
        journal.record(&JournalRecord::Ended {
            at: self.inner.clock.now(),
            status: "cancelled",
            error: None,
        });
        journal.flush().await?;
        if let Some(session) = self.inner.sessions.find_by_name(id) {
            self.end_nodes(&session, &[], false).await;
        }
        Ok(true)
    }

    /// Lists runs without their steps, the newest first. Runs that have ended are included.
    ///
    /// # Errors
    /// None.
    pub async fn list_runs(&self, _: ListRuns, _: RequestContext) -> Result<RunList, EngineError> {
        let engine = self.clone();
        let mut runs = blocking(move || engine.inner.runs.list()).await?;
        runs.iter_mut().for_each(|run| run.steps.clear());
        Ok(RunList { runs })
    }

    /// Returns the state of a run, with all of its steps or the last ones.
    ///
    /// # Errors
    /// NotFound, InvalidRequest (unreadable journal).
    pub async fn get_run(&self, request: GetRun, _: RequestContext) -> Result<RunInfo, EngineError> {
        let GetRun { run_id, last } = request;
        check_name(&run_id, "run")?;
        let engine = self.clone();
        let mut info = blocking(move || engine.inner.runs.info(&run_id)).await??;
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
            let info = blocking(move || engine.inner.runs.info(&run_id)).await??;
            return Err(no_open_gate(&info));
        };
        run.gates.answer(step_id.as_deref(), &choice)?;
        Ok(run.info())
    }
}

/// Returns the error of an answer to a run that has ended.
fn no_open_gate(info: &RunInfo) -> EngineError {
    let message = format!("run '{}' has no open gate: it is {}", info.run_id, info.status);
    let error = EngineError::new(ErrorKind::NotFound, message);
    match info.status.as_str() {
        "completed" => error,
        _ => error.hint(format!("`nerve server graph resume {}` resumes it", info.run_id)),
    }
}

fn context(
    run: &Arc<Run>,
    session: &Session,
    input: Value,
    past: Option<ReplayState>,
    tracer: Option<Tracer>,
) -> RunContext {
    let observed = Arc::clone(run);
    let mut context = RunContext::new(session)
        .with_input(input)
        .with_cancellation(run.cancellation.clone())
        .with_gates(run.gates.clone())
        .with_observer(Arc::new(move |event| observed.observe(&event)));
    if let Some(journal) = run.journal() {
        context = context.with_journal(journal, past);
    }
    match tracer {
        Some(tracer) => context.with_trace(tracer),
        None => context,
    }
}

/// Reads a definition for a run, together with the registered graphs that it names.
fn read_in(definition: Value, session: &Session) -> Result<(GraphFile, Compiled), EngineError> {
    let mut file = GraphFile::from_value(definition)?;
    subgraphs::embed(&mut file, session)?;
    let compiled = file.compile()?;
    Ok((file, compiled))
}

fn read(definition: Value) -> Result<(GraphFile, Compiled), EngineError> {
    let file = GraphFile::from_value(definition)?;
    let compiled = file.compile()?;
    Ok((file, compiled))
}

/// Adds the step to the message of an error.
fn with_step(mut error: EngineError) -> EngineError {
    if let Some(step) = error.step().filter(|step| !error.message.contains(&format!("'{step}'"))) {
        error.message = format!("step '{step}': {}", error.message);
    }
    error
}

fn graph_info(graph: &Graph, session: &Session) -> GraphInfo {
    GraphInfo {
        graph_id: graph.id().to_string(),
        session_id: session.name().to_string(),
        steps: graph.execution_order().unwrap_or_else(|_| graph.list_steps()),
        definition: graph.definition().cloned().unwrap_or_default(),
    }
}

fn find_graph(session: &Session, id: &str) -> Result<Arc<Graph>, EngineError> {
    match session.get(id) {
        Some(Executable::Graph(graph)) => Ok(graph),
        _ => Err(no_graph(id, session)),
    }
}

fn no_graph(id: &str, session: &Session) -> EngineError {
    let graphs = session.info().graphs;
    let hint = match graphs.is_empty() {
        true => "it has no graphs".to_string(),
        false => format!("it has: {}", graphs.join(", ")),
    };
    EngineError::new(ErrorKind::NotFound, format!("no graph '{id}' in session '{}'", session.name()))
        .hint(hint)
}

/// Returns the definition of a node in a graph file. Templates and graphs are no nodes of a session.
fn spec(session: &str, name: &str, definition: &NodeDefinition) -> Option<NodeSpec> {
    let node =
        NodeRef { session: Some(session.to_string()).filter(|name| name != DEFAULT), node: name.to_string() };
    let backend = definition.backend()?;
    match definition {
        NodeDefinition::Bash(BashDefinition { cwd, env, .. }) => Some(NodeSpec {
            cwd: cwd.clone().map(Into::into),
            env: env.clone(),
            ..NodeSpec::new(node, backend, CommandLine::Argv(Vec::new()))
        }),
        NodeDefinition::Chat(chat) => Some(NodeSpec {
            env: chat.env.clone(),
            history: chat.history,
            response_timeout: duration(chat.response_timeout).unwrap_or(NodeSpec::RESPONSE_TIMEOUT),
            chat: Some(Box::new(chat.spec())),
            ..NodeSpec::new(node, backend, CommandLine::Argv(Vec::new()))
        }),
        other => Some(terminal_spec(node, backend, other.terminal()?)),
    }
}

fn terminal_spec(node: NodeRef, backend: BackendKind, terminal: &TerminalDefinition) -> NodeSpec {
    let size = Size::default();
    let command = match &terminal.command {
        Some(CommandDefinition::Text(text)) => CommandLine::Text(text.clone()),
        Some(CommandDefinition::Words(words)) => CommandLine::Argv(words.clone()),
        None => CommandLine::Argv(Vec::new()),
    };
    NodeSpec {
        cwd: terminal.cwd.clone().map(Into::into),
        env: terminal.env.clone(),
        size: Size::new(terminal.cols.unwrap_or(size.cols), terminal.rows.unwrap_or(size.rows)),
        profile: terminal.profile.clone(),
        parser: terminal.parser.map(Into::into),
        history: terminal.history,
        record: terminal.record,
        ready_timeout: duration(terminal.ready_timeout).unwrap_or(NodeSpec::READY_TIMEOUT),
        response_timeout: duration(terminal.response_timeout).unwrap_or(NodeSpec::RESPONSE_TIMEOUT),
        place: PanePlace {
            pane: terminal.pane.clone(),
            session: terminal.tmux_session.clone(),
            socket: terminal.socket.clone(),
        },
        proxy: terminal.proxy.clone().map(Box::new),
        ..NodeSpec::new(node, backend, command)
    }
}

fn duration(seconds: Option<f64>) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds?).ok()
}

fn bash_limit(definition: &NodeDefinition) -> Option<Duration> {
    match definition {
        NodeDefinition::Bash(bash) => Duration::try_from_secs_f64(bash.timeout?).ok(),
        _ => None,
    }
}

/// Runs `work` on a thread that may block.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, EngineError> {
    let result = tokio::task::spawn_blocking(work).await;
    result.map_err(|error| EngineError::new(ErrorKind::Internal, error.to_string()))
}
