//! Sessions: named groups of nodes and graphs, and their lifecycle.

mod entries;
pub mod entry;
pub mod manager;
mod state;
pub mod store;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use nerve_api::reply::{NodeInfo, SessionInfo};
use nerve_api::session_option;
use nerve_api::value::NodeState;
use nerve_host::clock::Clock;
use nerve_node::NodeHandle;
use nerve_node::context::TurnContext;
use nerve_node::error::EngineError;
use nerve_node::names::check_name;
use nerve_node::usage_ledger::{Pricing, UsageLedger, built_in_pricing};
use nerve_types::TsNs;
use parking_lot::Mutex;
use serde_json::{Value, json};

pub use self::state::Reservation;
use self::state::{Slot, State};
use crate::context::RunContext;
use crate::executable::Executable;

/// Maximum number of nodes that an error lists.
const MAX_NAMED: usize = 20;
/// Maximum time for all nodes of a session together to start or to stop.
pub const START_STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// A named group of nodes and graphs. Cheap to clone; clones are the same session.
///
/// ```
/// use std::sync::Arc;
/// use nerve_graph::function::FunctionNode;
/// use nerve_graph::session::Session;
///
/// let session = Session::new("work");
/// let node = Arc::new(FunctionNode::new("upper", |context| Ok(context.input.clone())));
/// session.register(node.clone(), None).unwrap();
/// session.register(node, Some("loud")).unwrap();
/// assert_eq!(session.list_nodes(), ["loud", "upper"]);
/// ```
#[derive(Debug, Clone)]
pub struct Session {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    name: String,
    created: TsNs,
    ledger: UsageLedger,
    state: Mutex<State>,
}

impl Session {
    /// Creates an empty session.
    pub fn new(name: impl Into<String>) -> Session {
        Session::with_pricing(name, Clock::start().now(), built_in_pricing())
    }

    /// Creates an empty session whose costs follow `pricing`.
    pub fn with_pricing(name: impl Into<String>, created: TsNs, pricing: Pricing) -> Session {
        let name = name.into();
        let ledger = UsageLedger::new(format!("session '{name}'"), pricing);
        Session { inner: Arc::new(Inner { name, created, ledger, state: Mutex::default() }) }
    }

    /// Returns the usage of all its nodes.
    pub fn ledger(&self) -> &UsageLedger {
        &self.inner.ledger
    }

    /// Sets the session in which unknown names are looked up.
    pub fn set_outer(&self, outer: Session) {
        self.inner.state.lock().outer = Some(outer);
    }

    /// Marks the session to be restored after a restart of its server.
    pub fn set_persistent(&self) {
        self.inner.state.lock().is_persistent = true;
    }

    /// Returns true if the session is restored after a restart of its server.
    pub fn is_persistent(&self) -> bool {
        self.inner.state.lock().is_persistent
    }

    /// Returns the session's name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns when the session was created.
    pub fn created(&self) -> TsNs {
        self.inner.created
    }

    /// Sets description and tags.
    pub fn describe(&self, description: String, tags: Vec<String>) {
        let mut state = self.inner.state.lock();
        state.description = description;
        state.tags = tags;
    }

    /// Registers a node or a graph under a name, or under its id if `name` is `None`. Does not start it.
    ///
    /// # Errors
    /// AlreadyExists; InvalidRequest: the name is not 1–32 of `a-z 0-9 -`.
    pub fn register(&self, entry: impl Into<Executable>, name: Option<&str>) -> Result<(), EngineError> {
        let entry = entry.into();
        let name = name.unwrap_or(entry.id()).to_string();
        let reservation = self.reserve(&name)?;
        match self.fill(&name, reservation, entry) {
            true => Ok(()),
            // The session was closed in the meantime.
            false => Err(EngineError::process("the session is being closed")),
        }
    }

    /// Removes a node or a graph without stopping it.
    pub fn unregister(&self, name: &str) -> Option<Executable> {
        let mut state = self.inner.state.lock();
        state.entries.remove(name);
        let entry = state.slots.get(name).and_then(Slot::executable).cloned();
        if entry.is_some() {
            state.slots.remove(name);
        }
        entry
    }

    /// Returns the node or graph of that name, if it exists.
    pub fn get(&self, name: &str) -> Option<Executable> {
        let outer = {
            let state = self.inner.state.lock();
            if let Some(entry) = state.slots.get(name).and_then(Slot::executable) {
                return Some(entry.clone());
            }
            state.outer.clone()
        };
        outer?.get(name)
    }

    /// Returns the node or graph of that name.
    ///
    /// # Errors
    /// NotFound; the hint lists the existing nodes.
    pub fn find(&self, name: &str) -> Result<Executable, EngineError> {
        self.get(name).ok_or_else(|| self.not_found(name))
    }

    fn not_found(&self, name: &str) -> EngineError {
        let session = self.inner.state.lock().outer.clone().unwrap_or_else(|| self.clone());
        let state = session.inner.state.lock();
        let error = EngineError::not_found(format!("no node '{name}' in session '{}'", session.name()));
        if matches!(state.slots.get(name), Some(Slot::Reserved(_))) {
            return error.hint("the node is starting: try again in a moment");
        }
        if state.entries.contains_key(name) {
            let option = session_option(session.name());
            return error.hint(format!("the node is stopped: `nerve start {name}{option}` starts it"));
        }
        let (running, stopped) = (join(state.slots.keys()), join(state.stopped().map(|(name, _)| name)));
        error.hint(match (running.as_str(), stopped.as_str()) {
            ("", "") => "the session has no nodes".to_string(),
            (running, "") => format!("nodes: {running}"),
            ("", stopped) => format!("stopped nodes: {stopped}"),
            (running, stopped) => format!("nodes: {running}; stopped: {stopped}"),
        })
    }

    /// Returns the names of all nodes and graphs, sorted.
    pub fn list_nodes(&self) -> Vec<String> {
        self.nodes().into_iter().map(|(name, _)| name).collect()
    }

    /// Returns the names of usable nodes: those that are started and neither stopped nor stopping.
    pub fn list_ready_nodes(&self) -> Vec<String> {
        let works = |entry: &Executable| {
            !matches!(entry.state(), NodeState::Created | NodeState::Stopping | NodeState::Stopped)
        };
        self.nodes().into_iter().filter(|(_, entry)| works(entry)).map(|(name, _)| name).collect()
    }

    /// Returns the current description of a node.
    pub fn get_node_info(&self, name: &str) -> Option<NodeInfo> {
        self.get(name).map(|node| node.info())
    }

    /// Returns all nodes and graphs, sorted by name.
    pub fn nodes(&self) -> Vec<(String, Executable)> {
        let state = self.inner.state.lock();
        let entries =
            state.slots.iter().filter_map(|(name, slot)| Some((name.clone(), slot.executable()?.clone())));
        entries.collect()
    }

    /// Returns a context for turns whose nodes can use the nodes of this session as tools.
    pub fn turn_context(&self) -> TurnContext {
        let session = self.clone();
        TurnContext::new().with_lookup(Arc::new(move |name| match session.find(name)? {
            Executable::Node(node) => Ok(node),
            other => {
                let message = format!("a {} node cannot be a tool", other.kind());
                Err(EngineError::invalid_request(message).hint(nerve_node::chat::TOOL_HINT))
            }
        }))
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.nodes().len()
    }

    /// Returns true if the session has no nodes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns true if the session has a node of that name.
    pub fn contains(&self, name: &str) -> bool {
        self.inner.state.lock().slots.get(name).is_some_and(|slot| slot.executable().is_some())
    }

    /// Returns the session as an object: name, description, tags, created_at, and its nodes' info.
    pub fn to_dict(&self) -> Value {
        let nodes: Vec<Value> = self
            .nodes()
            .iter()
            .map(|(name, node)| {
                let NodeInfo { node_id, kind, state, persistent, metadata, .. } = node.info();
                json!({
                    "id": node_id, "type": kind, "state": state, "persistent": persistent, "metadata": *metadata,
                    "name": name,
                })
            })
            .collect();
        let SessionInfo { name, description, tags, created_at, .. } = self.info();
        json!({
            "id": name, "name": name, "description": description, "tags": tags,
            "created_at": created_at, "nodes": nodes,
        })
    }

    /// Returns the session's current description.
    pub fn info(&self) -> SessionInfo {
        let state = self.inner.state.lock();
        let is_graph = |name: &&String| {
            state.slots.get(*name).and_then(Slot::executable).is_some_and(Executable::is_graph)
        };
        let names: Vec<&String> = state.slots.keys().collect();
        let graphs: Vec<String> = names.iter().copied().filter(is_graph).cloned().collect();
        let mut nodes: Vec<String> = names.into_iter().filter(|name| !is_graph(name)).cloned().collect();
        let stopped: Vec<String> = state.stopped().map(|(name, _)| name.clone()).collect();
        nodes.extend(stopped.iter().cloned());
        nodes.sort();
        SessionInfo {
            name: self.inner.name.clone(),
            description: state.description.clone(),
            tags: state.tags.clone(),
            nodes,
            stopped,
            graphs,
            created_at: self.inner.created.into(),
            budget: self.inner.ledger.limits().map(|_| self.inner.ledger.status()),
        }
    }

    /// Starts all persistent nodes in parallel, including those in graphs. Nodes that were created running are not affected.
    ///
    /// # Errors
    /// Returns the error of each node that did not start in time. The others run.
    pub async fn start(&self) -> Result<(), Vec<(String, EngineError)>> {
        let starts = self.persistent_nodes().into_iter().map(|node| {
            let id = node.id().to_string();
            (id, tokio::spawn(async move { node.start().await }))
        });
        let mut failed = Vec::new();
        let deadline = tokio::time::Instant::now() + START_STOP_TIMEOUT;
        for (id, start) in starts.collect::<Vec<_>>() {
            let error = match tokio::time::timeout_at(deadline, start).await {
                Ok(Ok(Ok(()))) => continue,
                Ok(Ok(Err(error))) => error,
                Ok(Err(error)) => EngineError::internal(error.to_string()),
                Err(_) => EngineError::timeout(format!("it did not start within {START_STOP_TIMEOUT:?}")),
            };
            failed.push((id, error));
        }
        if failed.is_empty() { Ok(()) } else { Err(failed) }
    }

    /// Stops all persistent nodes in parallel, including those in graphs. Returns when they are gone, or after [`START_STOP_TIMEOUT`]. They
    /// stay registered.
    pub async fn stop(&self) {
        stop_all(self.persistent_nodes(), "its session was stopped").await;
    }

    /// Returns the persistent nodes, including those in graphs, without duplicates.
    fn persistent_nodes(&self) -> Vec<NodeHandle> {
        let mut nodes: Vec<NodeHandle> = Vec::new();
        let mut add = |node: NodeHandle| {
            if !nodes.iter().any(|known| Arc::ptr_eq(known, &node)) {
                nodes.push(node);
            }
        };
        for (_, entry) in self.nodes() {
            match entry {
                Executable::Graph(graph) => graph.collect_persistent_nodes().into_iter().for_each(&mut add),
                Executable::Node(node) if node.is_persistent() => add(node),
                _ => {}
            }
        }
        nodes
    }

    /// Reserves a name for a node that is about to start. The name of a stopped node is free.
    pub fn reserve(&self, name: &str) -> Result<Reservation, EngineError> {
        check_name(name, "node")?;
        let mut state = self.inner.state.lock();
        if state.closed {
            return Err(EngineError::process("the session is being closed"));
        }
        let State { slots, entries, .. } = &mut *state;
        match slots.get(name) {
            Some(Slot::Registered(old)) if old.state() == NodeState::Stopped => {
                // If the start fails, the entry still has the end of this process.
                if let Some(entry) = entries.get_mut(name) {
                    entry.observe(&old.info(), old.ledger());
                }
            }
            None => {}
            Some(slot) => {
                let is_graph = slot.executable().is_some_and(Executable::is_graph);
                let (what, end) = if is_graph { ("graph", "delete") } else { ("node", "stop") };
                let message = format!("{what} '{name}' exists already in session '{}'", self.name());
                return Err(EngineError::already_exists(message)
                    .hint(format!("{end} it first, or choose another name")));
            }
        }
        state.reservations += 1;
        let reservation = Reservation(state.reservations);
        state.slots.insert(name.to_string(), Slot::Reserved(reservation));
        Ok(reservation)
    }

    /// Puts a started node or a graph under its reserved name. Returns false if the session was closed or the reservation is not
    /// valid.
    pub fn fill(&self, name: &str, reservation: Reservation, entry: impl Into<Executable>) -> bool {
        self.inner.state.lock().fill(name, reservation, entry.into())
    }

    /// Releases a reserved name. Does nothing if the name belongs to another caller by now.
    pub fn release(&self, name: &str, reservation: Reservation) {
        self.remove_if(name, |slot| slot.is_reserved(reservation));
    }

    /// Removes a node or a graph. Does nothing if the name belongs to another one by now.
    pub fn forget(&self, name: &str, entry: &Executable) -> bool {
        self.remove_if(name, |slot| slot.executable().is_some_and(|other| other.is_same(entry)))
    }

    /// Accepts nothing from now on, and returns all nodes, including those in graphs, still running.
    pub(crate) fn close_registration(&self) -> Vec<NodeHandle> {
        self.inner.state.lock().closed = true;
        let mut all: Vec<NodeHandle> =
            self.nodes().into_iter().filter_map(|(_, entry)| entry.node().cloned()).collect();
        for node in self.persistent_nodes() {
            if !all.iter().any(|known| Arc::ptr_eq(known, &node)) {
                all.push(node);
            }
        }
        all
    }

    fn remove_if(&self, name: &str, is_match: impl FnOnce(&Slot) -> bool) -> bool {
        let mut state = self.inner.state.lock();
        let is_removed = state.slots.get(name).is_some_and(is_match);
        if is_removed {
            state.slots.remove(name);
        }
        is_removed
    }
}

impl RunContext {
    /// Creates a context for runs in a session, without input and limits.
    pub fn new(session: &Session) -> RunContext {
        let names = session.clone();
        RunContext::with_lookup(session.turn_context(), Arc::new(move |name| names.find(name)))
    }
}

/// Stops nodes in parallel. Returns when they are gone, or after [`START_STOP_TIMEOUT`].
pub async fn stop_all(nodes: Vec<NodeHandle>, reason: &'static str) {
    let stops: Vec<_> =
        nodes.into_iter().map(|node| tokio::spawn(async move { node.stop(reason).await })).collect();
    let deadline = tokio::time::Instant::now() + START_STOP_TIMEOUT;
    for stop in stops {
        // A panicked task has nothing left to stop.
        if tokio::time::timeout_at(deadline, stop).await.is_err() {
            tracing::error!("a node did not stop in time and was abandoned");
        }
    }
}

/// Joins the first names of a list.
fn join<'a>(names: impl Iterator<Item = &'a String>) -> String {
    names.take(MAX_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ")
}
