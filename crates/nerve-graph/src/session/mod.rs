//! Sessions: named groups of nodes and graphs, and their lifecycle.

pub mod entry;
pub mod manager;
pub mod store;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use nerve_host::clock::Clock;
use nerve_node::NodeHandle;
use nerve_node::command::{NodeInfo, NodeSpec, SessionInfo, StateName};
use nerve_node::context::TurnContext;
use nerve_node::error::EngineError;
use nerve_node::names::{check_name, session_option};
use nerve_types::TsNs;
use parking_lot::Mutex;
use serde_json::{Value, json};

use self::entry::{MAX_STOPPED, NodeEntry, ProcessEnd};
use crate::context::RunContext;
use crate::executable::Executable;

/// The session that always exists.
pub use nerve_node::names::DEFAULT_SESSION as DEFAULT;
/// Maximum time for all nodes of a session together to start or to stop.
pub const START_STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// A named group of nodes and graphs. Cheap to clone; clones are the same session.
///
/// ```
/// use std::sync::Arc;
/// use nerve_node::function::FunctionNode;
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
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    description: String,
    tags: Vec<String>,
    /// The session in which names are looked up that are not found here.
    outer: Option<Session>,
    /// The session is restored after a restart of its server.
    kept: bool,
    slots: BTreeMap<String, Slot>,
    /// The entries of nodes, running or not, from which they can be started again.
    entries: BTreeMap<String, NodeEntry>,
    reservations: u64,
    /// No more nodes are accepted.
    closed: bool,
}

/// A reserved or used name.
#[derive(Debug)]
enum Slot {
    /// The node is being started.
    Reserved(Reservation),
    /// A registered node or graph.
    Registered(Executable),
}

/// Identifies who reserved a name, because a name can be released and reserved again by another caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reservation(u64);

impl Session {
    /// Creates an empty session.
    pub fn new(name: impl Into<String>) -> Session {
        Session::created_at(name, Clock::start().now())
    }

    /// Creates an empty session with a time of creation.
    pub fn created_at(name: impl Into<String>, created: TsNs) -> Session {
        Session { inner: Arc::new(Inner { name: name.into(), created, state: Mutex::default() }) }
    }

    /// Sets the session in which names are looked up that are not found here.
    pub fn set_outer(&self, outer: Session) {
        self.inner.state.lock().outer = Some(outer);
    }

    /// Marks the session to be restored after a restart of its server.
    pub fn keep(&self) {
        self.inner.state.lock().kept = true;
    }

    /// Returns true if the session is kept on disk.
    pub fn is_kept(&self) -> bool {
        self.inner.state.lock().kept
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
        let entry = state.slots.get(name).and_then(Slot::entry).cloned();
        if entry.is_some() {
            state.slots.remove(name);
        }
        entry
    }

    /// Returns the node or graph of that name, if it exists.
    pub fn get(&self, name: &str) -> Option<Executable> {
        let outer = {
            let state = self.inner.state.lock();
            if let Some(entry) = state.slots.get(name).and_then(Slot::entry) {
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
        let known: Vec<&str> = state.slots.keys().map(String::as_str).take(20).collect();
        let hint = match known.is_empty() {
            true => "the session has no nodes".to_string(),
            false => format!("nodes: {}", known.join(", ")),
        };
        error.hint(hint)
    }

    /// Returns the names of all nodes and graphs, sorted.
    pub fn list_nodes(&self) -> Vec<String> {
        self.nodes().into_iter().map(|(name, _)| name).collect()
    }

    /// Returns the names of usable nodes: those that are started and neither stopped nor stopping.
    pub fn list_ready_nodes(&self) -> Vec<String> {
        let works = |entry: &Executable| {
            !matches!(entry.state(), StateName::Created | StateName::Stopping | StateName::Stopped)
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
            state.slots.iter().filter_map(|(name, slot)| Some((name.clone(), slot.entry()?.clone())));
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
        self.inner.state.lock().slots.get(name).is_some_and(|slot| slot.entry().is_some())
    }

    /// Returns the session as an object: name, description, tags, created_at (seconds since the Unix epoch), and its nodes' info.
    pub fn to_dict(&self) -> Value {
        let nodes: Vec<Value> = self
            .nodes()
            .iter()
            .map(|(name, node)| {
                let NodeInfo { id, kind, state, persistent, metadata, .. } = node.info();
                json!({
                    "id": id, "type": kind, "state": state, "persistent": persistent, "metadata": *metadata,
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
        let is_graph =
            |name: &&String| state.slots.get(*name).and_then(Slot::entry).is_some_and(Executable::is_graph);
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
            created_at: self.inner.created.seconds(),
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
        let mut found: Vec<NodeHandle> = Vec::new();
        let mut add = |node: NodeHandle| {
            if !found.iter().any(|known| Arc::ptr_eq(known, &node)) {
                found.push(node);
            }
        };
        for (_, entry) in self.nodes() {
            match entry {
                Executable::Graph(graph) => graph.collect_persistent_nodes().into_iter().for_each(&mut add),
                Executable::Node(node) if node.is_persistent() => add(node),
                _ => {}
            }
        }
        found
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
            Some(Slot::Registered(old)) if old.state() == StateName::Stopped => {
                // If the start fails, the entry still has the end of this process.
                if let Some(entry) = entries.get_mut(name) {
                    entry.observe(&old.info());
                }
            }
            None => {}
            Some(slot) => {
                let is_graph = slot.entry().is_some_and(Executable::is_graph);
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

    /// Puts a started node under its reserved name, like [`Session::fill`], together with the entry from which it can be started
    /// again. `None` removes the old entry of the name.
    pub fn fill_with_entry(
        &self,
        name: &str,
        reservation: Reservation,
        node: impl Into<Executable>,
        entry: Option<NodeEntry>,
    ) -> bool {
        let mut state = self.inner.state.lock();
        let is_filled = state.fill(name, reservation, node.into());
        if is_filled {
            state.set_entry(name, entry);
        }
        is_filled
    }

    /// Releases a reserved name. Does nothing if the name belongs to another caller by now.
    pub fn release(&self, name: &str, reservation: Reservation) {
        self.remove_if(name, |slot| slot.is_reserved(reservation));
    }

    /// Removes a node or a graph. Does nothing if the name belongs to another one by now.
    pub fn forget(&self, name: &str, entry: &Executable) -> bool {
        self.remove_if(name, |slot| slot.entry().is_some_and(|there| there.is_same(entry)))
    }

    /// Sets or removes the entry of a node.
    pub fn set_entry(&self, name: &str, entry: Option<NodeEntry>) {
        self.inner.state.lock().set_entry(name, entry);
    }

    /// Drops the oldest entries of nodes that do not run, over the limit.
    pub fn limit_entries(&self) {
        self.inner.state.lock().drop_surplus_entries();
    }

    /// Puts the earlier entry of a node back whose start has failed, and frees its name. Returns false, and changes nothing, if the
    /// name belongs to another node by now, or a client has requested to stop the node.
    pub fn restore_entry(&self, name: &str, node: &Executable, entry: NodeEntry) -> bool {
        let mut state = self.inner.state.lock();
        let is_stop_requested = state.entries.get(name).is_none_or(|entry| entry.last.is_stop_requested);
        if is_stop_requested || !state.is_registered(name, node) {
            return false;
        }
        state.slots.remove(name);
        state.set_entry(name, Some(entry));
        true
    }

    /// Removes a stopped node and its entry.
    ///
    /// # Errors
    /// NotFound, InvalidRequest (it is running or starting).
    pub fn remove_stopped(&self, name: &str) -> Result<(), EngineError> {
        let refusal = {
            let mut state = self.inner.state.lock();
            let State { slots, entries, .. } = &mut *state;
            match slots.get(name) {
                Some(Slot::Reserved(_)) => Some("it is starting"),
                Some(Slot::Registered(node)) if node.is_graph() || node.state() != StateName::Stopped => {
                    Some("it is running")
                }
                Some(Slot::Registered(_)) => {
                    slots.remove(name);
                    entries.remove(name);
                    return Ok(());
                }
                None if entries.remove(name).is_some() => return Ok(()),
                None => None,
            }
        };
        let Some(refusal) = refusal else { return Err(self.not_found(name)) };
        let error = EngineError::invalid_request(format!("cannot remove node '{name}': {refusal}"));
        Err(error.hint(format!("stop it first: `nerve stop {name}{}`", session_option(self.name()))))
    }

    /// Returns the definition of the node of that name.
    pub fn definition(&self, name: &str) -> Option<NodeSpec> {
        self.inner.state.lock().entries.get(name).map(|entry| entry.spec.clone())
    }

    /// Returns the entry of the node of that name, with the present state of its process.
    pub fn entry(&self, name: &str) -> Option<NodeEntry> {
        self.observe(|other| other == name);
        self.inner.state.lock().entries.get(name).cloned()
    }

    /// Returns the names and entries of all nodes, with the present states of their processes.
    pub fn entries(&self) -> Vec<(String, NodeEntry)> {
        self.observe(|_| true);
        self.inner.state.lock().entries.iter().map(|(name, entry)| (name.clone(), entry.clone())).collect()
    }

    /// Returns the names of the nodes that are being started.
    pub fn starting(&self) -> Vec<String> {
        let state = self.inner.state.lock();
        let starting = state.slots.iter().filter(|(_, slot)| slot.entry().is_none());
        starting.map(|(name, _)| name.clone()).collect()
    }

    /// Returns true if the node of that name is being started.
    pub fn is_starting(&self, name: &str) -> bool {
        self.inner.state.lock().slots.get(name).is_some_and(|slot| slot.entry().is_none())
    }

    /// Returns the names and entries of the nodes that neither run nor start.
    pub fn stopped(&self) -> Vec<(String, NodeEntry)> {
        let state = self.inner.state.lock();
        state.stopped().map(|(name, entry)| (name.clone(), entry.clone())).collect()
    }

    /// Notes that a client stops a running node, so that its end counts as requested, whatever its exit status. Does nothing if the
    /// node has ended by itself, or the name belongs to another node by now.
    pub fn request_stop(&self, name: &str, node: &Executable) {
        let mut state = self.inner.state.lock();
        if state.is_registered(name, node)
            && node.state() != StateName::Stopped
            && let Some(entry) = state.entries.get_mut(name)
        {
            entry.last.is_stop_requested = true;
        }
    }

    /// Sets the end in the entry of a node that neither runs nor starts.
    pub fn set_end(&self, name: &str, end: ProcessEnd) {
        let mut state = self.inner.state.lock();
        if !state.slots.contains_key(name)
            && let Some(entry) = state.entries.get_mut(name)
        {
            entry.set_end(end);
        }
    }

    /// Removes a stopped node and sets the end in its entry; a node in an existing pane keeps none. Does nothing if the name belongs
    /// to another node by now. Drops the oldest entries over the limit.
    pub fn retire(&self, name: &str, node: &Executable, end: ProcessEnd) {
        let info = node.info();
        let mut state = self.inner.state.lock();
        let is_registered = state.is_registered(name, node);
        // Another request may have freed the name meanwhile.
        if !is_registered && state.slots.contains_key(name) {
            return;
        }
        state.slots.remove(name);
        match state.entries.get_mut(name) {
            Some(entry) if entry.spec.pane_id.is_some() => drop(state.entries.remove(name)),
            Some(entry) => {
                if is_registered {
                    entry.observe(&info);
                }
                entry.set_end(end);
            }
            None => {}
        }
        state.drop_surplus_entries();
    }

    /// Updates the entries of registered nodes from their descriptions.
    fn observe(&self, is_wanted: impl Fn(&str) -> bool) {
        for (name, node) in self.nodes().into_iter().filter(|(name, _)| is_wanted(name)) {
            let info = node.info();
            let mut state = self.inner.state.lock();
            // The name may belong to a newer node by now.
            let is_same = state.is_registered(&name, &node);
            if let Some(entry) = state.entries.get_mut(&name).filter(|_| is_same) {
                entry.observe(&info);
            }
        }
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

    fn remove_if(&self, name: &str, is_it: impl FnOnce(&Slot) -> bool) -> bool {
        let mut state = self.inner.state.lock();
        let found = state.slots.get(name).is_some_and(is_it);
        if found {
            state.slots.remove(name);
        }
        found
    }
}

impl State {
    /// Returns the names and entries of the nodes that neither run nor start.
    fn stopped(&self) -> impl Iterator<Item = (&String, &NodeEntry)> {
        self.entries.iter().filter(move |(name, _)| !self.slots.contains_key(*name))
    }

    /// Returns true if the name belongs to this node or graph.
    fn is_registered(&self, name: &str, node: &Executable) -> bool {
        self.slots.get(name).and_then(Slot::entry).is_some_and(|there| there.is_same(node))
    }

    fn fill(&mut self, name: &str, reservation: Reservation, entry: Executable) -> bool {
        let closed = self.closed;
        let slot = self.slots.get_mut(name).filter(|slot| !closed && slot.is_reserved(reservation));
        slot.map(|slot| *slot = Slot::Registered(entry)).is_some()
    }

    fn set_entry(&mut self, name: &str, entry: Option<NodeEntry>) {
        match entry {
            Some(entry) => drop(self.entries.insert(name.to_string(), entry)),
            None => drop(self.entries.remove(name)),
        }
    }

    /// Drops the oldest entries of nodes that do not run, over the limit.
    fn drop_surplus_entries(&mut self) {
        let end_time = |entry: &NodeEntry| entry.last.end.as_ref().map(|end| end.at);
        let mut ended: Vec<(Option<TsNs>, String)> =
            self.stopped().map(|(name, entry)| (end_time(entry), name.clone())).collect();
        ended.sort();
        let surplus = ended.len().saturating_sub(MAX_STOPPED);
        for (_, name) in ended.into_iter().take(surplus) {
            self.entries.remove(&name);
        }
    }
}

impl RunContext {
    /// Creates a context for runs in a session, without input and limits.
    pub fn new(session: &Session) -> RunContext {
        let names = session.clone();
        RunContext::with_lookup(session.turn_context(), Arc::new(move |name| names.find(name)))
    }
}

impl Slot {
    fn is_reserved(&self, reservation: Reservation) -> bool {
        matches!(self, Slot::Reserved(by) if *by == reservation)
    }

    fn entry(&self) -> Option<&Executable> {
        match self {
            Slot::Registered(entry) => Some(entry),
            Slot::Reserved(_) => None,
        }
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
