//! Creates the nodes of a run, and stops them when it ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use nerve_api::DEFAULT_SESSION;
use nerve_api::event::EventKind;
use nerve_api::request::{NodeRef, NodeSpec};
use nerve_api::value::BackendKind;
use nerve_graph::file::NodeDefinition;
use nerve_graph::session::{Session, stop_all};
use nerve_host::environment;
use nerve_node::NodeHandle;
use nerve_node::cancellation;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::telemetry::TraceContext;
use nerve_node::usage_ledger::LedgerUsage;

use super::run::Run;
use crate::engine::Engine;

impl Engine {
    /// Returns the session of a run, which contains `nodes`; other nodes are found in `outer`. Without nodes, returns `outer`.
    pub(crate) fn run_session(
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

    /// Starts the graph's nodes concurrently, with the environment of a shell if there is one. Nodes that outlived their server are kept.
    pub(crate) async fn create_nodes(
        &self,
        run: &Arc<Run>,
        session: &Session,
        nodes: &[(String, NodeDefinition)],
        shell_env: Option<&BTreeMap<String, String>>,
        trace: Option<&Arc<TraceContext>>,
    ) -> Result<(), EngineError> {
        let mut starts = Vec::new();
        for (name, definition) in nodes {
            let run_session = Some(session.name().to_string()).filter(|name| name != DEFAULT_SESSION);
            let at = NodeRef { session: run_session, node: name.clone() };
            let Some(mut spec) = definition.spec(at) else { continue };
            // The program of an existing pane has an environment already.
            if let Some(shell_env) = shell_env.filter(|_| spec.pane_id.is_none()) {
                environment::keep_file_locations(shell_env, &mut spec.env, &environment::read_variables());
                spec.shell_env = Some(shell_env.clone());
            }
            if let Some(trace) = trace.filter(|_| spec.backend.has_terminal()) {
                for (name, value) in trace.variables() {
                    spec.env.entry(name.to_string()).or_insert(value);
                }
            }
            if session.contains(name) && session.list_ready_nodes().contains(name) {
                continue;
            }
            let engine = self.clone();
            let (session, timeout) = (session.clone(), definition.command_timeout());
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
        let at = spec.node_ref();
        let created: Result<NodeHandle, EngineError> = match (spec.backend, timeout) {
            (BackendKind::Bash, Some(timeout)) => self
                .inner
                .factory
                .create_bash(spec)
                .map(|node| Arc::new(node.with_timeout(timeout)) as NodeHandle),
            _ => self.inner.factory.create_in(session.ledger(), spec, LedgerUsage::default()).await,
        };
        let node = created.inspect_err(|_| session.release(name, reservation))?;
        let kind = node.kind().to_string();
        if !session.fill(name, reservation, Arc::clone(&node)) {
            node.stop("the server was shut down").await;
            return Err(EngineError::new(ErrorKind::Cancelled, "the server is shutting down"));
        }
        self.inner
            .events
            .publish(Some(&at.with_session()), EventKind::NodeCreated { kind, forked_from: None });
        Ok(())
    }

    /// Stops the nodes of a run, except those to keep, and removes its session if it is empty.
    pub(crate) async fn stop_nodes(
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
            if session.forget(name, node) {
                self.publish_removal(session, name);
            }
        }
        if session.is_empty() {
            self.inner.sessions.forget(session.name());
        }
    }
}
