//! Creates the nodes of a run, and stops them when it ends.

use std::sync::Arc;
use std::time::Duration;

use nerve_graph::file::{BashDefinition, CommandDefinition, NodeDefinition, TerminalDefinition};
use nerve_graph::session::{DEFAULT, Session, stop_all};
use nerve_node::NodeHandle;
use nerve_node::cancellation;
use nerve_node::command::{BackendKind, CommandLine, EventKind, NodeRef, NodeSpec, PanePlace, terminal_kind};
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::names::with_session;
use nerve_node::telemetry::TraceContext;
use nerve_types::Size;

use super::Engine;
use super::runs::Run;

impl Engine {
    /// Returns the session of a run, which contains `nodes`; other nodes are found in `outer`. Without nodes, returns `outer`.
    pub(super) fn run_session(
        &self,
        run: &str,
        outer: &Session,
        nodes: &[(String, NodeDefinition)],
    ) -> Result<Session, EngineError> {
        if nodes.is_empty() {
            return Ok(outer.clone());
        }
        let session = self.inner.sessions.ensure(Some(run))?;
        session.set_outer(outer.clone());
        session.describe(format!("the nodes of run {run}"), Vec::new());
        Ok(session)
    }

    /// Starts the graph's nodes concurrently. Nodes that outlived their server are kept.
    pub(super) async fn create_nodes(
        &self,
        run: &Arc<Run>,
        session: &Session,
        nodes: &[(String, NodeDefinition)],
        trace: Option<&Arc<TraceContext>>,
    ) -> Result<(), EngineError> {
        let mut starts = Vec::new();
        for (name, definition) in nodes {
            let Some(mut spec) = node_spec(session.name(), name, definition) else { continue };
            if let Some(trace) = trace.filter(|_| terminal_kind(spec.backend).is_some()) {
                for (name, value) in trace.variables() {
                    spec.env.entry(name.to_string()).or_insert(value);
                }
            }
            if session.contains(name) && session.list_ready_nodes().contains(name) {
                continue;
            }
            let engine = self.clone();
            let (session, timeout) = (session.clone(), bash_timeout(definition));
            let name = name.clone();
            starts.push(tokio::spawn(async move {
                engine.create_node_of_run(&session, &name, spec, timeout).await
            }));
        }
        let mut failure = None;
        for start in starts {
            let created = start.await.map_err(EngineError::from).flatten();
            failure = failure.or(created.err());
        }
        match failure {
            Some(error) => Err(error),
            None => cancellation::check(&run.cancellation),
        }
    }

    async fn create_node_of_run(
        &self,
        session: &Session,
        name: &str,
        spec: NodeSpec,
        timeout: Option<Duration>,
    ) -> Result<(), EngineError> {
        let reservation = session.reserve(name)?;
        let at = spec.node.clone();
        let created: Result<NodeHandle, EngineError> = match (spec.backend, timeout) {
            (BackendKind::Bash, Some(timeout)) => self
                .inner
                .factory
                .create_bash(spec)
                .map(|node| Arc::new(node.with_timeout(timeout)) as NodeHandle),
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
    pub(super) async fn stop_nodes(
        &self,
        session: &Session,
        nodes: &[(String, NodeDefinition)],
        keep_all: bool,
    ) {
        let is_kept = |name: &str| {
            let definition = nodes.iter().find(|(known, _)| known == name).map(|(_, definition)| definition);
            keep_all || definition.is_some_and(NodeDefinition::is_kept)
        };
        let stopped: Vec<_> = session.nodes().into_iter().filter(|(name, _)| !is_kept(name)).collect();
        let nodes = stopped.iter().filter_map(|(_, node)| node.node().cloned()).collect();
        stop_all(nodes, "its run ended").await;
        for (name, node) in &stopped {
            session.forget(name, node);
        }
        if session.is_empty() {
            self.inner.sessions.forget(session.name());
        }
    }
}

/// Returns the definition of a node in a graph file. Returns `None` for templates and graphs, which are not nodes of a session.
fn node_spec(session: &str, name: &str, definition: &NodeDefinition) -> Option<NodeSpec> {
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
        parser: terminal.parser,
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

/// Returns the timeout of the commands of a bash node, if its definition sets one.
fn bash_timeout(definition: &NodeDefinition) -> Option<Duration> {
    match definition {
        NodeDefinition::Bash(bash) => duration(bash.timeout),
        _ => None,
    }
}
