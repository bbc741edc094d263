//! Nodes: create, stop, describe.

use std::sync::Arc;

use nerve_api::event::EventKind;
use nerve_api::reply::{NodeCreated, NodeInfo, NodeList, Stopped};
use nerve_api::request::{CommandLine, CreateNode, GetNode, ListNodes, NodeRef, NodeSpec, StopNode};
use nerve_api::value::NodeState;
use nerve_graph::session::Session;
use nerve_graph::session::entry::{NodeEntry, ProcessEnd};
use nerve_host::environment;
use nerve_node::NodeHandle;
use nerve_node::error::EngineError;

use super::context::RequestContext;
use super::params::{self, definition_metadata};
use super::restart::is_startable;
use super::stopped_nodes::stopped_node_info;
use crate::engine::Engine;
use crate::page::paginate;

impl Engine {
    /// Starts a node and waits until its program runs, not until it is ready. Warns if its pane does not have the requested
    /// size, and if the node cannot be stored.
    ///
    /// # Errors
    /// InvalidRequest, AlreadyExists, NotFound (session), Process.
    pub async fn create_node(
        &self,
        mut spec: CreateNode,
        context: RequestContext,
    ) -> Result<NodeCreated, EngineError> {
        params::check_spec(&spec)?;
        let wanted = [("cols", spec.cols), ("rows", spec.rows)];
        if let Some(from) = spec.inherit.take() {
            spec = self.inherit(spec, from)?;
        }
        if let Some(shell_env) = &spec.shell_env {
            environment::keep_file_locations(shell_env, &mut spec.env, &environment::read_variables());
        }
        let replaced = self.replaced_conversation(&spec.node_ref());
        let info = self.create(spec).await?;
        if let Some(id) = replaced {
            context.warnings.add(format!(
                "node '{}' replaces a stopped node of this name, whose conversation was {id}",
                info.node_id
            ));
        }
        self.persist(&context.warnings).await;
        let has = |name: &str, cells: u16| info.metadata.number(name).is_none_or(|is| is == u64::from(cells));
        if wanted.into_iter().any(|(name, cells)| cells.is_some_and(|cells| !has(name, cells))) {
            let (cols, rows) = (info.metadata.display("cols"), info.metadata.display("rows"));
            context.warnings.add(format!(
                "the requested size does not apply: the pane of node '{}' has {cols} columns and {rows} rows",
                info.node_id
            ));
        }
        Ok(NodeCreated { node_id: info.node_id })
    }

    /// Starts a node from its definition, as [`Engine::create_node`] does. Completes the start even if the future is dropped.
    ///
    /// # Errors
    /// See [`Engine::create_node`].
    pub async fn create(&self, spec: NodeSpec) -> Result<NodeInfo, EngineError> {
        let (spec, command) = self.resume_if_free(spec);
        let engine = self.clone();
        let created = self.inner.detached_tasks.spawn(async move {
            let session = engine.inner.sessions.get(spec.session_id.as_deref())?;
            Ok(engine.start_entry(&session, NodeEntry::new(spec), command, None).await?.info())
        });
        created.await?
    }

    /// Returns the id of the conversation of a stopped node that a new node of its name replaces.
    fn replaced_conversation(&self, at: &NodeRef) -> Option<String> {
        let session = self.inner.sessions.get(at.session.as_deref()).ok()?;
        let entry = session.entry(&at.node).filter(|_| is_startable(&session, &at.node))?;
        entry.last.conversation_id.filter(|_| entry.last.has_turns)
    }

    /// Starts a node under the name in its entry. `command`: the command of its program, if it is not the defined one.
    pub(super) async fn start_entry(
        &self,
        session: &Session,
        entry: NodeEntry,
        command: Option<CommandLine>,
        forked_from: Option<String>,
    ) -> Result<NodeHandle, EngineError> {
        let at = entry.spec.node_ref();
        let reservation = session.reserve(&at.node)?;
        let mut spec = entry.spec.clone();
        spec.command = command.or(spec.command);
        let created = self.inner.factory.create_in(session.ledger(), spec, entry.last.usage.clone()).await;
        let node = created.inspect_err(|_| session.release(&at.node, reservation))?;
        let kind = node.info().kind;
        if !session.fill_with_entry(&at.node, reservation, Arc::clone(&node), Some(entry)) {
            node.stop("its session was deleted, or the server was shut down").await;
            return Err(EngineError::not_found(
                "its session was deleted meanwhile, or the server is shutting down",
            ));
        }
        self.announce_node(&at, kind, forked_from);
        Ok(node)
    }

    /// Persists and publishes a new node.
    pub(super) fn announce_node(&self, at: &NodeRef, kind: String, forked_from: Option<String>) {
        self.inner.persister.save();
        self.inner.events.publish(Some(&at.with_session()), EventKind::NodeCreated { kind, forked_from });
    }

    /// Stops a node. Its entry stays, so that it can be started again.
    ///
    /// # Errors
    /// NotFound, Busy (it is starting).
    pub async fn stop_node(
        &self,
        request: StopNode,
        context: RequestContext,
    ) -> Result<Stopped, EngineError> {
        let StopNode { node_id: id, session_id } = request;
        let session = self.inner.sessions.get(session_id.as_deref())?;
        match session.get(&id) {
            Some(node) => {
                session.request_stop(&id, &node);
                node.stop("stopped").await;
                self.retire(&session, &id, &node, "stopped");
            }
            None if session.is_starting(&id) => {
                let error = EngineError::busy(format!("cannot stop node '{id}': it is starting"));
                return Err(error.hint("try again in a moment"));
            }
            None if session.definition(&id).is_some() => {
                session.set_end(&id, ProcessEnd::requested(self.inner.clock.now(), "stopped"));
            }
            None => drop(session.find(&id)?),
        }
        self.persist(&context.warnings).await;
        Ok(Stopped { stopped: true })
    }

    /// Lists the nodes of a session by id, and those that are stopped.
    ///
    /// # Errors
    /// NotFound (session), InvalidRequest (page).
    pub async fn list_nodes(&self, request: ListNodes, _: RequestContext) -> Result<NodeList, EngineError> {
        let nodes = self.nodes(request.session_id.as_deref())?;
        let ids = nodes.iter().map(|node| node.node_id.clone()).collect();
        let stopped = Vec::new();
        let mut list =
            paginate(&request.page, NodeList { nodes: ids, nodes_info: nodes, stopped, next: None })?;
        if list.next.is_none() {
            list.stopped = self.stopped_nodes(request.session_id.as_deref())?;
        }
        Ok(list)
    }

    /// Describes a node.
    ///
    /// # Errors
    /// NotFound.
    pub async fn get_node(&self, request: GetNode, _: RequestContext) -> Result<NodeInfo, EngineError> {
        self.node_info(&NodeRef::new(request.node_id, request.session_id))
    }

    /// Describes the nodes of a session, sorted by id.
    ///
    /// # Errors
    /// NotFound (session).
    pub fn nodes(&self, session: Option<&str>) -> Result<Vec<NodeInfo>, EngineError> {
        let session = self.inner.sessions.get(session)?;
        let mut nodes: Vec<NodeInfo> = session
            .nodes()
            .into_iter()
            .filter(|(_, node)| !node.is_graph())
            .map(|(name, node)| NodeInfo { node_id: name, ..node.info() })
            .collect();
        for node in &mut nodes {
            let spec = session.definition(&node.node_id);
            node.metadata.extend(spec.iter().flat_map(definition_metadata));
        }
        nodes.sort_by(|one, other| one.node_id.cmp(&other.node_id));
        for node in &mut nodes {
            let at = NodeRef { session: Some(session.name().to_string()), node: node.node_id.clone() };
            self.add_executions(&at, node);
            self.inner.prices.add_cost(node);
        }
        Ok(nodes)
    }

    /// Adds the asynchronous executions of a node to its state and its queue.
    fn add_executions(&self, at: &NodeRef, info: &mut NodeInfo) {
        info.state = self.state_with_executions(at, info.state);
        let queued = self.inner.results.queued(at);
        if queued > 0 {
            info.metadata.set("queued", queued + info.metadata.number("queued").unwrap_or(0));
        }
    }

    /// Returns the state of a node that is in this state by itself: one with an asynchronous execution that has not ended is busy.
    pub(super) fn state_with_executions(&self, at: &NodeRef, state: NodeState) -> NodeState {
        match state {
            NodeState::Ready if self.inner.results.pending(at).is_some() => NodeState::Busy,
            state => state,
        }
    }

    /// Describes a node.
    ///
    /// # Errors
    /// NotFound.
    pub fn node_info(&self, at: &NodeRef) -> Result<NodeInfo, EngineError> {
        let session = self.inner.sessions.get(at.session.as_deref())?;
        match (session.get(&at.node), session.entry(&at.node)) {
            (Some(node), entry) => {
                let mut info = node.info();
                self.add_executions(at, &mut info);
                self.inner.prices.add_cost(&mut info);
                info.metadata.extend(entry.iter().flat_map(|entry| definition_metadata(&entry.spec)));
                Ok(info)
            }
            (None, Some(entry)) if !session.is_starting(&at.node) => {
                Ok(stopped_node_info(&session, &at.node, &entry))
            }
            (None, _) => session.find(&at.node).map(|node| node.info()),
        }
    }
}
