//! Sessions: nodes and graphs under names, and their lives (seed node-refactoring §5.3).

pub(crate) mod deprecated;
pub mod manager;
pub mod store;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nerve_record::name::check;
use nerve_term::event::TsNs;
use serde_json::{Value, json};

use crate::clock::Clock;
use crate::command::{NodeInfo, NodeSpec, SessionInfo, StateName};
use crate::error::{EngineError, ErrorKind};
use crate::node::{NodeHandle, state_of};

/// The session that is always there.
pub const DEFAULT: &str = "default";
/// How long all nodes of a session together may take to start or to stop.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A workspace: nodes of all kinds under names. Cheap to clone; all clones are the same session.
///
/// ```
/// use std::sync::Arc;
/// use nerve_core::node::function::FunctionNode;
/// use nerve_core::session::Session;
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
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    description: String,
    tags: Vec<String>,
    /// Where names are looked for that are not here.
    outer: Option<Session>,
    /// It is there again after a restart of its server.
    kept: bool,
    slots: BTreeMap<String, Slot>,
    /// How nodes can be started again.
    definitions: BTreeMap<String, NodeSpec>,
    reservations: u64,
    /// Nothing is taken in any more.
    closed: bool,
}

/// A name that is taken.
#[derive(Debug)]
enum Slot {
    /// Its node is being started.
    Reserved(Reservation),
    /// Its node.
    Node(NodeHandle),
}

/// Says who reserved a name: a name can be given up and reserved again by somebody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reservation(u64);

impl Session {
    /// An empty session.
    pub fn new(name: impl Into<String>) -> Session {
        Session::created_at(name, Clock::start().now())
    }

    pub(crate) fn created_at(name: impl Into<String>, created: TsNs) -> Session {
        Session { inner: Arc::new(Inner { name: name.into(), created, state: Mutex::default() }) }
    }

    /// From now on names that are not here are looked for in `outer`.
    pub(crate) fn set_outer(&self, outer: Session) {
        self.lock().outer = Some(outer);
    }

    /// From now on it is there again after a restart of its server.
    pub(crate) fn keep(&self) {
        self.lock().kept = true;
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.lock().kept
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// When it was made.
    pub fn created(&self) -> TsNs {
        self.inner.created
    }

    /// Says what it is for.
    pub fn describe(&self, description: String, tags: Vec<String>) {
        let mut state = self.lock();
        state.description = description;
        state.tags = tags;
    }

    /// Puts a node under a name; under its id if none is given. Nothing is started.
    ///
    /// # Errors
    /// AlreadyExists; InvalidRequest: no name of 1–32 of `a-z 0-9 -`.
    pub fn register(&self, node: NodeHandle, name: Option<&str>) -> Result<(), EngineError> {
        let name = name.unwrap_or(node.id()).to_string();
        let reservation = self.reserve(&name)?;
        match self.fill(&name, reservation, node) {
            true => Ok(()),
            // Meanwhile: a session that is closed already takes no names.
            false => Err(EngineError::new(ErrorKind::Process, "the session is being closed")),
        }
    }

    /// Takes a node out, and does not stop it.
    pub fn unregister(&self, name: &str) -> Option<NodeHandle> {
        let mut state = self.lock();
        state.definitions.remove(name);
        match state.slots.get(name) {
            Some(Slot::Node(_)) => match state.slots.remove(name) {
                Some(Slot::Node(node)) => Some(node),
                _ => None,
            },
            _ => None,
        }
    }

    /// The node under a name.
    pub fn get(&self, name: &str) -> Option<NodeHandle> {
        let outer = {
            let state = self.lock();
            if let Some(node) = state.slots.get(name).and_then(Slot::node) {
                return Some(Arc::clone(node));
            }
            state.outer.clone()
        };
        outer?.get(name)
    }

    /// The node under a name.
    ///
    /// # Errors
    /// NotFound; the names there are, are named.
    pub fn find(&self, name: &str) -> Result<NodeHandle, EngineError> {
        self.get(name).ok_or_else(|| {
            let session = self.lock().outer.clone().unwrap_or_else(|| self.clone());
            let state = session.lock();
            let message = format!("no node '{name}' in session '{}'", session.name());
            let error = EngineError::new(ErrorKind::NotFound, message);
            if state.definitions.contains_key(name) {
                return error.hint("it is defined and does not run: `nerve server node start` starts it");
            }
            let known: Vec<&str> = state.slots.keys().map(String::as_str).take(20).collect();
            let hint = match known.is_empty() {
                true => "it has no nodes".to_string(),
                false => format!("it has: {}", known.join(", ")),
            };
            error.hint(hint)
        })
    }

    /// Names of all nodes and graphs, sorted.
    pub fn list_nodes(&self) -> Vec<String> {
        self.nodes().into_iter().map(|(name, _)| name).collect()
    }

    /// Names of nodes that can be worked with: neither stopped nor stopping nor not yet started.
    pub fn list_ready_nodes(&self) -> Vec<String> {
        let works = |node: &NodeHandle| {
            !matches!(state_of(&**node), StateName::Created | StateName::Stopping | StateName::Stopped)
        };
        self.nodes().into_iter().filter(|(_, node)| works(node)).map(|(name, _)| name).collect()
    }

    /// What is known of a node.
    pub fn get_node_info(&self, name: &str) -> Option<NodeInfo> {
        self.get(name).map(|node| node.info())
    }

    /// Nodes and graphs by name.
    pub fn nodes(&self) -> Vec<(String, NodeHandle)> {
        let state = self.lock();
        let nodes = state.slots.iter().filter_map(|(name, slot)| Some((name.clone(), slot.node()?.clone())));
        nodes.collect()
    }

    /// How many nodes it has.
    pub fn len(&self) -> usize {
        self.nodes().len()
    }

    /// It has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Has it a node of that name?
    pub fn contains(&self, name: &str) -> bool {
        self.lock().slots.get(name).is_some_and(|slot| slot.node().is_some())
    }

    /// As an object: name, description, tags, created_at (seconds since the Unix epoch), nodes with what is known of them.
    pub fn to_dict(&self) -> Value {
        let nodes: Vec<Value> = self
            .nodes()
            .iter()
            .map(|(name, node)| {
                let mut dict = node.info().to_dict();
                dict["name"] = Value::from(name.as_str());
                dict
            })
            .collect();
        let SessionInfo { name, description, tags, created, .. } = self.info();
        json!({
            "id": name, "name": name, "description": description, "tags": tags,
            "created_at": created.0 as f64 / 1e9, "nodes": nodes,
        })
    }

    /// What is known of it.
    pub fn info(&self) -> SessionInfo {
        let state = self.lock();
        let is_graph = |name: &&String| {
            state.slots.get(*name).and_then(Slot::node).is_some_and(|node| node.as_graph().is_some())
        };
        let names: Vec<&String> = state.slots.keys().collect();
        let graphs: Vec<String> = names.iter().copied().filter(is_graph).cloned().collect();
        let mut nodes: Vec<String> = names.into_iter().filter(|name| !is_graph(name)).cloned().collect();
        nodes.extend(state.definitions.keys().filter(|name| !state.slots.contains_key(*name)).cloned());
        nodes.sort();
        SessionInfo {
            name: self.inner.name.clone(),
            description: state.description.clone(),
            tags: state.tags.clone(),
            nodes,
            graphs,
            created: self.inner.created,
        }
    }

    /// Starts all persistent nodes, those in graphs included, at the same time. Nodes that were made started stay as they are.
    ///
    /// # Errors
    /// Of each that did not start in time, why; the others run.
    pub async fn start(&self) -> Result<(), Vec<(String, EngineError)>> {
        let starts = self.persistent_nodes().into_iter().map(|node| {
            let id = node.id().to_string();
            (id, tokio::spawn(async move { node.start().await }))
        });
        let mut failed = Vec::new();
        let deadline = tokio::time::Instant::now() + PATIENCE;
        for (id, start) in starts.collect::<Vec<_>>() {
            let error = match tokio::time::timeout_at(deadline, start).await {
                Ok(Ok(Ok(()))) => continue,
                Ok(Ok(Err(error))) => error,
                Ok(Err(error)) => EngineError::new(ErrorKind::Internal, error.to_string()),
                Err(_) => {
                    EngineError::new(ErrorKind::Timeout, format!("it did not start within {PATIENCE:?}"))
                }
            };
            failed.push((id, error));
        }
        if failed.is_empty() { Ok(()) } else { Err(failed) }
    }

    /// Stops all persistent nodes, those in graphs included, at the same time; returns when they are gone, or after a minute. They
    /// stay registered.
    pub async fn stop(&self) {
        stop_all(self.persistent_nodes(), "its session was stopped").await;
    }

    /// Persistent nodes, those in graphs included; each once.
    fn persistent_nodes(&self) -> Vec<NodeHandle> {
        let mut found: Vec<NodeHandle> = Vec::new();
        let mut add = |node: NodeHandle| {
            if !found.iter().any(|known| Arc::ptr_eq(known, &node)) {
                found.push(node);
            }
        };
        for (_, node) in self.nodes() {
            match node.as_graph() {
                Some(graph) => graph.collect_persistent_nodes().into_iter().for_each(&mut add),
                None if node.persistent() => add(node),
                None => {}
            }
        }
        found
    }

    /// Takes a name for a node that is about to start. A stopped node gives its name up.
    pub(crate) fn reserve(&self, name: &str) -> Result<Reservation, EngineError> {
        check_name(name, "node")?;
        let mut state = self.lock();
        if state.closed {
            return Err(EngineError::new(ErrorKind::Process, "the session is being closed"));
        }
        match state.slots.get(name) {
            Some(Slot::Node(old)) if state_of(&**old) == StateName::Stopped => {}
            None => {}
            Some(slot) => {
                let is_graph = slot.node().is_some_and(|node| node.as_graph().is_some());
                let (what, end) = if is_graph { ("graph", "delete") } else { ("node", "stop") };
                let message = format!("{what} '{name}' exists already in session '{}'", self.name());
                return Err(EngineError::new(ErrorKind::AlreadyExists, message)
                    .hint(format!("{end} it first, or take another name")));
            }
        }
        state.reservations += 1;
        let reservation = Reservation(state.reservations);
        state.slots.insert(name.to_string(), Slot::Reserved(reservation));
        Ok(reservation)
    }

    /// Puts a started node under its reserved name. `false` if the session is closed meanwhile.
    pub(crate) fn fill(&self, name: &str, reservation: Reservation, node: NodeHandle) -> bool {
        let mut state = self.lock();
        let closed = state.closed;
        let slot = state.slots.get_mut(name).filter(|slot| !closed && slot.is_reserved(reservation));
        slot.map(|slot| *slot = Slot::Node(node)).is_some()
    }

    /// Gives a reserved name back; nothing happens to a name that is another's by now.
    pub(crate) fn release(&self, name: &str, reservation: Reservation) {
        self.remove_if(name, |slot| slot.is_reserved(reservation));
    }

    /// Forgets a node; nothing happens to another that has its name by now.
    pub(crate) fn forget(&self, name: &str, node: &NodeHandle) -> bool {
        self.remove_if(name, |slot| slot.node().is_some_and(|there| Arc::ptr_eq(there, node)))
    }

    /// How a node can be started again.
    pub(crate) fn define(&self, name: &str, spec: Option<NodeSpec>) {
        let mut state = self.lock();
        match spec {
            Some(spec) => drop(state.definitions.insert(name.to_string(), spec)),
            None => drop(state.definitions.remove(name)),
        }
    }

    pub(crate) fn definition(&self, name: &str) -> Option<NodeSpec> {
        self.lock().definitions.get(name).cloned()
    }

    pub(crate) fn definitions(&self) -> Vec<(String, NodeSpec)> {
        self.lock().definitions.iter().map(|(name, spec)| (name.clone(), spec.clone())).collect()
    }

    /// Takes nothing in from now on, and hands out all nodes, those in graphs included, still running.
    pub(crate) fn close_names(&self) -> Vec<NodeHandle> {
        self.lock().closed = true;
        let mut all: Vec<NodeHandle> = self.nodes().into_iter().map(|(_, node)| node).collect();
        for node in self.persistent_nodes() {
            if !all.iter().any(|known| Arc::ptr_eq(known, &node)) {
                all.push(node);
            }
        }
        all
    }

    fn remove_if(&self, name: &str, is_it: impl FnOnce(&Slot) -> bool) -> bool {
        let mut state = self.lock();
        let found = state.slots.get(name).is_some_and(is_it);
        if found {
            state.slots.remove(name);
        }
        found
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    fn is_reserved(&self, reservation: Reservation) -> bool {
        matches!(self, Slot::Reserved(by) if *by == reservation)
    }

    fn node(&self) -> Option<&NodeHandle> {
        match self {
            Slot::Node(node) => Some(node),
            Slot::Reserved(_) => None,
        }
    }
}

/// Stops nodes at the same time; returns when they are gone, or after [`PATIENCE`].
pub(crate) async fn stop_all(nodes: Vec<NodeHandle>, reason: &'static str) {
    let stops: Vec<_> =
        nodes.into_iter().map(|node| tokio::spawn(async move { node.stop(reason).await })).collect();
    let deadline = tokio::time::Instant::now() + PATIENCE;
    for stop in stops {
        // A task that panicked has nothing left to stop, and one that hangs is left behind.
        if tokio::time::timeout_at(deadline, stop).await.is_err() {
            tracing::error!("a node did not stop in time and is left behind");
        }
    }
}

/// The name rule, as an engine error.
pub(crate) fn check_name(name: &str, what: &'static str) -> Result<(), EngineError> {
    check(what, name).map_err(|error| EngineError::new(ErrorKind::InvalidRequest, error.to_string()))
}
