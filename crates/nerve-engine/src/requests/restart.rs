//! The restart of stopped nodes. An agent resumes its conversation by its id; a conversation is never replaced by a new one silently.

use std::collections::BTreeMap;
use std::sync::Arc;

use nerve_api::reply::{NodeFailure, NodeInfo, NodesChanged, NodesRestored, RestoredNode};
use nerve_api::request::{NodeRef, RestoreNodes, StartNode, StartSession};
use nerve_api::value::NodeState;
use nerve_api::{DEFAULT_SESSION, session_option};
use nerve_graph::session::entry::{EndCause, NodeEntry};
use nerve_graph::session::{START_STOP_TIMEOUT, Session};
use nerve_node::error::{EngineError, ErrorKind};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::context::{RequestContext, Warnings};
use super::params::check_shell_env;
use super::stopped_nodes::has_ended;
use crate::engine::Engine;

/// Maximum number of nodes that are started at the same time. More agents would only slow each other down.
const MAX_STARTS: usize = 16;

impl Engine {
    /// Starts a stopped node again. An agent resumes its conversation, unless the request asks for a new one.
    ///
    /// # Errors
    /// NotFound (the node, or the agent's conversation), AlreadyExists (it is running), Process.
    pub async fn start_node(
        &self,
        request: StartNode,
        context: RequestContext,
    ) -> Result<NodeInfo, EngineError> {
        let StartNode { node_id, session_id, fresh, shell_env } = request;
        check_shell_env(shell_env.as_ref())?;
        let at = NodeRef::new(node_id, session_id);
        self.start(&at, fresh, shell_env, &context.warnings).await
    }

    /// Starts the stopped nodes of a session concurrently. Nodes whose programs exited by themselves are started only if the
    /// request is for all.
    ///
    /// # Errors
    /// NotFound (session).
    pub async fn start_session(
        &self,
        request: StartSession,
        context: RequestContext,
    ) -> Result<NodesChanged, EngineError> {
        let session = self.inner.sessions.get(Some(request.session().unwrap_or(DEFAULT_SESSION)))?;
        let is_chosen = |entry: &NodeEntry| {
            request.all || entry.last.end.as_ref().is_none_or(|end| end.cause != EndCause::Exited)
        };
        let stopped = session.entries().into_iter();
        let stopped = stopped.filter(|(name, entry)| is_chosen(entry) && is_startable(&session, name));
        let stopped = stopped.map(|(name, _)| node_in(&session, name)).collect();
        let (mut nodes, mut failed) = (Vec::new(), Vec::new());
        for (at, started) in self.start_all(stopped, &context.warnings).await {
            match started {
                Ok(()) => nodes.push(at.node),
                Err(error) => failed.push(NodeFailure {
                    node_id: at.node,
                    error: error.message,
                    error_type: error.kind,
                    hint: error.hint,
                }),
            }
        }
        Ok(NodesChanged { nodes, failed })
    }

    /// Starts the nodes of all sessions that ran when the server or the machine went down.
    ///
    /// # Errors
    /// None: the reply has the error of each node.
    pub async fn restore_nodes(
        &self,
        _: RestoreNodes,
        context: RequestContext,
    ) -> Result<NodesRestored, EngineError> {
        self.wait_for_gone_hosts().await;
        let mut lost = Vec::new();
        for session in self.inner.sessions.list() {
            let is_lost = |entry: &NodeEntry| entry.is_lost() && entry.spec.pane_id.is_none();
            let entries = session.entries().into_iter();
            let entries = entries.filter(|(name, entry)| is_lost(entry) && is_startable(&session, name));
            lost.extend(entries.map(|(name, _)| node_in(&session, name)));
        }
        let started = self.start_all(lost, &context.warnings).await;
        let nodes = started.into_iter().map(|(at, started)| {
            let mut node = RestoredNode {
                node_id: at.node,
                session_id: at.session.unwrap_or_else(|| DEFAULT_SESSION.to_string()),
                ..RestoredNode::default()
            };
            if let Err(error) = started {
                (node.error, node.error_type, node.hint) =
                    (Some(error.message), Some(error.kind), error.hint);
            }
            node
        });
        Ok(NodesRestored { nodes: nodes.collect() })
    }

    /// Starts the nodes of [`Engine::restore_nodes`] in the background and logs the outcomes. Must be called on a runtime.
    pub fn restore_in_background(&self) {
        let engine = self.clone();
        tokio::spawn(async move {
            let context = RequestContext::default();
            let warnings = context.warnings.clone();
            let restored = engine.restore_nodes(RestoreNodes {}, context).await;
            for warning in warnings.take() {
                tracing::warn!("{warning}");
            }
            for RestoredNode { node_id, session_id, error, .. } in
                restored.into_iter().flat_map(|all| all.nodes)
            {
                match error {
                    None => tracing::info!(node = %node_id, session = %session_id, "restored"),
                    Some(error) => {
                        tracing::warn!(node = %node_id, session = %session_id, %error, "not restored")
                    }
                }
            }
        });
    }

    /// Waits until the adopted nodes whose hosts are gone are known to be stopped.
    async fn wait_for_gone_hosts(&self) {
        let gone_nodes = std::mem::take(&mut *self.inner.gone_nodes.lock());
        let nodes = gone_nodes.iter().filter_map(|at| self.node(at).ok());
        let waits = nodes.map(|node| {
            tokio::spawn(async move { node.wait(&[NodeState::Stopped], Some(START_STOP_TIMEOUT)).await })
        });
        for wait in waits.collect::<Vec<_>>() {
            // A node that is not stopped in time is not restored.
            let _ = wait.await;
        }
    }

    /// Starts nodes concurrently. Returns the outcomes in the same order, without the nodes that another request has started meanwhile.
    async fn start_all(
        &self,
        nodes: Vec<NodeRef>,
        warnings: &Warnings,
    ) -> Vec<(NodeRef, Result<(), EngineError>)> {
        let permits = Arc::new(Semaphore::new(MAX_STARTS));
        let starts = nodes.into_iter().map(|at| {
            let (engine, node, permits, warnings) =
                (self.clone(), at.clone(), Arc::clone(&permits), warnings.clone());
            let start: JoinHandle<Result<(), EngineError>> = tokio::spawn(async move {
                // The semaphore is never closed.
                let _permit = permits.acquire().await;
                engine.start(&node, false, None, &warnings).await.map(drop)
            });
            (at, start)
        });
        let mut outcomes = Vec::new();
        for (at, start) in starts.collect::<Vec<_>>() {
            let outcome = start.await.map_err(EngineError::from).flatten();
            if !outcome.as_ref().is_err_and(|error| error.kind == ErrorKind::AlreadyExists) {
                outcomes.push((at, outcome));
            }
        }
        outcomes
    }

    async fn start(
        &self,
        at: &NodeRef,
        fresh: bool,
        shell_env: Option<BTreeMap<String, String>>,
        warnings: &Warnings,
    ) -> Result<NodeInfo, EngineError> {
        let session = self.inner.sessions.get(at.session.as_deref())?;
        let option = session_option(session.name());
        if session.is_starting(&at.node) {
            let error = EngineError::already_exists(format!("node '{}' is already starting", at.node));
            return Err(error.hint(format!("wait for it: `nerve wait {}{option}`", at.node)));
        }
        if session.get(&at.node).is_some_and(|node| !has_ended(&node)) {
            let error = EngineError::already_exists(format!("node '{}' is already running", at.node));
            let hint = format!("to start it anew, stop it first: `nerve stop {}{option}`", at.node);
            return Err(error.hint(hint));
        }
        let Some(mut entry) = session.entry(&at.node) else {
            // The error lists the nodes.
            session.find(&at.node)?;
            let message = format!("node '{}' has no definition to start it from", at.node);
            return Err(EngineError::not_found(message).hint("create it with `nerve new`"));
        };
        self.check_host_gone(at, &entry)?;
        entry.use_shell(shell_env);
        if let Some(keep) = entry.spec.chat.as_ref().map(|chat| &chat.keep) {
            check_chat(at, keep.as_deref(), fresh, warnings)?;
        }
        if !entry.env_omitted.is_empty() {
            warnings.add(format!(
                "node '{}' starts without {}: their values were not stored, and the server's environment has none",
                at.node,
                entry.env_omitted.join(", ")
            ));
        }
        let (engine, at) = (self.clone(), at.clone());
        // The start is completed even if the future is dropped.
        let started = self.inner.detached_tasks.spawn(async move {
            let restart = engine.plan_restart(&at, &entry, fresh).await?;
            restart.run(&engine, &session, &at, entry).await
        });
        started.await?
    }
}

/// Checks the restart of a chat node, whose conversation exists only in its file.
fn check_chat(at: &NodeRef, keep: Option<&str>, fresh: bool, warnings: &Warnings) -> Result<(), EngineError> {
    match keep {
        Some(file) if fresh => {
            let message = format!("node '{}' was not started: its conversation is stored in {file}", at.node);
            Err(EngineError::invalid_request(message).hint("move the file away, then start the node"))
        }
        None if !fresh => {
            warnings.add(format!(
                "the conversation of chat node '{}' was not stored, so a new one begins: `--keep FILE` stores it",
                at.node
            ));
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Returns true if no program runs or starts under the name of a node.
pub(super) fn is_startable(session: &Session, name: &str) -> bool {
    session.get(name).is_none_or(|node| has_ended(&node)) && !session.is_starting(name)
}

fn node_in(session: &Session, node: String) -> NodeRef {
    NodeRef::new(node, Some(session.name().to_string()))
}
